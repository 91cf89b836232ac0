# SPDX-License-Identifier: Apache-2.0
"""Requests for builds, instances, and their history. The queries of :mod:`fleet.db.instances` read and write them."""

from __future__ import annotations

import datetime
from typing import Protocol

import sqlalchemy as sa

from fleet.db.tables.base import (
    METADATA,
    NAME,
    UUID,
    BigId,
    HeldJSON,
    Row,
    Timestamp,
    TrackedRow,
    number,
    tracked,
)
from fleet.json_codec import JSONList, JSONObject
from fleet.objects.plans import StoredPlace

#: One row for each request of a client; its instances refer to it. ``spec`` is a BuildRequest with the flavor inline.
build_requests = sa.Table(
    "build_requests",
    METADATA,
    sa.Column("reservation_id", sa.String(36), primary_key=True),
    sa.Column("spec", sa.JSON, nullable=False),
    sa.Column("group_uuid", UUID),
    sa.Column("request_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
    #: The client's token for the request; ``fingerprint`` is a hash of the request, to recognise a different one.
    sa.Column("project_id", NAME, nullable=False, server_default=""),
    sa.Column("client_token", sa.String(64)),
    sa.Column("fingerprint", sa.String(64)),
    sa.Index(None, "project_id", "client_token", unique=True),
)


#: What the instances of a request find at their first boot, if it named anything. User data may have secrets, so they are
#: not in the request, which schedulers and operators read.
boot_data = sa.Table(
    "boot_data",
    METADATA,
    sa.Column("reservation_id", sa.ForeignKey("build_requests.reservation_id"), primary_key=True),
    sa.Column("key_name", NAME, nullable=False),
    sa.Column("public_key", sa.Text),
    sa.Column("user_data", sa.Text, nullable=False),
    #: Set for the default user of the guest.
    sa.Column("admin_password", NAME),
)

#: What one instance finds at its first boot after a rebuild, in place of ``boot_data``.
rebuilt_boot_data = sa.Table(
    "rebuilt_boot_data",
    METADATA,
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), primary_key=True),
    sa.Column("key_name", NAME, nullable=False),
    sa.Column("public_key", sa.Text),
    sa.Column("user_data", sa.Text, nullable=False),
    sa.Column("admin_password", NAME),
)

instances = sa.Table(
    "instances",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, index=True),
    sa.Column("reservation_id", sa.ForeignKey("build_requests.reservation_id"), nullable=False, index=True),
    number("launch_index"),
    sa.Column("project_id", NAME),
    sa.Column("user_id", NAME),
    sa.Column("vm_state", sa.String(32), nullable=False),
    sa.Column("task_state", sa.String(32)),
    number("power_state"),
    number("attempt"),
    sa.Column("deadline", Timestamp),
    sa.Column("step_deadline", Timestamp),
    sa.Column("host", NAME),
    sa.Column("node", NAME),
    #: Of a build: the host that may claim it, then the alternates (``Place``); empty before a host is chosen. NULL for a
    #: row that is not placed, or that a conductor without this column has placed.
    sa.Column("chosen", HeldJSON),
    sa.Column("launched_on", NAME),
    sa.Column("availability_zone", NAME),
    sa.Column("instance_type_id", sa.Integer),
    sa.Column("flavor_name", NAME),
    sa.Column("os_type", NAME),
    number("vcpus"),
    number("memory_mb"),
    number("root_gb"),
    number("ephemeral_gb"),
    number("swap_mb"),
    number("claimed_vcpus"),
    number("claimed_memory_mb"),
    number("claimed_disk_gb"),
    sa.Column("claimed_numa_topology", HeldJSON),
    sa.Column("claimed_pci_devices", HeldJSON),
    #: Changes of a resize to the spec of the request: flavor, numa_topology, pci_requests.
    sa.Column("resized_spec", HeldJSON),
    #: Changes of a user to the spec of the request: description, metadata, tags.
    sa.Column("details", HeldJSON),
    #: The guest's plugs into networks (``Interface``), whose addresses are claimed in the table of addresses.
    sa.Column("interfaces", HeldJSON),
    #: ``owner`` or ``admin``: members may not change the instance. NULL: it is not locked.
    sa.Column("locked_by", sa.String(8)),
    sa.Column("locked_reason", sa.String(255)),
    #: From the offload of a shelved instance until it runs again: ``attempt``, which names its kept disk, and ``shelf``, the
    #: place that has it.
    sa.Column("shelved", HeldJSON),
    #: Attempts before the last unshelve or rebuild: they do not count towards ``scheduler_max_attempts``.
    number("earlier_attempts"),
    sa.Column("request_id", NAME),
    sa.Column("launched_at", Timestamp),
    sa.Column("terminated_at", Timestamp),
    *tracked(),
    sa.Index(None, "host", "node"),
    sa.Index(None, "vm_state", "task_state"),
    sa.Index(None, "project_id", "deleted"),
    #: The order of lists.
    sa.Index(None, "created_at", "launch_index", "uuid"),
)


class InstanceRow(TrackedRow, Protocol):
    """A row of instances."""

    uuid: str
    name: str
    reservation_id: str
    launch_index: int
    project_id: str | None
    user_id: str | None
    vm_state: str
    task_state: str | None
    power_state: int
    attempt: int
    deadline: datetime.datetime | None
    step_deadline: datetime.datetime | None
    host: str | None
    node: str | None
    chosen: list[StoredPlace] | None
    launched_on: str | None
    availability_zone: str | None
    instance_type_id: int | None
    flavor_name: str | None
    os_type: str | None
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int
    swap_mb: int
    claimed_vcpus: int
    claimed_memory_mb: int
    claimed_disk_gb: int
    claimed_numa_topology: JSONObject | None
    claimed_pci_devices: JSONList | None
    resized_spec: JSONObject | None
    details: JSONObject | None
    interfaces: JSONList | None
    locked_by: str | None
    locked_reason: str | None
    shelved: JSONObject | None
    earlier_attempts: int
    request_id: str | None
    launched_at: datetime.datetime | None
    terminated_at: datetime.datetime | None


class RequestedInstance(InstanceRow, Protocol):
    """An instance with the spec of its request."""

    spec: JSONObject
    group_uuid: str | None


instance_faults = sa.Table(
    "instance_faults",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), nullable=False, index=True),
    sa.Column("code", sa.Integer, nullable=False),
    sa.Column("error", sa.String(64), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("details", sa.JSON),
    sa.Column("host", NAME),
    sa.Column("request_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
)


class FaultRow(Row, Protocol):
    """A row of instance_faults."""

    id: int
    instance_uuid: str
    code: int
    error: str
    message: str
    details: JSONObject | None
    host: str | None
    request_id: str | None
    created_at: datetime.datetime


instance_events = sa.Table(
    "instance_events",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), nullable=False, index=True),
    sa.Column("event", sa.String(32), nullable=False),
    number("attempt"),
    sa.Column("host", NAME),
    sa.Column("node", NAME),
    #: Step in which an attempt failed.
    sa.Column("step", sa.String(32)),
    sa.Column("result", sa.String(64), nullable=False),
    sa.Column("message", sa.Text),
    sa.Column("duration_s", sa.Float),
    sa.Column("request_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
)


class EventRow(Row, Protocol):
    """A row of instance_events."""

    id: int
    instance_uuid: str
    event: str
    attempt: int
    host: str | None
    node: str | None
    step: str | None
    result: str
    message: str | None
    duration_s: float | None
    request_id: str | None
    created_at: datetime.datetime


class FailedOrder(EventRow, Protocol):
    """The event of an order that failed."""

    host: str
