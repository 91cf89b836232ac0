# SPDX-License-Identifier: Apache-2.0
"""Guests that keep dying: conductors count their restarts in the ledger, and give them up."""

from __future__ import annotations

import pytest

from conductor_stub.agents.guests import Observation
from conductor_stub.moves.placement import MovePlacement
from fleet import errors, move_states, states
from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.objects import Claimed
from fleet.objects.guest_restarts import RestartLimits
from tests.functional.test_moves import Stage
from tests.worlds.conductor import context
from tests.worlds.neighbours import no_valid_host

CRASHED, GONE = states.CRASHED, states.NOSTATE
TWICE = RestartLimits(most=2, window_s=100, wait_s=10)
CLAIM = Claimed(memory_mb=1024, disk_gb=10, vcpus=1)
#: An answer of the conductor: what follows, and the number of restarts.
START, WAIT, FAILED, MOVED = "start", "wait", "failed", "moved"


class Guest(Stage):
    """On h1; its agent finds that it does not run."""

    def ask(
        self,
        host: str = "h1",
        found: int = CRASHED,
        moves: bool = False,
        limits: RestartLimits = TWICE,
        under: RequestContext | None = None,
    ) -> tuple[str, int]:
        """Report the state, as the first audit does, and ask as the next one does."""
        row = self.operator.show_instance(self.uuid)["instance"]
        self.conductor.agents.observed(context(), Observation(self.uuid, host, found, row["power_state"]))
        return self.decided(host, found, moves, limits, under)

    def decided(
        self,
        host: str = "h1",
        found: int = CRASHED,
        moves: bool = False,
        limits: RestartLimits = TWICE,
        under: RequestContext | None = None,
        uuid: str | None = None,
    ) -> tuple[str, int]:
        """Ask as an audit does."""
        dead = {"instance_uuid": uuid or self.uuid, "host": host, "power_state": found, "limits": limits.to_wire()}
        answer = self.conductor.agent_manager.restart_guest(under or context(), **dead, moves=moves)
        return answer["fate"], answer["count"]

    def later(self, seconds: float) -> None:
        self.conductor.clock.advance(seconds)

    def used_up(self, host: str = "h1") -> None:
        assert (START, 1) == self.ask(host)
        self.later(10)
        assert (START, 2) == self.ask(host)
        self.later(20)

    def restarts(self) -> list[tuple[str, str, str]]:
        found = self.conductor.events(self.uuid)
        return [(each["host"], each["result"], each["message"]) for each in found if each["event"] == "restart"]

    def fault(self) -> str:
        (fault,) = self.conductor.faults(self.uuid)
        return fault["message"]


@pytest.fixture
def guest(database: Database) -> Guest:
    return Guest(database)


def test_restarts_are_counted_in_the_ledger_until_the_limit(guest: Guest) -> None:
    assert (START, 1) == guest.ask()
    guest.later(9)
    assert (WAIT, 1) == guest.ask()
    guest.later(1)
    assert (START, 2) == guest.ask()
    assert (FAILED, 2) == guest.ask()
    assert ("error", None, "h1") == guest.state()
    why = "its guest was started 2 times within 100 s, and does not run"
    assert f"The guest on host h1 does not run: its process has ended; {why}." == guest.fault()
    assert [
        ("h1", "success", "start 1 of 2 within 100 s: its process has ended"),
        ("h1", "success", "start 2 of 2 within 100 s: its process has ended"),
    ] == guest.restarts()


def test_time_begins_the_count_anew(guest: Guest) -> None:
    guest.used_up()
    guest.later(70)  # the first one is 100 s old
    assert (START, 2) == guest.ask()


def test_a_lost_answer_counts_once(guest: Guest) -> None:
    asked = context()
    assert [(START, 1)] * 2 == [guest.ask(under=asked) for _twice in range(2)]
    assert 1 == len(guest.restarts())


