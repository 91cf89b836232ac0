# SPDX-License-Identifier: Apache-2.0
"""``make up`` reports its hosts when they take builds."""

from __future__ import annotations

import contextlib
import types
from typing import Any

import pytest

from fleet_trial import trio
from tests.clock import Time
from tests.operator_calls import Asked

STOPPING = {"host": "h1", "disabled_reason": "AUTO: its agent is stopping"}


class Restarted(Asked):
    """A conductor whose ledger shows at the first look the agents of a former run, which are stopping."""

    def __init__(self) -> None:
        self.looks = 0

    def ask(self, method: str, **_part: object) -> list[dict[str, Any]]:
        if method == "list_hosts":
            self.looks += 1
            return [{"host": host, "state": "up"} for host in ("h1", "h2")]
        return [STOPPING if self.looks == 1 else {"host": "h1", "disabled_reason": None}]

    def plain_failures(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def impatient(self, timeout_s: float) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def test_agents_of_a_former_run_do_not_count() -> None:
    conductor = Restarted()
    assert 2 == trio.wait_until_ready(conductor, 2)  # type: ignore[arg-type]
    assert 2 == conductor.looks


def passing(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let so much time pass between two looks."""
    clock = Time()
    monkeypatch.setattr(trio, "time", types.SimpleNamespace(monotonic=clock, sleep=lambda _s: clock.sleep(seconds)))


class Slow(Restarted):
    """One more host is up at each look."""

    def ask(self, method: str, **_part: object) -> list[dict[str, Any]]:
        if method == "list_hosts":
            self.looks += 1
            return [{"host": f"h{number}", "state": "up"} for number in range(self.looks)]
        return []


def test_progress_is_told_and_lets_it_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further host begins the time limit anew: many hosts take longer than few."""
    passing(monkeypatch, 5)
    told: list[int] = []
    assert 9 == trio.wait_until_ready(Slow(), 9, timeout_s=6, on_progress=told.append)  # type: ignore[arg-type]
    assert [1, 2, 3, 4, 5, 6, 7, 8] == told


def test_a_user_who_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet of many hosts takes minutes to start; Ctrl-C ends it before."""
    passing(monkeypatch, 5)
    conductor = Slow()
    with pytest.raises(KeyboardInterrupt):
        trio.wait_until_ready(conductor, 9, timeout_s=6, is_stopped=lambda: conductor.looks == 3)  # type: ignore[arg-type]
    assert 3 == conductor.looks


def test_a_demo_that_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the status of a shell, and without a traceback."""

    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(trio, "run_demo", interrupted)
    assert 130 == trio.main(["demo"])


def test_hosts_that_do_not_come_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has how many there are."""
    passing(monkeypatch, 1)
    with pytest.raises(trio.TrioFailed, match="2 of 5 hosts are up, and no further one came up within 6 s"):
        trio.wait_until_ready(Restarted(), 5, timeout_s=6)  # type: ignore[arg-type]
