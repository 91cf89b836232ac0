# SPDX-License-Identifier: Apache-2.0
"""Hosts must report the metrics that weigh. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy
from oslo_config import cfg

from fleet.objects import RequestSpec
from scheduler.compute.domain import host_metrics, ratio_options
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates


class MetricsFilter(ColumnFilter):
    """Hosts pass that report every metric named in ``[metrics] weight_setting``."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(
            name for name, _ratio in ratio_options.parse(conf.metrics.weight_setting, "[metrics] weight_setting")
        )

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        def complete(metrics: Any) -> bool:
            return self._names <= host_metrics.values(metrics).keys()

        return hosts.by_rare("metrics", complete) if self._names else None
