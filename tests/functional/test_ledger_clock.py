# SPDX-License-Identifier: Apache-2.0
"""The database's clock on every engine, and how a daemon goes by it whatever its machine's clock shows."""

from __future__ import annotations

import datetime
import re

import pytest
import sqlalchemy as sa

from fleet import errors
from fleet.clock import seconds, utcnow
from fleet.clock.skew import ClockSkew
from fleet.db.engine import now as db_now
from fleet.db.engine.database import Database
from fleet.db.feed.feed import ChangeFeed
from fleet.db.upkeep import clock as ledger_clock
from fleet.db.upkeep.clock import LedgerClock
from tests.worlds.conductor import Conductor

pytestmark = pytest.mark.every_database

#: Test machine and test database are the same one: what differs by more is wrong by zones or units.
NEAR = seconds(60)
HOUR = datetime.timedelta(hours=1)


class Machine:
    """A machine's wall and monotonic clocks, which the test moves."""

    def __init__(self, offset: datetime.timedelta) -> None:
        self.began = utcnow()
        self.offset = offset
        self.passed_s = 0.0

    def wall(self) -> datetime.datetime:
        return self.began + self.offset + seconds(self.passed_s)

    def monotonic(self) -> float:
        return self.passed_s


class Scripted:
    """A database whose time the test sets; None: it does not answer."""

    def __init__(self, now: datetime.datetime | None) -> None:
        self.now = now
        self.readings = 0

    def read_once(self, _work: object) -> datetime.datetime:
        self.readings += 1
        if self.now is None:
            raise errors.DatabaseUnavailable(kind="DBConnectionError", problem="away")
        return self.now


def a_clock(machine: Machine, database: Scripted, **options: bool) -> LedgerClock:
    skew = ClockSkew(5.0)
    return LedgerClock(database, skew, wall=machine.wall, monotonic=machine.monotonic, **options)  # type: ignore[arg-type]


def test_every_engine_tells_its_time(database: Database) -> None:
    """In UTC, naive, as the tables keep times; each statement its own moment, also within one transaction."""

    def twice(connection: sa.Connection) -> tuple[datetime.datetime, datetime.datetime]:
        return db_now.read(connection), db_now.read(connection)

    first, second = database.read(twice)
    assert first.tzinfo is None
    assert abs(first - utcnow()) < NEAR
    assert first <= second
    assert abs(ledger_clock.of(database)() - utcnow()) < NEAR


@pytest.mark.parametrize("offset", [HOUR, -HOUR, seconds(0)])
def test_a_wrong_wall_clock_changes_nothing(offset: datetime.timedelta) -> None:
    """The reading is a second old at most; between readings the monotonic clock goes on."""
    machine = Machine(offset)
    database = Scripted(machine.began)
    clock = a_clock(machine, database)
    assert machine.began == clock()
    machine.passed_s = 0.5
    assert machine.began + seconds(0.5) == clock()
    assert 1 == database.readings
    machine.passed_s = 1.5
    database.now = machine.began + seconds(1.5)
    assert database.now == clock()
    assert 2 == database.readings
    assert bool(offset) == bool(clock.skew.problem)


def test_a_step_of_the_wall_clock_is_noticed_at_once() -> None:
    """So is a machine that slept: its wall clock has gone on, its monotonic one has not."""
    machine = Machine(seconds(0))
    database = Scripted(machine.began)
    clock = a_clock(machine, database)
    clock()
    machine.offset = HOUR
    database.now = machine.began + HOUR
    assert database.now == clock()
    assert "" == clock.skew.problem


def test_what_must_not_be_a_second_old_is_read_now() -> None:
    machine = Machine(seconds(0))
    database = Scripted(machine.began)
    clock = a_clock(machine, database)
    clock()
    database.now = machine.began + seconds(0.7)
    assert database.now == clock.fresh()


def test_a_database_that_is_away_leaves_the_last_reading() -> None:
    """The database is not queried at every call. Before the first reading the machine's clock counts."""
    machine = Machine(HOUR)
    database = Scripted(None)
    clock = a_clock(machine, database)
    assert [machine.wall()] * 3 == [clock() for _call in range(3)]
    assert 1 == database.readings
    machine.passed_s, database.now = 2.0, machine.began
    assert machine.began == clock()
    machine.passed_s, database.now = 62.0, None
    assert machine.began + seconds(60) == clock()


def test_the_feed_brings_the_time_along(database: Database) -> None:
    """A scheduler's clock costs no statement of its own."""
    machine = Machine(HOUR)
    unused = Scripted(None)
    clock = a_clock(machine, unused, reads=False)
    ChangeFeed(database, note_time=clock.note).read(0)
    assert abs(clock() - utcnow()) < NEAR
    (ahead,) = re.findall(r"([0-9.]+) s ahead of", clock.skew.problem)
    assert abs(seconds(float(ahead)) - HOUR) < NEAR
    machine.passed_s = 100.0
    clock()
    assert 0 == unused.readings


def test_a_conductor_with_a_wrong_clock_evacuates_nobody(database: Database) -> None:
    """The call is refused, the client calls another conductor, and nothing has changed."""
    conductor = Conductor(database)
    conductor.add_host("h1")
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    conductor.clock.advance(conductor.limits.service_down_time_s + 1)
    skew = ClockSkew(5.0)
    conductor.move_intake._require_in_step = skew.require_in_step
    skew.note(60.0)
    with pytest.raises(errors.ClockSkewed):
        conductor.operator.evacuate_instance(uuid)
    skew.note(0.0)
    assert "accepted" == conductor.operator.evacuate_instance(uuid)["status"]
