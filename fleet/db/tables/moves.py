# SPDX-License-Identifier: Apache-2.0
"""Moves of instances between hosts. :mod:`fleet.db.instances.moves` reads and writes them."""

from __future__ import annotations

import datetime
from typing import Protocol

import sqlalchemy as sa

from fleet.db.tables.base import METADATA, NAME, UUID, HeldJSON, Timestamp, number
from fleet.json_codec import JSONList, JSONObject
from fleet.objects.plans import MovePlan, StoredFailure

#: Moves of instances (``fleet.move_states``). A record may hold a claim on ``held_host``, besides that of its instance.
migrations = sa.Table(
    "migrations",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), nullable=False, index=True),
    sa.Column("migration_type", sa.String(32), nullable=False),
    sa.Column("status", sa.String(32), nullable=False, index=True),
    number("attempt"),
    sa.Column("source_compute", NAME, nullable=False),
    sa.Column("source_node", NAME, nullable=False),
    sa.Column("dest_compute", NAME),
    sa.Column("dest_node", NAME),
    #: Spec of the flavor before and after: flavor, numa_topology, pci_requests.
    sa.Column("old_spec", sa.JSON, nullable=False),
    sa.Column("new_spec", sa.JSON, nullable=False),
    #: A ``MovePlan``: what the move was asked for, the scheduler's choices, and the attempts that failed.
    sa.Column("plan", sa.JSON, nullable=False),
    sa.Column("held_host", NAME),
    sa.Column("held_node", NAME),
    number("claimed_vcpus"),
    number("claimed_memory_mb"),
    number("claimed_disk_gb"),
    sa.Column("claimed_numa_topology", HeldJSON),
    sa.Column("claimed_pci_devices", HeldJSON),
    #: Why the move failed or is being undone: error, message, details.
    sa.Column("failure", HeldJSON),
    sa.Column("deadline", Timestamp),
    sa.Column("step_deadline", Timestamp),
    sa.Column("request_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.Column("updated_at", Timestamp),
    sa.Index(None, "held_host", "held_node"),
)


class MigrationRow(Protocol):
    """A row of migrations."""

    uuid: str
    instance_uuid: str
    migration_type: str
    status: str
    attempt: int
    source_compute: str
    source_node: str
    dest_compute: str | None
    dest_node: str | None
    old_spec: JSONObject
    new_spec: JSONObject
    plan: MovePlan
    held_host: str | None
    held_node: str | None
    claimed_vcpus: int
    claimed_memory_mb: int
    claimed_disk_gb: int
    claimed_numa_topology: JSONObject | None
    claimed_pci_devices: JSONList | None
    failure: StoredFailure | None
    deadline: datetime.datetime | None
    step_deadline: datetime.datetime | None
    request_id: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
