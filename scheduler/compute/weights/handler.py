# SPDX-License-Identifier: Apache-2.0
"""Nova's ``HostWeightHandler`` and ``normalize``: weighs a list of host states by weighers in nova's form.

Plugins of users import it by nova's names.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import ClassVar

from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec
from scheduler.compute.domain.host_state import HostState
from scheduler.compute.weights.base import BaseHostWeigher, WeighedHost
from scheduler.loading import named_classes


def normalize(weight_list: Iterable[float], minval: float | None = None, maxval: float | None = None) -> list[float]:
    """Bring raw weights to 0..1: (weight - minval) / (maxval - minval).

    A missing bound is that of the list. All results are 0 if the bounds are equal.
    """
    found = list(weight_list)
    if not found:
        return []
    lowest = float(min(found) if minval is None else minval)
    span = float(max(found) if maxval is None else maxval) - lowest
    return [(weight - lowest) / span if span else 0.0 for weight in found]


class HostWeightHandler:
    """For drivers and tests in nova's form. The scheduler itself weighs all hosts at once."""

    object_class = WeighedHost
    #: Set by the package, which names every weigher.
    built_in: ClassVar[Sequence[type[BaseHostWeigher[RequestSpec]]]] = ()

    def get_all_classes(self) -> list[type[BaseHostWeigher[RequestSpec]]]:
        """Return every weigher that comes with the scheduler."""
        return list(self.built_in)

    def get_matching_classes(self, loadable_class_names: Iterable[str]) -> list[type[BaseHostWeigher]]:
        """Return the weigher classes that dotted paths name. :raises errors.ClassNotFound:"""
        built_in = {"scheduler.weights.": self.built_in}
        return named_classes.matching(BaseHostWeigher, loadable_class_names, "scheduler_weight_classes", built_in)

    def get_weighed_objects(
        self, weighers: Iterable[BaseHostWeigher], obj_list: Iterable[HostState], weighing_properties: JSONObject
    ) -> list[WeighedHost]:
        """Return the hosts with their weights, the heaviest first."""
        weighed = [self.object_class(host, 0.0) for host in obj_list]
        # As in nova, a single host is not weighed.
        for each in weighers if len(weighed) > 1 else ():
            raw = (_within(each, weight) for weight in each.weigh_objects(weighed, weighing_properties))
            for one, weight in zip(weighed, normalize(raw, each.minval, each.maxval), strict=True):
                one.weight += _multiplier(each, one.obj) * weight
        return sorted(weighed, key=lambda one: one.weight, reverse=True)


def _within(each: BaseHostWeigher, weight: float) -> float:
    """Return a raw weight within the weigher's own bounds."""
    weight = weight if each.minval is None else max(weight, each.minval)
    return weight if each.maxval is None else min(weight, each.maxval)


def _multiplier(each: BaseHostWeigher, host: HostState) -> float:
    """Return the multiplier. A weigher may declare ``weight_multiplier`` with or without the host."""
    if inspect.signature(each.weight_multiplier).parameters:
        return each.weight_multiplier(host)
    return each.weight_multiplier()
