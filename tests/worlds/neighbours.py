# SPDX-License-Identifier: Apache-2.0
"""The neighbours of a whole conductor as fakes: they honour the interfaces of ``fleet.rpc.clients``."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import oslo_messaging

from fleet import errors
from fleet.context import RequestContext


class FakeScheduler:
    """Answers from ``answers`` in turn: a list of (host, alternates), or an exception to raise; with ``limits``."""

    def __init__(self) -> None:
        self.answers: collections.deque[Any] = collections.deque()
        self.limits = {"memory_mb": 8000.0}
        self.requests: list[tuple[dict[str, Any], dict[str, Any]]] = []
        #: Runs before each answer.
        self.before: Callable[[], object] = lambda: None
        #: Kinds of parts of a request that its filters judge; or what it raises in place of an answer.
        self.judged: list[str] = []
        self.failure: Exception | None = None
        #: Raised if a request names a node: it is too old.
        self.pinned: errors.VersionPinned | None = None
        self.explained: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.refusing = ""
        #: New hosts of guests by uuid; and what it was asked to plan.
        self.plan: dict[str, str] = {}
        self.lost: list[tuple[list[str], list[str]]] = []
        #: By machine of a scheduler: the decisions that it has kept, or what it raises.
        self.kept: dict[str, Any] = {}

    def require_requested_node(self) -> None:
        if self.pinned is not None:
            raise self.pinned

    def explain(
        self,
        context: RequestContext,
        request_spec: dict[str, Any],
        filter_properties: dict[str, Any],
        best: int = 10,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """All hosts pass, unless ``refusing`` names the filter that drops them, or the code of another reason."""
        self.explained.append((request_spec, filter_properties))
        if self.failure is not None:
            raise self.failure
        if self.refusing:
            filters = [{"name": self.refusing, "start": 1, "end": 0}]
            return {"picks": [], "filters": filters, "reason": "none", "reason_code": self.refusing}
        return {"picks": [{"host": "h1"}], "filters": []}

    def describe_filters(self, context: RequestContext) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        return {"filters": [], "judged": list(self.judged), "left_out": []}

    def plan_loss(self, context: RequestContext, hosts: list[str], requests: list[dict[str, Any]]) -> dict[str, Any]:
        """What ``plan`` says; by default there is none."""
        self.lost.append((hosts, sorted(each["uuid"] for each in requests)))
        if self.failure is not None:
            raise self.failure
        verdict = "safe" if self.plan else "unsafe"
        return {"verdict": verdict, "why": f"{len(self.plan)} are planned", "plan": dict(self.plan)}

    def decisions_of(self, context: RequestContext, request_id: str, host: str) -> list[dict[str, Any]]:
        found = self.kept[host]
        if isinstance(found, Exception):
            raise found
        asked = [each for each in found if each["request_id"] == request_id]
        return [{name: value for name, value in each.items() if name != "request_id"} for each in asked]

    def update_aggregates(self, context: RequestContext, aggregates: list[dict[str, Any]]) -> None:
        pass

    def delete_aggregate(self, context: RequestContext, aggregate: dict[str, Any]) -> None:
        pass

    def select_destinations(
        self, context: RequestContext, request_spec: dict[str, Any], filter_properties: dict[str, Any]
    ) -> list[dict[str, Any]]:
        self.before()
        self.requests.append((request_spec, filter_properties))
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return [
            {"host": host, "nodename": host, "limits": dict(self.limits), "alternates": [_place(a) for a in others]}
            for host, others in answer
        ]


def _place(host: str) -> dict[str, Any]:
    return {"host": host, "nodename": host, "limits": {}}


class _Agents:
    """Agents by host. A message to a host in ``without_queue`` is undeliverable."""

    def __init__(self) -> None:
        self.without_queue: set[str] = set()

    def _check(self, host: str) -> None:
        if host in self.without_queue:
            raise oslo_messaging.MessageUndeliverable(exception=None, exchange="", routing_key="", message="")


class FakeCompute(_Agents):
    """Collects casts to compute agents by host."""

    def __init__(self) -> None:
        super().__init__()
        self.builds: list[tuple[str, dict[str, Any]]] = []
        self.terminations: list[tuple[str, str]] = []
        self.moves: list[tuple[str, str]] = []
        #: Sources that are to abort a live migration.
        self.aborts: list[tuple[str, str]] = []
        self.power: list[tuple[str, str]] = []
        self.attachments: list[tuple[str, str]] = []
        #: What an agent that is too old for volumes of builds and moves raises.
        self.pinned: errors.VersionPinned | None = None

    def build_and_run_instance(self, context: RequestContext, host: str, **build: Any) -> None:
        self._check(host)
        if build.get("volumes"):
            self.require_volumes()
        self.builds.append((host, build))

    def terminate_instance(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        self._check(host)
        self.terminations.append((host, instance_uuid))

    def advance_migration(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        self._check(host)
        self.moves.append((host, instance_uuid))

    def require_live_migration(self) -> None:
        """Every agent is new."""

    def live_migration_abort(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        self._check(host)
        self.aborts.append((host, instance_uuid))

    def get_console_output(self, context: RequestContext, host: str, instance_uuid: str) -> str:
        self._check(host)
        return f"{instance_uuid} on {host}"

    def require_power(self, task: str) -> None:
        """Every agent is new."""

    def advance_power(
        self,
        context: RequestContext,
        host: str,
        instance_uuid: str,
        task: str = "",
        spawn_within_s: float | None = None,
    ) -> None:
        self._check(host)
        self.power.append((host, instance_uuid))

    def require_unshelving(self) -> None:
        """Every agent is new."""

    def require_attachments(self) -> None:
        """Every agent is new."""

    def require_volumes(self) -> None:
        """:raises errors.VersionPinned: as the test wants"""
        if self.pinned is not None:
            raise self.pinned

    require_networks = require_volumes

    def advance_attachments(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        self._check(host)
        self.attachments.append((host, instance_uuid))


class _Queue:
    """The conductor's own queue: ``deliver`` hands what was cast to a worker; dropping it is a lost message."""

    def __init__(self) -> None:
        self.cast: collections.deque[tuple[RequestContext, Any, int]] = collections.deque()

    def deliver(self, work: Callable[[RequestContext, Any, int], None]) -> int:
        delivered = 0
        while self.cast:
            work(*self.cast.popleft())
            delivered += 1
        return delivered


