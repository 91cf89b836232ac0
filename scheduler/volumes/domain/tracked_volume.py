# SPDX-License-Identifier: Apache-2.0
"""A volume on a pool, as far as filters may read it, and the rules by which a booking ends.

The cache makes it from a row of the feed.
"""

from __future__ import annotations

import dataclasses

from fleet import volume_states
from fleet.objects.feed_rows import ShownVolume
from scheduler.volumes.domain.request import VolumeRequest

_OVER = (
    volume_states.ERROR,
    volume_states.ERROR_MANAGING,
    volume_states.ERROR_EXTENDING,
    volume_states.ERROR_DELETING,
    volume_states.DELETED,
)


@dataclasses.dataclass(frozen=True, slots=True)
class TrackedVolume:
    """An entry of the index of volumes. ``host`` is the backend."""

    uuid: str
    host: str
    pool: str | None = None
    project_id: str | None = None


def picked(uuid: str, host: str, pool: str | None, request: VolumeRequest) -> TrackedVolume:
    """Return the entry of a new pick."""
    return TrackedVolume(uuid, host, pool, request.properties.project_id)


def read_placed(row: ShownVolume) -> TrackedVolume:
    """Return the entry of a row of ``volumes`` that has a host."""
    assert row.host is not None, "the cache places only what is on a host"
    return TrackedVolume(row.uuid, row.host, row.pool, row.project_id)


def is_gone(row: ShownVolume) -> bool:
    """Return True if the volume is deleted. A volume in error keeps its space until it is deleted."""
    return bool(row.deleted) or row.status == volume_states.DELETED


def is_over(row: ShownVolume) -> bool:
    """Return True if the volume needs no other pool any more."""
    return bool(row.deleted) or row.status in _OVER


def has_moved(row: ShownVolume) -> bool:
    """Return True if a migration has claimed its destination, or is over."""
    return bool(row.status == volume_states.AVAILABLE or row.step in volume_states.HOLDING)
