# SPDX-License-Identifier: Apache-2.0
"""Recoveries of hosts that are down (``fleet.recovery_states``).

The room :mod:`conductor_stub.recovery` reads and writes them.
"""

from __future__ import annotations

import datetime
from typing import Protocol

import sqlalchemy as sa

from fleet.db.tables.base import METADATA, NAME, UUID, BigId, Timestamp, number

#: A host is recovered once at a time: ``open_host`` is its name until the recovery has ended, and unique.
recoveries = sa.Table(
    "recoveries",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("host", NAME, nullable=False, index=True),
    sa.Column("open_host", NAME, unique=True),
    sa.Column("status", sa.String(16), nullable=False, index=True),
    #: An operator has paused it; an operator has asked for it, so that a silence of many hosts does not stop it.
    sa.Column("paused", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("asked", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    #: Tries of the fence, since an operator last resumed it.
    number("attempt"),
    #: The try that is under way: whose it is, and until when no other conductor begins one.
    sa.Column("lease", UUID),
    sa.Column("lease_until", Timestamp),
    #: When a conductor next looks at it.
    sa.Column("due_at", Timestamp, nullable=False),
    sa.Column("problem", sa.Text),
    sa.Column("silent_since", Timestamp),
    sa.Column("fenced_at", Timestamp),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.Column("updated_at", Timestamp),
    sa.Column("ended_at", Timestamp),
)

#: The guests of a recovery, in their order.
recovery_guests = sa.Table(
    "recovery_guests",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("recovery_uuid", sa.ForeignKey("recoveries.uuid"), nullable=False),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), nullable=False, index=True),
    sa.Column("place", sa.Integer, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    #: The host that the plan has for it.
    sa.Column("destination", NAME),
    #: Of its newest evacuation.
    sa.Column("migration_uuid", UUID),
    number("tries"),
    sa.Column("due_at", Timestamp, nullable=False),
    sa.Column("problem", sa.Text),
    sa.Column("updated_at", Timestamp),
    sa.UniqueConstraint("recovery_uuid", "instance_uuid"),
)

#: What was done, step by step.
recovery_steps = sa.Table(
    "recovery_steps",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("recovery_uuid", sa.ForeignKey("recoveries.uuid"), nullable=False, index=True),
    sa.Column("step", sa.String(32), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
)

#: How many hosts of a domain are silent; ``name`` is a value of ``[recovery] domain_label``, and "" is the fleet. The row
#: of the fleet has the flag by which an operator pauses all recoveries; its lock bounds how many guests are moved at a time.
recovery_domains = sa.Table(
    "recovery_domains",
    METADATA,
    sa.Column("name", NAME, primary_key=True),
    number("hosts"),
    number("silent"),
    sa.Column("stopped", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("paused", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("looked_at", Timestamp, nullable=False),
    #: Conductors have looked since then without a pause, and few enough hosts were silent.
    sa.Column("calm_since", Timestamp, nullable=False),
)


class RecoveryRow(Protocol):
    """A row of recoveries."""

    uuid: str
    host: str
    open_host: str | None
    status: str
    paused: bool
    asked: bool
    attempt: int
    lease: str | None
    lease_until: datetime.datetime | None
    due_at: datetime.datetime
    problem: str | None
    silent_since: datetime.datetime | None
    fenced_at: datetime.datetime | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    ended_at: datetime.datetime | None


class RecoveryGuestRow(Protocol):
    """A row of recovery_guests."""

    id: int
    recovery_uuid: str
    instance_uuid: str
    place: int
    status: str
    destination: str | None
    migration_uuid: str | None
    tries: int
    due_at: datetime.datetime
    problem: str | None
    updated_at: datetime.datetime | None


class RecoveryStepRow(Protocol):
    """A row of recovery_steps."""

    id: int
    recovery_uuid: str
    step: str
    message: str
    created_at: datetime.datetime


class RecoveryDomainRow(Protocol):
    """A row of recovery_domains."""

    name: str
    hosts: int
    silent: int
    stopped: bool
    paused: bool
    looked_at: datetime.datetime
    calm_since: datetime.datetime
