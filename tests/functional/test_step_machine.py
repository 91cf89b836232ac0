# SPDX-License-Identifier: Apache-2.0
"""Builds and moves are rows of one machine: on every database a step is taken once, and only by its owner."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest

from conductor_stub.builds.machine import BuildMachine
from conductor_stub.moves.machine import Move, MoveMachine
from conductor_stub.steps.limits import StepContext
from conductor_stub.steps.machine import PlacedRow
from fleet import errors
from fleet.clock import seconds
from fleet.db.engine.database import Database
from fleet.db.tables import models
from tests.functional.test_moves import LARGE, Stage
from tests.worlds.conductor import Conductor, context


class Row:
    """A row that waits at its first attempt."""

    def __init__(self, conductor: Conductor, machine: PlacedRow[Any, Any], uuid: str) -> None:
        self.conductor, self.machine, self.uuid = conductor, machine, uuid

    def write(self, method: str, *arguments: Any) -> Any:
        ctx = StepContext(self.conductor.limits, self.conductor.clock(), "req-1")
        return self.conductor.database.write(getattr(self.machine, method), *arguments, ctx)

    def take(self, attempt: int = 1) -> list[Any]:
        return self.write("take", [self.uuid], attempt)

    def put_back(self, attempt: int = 1) -> list[Any]:
        return self.write("put_back", [self.uuid], attempt, self.conductor.clock() + seconds(5))

    def refuse(self, attempt: int = 1) -> list[Any]:
        return self.write("refuse", [self.uuid], attempt, errors.NoValidHost(reason="no host"))

    def read(self) -> Any:
        return self.conductor.database.write(lambda tx: self.machine.lock(tx, [self.uuid])[0])

    def status(self) -> str | None:
        return self.machine.status(self.read())

    def generation(self) -> int:
        table = models.generations
        return self.conductor.database.write(lambda tx: tx.execute(table.select()).one().value)


def a_build(database: Database) -> Row:
    conductor = Conductor(database)
    (uuid,) = conductor.create()
    return Row(conductor, BuildMachine(), uuid)


def a_move(database: Database) -> Row:
    stage = Stage(database)
    uuid = stage.operator.resize_instance(stage.uuid, LARGE)["uuid"]
    return Row(stage.conductor, MoveMachine(), uuid)


@pytest.fixture(params=[a_build, a_move])
def row(request: pytest.FixtureRequest, database: Database) -> Row:
    make: Callable[[Database], Row] = request.param
    return make(database)


def test_a_row_goes_round(row: Row) -> None:
    """Taken, put back, taken again, refused: the status follows, and each step is repeated without effect."""
    waiting, placing = row.machine.unclaimed
    for work, status in ((row.take, placing), (row.put_back, waiting), (row.take, placing), (row.refuse, None)):
        assert [1, 0] == [len(work()), len(work())]
        assert status == row.status()


def test_another_attempt_changes_nothing(row: Row) -> None:
    """Nor does it advance the generation: schedulers have nothing to read."""
    before = row.generation()
    assert [[], [], []] == [row.take(2), row.put_back(2), row.refuse(2)]
    assert (row.machine.waiting, before) == (row.status(), row.generation())


def test_of_many_conductors_one_takes_the_row(row: Row) -> None:
    """All have received the same message."""
    with futures.ThreadPoolExecutor(4) as conductors:
        taken = [len(each.result()) for each in [conductors.submit(row.take) for _conductor in range(8)]]
    assert 1 == sum(taken)


def test_of_two_sweepers_one_postpones_the_row(row: Row) -> None:
    """Both have read the step as overdue; what has moved on since is left alone."""
    row.take()
    row.conductor.clock.advance(row.conductor.limits.placing_timeout_s + 1)
    seen = row.read()
    assert [1, 0] == [len(row.write("postpone", [seen])) for _sweeper in range(2)]
    assert row.machine.waiting == row.status()


def test_a_row_past_its_deadline_ends(row: Row) -> None:
    """Once, and not before."""
    assert row.write("time_out", row.uuid) is None
    row.conductor.clock.advance(3600)
    assert row.write("time_out", row.uuid) is not None
    assert row.write("time_out", row.uuid) is None
    assert row.status() is None


def test_a_deleted_row_is_not_taken(row: Row) -> None:
    """Its instance is being deleted, or is gone."""
    found = row.read()
    uuid = found.instance.uuid if isinstance(found, Move) else found.uuid
    row.conductor.termination.terminate(context(), [uuid])
    assert [[], [], []] == [row.take(), row.put_back(), row.refuse()]
    assert row.status() is None


def test_an_unknown_row_is_not_taken(database: Database) -> None:
    """A message may arrive after its row was purged."""
    assert [] == Row(Conductor(database), BuildMachine(), "00000000-0000-0000-0000-000000000000").take()
