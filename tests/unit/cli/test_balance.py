# SPDX-License-Identifier: Apache-2.0
"""``fleet balance``: what it shows, and which suggestion it runs."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.cli import fakes

UUID = "6f1c1f0e-0000-4000-8000-000000000001"
SEEN = {"hosts": 3, "measured": 3, "mean": 50.0, "before": 40.0, "expected": 10.0, "loads": {"h1": 90.0}, "hot": ["h1"]}
MOVE = {
    "instance_uuid": UUID,
    "name": "web-1",
    "source": "h1",
    "destination": "h2",
    "memory_mb": 4096,
    "disk_gb": 10,
    "gain": 30.0,
    "status": "waiting",
    "migration": None,
    "why": "",
}
ROUND: dict[str, Any] = {
    "uuid": UUID,
    "aggregate": "web",
    "mode": "confirm",
    "status": "suggested",
    "seen": SEEN,
    "moves": [MOVE],
    "not_done": {"h3": "no guest is there"},
    "after": None,
    "created_at": "2026-01-01T00:00:00.000Z",
    "seen_at": "2026-01-01T00:00:00.000Z",
    "ended_at": None,
}


def test_the_aggregates(run: Any) -> None:
    conductor = fakes.Conductor()
    view = {
        "aggregate": "web",
        "mode": "auto",
        "paused": True,
        "looked_at": ROUND["seen_at"],
        "hot_since": {"h1": "x"},
        "last": ROUND,
    }
    off = {"aggregate": "db", "mode": "off", "paused": False, "looked_at": None, "hot_since": {}, "last": None}
    conductor.answers["list_balances"] = [view, off]
    status, printed, _said = run(conductor, "balance", "show", "-f", "json")
    shown = json.loads(printed)
    assert (0, ["auto (paused)", "off"]) == (status, [each["mode"] for each in shown])
    assert ["h1: hot since x; h3: no guest is there", ""] == [each["why"] for each in shown]
    assert [40.0, None] == [each["above_mean"] for each in shown]
    conductor.answers["list_balances"] = [{**view, "looked_at": "2026-01-01T00:01:00.000Z", "hot_since": {}}]
    _status, printed, _said = run(conductor, "balance", "show", "-f", "json")
    (later,) = json.loads(printed)
    assert (None, "", "suggested") == (later["above_mean"], later["why"], later["last"])


def test_a_suggestion(run: Any) -> None:
    """It says what is seen, what is expected, and what is not done and why."""
    conductor = fakes.Conductor()
    conductor.answers["suggest_balance"] = {**ROUND, "uuid": None}
    _status, printed, said = run(conductor, "balance", "suggest", "web", "-c", "instance", "-c", "to", "-c", "gain")
    assert "| web-1    | h2 | 30.0 |" in printed
    assert "The most loaded of 3 hosts is 40 points above the mean of 50; 10 are expected after the moves" in said
    assert "h3: no guest is there" in said


def test_a_suggestion_for_no_host(run: Any) -> None:
    conductor = fakes.Conductor()
    seen = {**SEEN, "hosts": 0, "measured": 0, "mean": 0.0, "before": 0.0, "expected": 0.0}
    conductor.answers["suggest_balance"] = {**ROUND, "seen": seen, "moves": [], "not_done": {}}
    _status, _printed, said = run(conductor, "balance", "suggest", "web")
    assert "No host of the aggregate may take guests" == said.strip()


def test_a_suggestion_is_run(run: Any) -> None:
    conductor = fakes.Conductor()
    conductor.answers["run_balance"] = {**ROUND, "status": "moving"}
    status, printed, _said = run(conductor, "balance", "run", "web", "--round", UUID, "-c", "instance", "-f", "value")
    assert (0, "web-1\n") == (status, printed)


def test_the_history(run: Any) -> None:
    conductor = fakes.Conductor()
    conductor.answers["list_balance_rounds"] = [{**ROUND, "after": 12.0, "status": "done"}]
    _status, printed, _said = run(conductor, "balance", "history", "-c", "before", "-c", "expected", "-c", "after")
    assert "|   40.0 |     10.0 |  12.0 |" in printed
    failed = {**MOVE, "status": "failed", "why": "balancing was paused before it began"}
    conductor.answers["list_balance_rounds"] = [{**ROUND, "moves": [failed], "status": "done"}]
    _status, printed, _said = run(conductor, "balance", "history", "-c", "moves", "--max-width", "0")
    assert "| web-1 h1 > h2 failed (balancing was paused before it began) |" in printed
    status, _printed, said = run(conductor, "balance", "history", "-c", "move")
    assert (1, True) == (status, "there is no column move: there are created_at, aggregate" in said)


def test_the_history_in_a_narrow_window(run: Any) -> None:
    """A line for each move, and no word is broken."""
    conductor = fakes.Conductor()
    moves = [MOVE, {**MOVE, "name": "web-2", "status": "done"}]
    why = {"h3": "no guest is there", "h4": "its guests stay"}
    conductor.answers["list_balance_rounds"] = [{**ROUND, "moves": moves, "not_done": why, "after": 12.0}]
    _status, printed, _said = run(conductor, "balance", "history")
    assert max(map(len, printed.splitlines())) <= 80
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line[0] == "|"]
    assert [
        ["round", "moves", "why"],
        ["2026-01-01 00:00:00", "web-1 h1 > h2 waiting", "h3: no guest is there"],
        ["web", "web-2 h1 > h2 done", "h4: its guests stay"],
        ["suggested", "", ""],
        ["40 > 10 > 12 points", "", ""],
    ] == cells
