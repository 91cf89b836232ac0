# SPDX-License-Identifier: Apache-2.0
"""The moves of ``fleet rebalance --apply``: few at a time, confirmed, and stopped without harm."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Container
from typing import Any

import oslo_messaging
import pytest

from fleet import errors
from fleet.objects.rebalance import Move
from fleet_cli.servers.move_list import MoveList
from tests.operator_calls import Asked
from tests.unit.cli import fakes

#: The statuses of a move, one a look.
WELL = ["accepted", "pre-migrating", "finished", "confirming", "confirmed"]
LIVE = ["accepted", "pre-migrating", "running", "post-migrating", "completed"]
BADLY = ["accepted", "error"]
FAILURE = {"message": "No valid host was found."}


class Moves(Asked):
    """Moves go through ``steps`` (by instance; :data:`WELL` otherwise), one at each look."""

    def __init__(self, **steps: list[str]) -> None:
        self.steps = steps
        self.left: dict[str, list[str]] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.most = 0

    def ask(self, method: str, **arguments: Any) -> Any:
        if method == "list_migrations":
            wanted = arguments["filters"]["uuids"]
            self.most = max(self.most, len(wanted))
            return [self._look(each.removeprefix("move-")) for each in wanted]
        name = arguments["name"]
        self.asked.append((method, name, arguments.get("host", "")))
        if self.steps.get(name) == []:
            raise errors.Conflict(kind="Instance", name=name, reason="is busy")
        usual = {"migrate_instance": WELL, "live_migrate_instance": LIVE}
        if method in usual:
            self.left[name] = list(self.steps.get(name, usual[method]))
        return {"uuid": f"move-{name}"}

    def _look(self, name: str) -> dict[str, Any]:
        left = self.left[name]
        confirmed = ("confirm_resize", name, "") in self.asked
        status = left[0] if len(left) == 1 or (left[0] == "finished" and not confirmed) else left.pop(0)
        return {
            "uuid": f"move-{name}",
            "instance_uuid": name,
            "status": status,
            "failure": FAILURE if "e" == status[0] else None,
        }


def moves(*names: str) -> list[Move]:
    return [Move(name, "h1", f"to-{name}", 1, 1024, 0, "free h1") for name in names]


def run_of(conductor: Moves, *names: str, at_a_time: int = 2, **options: Any) -> MoveList:
    options = {"sleep": lambda _s: None, **options}
    return MoveList(conductor, moves(*names), at_a_time, lambda _done, _doing: None, **options)  # type: ignore[arg-type]


def test_guests_move_while_they_run() -> None:
    """Two at a time; one that is switched off for it is confirmed."""
    conductor = Moves()
    run = run_of(conductor, "a", "b", "c", cold={"b"})
    run.run(60)
    assert (3, {}, 2) == (run.done, run.failed, conductor.most)
    assert [
        ("live_migrate_instance", "a", "to-a"),
        ("migrate_instance", "b", "to-b"),
        ("live_migrate_instance", "c", "to-c"),
    ] == [each for each in conductor.asked if each[0] != "confirm_resize"]
    assert [("confirm_resize", "b", "")] == [each for each in conductor.asked if each[0] == "confirm_resize"]


def test_each_cold_move_goes_to_its_host_and_is_confirmed() -> None:
    """Two at a time."""
    conductor = Moves()
    run = run_of(conductor, "a", "b", "c", "d", "e", cold=set("abcde"))
    run.run(60)
    assert (5, {}, 2) == (run.done, run.failed, conductor.most)
    assert {("migrate_instance", name, f"to-{name}") for name in "abcde"} <= set(conductor.asked)
    assert 5 == sum(method == "confirm_resize" for method, _name, _host in conductor.asked)


def test_a_step_waits_for_the_one_before_it() -> None:
    """Its moves need what the others leave. Four may be under way."""
    conductor = Moves()
    steps = [dataclasses.replace(each, step=step) for each, step in zip(moves("a", "b", "c"), (1, 1, 2), strict=True)]
    seen = []
    run = MoveList(conductor, steps, 4, lambda _done, _doing: seen.append(run.under_way), sleep=lambda _s: None)
    run.run(60)
    assert (3, {}) == (run.done, run.failed)
    assert [] == [each for each in seen if "c" in each and len(each) > 1]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        pytest.param([], "Instance b is busy", id="refused at once"),
        pytest.param(BADLY, "No valid host was found.", id="failed on its way"),
        pytest.param(["accepted", "reverting", "reverted"], "its move is reverted", id="reverted by somebody"),
    ],
)
def test_a_move_that_fails_leaves_the_others(steps: list[str], said: str) -> None:
    """It is named with its reason."""
    run = run_of(Moves(b=steps), "a", "b", "c", cold=set("abc"))
    run.run(60)
    assert (2, {"b": said}) == (run.done, run.failed)


@pytest.mark.parametrize(
    ("is_proved", "done", "begun"),
    [
        pytest.param(True, 1, 2, id="a promise is proved in the states of the plan"),
        pytest.param(False, 2, 3, id="nothing is promised"),
    ],
)
def test_after_a_failure_no_step_begins_whose_states_are_not_proved(is_proved: bool, done: int, begun: int) -> None:
    """The other moves of its step do: they were under way together with it."""
    steps = [dataclasses.replace(each, step=step) for each, step in zip(moves("a", "b", "c"), (1, 1, 2), strict=True)]
    run = MoveList(Moves(a=[]), steps, 1, lambda _done, _doing: None, sleep=lambda _s: None, is_proved=is_proved)  # type: ignore[arg-type]
    run.run(60)
    assert (done, begun, ["a"]) == (run.done, run.begun, list(run.failed))


def test_stopped_in_the_middle() -> None:
    """What has begun is finished and confirmed; nothing else begins."""
    conductor = Moves()
    looks = []

    def interrupt(_s: float) -> None:
        looks.append(_s)
        if len(looks) == 2:
            raise KeyboardInterrupt

    run = run_of(conductor, "a", "b", "c", "d", sleep=interrupt, cold=set("abcd"))
    with pytest.raises(KeyboardInterrupt):
        run.run(60)
    run.stop()
    assert ["a", "b"] == list(run.under_way)
    run.run(60)
    assert (2, {}, 2) == (run.done, run.failed, run.begun)
    assert {"a", "b"} == {name for _method, name, _host in conductor.asked}


def test_a_time_limit() -> None:
    """No move begins after it, and one that is on its way is finished and confirmed."""
    clock = iter(range(100))
    conductor = Moves(a=["accepted"] * 12 + WELL)
    run = run_of(conductor, "a", "b", at_a_time=1, clock=lambda: float(next(clock)), cold={"a"})
    run.run(10)
    assert (1, [], 1) == (run.done, list(run.under_way), run.begun)
    assert ("confirm_resize", "a", "") in conductor.asked
    assert "b" not in {name for _method, name, _host in conductor.asked}


class Restarting(Moves):
    """No conductor answers the calls of these numbers."""

    def __init__(self, away: Container[int]) -> None:
        super().__init__()
        self.away = away
        self.calls = itertools.count()

    def ask(self, method: str, **arguments: Any) -> Any:
        if next(self.calls) in self.away:
            raise oslo_messaging.MessageDeliveryFailure("no fleet is running")
        return super().ask(method, **arguments)


def test_a_conductor_that_starts_anew_ends_no_run() -> None:
    """Moves need no conductor to end. The command repeats the confirmations that no conductor has answered."""
    conductor = Restarting({2, 3, 7, 8})
    run = run_of(conductor, "a", "b", cold={"a", "b"})
    run.run(60)
    assert (2, {}) == (run.done, run.failed)
    assert ["a", "b"] == sorted(name for method, name, _host in conductor.asked if method == "confirm_resize")


def test_after_a_call_that_nobody_answered_no_move_begins() -> None:
    """It may be under way; the others that are come to their ends."""
    run = run_of(Restarting({1}), "a", "b", "c")
    run.run(60)
    assert (1, ["b"], []) == (run.done, list(run.failed), list(run.under_way))
    assert run.failed["b"].startswith("it is not known whether its move has begun (no fleet is running)")


def test_a_conductor_that_stays_away_ends_the_run() -> None:
    """Two minutes without news; it is known which moves are under way."""
    minutes = itertools.count()
    run = run_of(Restarting(range(2, 1000)), "a", "b", clock=lambda: 60.0 * next(minutes))
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        run.run(100_000)
    assert (["a", "b"], 2) == (sorted(run.under_way), run.begun)


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        (("--availability-zone", "here", "--apply"), "--availability-zone needs --flavor"),
        (("--count", "3"), "--count needs --flavor"),
        (("--hint", "a=b", "--balance"), "--hint needs --flavor"),
        (("--within", "5"), "--within needs --undo-skew"),
    ],
)
def test_an_option_of_another_goal_is_refused(run: Any, options: tuple[str, ...], needs: str) -> None:
    """Nothing is asked, so nothing moves."""
    conductor = fakes.Conductor()
    status, _printed, said = run(conductor, "rebalance", *options)
    assert (1, f"{needs}\n", []) == (status, said, conductor.calls)