def test_a_guest_that_runs_or_is_elsewhere_is_left_alone(guest: Guest) -> None:
    assert (WAIT, 0) == guest.decided()  # the row says: running
    assert (WAIT, 0) == guest.decided(found=states.RUNNING)
    assert (WAIT, 0) == guest.ask(host="h2")
    assert (WAIT, 0) == guest.decided(uuid="00000000-0000-0000-0000-000000000000")
    assert [] == guest.restarts()


def test_a_host_that_is_forced_down_restarts_nothing(guest: Guest) -> None:
    """Its instances may be evacuated at any time, and on shared storage two guests would have one disk."""
    guest.operator.force_down("h1", True)
    assert (WAIT, 0) == guest.ask()
    guest.operator.force_down("h1", False)
    assert (START, 1) == guest.ask()


def test_it_moves_to_another_host_and_stays_there(guest: Guest) -> None:
    """The source switches it off before the destination starts it; the move confirms itself; it does not move twice."""
    guest.used_up()
    guest.conductor.scheduler.answers.append([("h2", ())])
    assert (MOVED, 2) == guest.ask(moves=True)
    assert ("active", "resize_prep", "h1") == guest.state()
    assert (WAIT, 0) == guest.ask(moves=True)  # its move has begun
    guest.work()
    _spec, properties = guest.conductor.scheduler.requests[-1]
    assert "h1" in properties["ignore_hosts"]
    guest.claim("h2", CLAIM)
    assert move_states.POST_MIGRATING == guest.done("h1", move_states.PRE_MIGRATING)
    assert move_states.CONFIRMING == guest.done("h2", move_states.POST_MIGRATING)
    assert move_states.CONFIRMED == guest.done("h1", move_states.CONFIRMING)
    assert (("active", None, "h2"), (0, 1024, 0)) == (guest.state(), guest.used())
    guest.used_up("h2")
    assert (FAILED, 2) == guest.ask("h2", moves=True)
    assert "it does not move: that was tried already, from h1" in guest.fault()


def test_a_move_that_takes_longer_than_the_window_is_the_only_one(guest: Guest) -> None:
    guest.used_up()
    guest.conductor.scheduler.answers.append([("h2", ())])
    assert (MOVED, 2) == guest.ask(moves=True)
    guest.work()
    guest.claim("h2", CLAIM)
    guest.done("h1", move_states.PRE_MIGRATING)
    guest.later(250)  # the window is 100 s
    guest.done("h2", move_states.POST_MIGRATING)
    guest.done("h1", move_states.CONFIRMING)
    guest.used_up("h2")
    assert (FAILED, 2) == guest.ask("h2", moves=True)
    assert "it does not move: that was tried already, from h1" in guest.fault()


def test_nothing_moves_while_an_agent_may_start_it_without_its_volumes(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def older(*_arguments: object) -> None:
        raise errors.VersionPinned(topic="compute", method="volumes", needs="1.4", cap="1.3", pin="auto")

    monkeypatch.setattr(MovePlacement, "require_volumes", older)
    guest.used_up()
    assert (FAILED, 2) == guest.ask(moves=True)
    assert "1.4" in guest.fault()


def test_without_another_host_it_ends_in_error(guest: Guest) -> None:
    guest.used_up()
    guest.conductor.scheduler.answers.append(no_valid_host())
    assert (MOVED, 2) == guest.ask(moves=True)
    guest.work()
    assert (move_states.ERROR, ("active", None, "h1")) == (guest.migration()["status"], guest.state())
    assert (FAILED, 2) == guest.ask(moves=True)
    assert ("error", None, "h1") == guest.state()


def test_what_cannot_move_ends_in_error_with_the_reason(guest: Guest) -> None:
    guest.conductor.add_host("h1", stats={"disks": ""})
    guest.used_up()
    assert (FAILED, 2) == guest.ask(moves=True)
    assert "nothing copies its disks to another one" in guest.fault()


def test_nothing_is_moved_of_a_guest_that_is_gone(guest: Guest) -> None:
    once = RestartLimits(most=1, window_s=100, wait_s=0)
    assert (START, 1) == guest.ask(found=GONE, limits=once)
    assert (FAILED, 1) == guest.ask(found=GONE, limits=once, moves=True)
    assert "nothing of the guest is left on its host" in guest.fault()
