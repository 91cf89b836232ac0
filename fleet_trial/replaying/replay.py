# SPDX-License-Identifier: Apache-2.0
"""Sends the requests of a trace through a fleet and counts the results. ``fleet replay`` calls it."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence

from fleet import states
from fleet.client import faults, following, pages
from fleet.client.calls import Calls
from fleet.client.connection import Record
from fleet.objects.answers.hosts import HostView
from fleet.objects.flavor_mix import Shape
from fleet_trial.replaying import replay_report, traces
from fleet_trial.replaying.pacing import Replay


class Run(Replay[traces.TraceRequest]):
    """One replay of instances."""

    def __init__(
        self, conductor: Calls, flavors: dict[str, dict[str, int]], concurrency: int, timeout_s: float
    ) -> None:
        super().__init__(concurrency)
        self._conductor = conductor
        self._flavors = flavors
        self._timeout_s = timeout_s
        self._outcomes: collections.Counter[str] = collections.Counter()
        self._refusals: collections.Counter[str] = collections.Counter()
        self._hosts_before: Sequence[Record] = []
        self._results: list[replay_report.Result] = []

    def replay(self, requests: Sequence[traces.TraceRequest], on_done: Callable[[int], object]) -> None:
        self._hosts_before = self._list_hosts()
        super().replay(requests, on_done)

    def summary(self) -> dict[str, object]:
        placed, duration_s = self._outcomes[states.ACTIVE], self.duration_s
        over_time = replay_report.figures(self._hosts_before, self.requests, self._results)
        return {
            "requests": len(self.requests),
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
        return self._outcomes[states.DELETED] + self.gone

    def send(self, number: int, request: traces.TraceRequest) -> None:
        with self._conductor.plain_failures():
            accepted = self._conductor.create(self._build_request(request))["instances"]
            lifetimes = dict(zip((each["uuid"] for each in accepted), request.lifetimes_s, strict=True))
            self.accept(lifetimes)

            def on_end(instance: Record) -> None:
                self._record(number, request, instance, lifetimes[instance["uuid"]])

            late = following.follow(self._conductor, lifetimes, self._timeout_s, on_end)
        with self.lock:
            self._outcomes[states.BUILDING] += len(late)

    def _build_request(self, request: traces.TraceRequest) -> dict[str, object]:
        flavor = {**self._flavors[request.flavor], "name": f"trace-{request.flavor}"}
        return {"name": "replay", "flavor": flavor, "count": request.count}

    def _record(self, number: int, request: traces.TraceRequest, instance: Record, lifetime_s: float | None) -> None:
        refusal = self._why(instance["uuid"]) if instance["vm_state"] == states.ERROR else None
        host = instance["host"] if instance["vm_state"] == states.ACTIVE else None
        result = replay_report.Result(number, request.at_s, self._shape(request), host, lifetime_s)
        with self.lock:
            self._results.append(result)
            self._outcomes[instance["vm_state"]] += 1
            if refusal:
                self._refusals[refusal] += 1
            if instance["vm_state"] == states.ACTIVE:
                self.place(instance["uuid"], request, lifetime_s)
            elif instance["vm_state"] == states.DELETED:
                self.forget(instance["uuid"])

    def _shape(self, request: traces.TraceRequest) -> Shape:
        size = self._flavors[request.flavor]
        return Shape(size["vcpus"], size["memory_mb"], size["root_gb"])

    def _why(self, uuid: str) -> str:
        shown = self._conductor.operator.show_instance(name=uuid)["faults"]
        return faults.reason(shown[0]) if shown else "unknown"

    def delete(self, uuids: set[str]) -> int:
        with self._conductor.plain_failures():
            return len(uuids) - len(following.delete(self._conductor, uuids, self._timeout_s))

    def _list_hosts(self) -> list[HostView]:
        with self._conductor.plain_failures():
            return pages.hosts(self._conductor.operator)

    def _utilisation(self) -> dict[str, str]:
        hosts = self._list_hosts()
        return {
            "hosts": str(len(hosts)),
            "vcpus_used": _share(hosts, "vcpus_used", "vcpus"),
            "memory_mb_used": _share(hosts, "memory_mb_used", "memory_mb"),
        }


def _share(hosts: Sequence[Record], used: str, total: str) -> str:
    """Return the usage of all hosts and its share of the physical total; more than 100 % is overcommitted."""
    used_sum, total_sum = sum(host[used] for host in hosts), sum(host[total] for host in hosts)
    percent = 100 * used_sum / total_sum if total_sum else 0.0
    return f"{used_sum} of {total_sum} ({percent:.1f} %)"
