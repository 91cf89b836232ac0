# SPDX-License-Identifier: Apache-2.0
"""The figures of a replay over the time of its trace, from the hosts before it and the result of each instance.

:mod:`fleet_trial.replaying.replay` ends with it.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy

from fleet import capacity
from fleet.client.connection import Record
from fleet.json_codec import JSONMapping
from fleet.objects.flavor_mix import Shape
from fleet.utilization import hours
from fleet.utilization.history import REQUESTS, SECONDS, History
from fleet.utilization.sample import Hosts
from fleet_trial.replaying.replay_events import Event, events, have_times
from fleet_trial.replaying.traces import TraceRequest


class Result(NamedTuple):
    """The result for one instance of request number ``request``.

    ``host`` is None if it was not placed; ``life_s`` is None if it has no end.
    """

    request: int
    at_s: float
    shape: Shape
    host: str | None
    life_s: float | None


def figures(hosts: Sequence[Record], requests: Sequence[TraceRequest], results: Iterable[Result]) -> dict[str, object]:
    """Return the figures of ``fleet whatif`` that depend on time.

    :param hosts: as ``list_hosts`` returned them before the replay
    :param results: of all instances whose build has ended
    """
    known = sorted(results, key=lambda each: each.request)
    fleet = _Fleet(hosts)
    asked = collections.Counter(result.shape for result in known)
    first, last = (requests[0].at_s, requests[-1].at_s) if requests else (0, 0)
    has_times = have_times(requests)
    axis = SECONDS if has_times else REQUESTS
    history = History(axis, first, last, asked) if has_times else History(axis, 0, len(requests), asked)
    counts = collections.Counter[bool]()
    empty, before = 0.0, float(first) if has_times else 0.0
    begun = before
    end = float(last) if has_times else float(len(requests))
    for event in events(known, has_times, end):
        empty += fleet.empty * (event.at - before)
        before = event.at
        if history.due(event.at):
            history.add(event.at, fleet.reading(), counts[True], counts[False])
        if event.sign > 0:
            counts[event.result.host is not None] += 1
        fleet.apply(event)
    empty += fleet.empty * (end - before)
    if history.due(end):
        history.add(end, fleet.reading(), counts[True], counts[False])
    history.finish(fleet.names, fleet.reading(), counts[True], counts[False])
    placed_requests = len({each.request for each in known}) - len({each.request for each in known if each.host is None})
    refused = collections.Counter(str(each.shape) for each in known if each.host is None)
    return {
        "requests_placed": placed_requests,
        "refused_by_size": dict(refused.most_common()),
        **_vcpu_hours(known, last),
        "hosts_empty_on_average": round(empty / (end - begun) if end > begun else fleet.empty, 1),
        **history.figures(),
    }


def _vcpu_hours(results: Sequence[Result], end_s: float) -> dict[str, float]:
    lives = [hours.Life(each.at_s, each.life_s, each.shape.vcpus, each.host is not None) for each in results]
    return hours.figures("vcpu", lives, end_s)


class _Fleet:
    """The hosts as they were, with the instances of the replay that are on them."""

    def __init__(self, hosts: Sequence[Record]) -> None:
        self.names = [each["host"] for each in hosts]
        self._row = {name: row for row, name in enumerate(self.names)}
        self._used = {name: _column(hosts, name) for name in ("vcpus_used", "memory_mb_used", "local_gb_used")}
        self._instances = _column(hosts, "running_vms")
        self._total = {name: _column(hosts, name) for name in ("vcpus", "memory_mb", "local_gb")}
        self._limits = [
            capacity.limit(self._total[total], _column(hosts, reserved), _column(hosts, ratio))
            for total, reserved, ratio in (
                ("vcpus", "reserved_vcpus", "cpu_allocation_ratio"),
                ("memory_mb", "reserved_memory_mb", "ram_allocation_ratio"),
                ("local_gb", "reserved_disk_gb", "disk_allocation_ratio"),
            )
        ]

    @property
    def empty(self) -> int:
        return int(numpy.count_nonzero(self._instances == 0))

    def apply(self, event: Event[Result]) -> None:
        row = self._row.get(event.result.host or "")
        if row is None:
            return
        shape = event.result.shape
        for name, amount in zip(self._used, (shape.vcpus, shape.memory_mb, shape.disk_gb), strict=True):
            self._used[name][row] += event.sign * amount
        self._instances[row] += event.sign

    def reading(self) -> Hosts:
        vcpus_used, memory_mb_used, disk_gb_used = self._used.values()
        free = [
            capacity.usable(limit, used)
            for limit, used in zip(self._limits, (vcpus_used, memory_mb_used, disk_gb_used), strict=True)
        ]
        return Hosts(
            vcpus_used=vcpus_used,
            memory_mb_used=memory_mb_used,
            free=(free[0], free[1], free[2] * capacity.MB_PER_GB),
            instances=self._instances,
        )


def _column(hosts: Sequence[JSONMapping], name: str) -> numpy.ndarray:
    return numpy.array([float(each[name] or 0) for each in hosts])
