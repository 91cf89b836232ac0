# SPDX-License-Identifier: Apache-2.0
"""The progress of a maintenance: guests that are left on its hosts, and the time that its waves may still take."""

from __future__ import annotations

import datetime
import types
from typing import Any

import pytest

from conductor_stub.maintenance import progress
from fleet.clock import seconds
from fleet.db.engine.database import Database
from fleet.db.operations import maintenance_progress, maintenances
from fleet.db.operations.maintenance_progress import Span
from tests.functional.test_maintenance import Stage

NOON = datetime.datetime(2026, 1, 1, 12)


def minutes(count: float) -> datetime.datetime:
    return NOON + seconds(60 * count)


def host(name: str, wave: int, status: str = "waiting", *times: float) -> Any:
    """:param times: minutes after noon: when it began, was empty and ended"""
    began, emptied, ended = (*map(minutes, times), None, None, None)[:3]
    is_open = None if status in ("done", "skipped") else name
    moments = {"began_at": began, "emptied_at": emptied, "ended_at": ended}
    return types.SimpleNamespace(host=name, wave=wave, status=status, open_host=is_open, **moments)


#: Without guests in the plan each host counts once. Two hosts are empty after 4 minutes, and back after 10.
FIRST = [host("a1", 1, "done", 0, 2, 9), host("a2", 1, "done", 1, 4, 10)]


def estimated(hosts: list[Any], now: float, pauses: tuple[Span, ...] = (), **planned: int) -> Any:
    plan: Any = types.SimpleNamespace(paused=False)
    found = progress.estimate(plan, hosts, planned, pauses, minutes(now))
    return None if found is None else tuple(each / 60 for each in found.values())


@pytest.mark.parametrize(
    ("hosts", "now", "planned", "expected"),
    [
        pytest.param([FIRST[0], host("a2", 1, "draining", 0)], 9, {}, None, id="no wave has ended"),
        pytest.param(FIRST, 11, {}, None, id="all have ended"),
        # Left, of the wave, gone.
        pytest.param([*FIRST, host("b1", 2), host("b2", 2)], 10, {}, (10, 10, 0), id="a wave like the first one"),
        pytest.param(
            [*FIRST, host("b1", 2, "draining", 10), host("b2", 2)], 13, {}, (7, 10, 3), id="three minutes are gone"
        ),
        pytest.param(
            [*FIRST, host("b1", 2, "draining", 10), host("b2", 3)], 30, {}, (8, 8, 20), id="late: 2 + 6 for b2"
        ),
        pytest.param([*FIRST, host("b1", 2)], 10, {}, (8, 8, 0), id="half as many hosts: 2 + 6"),
        # A minute for each guest and host; then five hosts' worth of b1, and the rest of 6.
        pytest.param([*FIRST, host("b1", 2)], 10, {"a1": 1, "a2": 1, "b1": 4}, (11, 11, 0), id="more guests: 5 + 6"),
        pytest.param(
            [host("s", 1, "skipped", 0, 1, 90), *FIRST, host("b1", 2)], 10, {}, (8, 8, 0), id="one was skipped"
        ),
        pytest.param([host("s", 1, "skipped"), host("b1", 2)], 10, {}, None, id="none is done"),
    ],
)
def test_the_time_that_is_left(hosts: list[Any], now: float, planned: dict[str, int], expected: Any) -> None:
    assert expected == estimated(hosts, now, **planned)


def test_a_pause_is_no_work() -> None:
    """The first wave was paused for eight hours, a part of them while guests left; the present one still is, for a while."""
    night = 8 * 60
    paused = [host("a1", 1, "done", 0, 4 + night, 10 + night)]
    pause = Span(minutes(2), minutes(2 + night))
    assert (10, 10, 0) == estimated([*paused, host("b1", 2)], 10 + night, (pause,))
    begun, again = host("b1", 2, "draining", 500), Span(minutes(501), minutes(505))
    assert (7, 10, 3) == estimated([*paused, begun], 507, (pause, again))


def test_the_slowest_wave_does_not_count_for_all() -> None:
    """Its hook had failed at night."""
    ended = [host("a1", 1, "done", 0, 1, 3), host("b1", 2, "done", 3, 4, 500), host("c1", 3, "done", 500, 501, 503)]
    assert (3, 3, 0) == estimated([*ended, host("d1", 4)], 503)


@pytest.fixture
def stage(database: Database) -> Stage:
    return Stage(database)


def test_guests_that_are_left(stage: Stage) -> None:
    """Those in the plan, those still there, and those that are moving; of no host that is not drained."""
    guests = [stage.add("h1") for _ in range(3)]
    stage.run(["h1"], ["h2"], moves_at_a_time=2, destinations={"h1": dict.fromkeys(guests, "h3")})
    seen = []
    for _ in range(3):
        stage.look(2)
        (h1, h2) = stage.shown()["hosts"]
        seen.append(h1["guests"])
        assert h2["guests"] is None
        stage.arrive("h3", "h3")
    expected = [{"left": left, "total": 3, "moving": moving} for left, moving in ((3, 2), (1, 1))]
    assert [*expected, None] == seen


def test_guests_that_no_plan_names(stage: Stage) -> None:
    stage.add("h1")
    stage.run(["h1"])
    stage.look()
    assert {"left": 1, "total": 1, "moving": 0} == stage.shown()["hosts"][0]["guests"]


def test_the_pauses_of_a_maintenance(stage: Stage, database: Database) -> None:
    """Each with its beginning and its end; those of others, and of an earlier one with its name, are not its own."""
    operator, clock = stage.conductor.operator, stage.conductor.clock
    stage.run(["h1"])
    operator.pause_maintenance("kernel", True)
    operator.cancel_maintenance("kernel")
    clock.advance(60)
    uuid = stage.run(["h1"])["maintenance"]["uuid"]
    operator.create_maintenance({"name": "other", "waves": [["h2"]]})
    moments = []
    for paused in (True, True, False, False, True):
        clock.advance(60)
        moments.append(clock())
        operator.pause_maintenance("kernel", paused)
        operator.pause_maintenance("other", not paused)
    row = database.read(maintenances.get, uuid)
    assert [(moments[0], moments[2]), (moments[4], None)] == database.read(maintenance_progress.pauses, row)


def test_an_estimate_is_shown(stage: Stage) -> None:
    stage.run(["h1"], ["h2"], hook="reboot")
    stage.look()
    stage.later(60)
    stage.look()
    assert stage.shown()["estimate"] is None
    stage.conductor.run_fences()
    for _ in range(3):
        stage.later(5)
    assert {"h1": "done", "h2": "draining"} == stage.hosts()
    found = stage.shown()["estimate"]
    assert (found["wave_s"], 0) == (found["left_s"], found["wave_gone_s"])
    assert 60 < found["wave_s"] < 90
    stage.conductor.operator.pause_maintenance("kernel", True)
    assert stage.shown()["estimate"] is None
