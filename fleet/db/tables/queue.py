# SPDX-License-Identifier: Apache-2.0
"""Builds that wait for room. :mod:`fleet.db.instances.waiting.room_queue` reads and writes them."""

from __future__ import annotations

import datetime
from typing import Protocol

import sqlalchemy as sa

from fleet.db.tables.base import METADATA, NAME, UUID, Timestamp, generation, number

#: What queued builds (``fleet.states``) wait for, from when such a build is first queued until a later one cleans up.
queued_builds = sa.Table(
    "queued_builds",
    METADATA,
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), primary_key=True),
    sa.Column("queued_at", Timestamp, nullable=False),
    sa.Column("wait_until", Timestamp, nullable=False),
    #: When a conductor next acts on it; NULL while it is not queued.
    sa.Column("due_at", Timestamp, index=True),
    #: Of the newest refusal: its code, its sentence, what the nearest host lacks, and the generation that it knew.
    sa.Column("reason", sa.String(32), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("lacks", sa.Text),
    #: The host that lacks the least, if it could take the build when it is emptier.
    sa.Column("nearest", NAME),
    generation("refused_generation"),
    #: Whether no pass of the room queue has seen it since.
    sa.Column("fresh", sa.Boolean, nullable=False, default=True, server_default=sa.true(), index=True),
    #: Whether freed room could help, or only another host or aggregate; and the room that filters have tested.
    sa.Column("by_room", sa.Boolean, nullable=False, default=True, server_default=sa.true()),
    number("need_vcpus"),
    number("need_memory_mb"),
    number("need_disk_gb"),
    #: Hash of what decides about hosts. The scheduler answers alike for builds of one shape.
    sa.Column("shape", sa.String(64), nullable=False, default="", server_default="", index=True),
    #: Whether all builds of the request that are queued must be placed together.
    sa.Column("together", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    #: How often in a row builds of the shape were woken in vain, and until when none is.
    number("misses"),
    sa.Column("not_before", Timestamp),
    #: The node whose room has woken it, and after how many others in vain.
    sa.Column("woken_for", sa.BigInteger),
    number("depth"),
)


class QueuedRow(Protocol):
    """A row of queued_builds."""

    instance_uuid: str
    queued_at: datetime.datetime
    wait_until: datetime.datetime
    due_at: datetime.datetime | None
    reason: str
    message: str
    lacks: str | None
    nearest: str | None
    refused_generation: int
    fresh: bool
    by_room: bool
    need_vcpus: int
    need_memory_mb: int
    need_disk_gb: int
    shape: str
    together: bool
    misses: int
    not_before: datetime.datetime | None
    woken_for: int | None
    depth: int


#: One row: the generation up to which changes have woken queued builds. Its lock lets one conductor wake at a time.
#: ``kept_host`` takes no builds of other requests than ``kept_for``.
room_queue = sa.Table(
    "room_queue",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    generation("generation"),
    sa.Column("looked_at", Timestamp, nullable=False),
    sa.Column("kept_host", NAME),
    sa.Column("kept_for", UUID),
)


class RoomQueueRow(Protocol):
    """The row of room_queue."""

    id: int
    generation: int
    looked_at: datetime.datetime
    kept_host: str | None
    kept_for: str | None


#: When a build of each project was last woken, so that projects take turns.
queue_turns = sa.Table(
    "queue_turns",
    METADATA,
    sa.Column("project_id", NAME, primary_key=True),
    sa.Column("served_at", Timestamp, nullable=False),
)
