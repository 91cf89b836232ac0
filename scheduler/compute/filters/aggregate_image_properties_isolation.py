# SPDX-License-Identifier: Apache-2.0
"""Hosts reserved for images with certain properties. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy
from oslo_config import cfg

from fleet.objects import Aggregate, RequestSpec
from scheduler.compute.domain import aggregate_metadata
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates


class AggregateImagePropertiesIsolation(ColumnFilter):
    """Hosts pass whose aggregates list the image's value of every property that both name."""

    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def __init__(self, namespace: str | None = None, separator: str = ".") -> None:
        self._prefix = f"{namespace}{separator}" if namespace else ""

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(
            conf.aggregate_image_properties_isolation_namespace, conf.aggregate_image_properties_isolation_separator
        )

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        # The metadata key is the image property's whole name, prefix included.
        properties = {
            name: str(value)
            for name, value in request.image.properties.items()
            if value and name.startswith(self._prefix)
        }
        if not properties:
            return None

        def fits(aggregates: Sequence[Aggregate]) -> bool:
            metadata = aggregate_metadata.all_values(aggregates)
            return all(value in metadata.get(name, (value,)) for name, value in properties.items())

        return hosts.by_aggregates(fits)
