# SPDX-License-Identifier: Apache-2.0
"""``fleet maintenance``: what it shows, what it decides, and how it follows one."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.client import connection
from fleet_cli.hosts import maintenance
from tests.clock import Time
from tests.operator_calls import Asked
from tests.unit.cli import fakes

PLAN: dict[str, Any] = {
    "uuid": "6f1c1f0e-0000-4000-8000-000000000001",
    "name": "kernel",
    "status": "running",
    "paused": True,
    "hook": "reboot",
    "wanted_release": None,
    "cold": False,
    "moves_at_a_time": 4,
    "hosts": {"done": 1, "draining": 1, "waiting": 1},
    "wave": 2,
    "waves": 3,
    "created_at": "2026-01-01T00:00:00.000Z",
    "ended_at": None,
}


def host(name: str, wave: int, status: str, began: str | None, ended: str | None, problem: str | None = None) -> dict:
    times = {"began_at": began, "emptied_at": None, "worked_at": None, "ended_at": ended}
    return {"host": name, "wave": wave, "status": status, "attempt": 0, "problem": problem, **times}


HOSTS = [
    host("h1", 1, "done", "2026-01-01T00:00:00.000Z", "2026-01-01T00:10:00.000Z"),
    host("h2", 2, "draining", "2026-01-01T00:10:00.000Z", None, "web has 1 volume: data"),
    host("h3", 3, "waiting", None, None),
]


def test_a_list(run: Any) -> None:
    conductor = fakes.Conductor()
    conductor.answers["list_maintenances"] = [PLAN]
    status, printed, _said = run(
        conductor, "maintenance", "list", "-c", "name", "-c", "status", "-c", "wave", "-c", "hosts"
    )
    assert 0 == status
    assert "| kernel | running (paused) | 2 of 3 |" in printed


def test_one(run: Any) -> None:
    """It says how long the waves that are left may take, as those before took, and what is waited for."""
    conductor = fakes.Conductor()
    conductor.answers["show_maintenance"] = {"maintenance": PLAN, "hosts": HOSTS}
    _status, printed, _said = run(conductor, "maintenance", "show", "kernel")
    assert "about 0:20:00" in printed
    assert "h2 draining: web has 1 volume: data" in printed
    _status, printed, _said = run(conductor, "maintenance", "hosts", "kernel", "-c", "host", "-c", "status")
    assert "| h2   | draining |" in printed


def test_nothing_is_known_of_the_time_before_a_wave_has_ended() -> None:
    assert maintenance.seconds_left(HOSTS[1:]) is None  # type: ignore[arg-type]


def test_decisions(run: Any) -> None:
    conductor = fakes.Conductor()
    for line in ("pause kernel", "resume kernel", "skip kernel h2", "cancel kernel"):
        assert 0 == run(conductor, "maintenance", *line.split())[0]
    assert [
        ("pause_maintenance", {"name": "kernel", "paused": True}),
        ("pause_maintenance", {"name": "kernel", "paused": False}),
        ("skip_maintenance_host", {"name": "kernel", "host": "h2"}),
        ("cancel_maintenance", {"name": "kernel"}),
    ] == conductor.calls[-4:]


class Following(Asked):
    """Each look finds the next state."""

    def __init__(self, *states: dict[str, Any]) -> None:
        self.left = list(states)

    def ask(self, method: str, **arguments: Any) -> Any:
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


def test_it_is_followed_to_its_end() -> None:
    """And no longer than asked; it goes on without the command."""
    going, over = (
        {"maintenance": PLAN, "hosts": HOSTS},
        {**PLAN, "status": "ended", "ended_at": "2026-01-01T01:00:00.000Z"},
    )
    told: list[tuple[int, int, str]] = []
    time = Time()
    ended = {"maintenance": over, "hosts": HOSTS}
    conductor = Following(going, going, ended)
    assert ended == maintenance.follow(conductor, "kernel", 60, lambda *now: told.append(now), time, time.sleep)  # type: ignore[arg-type]
    assert (1, 3, "h2 draining: web has 1 volume: data") == told[0]
    with pytest.raises(connection.CommandFailed, match="it goes on"):
        maintenance.follow(Following(going), "kernel", 60, lambda *now: None, time, time.sleep)  # type: ignore[arg-type]
