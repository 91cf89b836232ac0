# SPDX-License-Identifier: Apache-2.0
"""Table of the promises to survive a loss (``fleet.objects.tolerance``).

:mod:`fleet.db.operations.tolerances` reads and writes it.
"""

from __future__ import annotations

import datetime
from typing import Protocol

import sqlalchemy as sa

from fleet.db.tables.base import METADATA, NAME, BigId, Timestamp, number
from fleet.objects.tolerance import Kind, Policy

#: ``name`` is that of a zone, the uuid of an aggregate, or "" for the fleet.
tolerances = sa.Table(
    "tolerances",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("name", NAME, nullable=False),
    number("number"),
    sa.Column("label", sa.String(63)),
    sa.Column("policy", sa.String(8), nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.Column("updated_at", Timestamp),
    sa.UniqueConstraint("kind", "name"),
)


class ToleranceRow(Protocol):
    """A row of tolerances."""

    id: int
    kind: Kind
    name: str
    number: int
    label: str | None
    policy: Policy
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
