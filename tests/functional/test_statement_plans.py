# SPDX-License-Identifier: Apache-2.0
"""The statements of what runs every few seconds follow an index: their cost does not grow with the instances of a fleet."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional import databases
from tests.worlds.conductor import Conductor


@pytest.fixture
def conductor(tmp_path: pathlib.Path) -> Iterator[Conductor]:
    """Of SQLite, whose planner chooses the same way in an empty table."""
    with databases.open_database(f"sqlite:///{tmp_path}/plans.db").disposed() as database:
        yield Conductor(database)


def test_sweeps_read_no_instance_with_which_nothing_is_done(conductor: Conductor) -> None:
    plans: list[str] = []
    engine = conductor.database.engine

    def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, *_more: Any) -> None:
        if statement.startswith("SELECT"):
            plans.extend(row[-1] for row in cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters))

    sa.event.listen(engine, "after_cursor_execute", explain)
    conductor.sweeper.end_overdue()
    conductor.sweeper.retry_lost()
    conductor.power_sweeper.sweep()
    conductor.move_sweeper.sweep()
    conductor.attachment_sweeper.sweep()
    assert any("SEARCH instances" in plan for plan in plans)
    assert [] == [plan for plan in plans if plan.startswith("SCAN instances")]
