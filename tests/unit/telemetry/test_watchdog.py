# SPDX-License-Identifier: Apache-2.0
"""Ready while round trips succeed; stuck, and gone, when none has for too long though it could."""

from __future__ import annotations

import logging
import pathlib
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fleet.telemetry.watchdog import EXIT_STUCK, Watchdog


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Broker:
    """A part that can be broken."""

    broken = False
    trips = 0

    def __call__(self) -> None:
        self.trips += 1
        if self.broken:
            raise ConnectionError("the broker is away")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def watchdog(
    clock: Clock, probe: Callable[[], object], reachable: bool = True, stuck_s: float = 300
) -> tuple[Watchdog, list[int]]:
    exits: list[int] = []
    made = Watchdog(
        {"broker": probe}, 10, 30, stuck_s, clock=clock, exit_=exits.append, reachable={"broker": lambda: reachable}
    )
    return made, exits


def test_ready_follows_the_round_trips(clock: Clock) -> None:
    """Not ready before the first, ready after it, not while the newest has failed, and ready again."""
    broker = Broker()
    watch, _exits = watchdog(clock, broker)
    seen = [watch.ready]
    for broken in (False, True, False):
        broker.broken = broken
        watch.go_round("broker")
        seen.append(watch.ready)
    assert [False, True, False, True] == seen


def test_a_round_trip_that_does_not_end_is_a_failure(clock: Clock) -> None:
    """After the limit the daemon is not ready; the detail has the duration."""
    hold, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        hold.wait(10)

    watch, _exits = watchdog(clock, Broker())
    watch.go_round("broker")
    watch._parts["broker"].probe = hang
    thread = threading.Thread(target=watch.go_round, args=("broker",))
    thread.start()
    assert begun.wait(10)
    clock.now += 29
    assert watch.ready
    clock.now += 2
    assert not watch.ready
    assert "a round trip has not ended for 31 s" == watch.detail()["parts"]["broker"]["problem"]
    hold.set()
    thread.join(10)


@pytest.mark.parametrize(
    ("failing_s", "reachable", "stuck_s", "expected"),
    [
        pytest.param(299, True, 300, [], id="not for long enough"),
        pytest.param(301, True, 300, [EXIT_STUCK], id="too long, though the broker answers"),
        pytest.param(301, False, 300, [], id="the broker is away: to start again would not help"),
        pytest.param(9999, True, 0, [], id="switched off"),
    ],
)
def test_a_stuck_daemon_exits(clock: Clock, failing_s: int, reachable: bool, stuck_s: int, expected: list[int]) -> None:
    """Only if broker and database answer other programs and its own round trips fail."""
    broker = Broker()
    broker.broken = True
    watch, exits = watchdog(clock, broker, reachable, stuck_s)
    watch.go_round("broker")
    watch.look()
    clock.now += failing_s
    watch.go_round("broker")
    watch.look()
    assert expected == exits


def test_an_outage_of_the_broker_does_not_count(clock: Clock) -> None:
    """A daemon gets the whole limit after the broker has returned, however long the broker was away."""
    broker, returned, exits = Broker(), threading.Event(), list[int]()
    broker.broken = True
    watch = Watchdog(
        {"broker": broker}, 10, 30, 300, clock=clock, exit_=exits.append, reachable={"broker": returned.is_set}
    )
    for _look in range(80):  # 400 s
        watch.go_round("broker")
        watch.look()
        clock.now += 5
    returned.set()
    for _look in range(60):  # 295 s from the first look to the last
        watch.go_round("broker")
        watch.look()
        clock.now += 5
    assert [] == exits
    clock.now += 5
    watch.look()
    assert [EXIT_STUCK] == exits


def test_a_database_that_is_away_is_waited_for(clock: Clock) -> None:
    """The broker answers and the database does not: the daemon is not ready and keeps running."""
    database = Broker()
    database.broken = True
    exits: list[int] = []
    parts = {"broker": Broker(), "database": database}
    watch = Watchdog(parts, 10, 30, 300, clock=clock, exit_=exits.append, reachable={"broker": lambda: True})
    for _round in range(2):
        for name in parts:
            watch.go_round(name)
        watch.look()
        clock.now += 301
        watch.go_round("broker")
    watch.look()
    assert (False, True, []) == (watch.ready, watch.live, exits)


def test_one_success_is_enough(clock: Clock) -> None:
    """Time counts from the first failure after a success."""
    broker = Broker()
    watch, exits = watchdog(clock, broker)
    for broken in (True, False, True):
        broker.broken = broken
        watch.go_round("broker")
        watch.look()
        clock.now += 200
    watch.look()
    assert [] == exits


def test_one_line_when_it_fails_and_one_when_it_works_again(clock: Clock, caplog: Any) -> None:
    """The number of checks in between does not matter."""
    broker = Broker()
    watch, _exits = watchdog(clock, broker)
    with caplog.at_level(logging.INFO):
        for broken in (False, True, True, True, False, False):
            broker.broken = broken
            watch.go_round("broker")
            watch.look()
    assert [
        ("WARNING", "Not ready: broker: ConnectionError: the broker is away"),
        ("INFO", "broker can be reached again"),
    ] == [(record.levelname, record.getMessage()) for record in caplog.records]


def test_a_start_takes_its_time(clock: Clock, caplog: Any) -> None:
    """What is not there yet is not worth a warning before a round trip may have failed."""
    broker = Broker()
    broker.broken = True
    watch, _exits = watchdog(clock, broker)
    warned = []
    for _look in range(3):
        watch.go_round("broker")
        watch.look()
        warned.append([record.getMessage() for record in caplog.records])
        clock.now += 20
    assert [[], [], ["Not ready: broker: ConnectionError: the broker is away"]] == warned


def test_systemd_is_told(clock: Clock, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd gets signs of life and the failure's text; a stuck daemon sends nothing more."""
    broker = Broker()
    watch, _exits = watchdog(clock, broker)
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        told = []
        for broken in (False, True):
            broker.broken = broken
            watch.go_round("broker")
            watch.look()
            told.append(systemd.recv(1024).decode())
        clock.now += 301
        watch.look()
        systemd.setblocking(False)
        with pytest.raises(BlockingIOError):
            systemd.recv(1024)
    assert [
        "WATCHDOG=1\nSTATUS=ready",
        "WATCHDOG=1\nSTATUS=not ready: broker: ConnectionError: the broker is away",
    ] == told
