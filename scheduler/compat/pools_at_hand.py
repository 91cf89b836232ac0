# SPDX-License-Identifier: Apache-2.0
"""The pools and the request that a plugin for cinder judges now, for its calls to cinder's services.

Plugins of cinder ask it by :mod:`scheduler.compat.cinder_names`.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scheduler.compute.domain.request_faces import Record
from scheduler.engine.plugins import WeighedHost
from scheduler.engine.prepared_request import PARSED
from scheduler.volumes import filters, weights
from scheduler.volumes.domain.pool_state import PoolState, RowState, key_of
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.domain.tracked_volume import TrackedVolume


@dataclasses.dataclass(frozen=True)
class _AtHand:
    pools: Mapping[str, PoolState]
    request: VolumeRequest | None

    def volumes(self, pool: str) -> dict[str, TrackedVolume]:
        """Return the volumes on a pool that the request may know of, by uuid."""
        state = self.pools.get(pool)
        if not isinstance(state, RowState):
            return {}
        there: Mapping[str, TrackedVolume] = state.source.instances(state.row)
        return {uuid: each for uuid, each in there.items() if each.pool == key_of(pool)[1] and self._is_seen(each)}

    def _is_seen(self, volume: TrackedVolume) -> bool:
        asked = self.request
        return asked is None or asked.all_projects or volume.project_id == asked.properties.project_id


_AT_HAND: contextvars.ContextVar[_AtHand] = contextvars.ContextVar("pools_at_hand")
_NOTHING = _AtHand({}, None)


@contextlib.contextmanager
def _judged(pools: Iterable[Any], properties: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the properties with a context that has cinder's ``elevated``."""
    parsed = properties.get(PARSED)
    request = parsed if isinstance(parsed, VolumeRequest) else None
    token = _AT_HAND.set(_AtHand({pool.host: pool for pool in pools}, request))
    try:
        yield {**properties, "context": _Context(properties.get("context"))}
    finally:
        _AT_HAND.reset(token)


class _Context:
    def __init__(self, context: object) -> None:
        self._context = context

    def elevated(self, *args: Any, **more: Any) -> _Context:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class BackendFilter(filters.BaseBackendFilter):
    """cinder's BaseBackendFilter. While it judges, the functions of this module know its pools."""

    def filter_all(self, filter_obj_list: Iterable[Any], filter_properties: dict[str, Any]) -> Iterator[Any]:
        listed = list(filter_obj_list)
        with _judged(listed, filter_properties) as properties:
            return iter([pool for pool in listed if self._verdict(pool, properties)])


class HostWeigher(weights.BaseHostWeigher):
    """cinder's BaseHostWeigher. It keeps the bounds of what it has weighed, as cinder's does."""

    def weigh_objects(self, weighed_obj_list: Sequence[WeighedHost], weight_properties: dict[str, Any]) -> list[float]:
        with _judged([each.obj for each in weighed_obj_list], weight_properties) as properties:
            raw = super().weigh_objects(weighed_obj_list, properties)
        if raw:
            self.minval = min(raw if self.minval is None else [self.minval, *raw])
            self.maxval = max(raw if self.maxval is None else [self.maxval, *raw])
        return raw


class VolumeAPI:
    """cinder.volume.api.API, as far as filters ask it."""

    def get_all(self, context: object, filters: Mapping[str, Any] | None = None, **more: Any) -> list[Record]:
        """Return the volumes with ``filters["id"]`` on the pool ``filters["host"]`` that the request may know of."""
        wanted = filters or {}
        there = _AT_HAND.get(_NOTHING).volumes(wanted.get("host", ""))
        return [Record(id=uuid) for uuid in there if uuid in wanted.get("id", there)]


def volume_data_get_for_host(context: object, host: str, count_only: bool = False) -> int | tuple[int, int]:
    """Return the number of volumes on a pool, and without ``count_only`` also their size in GiB."""
    state = _AT_HAND.get(_NOTHING).pools.get(host)
    count = 0 if state is None else int(getattr(state, "total_volumes", 0))
    return count if count_only else (count, 0 if state is None else int(state.allocated_capacity_gb))


class ComputeAPI:
    """cinder.compute.nova.API, as far as filters ask it: the scheduler has looked the instance of the hint up."""

    def get_server(self, context: object, server_id: str, **more: Any) -> Record:
        asked = _AT_HAND.get(_NOTHING).request
        return Record(id=server_id, **{"OS-EXT-SRV-ATTR:host": None if asked is None else asked.local_host})
