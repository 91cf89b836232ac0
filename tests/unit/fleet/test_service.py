# SPDX-License-Identifier: Apache-2.0
"""Periodic work goes on, whatever one round does."""

from __future__ import annotations

import re
import threading

import pytest
from oslo_config import cfg

from fleet import errors
from fleet.service import Periodic, Process, Worker, periodic, reread
from fleet.telemetry import rate_limited_log
from tests.clock import Time


def test_a_failing_round_does_not_end_the_work() -> None:
    """The first round raises; the second comes all the same."""
    rounds, second = [], threading.Event()

    def work() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 1:
            raise RuntimeError("once")
        second.set()

    task = Periodic("test", work, interval_s=0.001)
    task.start()
    came = second.wait(10)
    task.stop()
    task.wait()
    assert came
    assert rounds[:2] == [0, 1]


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (errors.DatabaseUnavailable(kind="DBConnectionError", problem="refused"), [("one", 0), ("one", 5)]),
        (errors.NotFound(kind="Host", name="h1"), [("one", 0), ("two", 0), ("one", 2)]),
        (RuntimeError("a bug"), [("one", 0), ("two", 0), ("one", 2)]),
    ],
    ids=["the database is away, for all tasks", "a task is refused", "a task has a bug"],
)
def test_a_failure_is_logged_once_a_minute(
    raised: Exception,
    expected: list[tuple[str, int]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two tasks fail three times each within a minute, and the first one again after it."""
    clock = Time()
    monkeypatch.setattr(periodic, "_failures", rate_limited_log.RateLimit(clock))
    one, two = (Periodic(name, lambda: _raise(raised), interval_s=1) for name in ("one", "two"))
    for task in (one, two) * 3:
        task.go_round()
    clock.sleep(60)
    one.go_round()
    lines = [re.search(r"task (\w+) .*\((\d+) more", record.getMessage()) for record in caplog.records]
    assert expected == [(line[1], int(line[2])) for line in lines if line]
    assert len(expected) == len(lines)


def _raise(error: Exception) -> None:
    raise error


def test_stopping_ends_a_long_pause() -> None:
    """A stop is not kept waiting for the next round."""
    done = threading.Event()
    task = Periodic("test", done.set, interval_s=3600)
    task.start()
    assert done.wait(10)
    task.stop()
    task.wait()
    assert not task.alive


class Verdict:
    """A server that is ready, or not, at the moment, as the watchdog is."""

    ready = False
    stopped = False

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        self.stopped = True

    def wait(self) -> None:
        """Nothing to wait for."""


def test_a_process_that_has_served_is_stopped_in_full() -> None:
    """Whatever a server's verdict of itself is."""
    server = Verdict()
    worker = object.__new__(Worker)
    worker._daemon, worker._stopping, worker._servers = "fleet-x", threading.Event(), [server]
    worker._process = Process([], list)
    worker._process.started.set()
    worker.terminate()
    assert server.stopped


class Agent(Verdict):
    """A server that starts at once, and serves later."""

    def __init__(self) -> None:
        self.started, self.ready = threading.Event(), threading.Event()  # type: ignore[assignment]

    def start(self) -> None:
        self.started.set()


@pytest.mark.parametrize("is_stopped", [False, True])
def test_an_agent_that_has_not_begun_counts_as_not_started(is_stopped: bool) -> None:
    """It has no queue for a round trip yet. After ``stuck_limit`` it would count as stuck, and be ended."""
    agent = Agent()
    worker = object.__new__(Worker)
    worker._daemon, worker._stopping, worker._servers = "fleet-x", threading.Event(), []
    process = worker._process = Process([], lambda: [agent])
    serving = threading.Thread(target=worker._serve, args=(process,))
    serving.start()
    assert agent.started.wait(10)
    assert not process.started.wait(0.05)
    (worker._stopping if is_stopped else agent.ready).set()  # type: ignore[attr-defined]
    serving.join(10)
    assert (False, not is_stopped) == (serving.is_alive(), process.started.is_set())


def test_a_log_that_cannot_be_reloaded_does_not_end_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    """The file passed the check, and names a handler that Python cannot make."""
    conf = cfg.ConfigOpts()
    conf([])

    def reload_log(_conf: object, _changed: object) -> None:
        raise ModuleNotFoundError("No module named 'nix'")

    conf.register_mutate_hook(reload_log)
    reread(conf, lambda: None)
    assert "the log cannot be set up anew" in caplog.text
    assert "No module named 'nix'" in caplog.text
