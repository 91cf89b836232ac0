# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts by their metrics. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy
from oslo_config import cfg

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec
from scheduler.compute.domain import aggregate_overrides, host_metrics, ratio_options
from scheduler.compute.weights.base import ColumnWeigher
from scheduler.engine.hosts.candidates import Candidates


class MetricsWeigher(ColumnWeigher):
    """The sum of the host's metrics, each times its ratio.

    A metric that a host does not report fails the request if metrics are required; else the host weighs
    ``weight_of_unavailable``.
    """

    refuses = True
    outranks_share = False

    def __init__(
        self,
        ratios: Sequence[tuple[str, float]] = (),
        multiplier: float = 1.0,
        required: bool = True,
        weight_of_unavailable: float = -10000.0,
    ) -> None:
        super().__init__(multiplier)
        self._ratios = ratios
        self._required = required
        self._unavailable = weight_of_unavailable

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        options = conf.metrics
        ratios = ratio_options.parse(options.weight_setting, "[metrics] weight_setting")
        return cls(ratios, options.weight_multiplier, options.required, options.weight_of_unavailable)

    def applies(self, request: RequestSpec) -> bool:
        return bool(self._ratios)

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        """:raises errors.MetricNotFound: of a host that does not report a required metric"""
        reported = hosts.by_rare("metrics", host_metrics.values, dtype=object)
        rows = zip(hosts.rows.tolist(), reported.tolist(), strict=True)
        return numpy.array([self._sum(hosts, row, metrics) for row, metrics in rows], dtype=float)

    def multiplier(self, hosts: Candidates) -> float | numpy.ndarray:
        return aggregate_overrides.number(hosts, "metrics_weight_multiplier", self._multiplier)

    def _sum(self, hosts: Candidates, row: int, metrics: JSONObject) -> float:
        total = 0.0
        for name, ratio in self._ratios:
            if name in metrics:
                total += metrics[name] * ratio
            elif self._required:
                host, node = hosts.key(row)
                raise errors.MetricNotFound(name=name, host=host, node=node)
            elif ratio * self._multiplier:
                return self._unavailable
        return total
