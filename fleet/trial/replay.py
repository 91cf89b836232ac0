# SPDX-License-Identifier: Apache-2.0
"""Sends the requests of a trace through a fleet and counts the results."""

from __future__ import annotations

import collections
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

from fleet import states
from fleet.client import connection, faults, following
from fleet.client.connection import Record
from fleet.objects.flavor_mix import Shape
from fleet.trial import replay_report, traces


class Run:
    """One replay. ``_lock`` guards the counters, which several senders update."""

    def __init__(
        self, conductor: connection.Connection, flavors: dict[str, dict[str, int]], concurrency: int, timeout_s: float
    ) -> None:
        self._conductor = conductor
        self._flavors = flavors
        self._concurrency = concurrency
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._placed: set[str] = set()
        self._outcomes: collections.Counter[str] = collections.Counter()
        self._refusals: collections.Counter[str] = collections.Counter()
        self._deaths: list[tuple[float, str]] = []
        self._requests: list[traces.TraceRequest] = []
        self._hosts_before: list[Record] = []
        self._results: list[replay_report.Result] = []
        self._gone = 0
        self._duration_s = 0.0

    def replay(self, requests: list[traces.TraceRequest], on_done: Callable[[int], object]) -> None:
        """Send all requests. Those of one time are sent in parallel, after the deletions due by then.

        :param on_done: called with the number of requests that have ended
        """
        self._requests, self._hosts_before = requests, self._list_hosts()
        started, count = time.monotonic(), 0
        with futures.ThreadPoolExecutor(self._concurrency) as senders:
            for at_s, together in _moments(requests):
                self._delete_due(at_s)
                sent = [senders.submit(self._send, number, request) for number, request in together]
                for done in futures.as_completed(sent):
                    done.result()
                    count += 1
                    on_done(count)
        self._duration_s = time.monotonic() - started

    def summary(self) -> dict[str, Any]:
        placed, duration_s = self._outcomes[states.ACTIVE], self._duration_s
        over_time = replay_report.figures(self._hosts_before, self._requests, self._results)
        return {
            "requests": len(self._requests),
            "instances": sum(self._outcomes.values()),
            "placed": placed,
            "refused": self._outcomes[states.ERROR],
            "unfinished": self._outcomes[states.BUILDING],
            "deleted": self.deleted,
            "refused_by_reason": dict(self._refusals),
            **self._utilisation(),
            **over_time,
            "duration_s": round(duration_s, 1),
            "builds_per_s": round(placed / duration_s, 1) if duration_s else 0.0,
        }

    @property
    def deleted(self) -> int:
        """Instances deleted by others during their build, at the end of their lives, and at the end of the replay."""
        return self._outcomes[states.DELETED] + self._gone

    def delete_all(self) -> None:
        self._delete(set(self._placed))

    def _send(self, number: int, request: traces.TraceRequest) -> None:
        with self._conductor.plain_failures():
            accepted = self._conductor.create(self._build_request(request))["instances"]
            lifetimes = dict(zip((each["uuid"] for each in accepted), request.lifetimes_s, strict=True))

            def on_end(instance: Record) -> None:
                self._record(number, request, instance, lifetimes[instance["uuid"]])

            late = following.follow(self._conductor, lifetimes, self._timeout_s, on_end)
        with self._lock:
            self._outcomes[states.BUILDING] += len(late)

    def _build_request(self, request: traces.TraceRequest) -> dict[str, Any]:
        flavor = {**self._flavors[request.flavor], "name": f"trace-{request.flavor}"}
        return {"name": "replay", "flavor": flavor, "count": request.count}

    def _record(self, number: int, request: traces.TraceRequest, instance: Record, lifetime_s: float | None) -> None:
        refusal = self._why(instance["uuid"]) if instance["vm_state"] == states.ERROR else None
        host = instance["host"] if instance["vm_state"] == states.ACTIVE else None
        result = replay_report.Result(number, request.at_s, self._shape(request), host, lifetime_s)
        with self._lock:
            self._results.append(result)
            self._outcomes[instance["vm_state"]] += 1
            if refusal:
                self._refusals[refusal] += 1
            if instance["vm_state"] == states.ACTIVE:
                self._placed.add(instance["uuid"])
                if lifetime_s is not None:
                    heapq.heappush(self._deaths, (request.at_s + lifetime_s, instance["uuid"]))

    def _shape(self, request: traces.TraceRequest) -> Shape:
        size = self._flavors[request.flavor]
        return Shape(size["vcpus"], size["memory_mb"], size["root_gb"])

    def _why(self, uuid: str) -> str:
        shown = self._conductor.operator("show_instance", name=uuid)["faults"]
        return faults.reason(shown[0]) if shown else "unknown"

    def _delete_due(self, now_s: float) -> None:
        due = set()
        while self._deaths and self._deaths[0][0] <= now_s:
            due.add(heapq.heappop(self._deaths)[1])
        self._delete(due)

    def _delete(self, uuids: set[str]) -> None:
        """Delete and wait, so that later requests find the room."""
        if not uuids:
            return
        with self._conductor.plain_failures():
            late = following.delete(self._conductor, uuids, self._timeout_s)
        self._gone += len(uuids) - len(late)
        self._placed -= uuids

    def _list_hosts(self) -> list[Record]:
        with self._conductor.plain_failures():
            found: list[Record] = self._conductor.operator("list_hosts")
        return found

    def _utilisation(self) -> dict[str, str]:
        hosts = self._list_hosts()
        return {
            "hosts": str(len(hosts)),
            "vcpus_used": _share(hosts, "vcpus_used", "vcpus"),
            "memory_mb_used": _share(hosts, "memory_mb_used", "memory_mb"),
        }


def _moments(
    requests: list[traces.TraceRequest],
) -> Iterator[tuple[int, list[tuple[int, traces.TraceRequest]]]]:
    """Group numbered requests by their time. That matters only if instances are deleted in between."""
    numbered = list(enumerate(requests))
    if all(end is None for request in requests for end in request.lifetimes_s):
        yield 0, numbered
        return
    for at_s, together in itertools.groupby(numbered, key=lambda pair: pair[1].at_s):
        yield at_s, list(together)


def _share(hosts: list[Record], used: str, total: str) -> str:
    """Return the usage of all hosts and its share of the physical total; more than 100 % is overcommitted."""
    used_sum, total_sum = sum(host[used] for host in hosts), sum(host[total] for host in hosts)
    percent = 100 * used_sum / total_sum if total_sum else 0.0
    return f"{used_sum} of {total_sum} ({percent:.1f} %)"
