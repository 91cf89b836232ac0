# SPDX-License-Identifier: Apache-2.0
"""Hosts reserved for images. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy
from oslo_config import cfg

from fleet.objects import RequestSpec
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates


class IsolatedHostsFilter(ColumnFilter):
    """Isolated images go to isolated hosts only; other images go elsewhere only, unless that is not restricted."""

    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def __init__(
        self,
        isolated_images: Iterable[str] = (),
        isolated_hosts: Iterable[str] = (),
        restrict_isolated_hosts_to_isolated_images: bool = True,
    ) -> None:
        self._images = frozenset(isolated_images)
        self._hosts = tuple(isolated_hosts)
        self._restrict = restrict_isolated_hosts_to_isolated_images

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.isolated_images, conf.isolated_hosts, conf.restrict_isolated_hosts_to_isolated_images)

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        image = request.instance.image_ref or request.image.id
        isolated = hosts.only(hosts.rows_of_hosts(self._hosts))
        if image in self._images:
            return isolated
        return ~isolated if self._restrict else None
