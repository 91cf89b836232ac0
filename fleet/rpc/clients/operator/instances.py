# SPDX-License-Identifier: Apache-2.0
"""Calls about instances, their moves and power tasks, the room queue, and events.

:mod:`fleet.rpc.clients.operator.calls` inherits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from fleet.json_codec import JSONObject
from fleet.objects.answers.decisions import KeptDecisions
from fleet.objects.answers.instances import (
    BriefInstance,
    EventsView,
    FaultView,
    InstancesFound,
    InstanceView,
    MigrationView,
    PowerView,
    QueueView,
    SchedulingRequest,
    SchedulingRequestOf,
    ShownInstance,
    TraceView,
)
from fleet.objects.answers.volumes import AttachmentView
from fleet.rpc.clients.operator.caller import Caller


class Listing(TypedDict, total=False):
    """The part of a list of instances that is wanted: at most ``limit`` of them, after the one with uuid ``marker``.

    ``sort`` has pairs of a field and ``asc`` or ``desc``.
    """

    limit: int | None
    marker: str
    newest_first: bool
    sort: Sequence[Sequence[str]]


class ToHost(TypedDict, total=False):
    """The only host to consider."""

    host: str | None


class ToPlace(TypedDict, total=False):
    """The zone to choose a host from, and the only host to consider."""

    availability_zone: str
    host: str


class Disk(TypedDict, total=False):
    """The name of a disk."""

    device: str


class Reboot(TypedDict, total=False):
    """The kind of a reboot: hard, or soft."""

    hard: bool


class Lock(TypedDict, total=False):
    """The reason for a lock."""

    reason: str


class Move(TypedDict, total=False):
    """The uuid of the only migration record that the call may act on."""

    migration: str


class Moving(TypedDict, total=False):
    """``live``: guests that can move while they run are placed only on hosts to which they can move so."""

    live: bool


class Queue(TypedDict, total=False):
    """The builds of the room queue that are wanted: those of a project, and at most ``limit``."""

    project_id: str
    limit: int


class Part(TypedDict, total=False):
    """The part of a list that is wanted: at most so many, after the one with this uuid."""

    limit: int
    marker: str


class Searching(TypedDict, total=False):
    """The part of a list that is wanted; see the wire contract."""

    text: str
    state: str | None
    filters: Mapping[str, str | None]
    sort: str
    descending: bool
    limit: int
    offset: int


class SearchingLabels(Searching, total=False):
    """``label`` is a key of the metadata, whose value is wanted of each instance."""

    label: str | None


class Newest(TypedDict, total=False):
    """The newest events that are wanted: at most ``last``, of one host, and of one instance or volume."""

    last: int
    host: str
    uuid: str


class InstanceCalls(Caller):
    def list_instances(self, filters: Mapping[str, object], **listing: Unpack[Listing]) -> list[InstanceView]:
        return self.call("list_instances", filters=dict(filters), **listing)

    def list_brief(self, filters: Mapping[str, object], **listing: Unpack[Listing]) -> list[BriefInstance]:
        """Return the list with few fields. A conductor that is too old for it returns whole instances."""
        return self.call("list_instances", filters=dict(filters), brief=True, **listing)

    def search_instances(self, **search: Unpack[SearchingLabels]) -> InstancesFound:
        return self.call("search_instances", **search)

    def show_instance(self, name: str) -> ShownInstance:
        return self.call("show_instance", name=name)

    def update_instance(self, name: str, changes: Mapping[str, object]) -> InstanceView:
        return self.call("update_instance", name=name, changes=dict(changes))

    def lock_instance(self, name: str, **why: Unpack[Lock]) -> InstanceView:
        return self.call("lock_instance", name=name, **why)

    def unlock_instance(self, name: str) -> InstanceView:
        return self.call("unlock_instance", name=name)

    def reset_state(self, name: str, state: str) -> InstanceView:
        """:param state: ``active`` or ``error``"""
        return self.call("reset_state", name=name, state=state)

    def newest_faults(self, uuids: Sequence[str]) -> dict[str, FaultView]:
        """Return the newest fault of each of these instances, by uuid."""
        return self.call("newest_faults", uuids=list(uuids))

    def trace(self, name: str) -> TraceView:
        return self.call("trace", name=name)

    def list_decisions(self, request_id: str) -> KeptDecisions:
        """Return the decisions of a request that schedulers have kept."""
        return self.call("list_decisions", request_id=request_id)

    def list_events(self, after: Mapping[str, int] | None = None, **newest: Unpack[Newest]) -> EventsView:
        """:param after: the position of the answer before"""
        return self.call("list_events", **({} if after is None else {"after": dict(after)}), **newest)

    def list_queue(self, **of: Unpack[Queue]) -> QueueView:
        return self.call("list_queue", **of)

    def requests_of(self, uuids: Sequence[str], **which: Unpack[Moving]) -> list[SchedulingRequestOf]:
        """Instances that do not exist are left out."""
        return self.call("requests_of", uuids=list(uuids), **which)

    def request_of(self, name: str) -> SchedulingRequest:
        return self.call("request_of", name=name)

    def request_for(self, request: JSONObject) -> SchedulingRequest:
        return self.call("request_for", request=request)

    def get_console_output(self, name: str) -> str:
        return self.call("get_console_output", name=name)

    def list_attachments(self, uuids: Sequence[str]) -> list[AttachmentView]:
        return self.call("list_attachments", uuids=list(uuids))

    def attach_volume(self, name: str, volume: str, **disk: Unpack[Disk]) -> AttachmentView:
        return self.call("attach_volume", name=name, volume=volume, **disk)

    def detach_volume(self, name: str, volume: str) -> AttachmentView:
        return self.call("detach_volume", name=name, volume=volume)

    def stop_instance(self, name: str) -> PowerView:
        return self.call("stop_instance", name=name)

    def start_instance(self, name: str) -> PowerView:
        return self.call("start_instance", name=name)

    def suspend_instance(self, name: str) -> PowerView:
        return self.call("suspend_instance", name=name)

    def resume_instance(self, name: str) -> PowerView:
        return self.call("resume_instance", name=name)

    def reboot_instance(self, name: str, **how: Unpack[Reboot]) -> PowerView:
        return self.call("reboot_instance", name=name, **how)

    def shelve_instance(self, name: str) -> PowerView:
        return self.call("shelve_instance", name=name)

    def shelve_offload_instance(self, name: str) -> PowerView:
        return self.call("shelve_offload_instance", name=name)

    def unshelve_instance(self, name: str, **to: Unpack[ToPlace]) -> PowerView:
        return self.call("unshelve_instance", name=name, **to)

    def rebuild_instance(self, name: str, request: Mapping[str, object]) -> PowerView:
        """:param request: a RebuildRequest"""
        return self.call("rebuild_instance", name=name, request=dict(request))

    def list_migrations(self, filters: Mapping[str, object], **part: Unpack[Part]) -> list[MigrationView]:
        return self.call("list_migrations", filters=dict(filters), **part)

    def resize_instance(self, name: str, flavor: str | JSONObject) -> MigrationView:
        return self.call("resize_instance", name=name, flavor=flavor)

    def migrate_instance(self, name: str, **to: Unpack[ToHost]) -> MigrationView:
        return self.call("migrate_instance", name=name, **to)

    def live_migrate_instance(self, name: str, **to: Unpack[ToHost]) -> MigrationView:
        return self.call("live_migrate_instance", name=name, **to)

    def live_obstacles(self, uuids: Sequence[str]) -> dict[str, str]:
        """Return, by uuid, why a guest cannot leave its host while it runs; "" if it can. Unknown instances are left out."""
        return self.call("live_obstacles", uuids=list(uuids))

    def evacuate_instance(self, name: str, **to: Unpack[ToHost]) -> MigrationView:
        return self.call("evacuate_instance", name=name, **to)

    def abort_live_migration(self, name: str, **move: Unpack[Move]) -> MigrationView:
        return self.call("abort_live_migration", name=name, **move)

    def confirm_resize(self, name: str) -> MigrationView:
        return self.call("confirm_resize", name=name)

    def revert_resize(self, name: str) -> MigrationView:
        return self.call("revert_resize", name=name)
