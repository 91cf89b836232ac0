# SPDX-License-Identifier: Apache-2.0
"""Storage pools, volumes, and their attachments and history.

The queries of :mod:`fleet.db.volumes` read and write them.
"""

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
from fleet.json_codec import JSONObject
from fleet.objects.plans import StoredFailure, VolumePlan

#: Pools of storage backends; ``host`` is the backend's name, ``machine@backend``. Capacities are in GiB, and NULL if the
#: backend reports "infinite" or "unknown". ``capabilities`` is the report as it was received.
storage_pools = sa.Table(
    "storage_pools",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("uuid", UUID, nullable=False),
    sa.Column("host", NAME, nullable=False),
    sa.Column("pool", NAME, nullable=False),
    sa.Column("availability_zone", NAME),
    sa.Column("volume_backend_name", NAME),
    sa.Column("total_capacity_gb", sa.Double),
    #: As reported, less what was claimed since.
    sa.Column("free_capacity_gb", sa.Double),
    #: Sum of what volumes claim.
    sa.Column("allocated_capacity_gb", sa.BigInteger, nullable=False, default=0, server_default="0"),
    #: The same, and what the storage holds for others.
    sa.Column("provisioned_capacity_gb", sa.Double, nullable=False, default=0.0, server_default="0"),
    number("reserved_percentage"),
    #: "auto", a number, or NULL if the backend reports none.
    sa.Column("max_over_subscription_ratio", sa.String(32)),
    sa.Column("thin_provisioning_support", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("thick_provisioning_support", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    number("total_volumes"),
    sa.Column("capabilities", sa.JSON, nullable=False),
    *tracked(),
    sa.UniqueConstraint("host", "pool"),
)


class PoolRow(TrackedRow, Protocol):
    """A row of storage_pools."""

    id: int
    uuid: str
    host: str
    pool: str
    availability_zone: str | None
    volume_backend_name: str | None
    total_capacity_gb: float | None
    free_capacity_gb: float | None
    allocated_capacity_gb: int
    provisioned_capacity_gb: float
    reserved_percentage: int
    max_over_subscription_ratio: str | None
    thin_provisioning_support: bool
    thick_provisioning_support: bool
    total_volumes: int
    capabilities: JSONObject


#: Volumes and snapshots (``fleet.volume_states``). Each claims ``claimed_gb`` of the pool that ``host`` and ``pool`` name,
#: and ``held_gb`` of that of ``held_host`` and ``held_pool``.
volumes = sa.Table(
    "volumes",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, index=True),
    sa.Column("project_id", NAME),
    sa.Column("user_id", NAME),
    number("size_gb"),
    #: Of a snapshot: its volume.
    sa.Column("snapshot_of", UUID, index=True),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("step", sa.String(32)),
    number("attempt"),
    sa.Column("host", NAME),
    sa.Column("pool", NAME),
    number("claimed_gb"),
    sa.Column("held_host", NAME),
    sa.Column("held_pool", NAME),
    number("held_gb"),
    #: The zone that the request names.
    sa.Column("availability_zone", NAME),
    sa.Column("volume_type", NAME),
    #: The request, with the volume type inline.
    sa.Column("spec", sa.JSON, nullable=False),
    #: Alternates of the scheduler's answer, and (tried) pools that failed. Of a migration: the backend or pool that was
    #: named (to), and where the source's data are (copy_from).
    sa.Column("plan", sa.JSON, nullable=False),
    #: Why the volume is in error: error, message, details.
    sa.Column("failure", HeldJSON),
    sa.Column("deadline", Timestamp),
    sa.Column("step_deadline", Timestamp, index=True),
    sa.Column("request_id", NAME),
    *tracked(),
    sa.Index(None, "host", "pool", "deleted"),
    sa.Index(None, "held_host", "held_pool"),
    sa.Index(None, "project_id", "deleted"),
)


class VolumeRow(TrackedRow, Protocol):
    """A row of volumes."""

    uuid: str
    name: str
    project_id: str | None
    user_id: str | None
    size_gb: int
    snapshot_of: str | None
    status: str
    step: str | None
    attempt: int
    host: str | None
    pool: str | None
    claimed_gb: int
    held_host: str | None
    held_pool: str | None
    held_gb: int
    availability_zone: str | None
    volume_type: str | None
    spec: JSONObject
    plan: VolumePlan
    failure: StoredFailure | None
    deadline: datetime.datetime | None
    step_deadline: datetime.datetime | None
    request_id: str | None


#: Volumes that guests have, or are to get or lose: a row is removed when its volume is available again. ``connection`` says
#: where the data of the volume are. A volume has at most one row, and a guest one disk of a name.
volume_attachments = sa.Table(
    "volume_attachments",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("volume_uuid", sa.ForeignKey("volumes.uuid"), nullable=False, unique=True),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), nullable=False),
    sa.Column("device", sa.String(32), nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    number("attempt"),
    sa.Column("connection", sa.JSON, nullable=False),
    #: NULL while a volume that could not be attached is detached again: that goes on until the host has done it.
    sa.Column("deadline", Timestamp),
    sa.Column("step_deadline", Timestamp, index=True),
    sa.Column("request_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.UniqueConstraint("instance_uuid", "device"),
)


class AttachmentRow(Protocol):
    """A row of volume_attachments."""

    uuid: str
    volume_uuid: str
    instance_uuid: str
    device: str
    status: str
    attempt: int
    connection: JSONObject
    deadline: datetime.datetime | None
    step_deadline: datetime.datetime | None
    request_id: str | None
    created_at: datetime.datetime


#: What happened to volumes and snapshots (``fleet.db.volumes.volume_history``).
volume_events = sa.Table(
    "volume_events",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("volume_uuid", sa.ForeignKey("volumes.uuid"), nullable=False, index=True),
    sa.Column("event", sa.String(32), nullable=False),
    number("attempt"),
    sa.Column("host", NAME),
    sa.Column("pool", NAME),
    #: Step that ended.
    sa.Column("step", sa.String(32)),
    sa.Column("result", sa.String(64), nullable=False),
    sa.Column("message", sa.Text),
    sa.Column("duration_s", sa.Float),
    sa.Column("request_id", NAME, index=True),
    sa.Column("created_at", Timestamp, nullable=False),
)


class VolumeEventRow(Row, Protocol):
    """A row of volume_events."""

    id: int
    volume_uuid: str
    event: str
    attempt: int
    host: str | None
    pool: str | None
    step: str | None
    result: str
    message: str | None
    duration_s: float | None
    request_id: str | None
    created_at: datetime.datetime


#: Volumes of requests that have a client token; ``number`` is their order. ``fingerprint``: as of build_requests.
volume_requests = sa.Table(
    "volume_requests",
    METADATA,
    sa.Column("volume_uuid", sa.ForeignKey("volumes.uuid"), primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("project_id", NAME, nullable=False, server_default=""),
    sa.Column("client_token", sa.String(64), nullable=False),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Index(None, "project_id", "client_token", "number", unique=True),
)

volume_types = sa.Table(
    "volume_types",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("description", NAME),
    sa.Column("extra_specs", sa.JSON, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.Column("is_public", sa.Boolean, nullable=False, server_default=sa.true()),
)


class VolumeTypeRow(Protocol):
    """A row of volume_types."""

    id: int
    name: str
    description: str | None
    extra_specs: dict[str, str]
    created_at: datetime.datetime
    is_public: bool


#: The projects that may use a volume type that is not public.
volume_type_projects = sa.Table(
    "volume_type_projects",
    METADATA,
    sa.Column("type_id", sa.ForeignKey("volume_types.id"), primary_key=True),
    sa.Column("project_id", NAME, primary_key=True),
)
