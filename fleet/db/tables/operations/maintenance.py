# SPDX-License-Identifier: Apache-2.0
"""Maintenances of hosts in waves (``fleet.maintenance_states``).

:mod:`fleet.db.operations.maintenances` reads and writes them.
"""

from __future__ import annotations

import datetime
from typing import Protocol

import sqlalchemy as sa

from fleet.db.tables.base import METADATA, NAME, UUID, BigId, Timestamp, number

maintenances = sa.Table(
    "maintenances",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False),
    #: The name until it has ended.
    sa.Column("open_name", NAME, unique=True),
    sa.Column("status", sa.String(16), nullable=False, index=True),
    sa.Column("paused", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    #: Of ``[maintenance] hooks``.
    sa.Column("hook", NAME),
    #: The release that an agent must have before its host counts as done.
    sa.Column("wanted_release", NAME),
    #: Guests that cannot move while they run are switched off for their moves.
    sa.Column("cold", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("moves_at_a_time", sa.Integer, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.Column("updated_at", Timestamp),
    sa.Column("ended_at", Timestamp),
)

maintenance_hosts = sa.Table(
    "maintenance_hosts",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("maintenance_uuid", sa.ForeignKey("maintenances.uuid"), nullable=False),
    sa.Column("host", NAME, nullable=False),
    #: The host until it has ended: it is in one maintenance at a time.
    sa.Column("open_host", NAME, unique=True),
    sa.Column("wave", sa.Integer, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    #: The life of the agent while the host was drained.
    sa.Column("incarnation", sa.String(64)),
    #: Runs of the hook; whose the present one is, and until when no other conductor begins one.
    number("attempt"),
    sa.Column("lease", UUID),
    sa.Column("lease_until", Timestamp),
    #: What it waits for.
    sa.Column("problem", sa.Text),
    sa.Column("began_at", Timestamp),
    sa.Column("emptied_at", Timestamp),
    sa.Column("worked_at", Timestamp),
    sa.Column("ended_at", Timestamp),
    sa.Column("updated_at", Timestamp),
    sa.UniqueConstraint("maintenance_uuid", "host"),
)

#: Where the plan sends the guests of a host.
maintenance_guests = sa.Table(
    "maintenance_guests",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("maintenance_uuid", sa.ForeignKey("maintenances.uuid"), nullable=False),
    sa.Column("host", NAME, nullable=False),
    sa.Column("instance_uuid", UUID, nullable=False),
    sa.Column("destination", NAME, nullable=False),
    sa.UniqueConstraint("maintenance_uuid", "host", "instance_uuid"),
)


class MaintenanceRow(Protocol):
    """A row of maintenances."""

    uuid: str
    name: str
    open_name: str | None
    status: str
    paused: bool
    hook: str | None
    wanted_release: str | None
    cold: bool
    moves_at_a_time: int
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    ended_at: datetime.datetime | None


class MaintenanceHostRow(Protocol):
    """A row of maintenance_hosts."""

    id: int
    maintenance_uuid: str
    host: str
    open_host: str | None
    wave: int
    status: str
    incarnation: str | None
    attempt: int
    lease: str | None
    lease_until: datetime.datetime | None
    problem: str | None
    began_at: datetime.datetime | None
    emptied_at: datetime.datetime | None
    worked_at: datetime.datetime | None
    ended_at: datetime.datetime | None
    updated_at: datetime.datetime | None
