# SPDX-License-Identifier: Apache-2.0
"""``fleet recovery``: lists, and what an operator decides."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.cli import fakes

RECOVERY = {
    "uuid": "6f1c1f0e-0000-4000-8000-000000000001",
    "host": "h1",
    "status": "moving",
    "paused": True,
    "asked": False,
    "attempt": 1,
    "problem": None,
    "silent_since": "2026-01-01T00:00:00.000Z",
    "fenced_at": "2026-01-01T00:03:00.000Z",
    "created_at": "2026-01-01T00:02:00.000Z",
    "ended_at": None,
}


def test_a_list(run: Any) -> None:
    """Remarks say that all are paused, and where so many hosts are silent that none is recovered."""
    conductor = fakes.Conductor()
    domains = [
        {"name": "", "hosts": 10, "silent": 6, "stopped": True},
        {"name": "b", "hosts": 5, "silent": 0, "stopped": False},
    ]
    listed = [{**RECOVERY, "guests": {"moved": 2, "waiting": 1}}]
    conductor.answers["list_recoveries"] = {"recoveries": listed, "domains": domains, "paused": True}
    status, printed, said = run(conductor, "recovery", "list")
    assert 0 == status
    assert "| h1   | moving (paused) | 2 moved, 1 waiting |       1 | 2026-01-01 00:02:00 |" in printed
    assert "All recoveries are paused" in said
    assert "Stopped in the fleet: 6 of 10 hosts are silent at once" in said
    assert "b:" not in said


def test_one_with_its_steps(run: Any) -> None:
    conductor = fakes.Conductor()
    guest = {"instance_uuid": "u1", "status": "waiting", "problem": "No valid host was found."}
    step = {"step": "fenced", "message": "the fence succeeded", "created_at": "2026-01-01T00:03:00.000Z"}
    conductor.answers["show_recovery"] = {**RECOVERY, "guests": [guest], "steps": [step]}
    _status, printed, _said = run(conductor, "recovery", "show", "h1", "-f", "json")
    found = json.loads(printed)
    assert ["2026-01-01 00:03:00 fenced: the fence succeeded"] == found["steps"]
    assert ["u1 waiting: No valid host was found."] == found["guests"]


def test_decisions(run: Any) -> None:
    conductor = fakes.Conductor()
    for line in ("pause", "pause h1", "resume", "resume h1", "start h1"):
        assert 0 == run(conductor, "recovery", *line.split())[0]
    assert [
        ("pause_recovery", {"paused": True, "name": None}),
        ("pause_recovery", {"paused": True, "name": "h1"}),
        ("pause_recovery", {"paused": False, "name": None}),
        ("pause_recovery", {"paused": False, "name": "h1"}),
        ("start_recovery", {"host": "h1"}),
    ] == conductor.calls[-5:]
