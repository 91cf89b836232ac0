# SPDX-License-Identifier: Apache-2.0
"""The hosts that are down, and those that count in the share of silent hosts, as the database finds them."""

from __future__ import annotations

import dataclasses
import datetime
import itertools

import pytest
import sqlalchemy as sa

from fleet.clock import seconds
from fleet.db.engine.database import Database
from fleet.db.hosts import services
from fleet.db.operations import silence
from fleet.db.tables import models
from fleet.objects import host_report

pytestmark = pytest.mark.every_database

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, 600_000)
DOWN_TIME_S = 60.0
#: Seconds since the last heartbeat; None: its agent was stopped.
HEARD = (None, 0.0, 59.999, 60.0, 60.001, 86_400.0, -60.0, -60.001)
#: Whether it is disabled, why, and whether it counts.
DISABLED = (
    (False, None, True),
    (True, None, False),
    (True, "repair", False),
    (True, "auto: by hand", False),
    (True, f"{host_report.AUTO}its disk is full", True),
)


@dataclasses.dataclass(frozen=True)
class Agent:
    last_seen_up: datetime.datetime | None
    forced_down: bool


def test_each_kind_of_agent(database: Database) -> None:
    """The agents that are down are those that ``services.is_up`` says are, and no other rows are read."""
    rows, down, counts = [], {}, 0
    for heard, forced, (disabled, why, if_heard) in itertools.product(HEARD, (False, True), DISABLED):
        seen = None if heard is None else NOW - seconds(heard)
        host = f"h{len(rows):03}"
        rows.append(
            {"host": host, "last_seen_up": seen, "forced_down": forced, "disabled": disabled, "disabled_reason": why}
        )
        counted = if_heard and seen is not None and not forced
        counts += counted
        if not services.is_up(Agent(seen, forced), NOW, DOWN_TIME_S):
            down[host] = counted
    more = {"binary": services.COMPUTE, "topic": "compute", "created_at": NOW, "updated_at": NOW}
    with database.engine.begin() as connection:
        connection.execute(sa.insert(models.services), [{**row, **more} for row in rows])
    found = database.read(silence.down_agents, NOW, DOWN_TIME_S)
    assert down == {each.host: bool(each.counts) for each in found}
    assert counts == database.read(silence.counted)
    assert len(rows) - counts == len(database.read(silence.uncounted))
