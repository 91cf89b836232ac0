# SPDX-License-Identifier: Apache-2.0
"""The statements of what runs every few seconds follow an index: their cost does not grow with the instances of a fleet."""

from __future__ import annotations

import contextlib
import pathlib
import types
from collections.abc import Iterator
from typing import Any, cast

import pytest
import sqlalchemy as sa

from fleet.db.engine.database import Database
from fleet.db.operations import maintenances
from tests.functional import databases, test_recovery
from tests.functional.test_balance import BalanceStage
from tests.worlds.conductor import Conductor


@pytest.fixture
def database(tmp_path: pathlib.Path) -> Iterator[Database]:
    """Of SQLite, whose planner chooses the same way in an empty table."""
    with databases.open_database(f"sqlite:///{tmp_path}/plans.db").disposed() as database:
        yield database


@contextlib.contextmanager
def explained(database: Database) -> Iterator[list[str]]:
    """Yield the plans of the statements that read or change rows within this context."""
    plans: list[str] = []

    def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, *_more: Any) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE")):
            plans.extend(row[-1] for row in cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters))

    sa.event.listen(database.engine, "after_cursor_execute", explain)
    yield plans
    sa.event.remove(database.engine, "after_cursor_execute", explain)


def scans(plans: list[str], *tables: str) -> list[str]:
    return [plan for plan in plans if plan.startswith(tuple(f"SCAN {table}" for table in tables))]


def test_sweeps_read_no_instance_with_which_nothing_is_done(database: Database) -> None:
    conductor = Conductor(database)
    with explained(database) as plans:
        conductor.sweeper.end_overdue()
        conductor.sweeper.retry_lost()
        conductor.power_sweeper.sweep()
        conductor.move_sweeper.sweep()
        conductor.attachment_sweeper.sweep()
    assert any("SEARCH instances" in plan for plan in plans)
    assert [] == scans(plans, "instances")


def test_maintenance_and_balancing_read_the_instances_and_moves_of_their_hosts(database: Database) -> None:
    stage = BalanceStage(database)
    stage.set_mode("auto")
    stage.run(["h1", "h2"])
    with explained(database) as plans:
        stage.look(2)
        stage.keep()
    assert {"h1": "draining", "h2": "draining"} == stage.hosts()
    assert any("SEARCH migrations" in plan for plan in plans)
    assert [] == scans(plans, "instances", "migrations", "balance_rounds")


def test_the_progress_of_a_maintenance_is_read_by_indexes(database: Database) -> None:
    """Pages and commands ask for it every few seconds."""
    stage = BalanceStage(database)
    stage.run(["h1", "h2"])
    stage.look(2)
    with explained(database) as plans:
        assert stage.shown()["hosts"][0]["guests"]
    assert any("SEARCH migrations" in plan for plan in plans)
    assert [] == scans(plans, "instances", "migrations", "maintenance_guests", "administrative_acts")


def test_a_recovery_reads_no_guest_of_another_one(database: Database) -> None:
    stage = test_recovery.Stage(database)
    stage.lose("h1")
    stage.conductor.run_fences()
    with explained(database) as plans:
        stage.go_on(2, "h1")
    assert 2 == stage.statuses().count("moving")
    assert any("SEARCH recovery_guests" in plan for plan in plans)
    assert [] == scans(plans, "instances", "migrations", "recovery_guests")


def test_the_removal_of_a_group_reads_the_requests_of_its_members(database: Database) -> None:
    """Each member of a project makes and removes groups as often as it likes."""
    conductor = Conductor(database)
    conductor.add_host("h1")
    conductor.operator.create_group("web", "affinity", 1)
    uuids = [conductor.place("h1", group="web"), conductor.place("h1")]
    conductor.operator.create_group("other", "affinity", 1)
    uuids.append(conductor.place("h1", group="other"))
    with explained(database) as plans:
        conductor.operator.delete_group("web")
    groups = [conductor.operator.show_instance(uuid)["instance"]["group_uuid"] for uuid in uuids]
    assert [False, False, True] == [group is not None for group in groups]
    assert any("SEARCH build_requests" in plan for plan in plans)
    assert [] == scans(plans, "build_requests", "instances", "instance_group_members")


def test_a_look_reads_the_hosts_of_the_present_wave(database: Database) -> None:
    """A maintenance may have all hosts of the fleet, and each conductor looks every two seconds."""
    stage = BalanceStage(database)
    stage.run(["h2"], ["h3"], ["h1", "h4"])
    (plan,) = database.read(maintenances.going_on)
    read: list[str] = []

    class Counted:
        """A connection that notes the hosts of the rows that it returns."""

        def __init__(self, connection: sa.Connection) -> None:
            self._connection = connection

        def execute(self, *asked: Any) -> Any:
            rows = self._connection.execute(*asked).all()
            read.extend(row.host for row in rows)
            return types.SimpleNamespace(all=lambda: rows)

    database.read(lambda connection: maintenances.wave(cast("sa.Connection", Counted(connection)), plan.uuid))
    assert ["h2"] == read
