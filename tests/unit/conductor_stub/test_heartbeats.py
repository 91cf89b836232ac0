# SPDX-License-Identifier: Apache-2.0
"""Heartbeats that arrive together are written together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import pytest

from conductor_stub.agents.heartbeats import Heartbeats
from fleet.db.heartbeats import Heartbeat, HeartbeatAnswer
from tests import factories
from tests.clock import FakeClock

WAIT_S = 10


class SlowDatabase:
    """Writes wait until they are let go; ``written`` holds the hosts of each."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)
        self.written: list[list[str]] = []
        self.failure: Exception | None = None

    def write(self, work: Callable[..., Any], beats: Sequence[Heartbeat], now: Any) -> list[HeartbeatAnswer]:
        self.written.append(sorted(host for beat in beats for host in beat.hosts))
        self.begun.release()
        assert self.let_go.acquire(timeout=WAIT_S)
        if self.failure is not None:
            raise self.failure
        return [HeartbeatAnswer([host for host in beat.hosts if host == "lost"]) for beat in beats]


def waiting(heartbeats: Heartbeats) -> int:
    with heartbeats._lock:
        return len(heartbeats._waiting)


@pytest.fixture
def database() -> SlowDatabase:
    return SlowDatabase()


def noted(database: SlowDatabase, hosts: Sequence[str]) -> list[futures.Future]:
    """The first is being written when the others come."""
    heartbeats = Heartbeats(database, FakeClock(factories.NOW))  # type: ignore[arg-type]
    pool = futures.ThreadPoolExecutor(len(hosts))
    first = pool.submit(heartbeats.write, Heartbeat("fleet-compute", [hosts[0]]))
    assert database.begun.acquire(timeout=WAIT_S)
    others = [pool.submit(heartbeats.write, Heartbeat("fleet-compute", [host])) for host in hosts[1:]]
    while waiting(heartbeats) < len(others):
        pass
    for _ in range(2):
        database.let_go.release()
    return [first, *others]


def test_those_that_wait_for_a_write_share_the_next(database):
    """Two transactions for any number of heartbeats; each has an answer of its own."""
    answers = [each.result(WAIT_S).superseded for each in noted(database, ["a", "b", "lost", "c"])]
    assert [["a"], ["b", "c", "lost"]] == database.written
    assert [[], [], ["lost"], []] == answers


def test_a_write_that_fails_fails_for_all_that_share_it(database):
    """Nobody is told that he was heard."""
    database.failure = OSError("the database is away")
    for each in noted(database, ["a", "b", "c"]):
        with pytest.raises(OSError, match="away"):
            each.result(WAIT_S)