class FakeTasks(_Queue):
    def build_instances(self, context: RequestContext, instance_uuids: list[str], attempt: int) -> None:
        self.cast.append((context, instance_uuids, attempt))


class FakeMoveTasks(_Queue):
    def place_migration(self, context: RequestContext, migration_uuid: str, attempt: int) -> None:
        self.cast.append((context, migration_uuid, attempt))


class FakeVolumeTasks(_Queue):
    def place_volume(self, context: RequestContext, volume_uuid: str, attempt: int) -> None:
        self.cast.append((context, [volume_uuid], attempt))


class FakeVolumeScheduler:
    """Answers from ``answers`` in turn: a list of (backend, pool), the best first, or an exception to raise."""

    def __init__(self) -> None:
        self.answers: collections.deque[Any] = collections.deque()
        self.requests: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.retypes = 0
        self.several = True

    def takes_several(self) -> bool:
        return self.several

    def select_backend(
        self, context: RequestContext, request_spec: dict[str, Any], filter_properties: dict[str, Any]
    ) -> list[dict[str, Any]]:
        self.requests.append((request_spec, filter_properties))
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return [_selection(answer) for _each in request_spec.get("volume_ids") or [""]]

    def retype(
        self, context: RequestContext, request_spec: dict[str, Any], filter_properties: dict[str, Any]
    ) -> list[dict[str, Any]]:
        self.retypes += 1
        return self.select_backend(context, request_spec, filter_properties)

    def manage_existing(
        self, context: RequestContext, request_spec: dict[str, Any], filter_properties: dict[str, Any]
    ) -> list[dict[str, Any]]:
        return self.select_backend(context, request_spec, filter_properties)


def _selection(places: Sequence[tuple[str, str]]) -> dict[str, Any]:
    first, *others = ({"host": host, "nodename": pool, "limits": {}} for host, pool in places)
    return {**first, "alternates": others}


class FakeBackends(_Agents):
    """Collects casts to agents of storage backends."""

    def __init__(self) -> None:
        super().__init__()
        self.orders: list[tuple[str, str]] = []
        self.manageable: list[dict[str, Any]] = []

    def advance_volume(self, context: RequestContext, host: str, volume_uuid: str) -> None:
        self._check(host)
        self.orders.append((host, volume_uuid))

    def get_manageable(self, context: RequestContext, host: str) -> list[dict[str, Any]]:
        self._check(host)
        return self.manageable

    def get_connection(self, context: RequestContext, host: str, volume_uuid: str, pool: str) -> dict[str, Any]:
        self._check(host)
        return {"kind": "file", "path": f"/srv/{pool}/volume-{volume_uuid}", "format": "raw"}


class FakeNotifier:
    def __init__(self) -> None:
        self.errors: list[tuple[str, dict[str, Any]]] = []
        self.infos: list[tuple[str, dict[str, Any]]] = []

    def error(self, context: RequestContext, event_type: str, payload: dict[str, Any]) -> None:
        self.errors.append((event_type, payload))

    def info(self, context: RequestContext, event_type: str, payload: dict[str, Any]) -> None:
        self.infos.append((event_type, payload))


def no_valid_host(placed: int = 0) -> errors.NoValidHost:
    """:param placed: for so many of those asked for together there is room"""
    filters = [{"name": "RamFilter", "start": 3, "end": 0}]
    return errors.NoValidHost(
        reason="RamFilter left none.", details={"considered": 3, "filters": filters, "placed": placed}
    )
