# SPDX-License-Identifier: Apache-2.0
"""Hosts, services, aggregates, use of the fleet, and findings of ``fleet doctor``.

:mod:`fleet.rpc.clients.operator.hosts` parses the answers of conductors into them.
"""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from fleet.json_codec import JSONObject
from fleet.objects.answers.instances import InstanceView


class HostView(TypedDict):
    """A node of a host: memory in MB, disk in GB.

    :param bridges: that guests may be plugged into, with commas between them; None if the host does not say.
        In the answer about one host only
    :param booted_at: when its machine was started; None if the host does not say. In the answer about one host only
    """

    host: str
    node: str
    uuid: str
    state: str
    status: str
    zone: str
    labels: dict[str, str]
    updated_at: str | None
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    free_ram_mb: int
    local_gb: int
    local_gb_used: int
    free_disk_gb: int
    running_vms: int
    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    disk_allocation_ratio: float
    reserved_vcpus: int
    reserved_memory_mb: int
    reserved_disk_gb: int
    hypervisor_type: str | None
    hypervisor_version: int
    host_ip: str | None
    bridges: NotRequired[str | None]
    booted_at: NotRequired[str | None]


class ShownHost(TypedDict):
    """A host with its nodes and the instances on it."""

    host: str
    nodes: list[HostView]
    instances: list[InstanceView]


class ActView(TypedDict):
    """One act of an administrator. ``changes``: by field, its values before and after."""

    act: str
    subject: str
    changes: dict[str, list[object]]
    user_id: str | None
    project_id: str | None
    request_id: str | None
    created_at: str


class ServiceView(TypedDict):
    """A daemon's record."""

    host: str
    binary: str
    state: str
    status: str
    disabled_reason: str | None
    rpc_version: str | None
    release: str | None
    last_seen_up: str | None
    forced_down: bool
    clock_skew_s: float
    pid: int | None
    hostname: str | None


class ListedService(ServiceView):
    """A daemon's record. :param driver: of an agent: the types of hypervisors that its nodes report"""

    driver: str | None


class AggregateView(TypedDict):
    """A host aggregate.

    :param created_at, updated_at: ISO 8601, UTC; ``updated_at`` is None if nothing has changed. Earlier releases send none.
    """

    id: int
    name: str
    hosts: list[str]
    metadata: dict[str, str]
    uuid: str
    created_at: NotRequired[str | None]
    updated_at: NotRequired[str | None]


class AggregateChange(AggregateView):
    """A hint to schedulers. :param generation: of the change feed; schedulers that have read it know the change"""

    generation: int


class UseView(TypedDict):
    """Sums over the instances that ran at each of ``times``, and what the hosts may give away of each resource.

    ``began`` is when the fleet got its first service or instance: what is before it is no zero. None: it has neither.
    """

    times: list[str]
    instances: list[int]
    vcpus: list[int]
    memory_mb: list[int]
    disk_gb: list[int]
    limits: dict[str, float]
    began: NotRequired[str | None]


class Findings(TypedDict, total=False):
    """The findings of a conductor for ``fleet doctor``; see ``conductor_stub.operators.diagnosis``."""

    host: str
    now: str
    database: JSONObject
    replication: JSONObject | None
    queued: JSONObject
    orphans: list[JSONObject]
    overdue: int
    down: list[JSONObject]
    volumes: JSONObject
    ahead: list[str]
    numbers: dict[str, int]
    unreadable: JSONObject
