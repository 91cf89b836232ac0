# SPDX-License-Identifier: Apache-2.0
"""Table of the acts of administrators. :mod:`fleet.db.upkeep.acts` reads and writes it."""

from __future__ import annotations

import datetime
from typing import Protocol

import sqlalchemy as sa

from fleet.db.tables.base import METADATA, NAME, UUID, BigId, Timestamp
from fleet.json_codec import JSONObject

#: ``changes`` has a pair of values for each field that differs: before and after. ``act_key`` marks one act: a transaction
#: that is repeated finds it.
administrative_acts = sa.Table(
    "administrative_acts",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("act_key", UUID, nullable=False, unique=True),
    sa.Column("act", sa.String(64), nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("changes", sa.JSON, nullable=False),
    sa.Column("user_id", NAME),
    sa.Column("project_id", NAME),
    sa.Column("request_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False, index=True),
)


class ActRow(Protocol):
    """A row of administrative_acts."""

    id: int
    act_key: str
    act: str
    subject: str
    changes: JSONObject
    user_id: str | None
    project_id: str | None
    request_id: str | None
    created_at: datetime.datetime


class AcceptedBuild(Protocol):
    """An instance and the request that created it."""

    uuid: str
    name: str
    user_id: str | None
    project_id: str | None
    request_id: str | None
    created_at: datetime.datetime
