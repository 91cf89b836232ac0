# SPDX-License-Identifier: Apache-2.0
"""A conductor in memory, with the interface of ``fleet.client.connection.Connection``."""

from __future__ import annotations

import contextlib
import functools
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from fleet import errors, states
from fleet.client import connection
from tests.operator_calls import Asked

Method = TypeVar("Method", bound=Callable[..., Any])
#: A command may ask from several threads.
_LOCK = threading.RLock()


def one_at_a_time(method: Method) -> Method:
    @functools.wraps(method)
    def locked(*args: Any, **kwargs: Any) -> Any:
        with _LOCK:
            return method(*args, **kwargs)

    return locked  # type: ignore[return-value]


class Conductor(Asked):
    """Every build ends as ``outcome(request)`` returns; ``calls`` holds the calls, which are made one at a time."""

    uses_broker = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "ask" in vars(cls):
            cls.ask = one_at_a_time(cls.ask)  # type: ignore[method-assign]

    def __init__(self, outcome: Callable[[dict[str, Any]], str] = lambda request: states.ACTIVE) -> None:
        self.outcome = outcome
        self.fault: dict[str, Any] = FAULT
        self.instances: dict[str, dict[str, Any]] = {}
        #: By method, for what is not made up here.
        self.answers: dict[str, Any] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[dict[str, Any]] = []
        self.tokens: list[str | None] = []
        self.warnings: list[str] = []
        self.hosts = [
            {
                **dict.fromkeys(("local_gb", "local_gb_used", "running_vms"), 0),
                **dict.fromkeys(("reserved_vcpus", "reserved_memory_mb", "reserved_disk_gb"), 0),
                **dict.fromkeys(("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"), 1.0),
                "host": "host1",
                "vcpus": 10,
                "vcpus_used": 5,
                "memory_mb": 1000,
                "memory_mb_used": 100,
            }
        ]

    @one_at_a_time
    def create(self, request: dict[str, Any], client_token: str | None = None) -> dict[str, Any]:
        self.requests.append(request)
        self.tokens.append(client_token)
        made = [self._instance(request) for _ in range(request.get("count") or 1)]
        self.instances.update({each["uuid"]: each for each in made})
        instances = [{"uuid": each["uuid"], "name": each["name"]} for each in made]
        return {"reservation_id": "r-1", "instances": instances, "warnings": self.warnings}

    def create_volumes(self, request: dict[str, Any], client_token: str | None = None) -> dict[str, Any]:
        self.tokens.append(client_token)
        return self.ask("create_volumes", request=request)

    def manage_volume(self, request: dict[str, Any], client_token: str | None = None) -> dict[str, Any]:
        self.tokens.append(client_token)
        return self.ask("manage_volume", request=request)

    def act_for(self, project_id: str | None, user_id: str | None) -> None:
        self.acts_for = project_id, user_id

    @one_at_a_time
    def ask(self, method: str, **arguments: Any) -> Any:
        self.calls.append((method, arguments))
        if method in self.answers:
            return self.answers[method]
        if method == "list_instances":
            wanted = arguments["filters"].get("uuids", self.instances)
            found = [self.instances[each] for each in wanted if each in self.instances]
            exact = {key: value for key, value in arguments["filters"].items() if key != "uuids"}
            return [each for each in found if all(each[key] == value for key, value in exact.items())]
        if method == "show_instance":
            return {"instance": self.instance_of(arguments["name"]), "faults": [self.fault], "events": []}
        if method == "show_image":
            raise errors.NotFound(kind="Image", name=arguments["name"])
        if method in ("request_of", "request_for"):
            return {"request_spec": {"asked by": method}, "filter_properties": {}}
        return {"list_hosts": self.hosts}.get(method)

    def instance_of(self, name: str) -> dict[str, Any]:
        """Return the instance with this name or uuid."""
        found = [each for each in self.instances.values() if name in (each["uuid"], each["name"])]
        if not found:
            raise errors.NotFound(kind="Instance", name=name)
        return found[0]

    def sent(self, method: str) -> list[dict[str, Any]]:
        """Return the arguments of the calls of a method."""
        return [arguments for called, arguments in self.calls if called == method]

    def serves(self, method: str) -> bool:
        return True

    def volume_capacity(self, asked: dict[str, Any], group_by: str | None) -> dict[str, Any]:
        self.calls.append(("volume_capacity", {"asked": asked, "group_by": group_by}))
        return CAPACITY

    def explain_volume(self, asked: dict[str, Any], best: int) -> dict[str, Any]:
        self.calls.append(("explain_volume", {"asked": asked, "best": best}))
        return EXPLANATION

    def explain(self, asked: dict[str, Any], best: int) -> dict[str, Any]:
        self.calls.append(("explain", {"asked": asked, "best": best}))
        return EXPLANATION

    def describe_filters(self) -> dict[str, Any]:
        self.calls.append(("describe_filters", {}))
        return {"filters": [], "judged": [], "left_out": []}

    def capacity(self, asked: dict[str, Any], group_by: str | None) -> dict[str, Any]:
        self.calls.append(("capacity", {"asked": asked, "group_by": group_by}))
        return CAPACITY

    @one_at_a_time
    def terminate(self, uuids: list[str]) -> None:
        for each in uuids:
            del self.instances[each]

    def plain_failures(self) -> contextlib.AbstractContextManager[None]:
        return connection.Connection.plain_failures(self)  # type: ignore[arg-type]

    def impatient(self, timeout_s: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None:
        """Nothing is open."""

    def _instance(self, request: dict[str, Any]) -> dict[str, Any]:
        state = self.outcome(request)
        host = "host1" if state == states.ACTIVE else None
        return {
            "uuid": str(uuid.uuid4()),
            "name": request["name"],
            "vm_state": state,
            "task_state": None,
            "host": host,
            "flavor": {},
        }


FAULT = {
    "error": "NoValidHost",
    "code": 500,
    "message": "No valid host was found. Full.",
    "details": {
        "reason_code": "CAPACITY",
        "considered": 5,
        "filters": [{"name": "RetryFilter", "start": 5, "end": 5}, {"name": "RamFilter", "start": 5, "end": 0}],
        "nearest": [{"host": "h1", "text": "h1 lacks 10 MB of RAM: limit 100, used 90, asked 20"}],
        "state": {"generation": 7, "age_s": 12.0, "stale": True},
    },
}
EXPLANATION = {
    "summary": "1 instance(s) would go to h1; 2 hosts were considered.",
    "reason_code": None,
    "reason": "",
    "requested": 1,
    "considered": 2,
    "placed": 1,
    "filters": [{"name": "RamFilter", "start": 2, "end": 1}],
    "dropped": {},
    "silent": 0,
    "nearest": [],
    "picks": [{"instance_uuid": "u", "host": "h1", "nodename": "n1", "weight": 1.5, "limits": {}, "alternates": []}],
    "scores": [
        {
            "host": "h1",
            "nodename": "n1",
            "weight": 1.5,
            "weighers": [
                {"name": "RAMWeigher", "raw": 4194303.0, "normalised": 0.75, "multiplier": 2.0, "contribution": 1.5},
                {
                    "name": "FragmentationWeigher",
                    "raw": -9.0,
                    "normalised": 0.0,
                    "multiplier": 1.0,
                    "contribution": 0.0,
                    "terms": [
                        {"shape": "4 vcpus, 1024 MB", "share": 0.25, "weight": 9.0, "before": 2, "after": 1},
                    ],
                },
            ],
        }
    ],
    "share": {"hosts": 3, "passed": 0, "beyond": 1},
    "remarks": [],
    "state": {"generation": 7, "age_s": 0.01, "stale": False},
}
_ROOM = {
    "fits": 5,
    "binds_first": "RAM",
    "binding": {"RAM": 2},
    "largest": {"host": "h1", "nodename": "n1", "times": 2.5, "fits": 2, "room": {"RAM": 2500.0, "vcpus": None}},
    "stranded": {
        "RAM": {"unit": "MB", "asked": 1000.0, "usable": 6000.0, "stranded": 1000.0},
        "vcpus": {"unit": "", "asked": 1.0, "usable": None, "stranded": None},
    },
    "hosts_with_room": 2,
    "hosts": 3,
}
CAPACITY = {
    **_ROOM,
    "considered": 4,
    "filters": [{"name": "ComputeFilter", "start": 4, "end": 3}],
    "groups": [{**_ROOM, "name": "east", "fits": None, "binds_first": None}],
    "remarks": [],
    "state": {"generation": 7, "age_s": 0.01, "stale": False},
}


def steps(*values: float) -> Callable[[], float]:
    """A clock that says each of ``values`` in turn."""
    left: Iterator[float] = iter(values)
    return lambda: next(left)
