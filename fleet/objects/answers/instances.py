# SPDX-License-Identifier: Apache-2.0
"""Instances, their moves and power tasks, the room queue, and events.

:mod:`fleet.rpc.clients.operator.instances` parses the answers of conductors into them.
"""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from fleet.json_codec import JSONObject
from fleet.objects.answers.catalog import FlavorView
from fleet.objects.answers.volumes import AttachmentView
from fleet.objects.plans import StoredFailure


class MadeInstance(TypedDict):
    """An instance that a request has created."""

    uuid: str
    name: str


class AcceptedRequest(TypedDict):
    """The instances of a request. :param warnings: about keys and parts of it that nothing judges; missing without any"""

    reservation_id: str
    instances: list[MadeInstance]
    warnings: NotRequired[list[str]]


class InstanceImage(TypedDict):
    """The image of an instance, as its request named it."""

    id: str
    name: str
    status: str
    min_ram: int
    min_disk: int
    size: int
    properties: dict[str, str | int | float | bool | None]


class BriefInstance(TypedDict):
    """An instance in a brief list."""

    uuid: str
    name: str
    project_id: str | None
    host: str | None
    vm_state: str
    task_state: str | None
    attempt: int


class InstanceView(BriefInstance):
    """An instance. :param volumes: uuids, in lists"""

    user_id: str | None
    reservation_id: str
    power_state: int
    node: str | None
    availability_zone: str | None
    flavor: FlavorView
    image: InstanceImage
    numa_topology: JSONObject | None
    pci_requests: list[JSONObject] | None
    metadata: dict[str, str]
    created_at: str | None
    launched_at: str | None
    updated_at: str | None
    terminated_at: str | None
    deadline: str | None
    claimed_memory_mb: int
    claimed_disk_gb: int
    claimed_vcpus: int
    claimed_numa_topology: JSONObject | None
    claimed_pci_devices: list[JSONObject] | None
    interfaces: NotRequired[list[JSONObject] | None]
    request_id: str | None
    deleted: bool
    group_uuid: str | None
    description: str
    tags: list[str]
    scheduler_hints: JSONObject
    key_name: str | None
    forced_host: str | None
    forced_node: str | None
    #: It is SHELVED_OFFLOADED, and being built elsewhere.
    is_unshelved: NotRequired[bool]
    shelved_attempt: NotRequired[int | None]
    task_deadline: NotRequired[str | None]
    access_ip_v4: NotRequired[str]
    access_ip_v6: NotRequired[str]
    hostname: NotRequired[str]
    disk_config: NotRequired[str | None]
    locked_by: NotRequired[str | None]
    locked_reason: NotRequired[str | None]
    host_id: NotRequired[str | None]
    volumes: NotRequired[list[str]]


class FaultView(TypedDict):
    """The fault of an instance in ERROR."""

    code: int
    error: str
    message: str
    details: JSONObject | None
    host: str | None
    request_id: str | None
    created_at: str
    host_id: NotRequired[str | None]


class EventView(TypedDict):
    """A step of an instance that ended."""

    event: str
    attempt: int
    host: str | None
    node: str | None
    step: str | None
    result: str
    message: str | None
    duration_s: float | None
    request_id: str | None
    created_at: str
    host_id: NotRequired[str | None]


class MigrationView(TypedDict):
    """A move. :param resized: False for a move that keeps the flavor"""

    uuid: str
    instance_uuid: str
    migration_type: str
    status: str
    attempt: int
    failure: StoredFailure | None
    request_id: str | None
    project_id: NotRequired[str | None]
    user_id: NotRequired[str | None]
    source_compute: str
    source_node: str
    dest_compute: str | None
    dest_node: str | None
    created_at: str
    updated_at: str | None
    deadline: str | None
    copied_percent: NotRequired[int]
    old_flavor: str | None
    new_flavor: str | None
    resized: bool


class QueuedView(TypedDict):
    """A build that waits for room: the reason, and the times from which and until which it waits."""

    reason: str
    message: str
    lacks: str | None
    queued_at: str
    wait_until: str


class ShownInstance(TypedDict):
    """An instance with its history. :param waits_for: the host for which a build waits, in words; missing without one"""

    instance: InstanceView
    faults: list[FaultView]
    events: list[EventView]
    migration: MigrationView | None
    queued: QueuedView | None
    waits_for: NotRequired[str]
    volumes: list[AttachmentView]


class PowerView(TypedDict):
    """An instance whose power task is accepted."""

    uuid: str
    name: str
    vm_state: str
    task_state: str | None


class WaitingView(QueuedView):
    """A build that waits for room, and its place among all."""

    uuid: str
    name: str
    project_id: str | None
    place: int
    flavor: str | None
    kept_host: str | None


class QueueView(TypedDict):
    """The room queue, in the order in which builds are woken."""

    builds: list[WaitingView]
    now: str


class TraceView(TypedDict):
    """The history of instances and volumes. :param events: oldest first, each with ``instance_uuid`` or ``volume_uuid``"""

    instances: list[JSONObject]
    volumes: list[JSONObject]
    events: list[JSONObject]


class InstanceFound(TypedDict):
    """An instance in a list that is searched. ``label`` is the value of a key of its metadata, if one was asked for."""

    uuid: str
    name: str
    project_id: str | None
    host: str | None
    vm_state: str
    task_state: str | None
    power_state: int
    attempt: int
    created_at: str
    flavor_name: str | None
    vcpus: int
    memory_mb: int
    disk_gb: int
    group_uuid: str | None
    label: NotRequired[str | None]


class StateCount(TypedDict):
    """The number of matching instances in one ``vm_state``."""

    state: str
    count: int


class InstancesFound(TypedDict):
    """A part of the list, how many match, and how many of them are in each ``vm_state``."""

    instances: list[InstanceFound]
    total: int
    states: list[StateCount]


class EventsView(TypedDict):
    """Events of instances and volumes, and the position to continue from."""

    events: list[JSONObject]
    position: dict[str, int]


class SchedulingRequestOf(TypedDict):
    """The scheduler's input for an instance that exists."""

    uuid: str
    request_spec: JSONObject
    filter_properties: JSONObject


class SchedulingRequest(TypedDict):
    """The scheduler's input."""

    request_spec: JSONObject
    filter_properties: JSONObject
