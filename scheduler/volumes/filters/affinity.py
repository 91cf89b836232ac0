# SPDX-License-Identifier: Apache-2.0
"""Pools with or without certain other volumes, by hint. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import uuid
from typing import Any

import numpy
from oslo_utils import uuidutils

from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.filters.base import ColumnFilter


def _rows(hosts: Candidates, request: VolumeRequest, hint: str) -> list[int] | None:
    """Return the pools that have a volume of the hint; None if the hint names something that is no uuid.

    Volumes of other projects are not seen, except by an administrator.
    """
    value = request.scheduler_hints[hint]
    named: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) and uuidutils.is_uuid_like(each) for each in named):
        return None
    found = [hosts.placed(str(uuid.UUID(each))) for each in named]
    seen = [
        volume
        for volume in found
        if volume is not None and (request.all_projects or volume.project_id == request.properties.project_id)
    ]
    rows = [hosts.row_of((volume.host, volume.pool)) for volume in seen]
    return [row for row in rows if row is not None]


def _is_absent(request: VolumeRequest, hint: str) -> bool:
    """Return True if the hint names nothing: there is none, or an empty list. Any other empty value is a wrong one."""
    return request.scheduler_hints.get(hint) in (None, [])


class SameBackendFilter(ColumnFilter):
    """With the hint ``same_host``, pools pass that have any of the named volumes. A wrong hint lets no pool pass."""

    def mask(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray | None:
        if _is_absent(request, "same_host"):
            return None
        return hosts.only(_rows(hosts, request, "same_host") or ())


class DifferentBackendFilter(ColumnFilter):
    """With the hint ``different_host``, pools pass that have none of the named volumes. A wrong hint lets no pool pass."""

    def mask(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray | None:
        if _is_absent(request, "different_host"):
            return None
        rows = _rows(hosts, request, "different_host")
        return hosts.only(()) if rows is None else ~hosts.only(rows)
