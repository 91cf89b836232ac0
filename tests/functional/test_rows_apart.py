# SPDX-License-Identifier: Apache-2.0
"""A row whose work fails, by a bug or by what is stored in it, does not hold up the others of a round."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from conductor_stub.moves import sweeper as move_sweeper
from conductor_stub.power import sweeper as power_sweeper
from conductor_stub.steps import apart
from conductor_stub.steps.limits import StepLimits
from conductor_stub.volumes import sweeper as volume_sweeper
from fleet import errors
from fleet.db.engine.database import Database
from fleet.telemetry.rate_limited_log import RateLimit
from tests.worlds.guests import Guests
from tests.worlds.volumes import A

pytestmark = pytest.mark.on_sqlite

LIMITS = StepLimits()


@pytest.fixture
def world(database: Database, monkeypatch: pytest.MonkeyPatch) -> Guests:
    """Two of each kind in a step: waiting builds, guests that are being stopped, volumes, and moves."""
    monkeypatch.setattr(apart, "_failures", RateLimit())
    world = Guests(database)
    for number in range(2):
        world.operator.stop_instance(world.guest("h1", f"stopping{number}"))
        world.operator.migrate_instance(world.guest("h1", f"moving{number}"))
        world.ask(A, name=f"volume{number}")
    for number in range(2):
        world.create(name=f"waiting{number}")
    return world


def _uuid(rows: Any) -> str:
    return str(rows[0].uuid if isinstance(rows, list) else rows.uuid)


class Broken:
    """Fails for the first row that it sees."""

    def __init__(self, real: Any, failure: Exception) -> None:
        self.real, self.failure = real, failure
        self.seen: list[str] = []

    def __call__(self, *args: Any) -> Any:
        self.seen.append(_uuid(args[-1]))
        if self.seen[0] == self.seen[-1]:
            raise self.failure
        return self.real(*args)


@pytest.mark.parametrize(
    ("sweeper", "sweep", "step", "late_s"),
    [
        ("sweeper", "end_overdue", "_end", LIMITS.build_timeout_s),
        ("sweeper", "retry_lost", "_hand_out_again", LIMITS.placing_timeout_s),
        ("power_sweeper", "sweep", "_end", LIMITS.build_timeout_s),
        ("volume_sweeper", "sweep", "_go_on", LIMITS.build_timeout_s),
        ("move_sweeper", "sweep", "_end", LIMITS.build_timeout_s),
    ],
)
def test_one_row_fails(
    world: Guests,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    sweeper: str,
    sweep: str,
    step: str,
    late_s: float,
) -> None:
    """The other row has its turn, and the log has the reason once a minute."""
    world.clock.advance(late_s)
    found = getattr(world, sweeper)
    broken = Broken(getattr(found, step), ValueError("what is stored is odd"))
    monkeypatch.setattr(found, step, broken)
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            getattr(found, sweep)()
    first, second = broken.seen[:2]
    assert first != second
    assert [f"The sweep of row {first} failed; the others go on: ValueError: what is stored is odd"] == caplog.messages


@pytest.mark.parametrize(
    ("sweeper", "module", "step"),
    [
        ("power_sweeper", power_sweeper, "_again"),
        ("volume_sweeper", volume_sweeper, "_go_on"),
        ("move_sweeper", move_sweeper, "_hand_out_again"),
    ],
)
def test_rows_that_fail_fill_no_sweep(
    world: Guests, monkeypatch: pytest.MonkeyPatch, sweeper: str, module: Any, step: str
) -> None:
    """However few rows a sweep reads: a row that has failed comes behind the others."""
    world.clock.advance(LIMITS.placing_timeout_s)
    found = getattr(world, sweeper)
    broken = Broken(getattr(found, step), ValueError("what is stored is odd"))
    monkeypatch.setattr(found, step, broken)
    monkeypatch.setattr(module, "BATCH", 1)
    for _ in range(2):
        found.sweep()
    assert 2 == len({*broken.seen})


def test_a_database_that_is_away_ends_the_round(world: Guests, monkeypatch: pytest.MonkeyPatch) -> None:
    """It meets all rows, and each might wait for its time limit."""
    world.clock.advance(LIMITS.build_timeout_s)
    broken = Broken(None, errors.DatabaseUnavailable(kind="lost", problem="is away"))
    monkeypatch.setattr(world.power_sweeper, "_end", broken)
    with pytest.raises(errors.DatabaseUnavailable):
        world.power_sweeper.sweep()
    assert 1 == len(broken.seen)
