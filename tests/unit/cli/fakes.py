# SPDX-License-Identifier: Apache-2.0
"""A conductor in memory, with the interface of ``fleet.cli.connection.Connection``."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from fleet import states
from fleet.cli import connection


class Conductor:
    """Every build ends as ``outcome(request)`` says; ``calls`` remembers what was asked."""

    def __init__(self, outcome: Callable[[dict[str, Any]], str] = lambda request: states.ACTIVE) -> None:
        self.outcome = outcome
        self.instances: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[dict[str, Any]] = []
        self.hosts = [{"vcpus": 10, "vcpus_used": 5, "memory_mb": 1000, "memory_mb_used": 100}]

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        made = [self._instance(request) for _ in range(request.get("count") or 1)]
        self.instances.update({each["uuid"]: each for each in made})
        return {"reservation_id": "r-1", "instances": [{"uuid": each["uuid"], "name": each["name"]} for each in made]}

    def operator(self, method: str, **arguments: Any) -> Any:
        self.calls.append((method, arguments))
        if method == "list_instances":
            wanted = arguments["filters"].get("uuids", self.instances)
            return [self.instances[each] for each in wanted if each in self.instances]
        if method == "show_instance":
            return {"instance": self.instances[arguments["name"]], "faults": [FAULT], "events": []}
        return {"list_hosts": self.hosts}.get(method)

    def terminate(self, uuids: list[str]) -> None:
        for each in uuids:
            del self.instances[each]

    def plain_failures(self) -> contextlib.AbstractContextManager[None]:
        return connection.Connection.plain_failures(self)  # type: ignore[arg-type]

    def close(self) -> None:
        """Nothing is open."""

    def _instance(self, request: dict[str, Any]) -> dict[str, Any]:
        state = self.outcome(request)
        host = "host1" if state == states.ACTIVE else None
        return {"uuid": str(uuid.uuid4()), "name": request["name"], "vm_state": state, "host": host, "flavor": {}}


FAULT = {
    "error": "NoValidHost",
    "code": 500,
    "message": "No valid host was found. Full.",
    "details": {
        "considered": 5,
        "filters": [{"name": "RetryFilter", "start": 5, "end": 5}, {"name": "RamFilter", "start": 5, "end": 0}],
    },
}


def steps(*values: float) -> Callable[[], float]:
    """A clock that says each of ``values`` in turn."""
    left: Iterator[float] = iter(values)
    return lambda: next(left)
