# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts with instances of similar images, or without them.

:mod:`scheduler.engine.weighing.weighers` calls it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy
from oslo_config import cfg

from fleet.objects import RequestSpec
from scheduler.compute.domain import ratio_options
from scheduler.compute.domain.tracked_instance import TrackedInstance, image_pairs
from scheduler.compute.weights.base import ColumnWeigher
from scheduler.engine.hosts.candidates import Candidates


class ImagePropertiesWeigher(ColumnWeigher):
    """The number of image properties that the instances on the host share with the request's image.

    With ``factors``, only the properties named there count, each by its factor. Off while the multiplier is 0.
    """

    option = "image_props_weight_multiplier"

    def __init__(self, multiplier: float = 0.0, factors: Sequence[tuple[str, float]] = ()) -> None:
        super().__init__(multiplier)
        self._factors: Mapping[str, float] = dict(factors)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        option = "image_props_weight_setting"
        return cls(conf.image_props_weight_multiplier, ratio_options.parse(conf[option], option))

    def applies(self, request: RequestSpec) -> bool:
        return self._multiplier != 0 and bool(request.image.properties)

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        wanted = image_pairs(request.image.properties)
        there = hosts.instances_by_host().items()
        return hosts.counted({host: self._shared(instances.values(), wanted) for host, instances in there})

    def _shared(self, instances: Iterable[TrackedInstance], wanted: frozenset[tuple[str, str]]) -> float:
        names = [name for each in instances for name, _value in each.image_properties & wanted]
        # The exact sum, as neither instances nor properties have an order.
        return math.fsum(self._factors.get(name, 0.0) for name in names) if self._factors else float(len(names))
