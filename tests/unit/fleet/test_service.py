# SPDX-License-Identifier: Apache-2.0
"""Periodic work goes on, whatever one round does."""

from __future__ import annotations

import threading

from fleet.service import Periodic, Process, Worker


def test_a_failing_round_does_not_end_the_work() -> None:
    """The first round raises; the second comes all the same."""
    rounds, second = [], threading.Event()

    def work() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 1:
            raise RuntimeError("once")
        second.set()

    periodic = Periodic("test", work, interval_s=0.001)
    periodic.start()
    came = second.wait(10)
    periodic.stop()
    periodic.wait()
    assert came
    assert rounds[:2] == [0, 1]


def test_stopping_ends_a_long_pause() -> None:
    """A stop is not kept waiting for the next round."""
    done = threading.Event()
    periodic = Periodic("test", done.set, interval_s=3600)
    periodic.start()
    assert done.wait(10)
    periodic.stop()
    periodic.wait()
    assert not periodic.alive


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
