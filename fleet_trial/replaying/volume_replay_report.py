# SPDX-License-Identifier: Apache-2.0
"""The pools of a replay over the time of its trace, from the pools before it and the result of each volume.

:mod:`fleet_trial.replaying.volume_replay` ends with it.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy

from fleet.client.connection import Record
from fleet.utilization.history import REQUESTS, SECONDS, PoolHistory
from fleet.utilization.pools import Pools
from fleet_trial.replaying.replay_events import Event, events, have_times
from fleet_trial.replaying.volume_traces import VolumeTraceRequest


class Result(NamedTuple):
    """The result for the volume of request number ``request``. ``host`` is its pool; None if it was not made."""

    request: int
    at_s: float
    size_gb: int
    host: str | None
    life_s: float | None


def figures(
    pools: Sequence[Record], requests: Sequence[VolumeTraceRequest], results: Iterable[Result]
) -> dict[str, object]:
    """Return ``over_time`` and ``pools_used`` as ``fleet whatif`` does.

    :param pools: as ``list_pools`` returned them before the replay
    """
    known, there = sorted(results, key=lambda each: each.request), _Pools(pools)
    has_times = have_times(requests)
    end = float(requests[-1].at_s) if has_times else float(len(requests))
    history = PoolHistory(SECONDS, requests[0].at_s, end) if has_times else PoolHistory(REQUESTS, 0, end)
    counts = collections.Counter[bool]()
    for event in events(known, has_times, end):
        if history.due(event.at):
            history.add(event.at, there.reading(), counts[True], counts[False])
        if event.sign > 0:
            counts[event.result.host is not None] += 1
        there.apply(event)
    if history.due(end):
        history.add(end, there.reading(), counts[True], counts[False])
    history.finish(there.names, there.reading(), counts[True], counts[False])
    return history.figures()


class _Pools:
    """The pools as they were, with the volumes of the replay that are on them. ``names``: those of a known capacity."""

    def __init__(self, pools: Sequence[Record]) -> None:
        sized = [each for each in pools if each["total_capacity_gb"] is not None]
        self.names = [each["name"] for each in sized]
        self._volumes = {each["name"]: each["total_volumes"] for each in pools}
        self._row = {name: row for row, name in enumerate(self.names)}
        self._total = numpy.array([float(each["total_capacity_gb"]) for each in sized])
        self._provisioned = numpy.array([float(each["provisioned_capacity_gb"]) for each in sized])
        self._ceiling = numpy.array([_ceiling(each) for each in sized])

    def apply(self, event: Event[Result]) -> None:
        pool = event.result.host
        if pool not in self._volumes:
            return
        self._volumes[pool] += event.sign
        if pool in self._row:
            self._provisioned[self._row[pool]] += event.sign * event.result.size_gb

    def reading(self) -> Pools:
        empty = sum(not number for number in self._volumes.values())
        return Pools(self._total, self._provisioned.copy(), self._ceiling - self._provisioned, empty)


def _ceiling(pool: Record) -> float:
    """Return the space that thin volumes may have together."""
    total = pool["total_capacity_gb"]
    return float((total - math.floor(total * pool["reserved_percentage"] / 100)) * pool["over_subscription"])
