# SPDX-License-Identifier: Apache-2.0
"""``fleet drill lose``: which hosts are lost together."""

from __future__ import annotations

import types
from typing import Any

import pytest

from fleet import errors
from fleet.client import connection
from fleet.db.feed.feed import Changes
from fleet.objects.survival import Loss, Report
from fleet_cli.planning import lost, planning, proving
from tests.factories import PlacedInstance, aggregate, changes, node, uuid
from tests.unit.cli import fakes

RACKS = [
    aggregate(["a", "b"], 1, rack="r1"),
    aggregate(["c"], 2, rack="r2"),
    aggregate(["d", "a"], 3, rack="r2", ssd="true"),
]


def state() -> Changes:
    placed = [PlacedInstance(uuid(number), host, host) for number, host in enumerate("aabd", 1)]
    return changes([node(each) for each in "abcd"], instances=placed, aggregates=RACKS)


def test_labels_of_hosts_are_read_as_well() -> None:
    """Reported ones, and the administrator's on top, in the form of the change feed."""
    labelled = changes(
        [node("a", stats='{"labels": {"rack": "r1", "room": "x"}}', labels='{"rack": "r2"}'), node("b", labels="null")]
    )
    found = lost.losses(["rack=r2"], None, labelled)
    assert [Loss("rack=r2", ["a"])] == found
    with pytest.raises(errors.NotFound, match="rack=r1"):
        lost.losses(["rack=r1"], None, labelled)


def losses(*target: str, by: str | None = None) -> list[Loss]:
    return lost.losses(target, by, state())


def test_any_is_each_host_with_guests() -> None:
    assert [Loss("a", ["a"]), Loss("b", ["b"]), Loss("d", ["d"])] == losses("any")


def test_any_by_a_key_is_each_of_its_values() -> None:
    """Aggregates with one value are one rack."""
    assert [Loss("rack=r1", ["a", "b"]), Loss("rack=r2", ["a", "c", "d"])] == losses("any", by="rack")


def test_what_is_named_is_lost_together() -> None:
    assert [Loss("d rack=r1 a", ["a", "b", "d"])] == losses("d", "rack=r1", "a")


@pytest.mark.parametrize(
    ("target", "by", "said"),
    [
        (["nosuch"], None, "Host nosuch"),
        (["rack=r9"], None, "rack=r9"),
        (["any"], "room", "room"),
        (["any", "a"], None, "Host any"),
        (["a"], "rack", "--by goes with 'any'"),
    ],
)
def test_what_there_is_not_is_named(target: list[str], by: str | None, said: str) -> None:
    with pytest.raises((errors.NotFound, connection.CommandFailed), match=said):
        losses(*target, by=by)


@pytest.mark.parametrize("arguments", [["any", "--limit", "0"], [], ["any", "--limit", "x"]])
def test_wrong_arguments_are_refused_before_anything_is_read(run: Any, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        run(None, "drill", "lose", *arguments)
    assert 2 == refused.value.code


EMPTY_TABLES = [
    (
        "an unsafe loss has no plan",
        ["--plan"],
        3,
        "unsafe",
        1,
        "No loss has a plan: the reasons are printed without --plan.\n",
    ),
    ("no guest is there, and no plan", ["--plan"], 0, "safe", 0, "No guest is on these hosts.\n"),
    ("many safe losses", [], 3, "safe", 0, "Every loss is safe: --all lists them.\n"),
]


@pytest.mark.parametrize(("case", "options", "guests", "verdict", "status", "said"), EMPTY_TABLES)
def test_a_table_without_lines_says_why(
    run: Any,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
    options: list[str],
    guests: int,
    verdict: str,
    status: int,
    said: str,
) -> None:
    """A loss that is not survived is never called safe."""
    monkeypatch.setattr(planning, "state", lambda *_asked: state())
    named = types.SimpleNamespace(value=verdict)
    proof = types.SimpleNamespace(lost=["a"], guests=guests, verdict=named, plan={}, lacking=[], why="")
    report = Report([Loss("a", ["a"])] * 11, [proof] * 11, 0.0)
    monkeypatch.setattr(proving, "prove", lambda *_asked: report)
    found, printed, _errors = run(fakes.Conductor(), "drill", "lose", "any", *options)
    assert (status, said) == (found, printed)
