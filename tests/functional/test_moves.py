# SPDX-License-Identifier: Apache-2.0
"""Moves in the ledger: what each step leaves on both hosts, and that a no leaves the instance as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from oslo_utils import uuidutils

from conductor_stub.moves import acceptance
from conductor_stub.moves.progress import MoveProgress
from conductor_stub.power.machine import PowerReport
from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import errors, move_states, states
from fleet.db.engine.database import Database, Transaction
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.instances import instances, moves
from fleet.objects import Claimed, Migration, group_rule
from fleet.objects.plans import StoredPlace
from tests.worlds.conductor import INCARNATION, Conductor, Operator, context
from tests.worlds.neighbours import no_valid_host

LARGE = {"vcpus": 2, "memory_mb": 2048, "root_gb": 10, "name": "large"}
SMALL_MB, LARGE_MB = 1024, 2048
CLAIM = Claimed(memory_mb=LARGE_MB, disk_gb=10, vcpus=2)
BOOM = Failure(step="finish", code="Boom", message="boom")


class Stage:
    """An active instance on ``h1``, and hosts to move it to; a host's part is played by hand."""

    def __init__(self, database: Database, same_host: bool = False, limits: StepLimits | None = None) -> None:
        self.conductor = Conductor(database, limits, same_host=same_host)
        self.conductor.add_hosts(["h1", "h2", "h3"])
        self.uuid = self.conductor.place("h1")
        self.conductor.claim(self.uuid, "h1")
        self.conductor.finish(self.uuid, "h1")

    @property
    def operator(self) -> Operator:
        return self.conductor.operator

    @property
    def progress(self) -> MoveProgress:
        return self.conductor.move_progress

    def resize(self, *places: Any) -> None:
        """Accept it and have it placed: the scheduler's answer is ``places``, the first and its alternates."""
        self.operator.resize_instance(self.uuid, LARGE)
        self._place(*places)

    def evacuate(self, *places: Any) -> None:
        self.go_down("h1")
        self.operator.evacuate_instance(self.uuid)
        self._place(*places)

    def _place(self, *places: Any) -> None:
        answer = [(places[0], places[1:])] if isinstance(places[0], str) else places[0]
        self.conductor.scheduler.answers.append(answer)
        self.work()

    def work(self) -> None:
        self.conductor.moves.deliver(self.conductor.place_move)

    def go_down(self, host: str) -> None:
        """Let the heartbeats of ``host`` stop; the other hosts send theirs."""
        self.conductor.clock.advance(self.conductor.limits.service_down_time_s + 1)
        self.report(*({"h1", "h2", "h3"} - {host}))

    def report(self, *hosts: str) -> None:
        """The agents of ``hosts`` send a heartbeat."""
        self.conductor.agents.report_state(Heartbeat("fleet-compute", sorted(hosts), INCARNATION))

    def migration(self) -> dict[str, Any]:
        return self.conductor.operator.list_migrations({"instance_uuid": self.uuid})[0]

    def claim(self, host: str, claim: Claimed = CLAIM, attempt: int | None = None) -> Migration:
        record = self.migration()
        number = record["attempt"] if attempt is None else attempt
        return self.progress.claim(context(), Attempt(record["uuid"], number, host, host, INCARNATION), claim)

    def done(self, host: str, status: str) -> str:
        """Report that ``host`` has done its part of ``status``; return the new status."""
        record = self.migration()
        return self.progress.advance(context(), Attempt(record["uuid"], record["attempt"], host), status).status

    def fail(self, host: str, status: str) -> str:
        record = self.migration()
        return self.progress.fail(context(), Attempt(record["uuid"], record["attempt"], host), status, BOOM).status

    def until(self, status: str) -> None:
        """A resize to h2, brought to ``status``."""
        self.resize("h2", "h3")
        if status == move_states.PREPARING:
            return
        self.claim("h2")
        for host, step in (("h1", move_states.PRE_MIGRATING), ("h2", move_states.POST_MIGRATING)):
            if status == step:
                return
            self.done(host, step)
        if status == move_states.CONFIRMING:
            self.operator.confirm_resize(self.uuid)
        if status in (move_states.REVERTING, move_states.RESUMING):
            self.operator.revert_resize(self.uuid)
        if status == move_states.RESUMING:
            self.done("h2", move_states.REVERTING)

    def used(self) -> tuple[int, int, int]:
        """Memory on h1, h2, h3."""
        one, two, three = (self.conductor.memory_used(host) for host in ("h1", "h2", "h3"))
        return one, two, three

    def state(self) -> tuple[str, str | None, str | None]:
        vm_state, task_state, _attempt, host = self.conductor.state(self.uuid)
        return vm_state, task_state, host

    def overdue(self) -> None:
        """The present step takes too long, while both hosts live."""
        self.conductor.clock.advance(self.conductor.limits.placing_timeout_s + 1)
        self.report("h1", "h2", "h3")
        self.conductor.move_sweeper.sweep()


@pytest.fixture
def stage(database: Database) -> Stage:
    return Stage(database)


#: A resize from h1 to h2, step by step: the instance, and the memory held on h1, h2 and h3.
STEPS = [
    pytest.param(move_states.PREPARING, ("active", "resize_prep", "h1"), (SMALL_MB, 0, 0), id="nothing is held yet"),
    pytest.param(
        move_states.PRE_MIGRATING,
        ("active", "resize_migrating", "h1"),
        (SMALL_MB, LARGE_MB, 0),
        id="incoming: new flavor",
    ),
    pytest.param(
        move_states.POST_MIGRATING,
        ("active", "resize_finish", "h1"),
        (SMALL_MB, LARGE_MB, 0),
        id="incoming, source off",
    ),
    pytest.param(
        move_states.FINISHED, ("resized", None, "h2"), (SMALL_MB, LARGE_MB, 0), id="outgoing: old flavor for a revert"
    ),
    pytest.param(
        move_states.CONFIRMING, ("resized", "resize_confirming", "h2"), (SMALL_MB, LARGE_MB, 0), id="confirming"
    ),
    pytest.param(move_states.REVERTING, ("resized", "resize_reverting", "h1"), (SMALL_MB, LARGE_MB, 0), id="reverting"),
    pytest.param(move_states.RESUMING, ("resized", "resize_reverting", "h1"), (SMALL_MB, 0, 0), id="resuming"),
]


@pytest.mark.parametrize(("status", "instance", "used"), STEPS)
def test_the_ledger_never_sells_what_a_move_may_need(stage: Stage, status: str, instance: Any, used: Any) -> None:
    """At every step of a resize each host holds the flavor that may run there."""
    stage.until(status)
    assert (status, instance, used) == (stage.migration()["status"], stage.state(), stage.used())


@pytest.mark.parametrize(("status", "_instance", "used"), STEPS)
def test_deleted_in_the_middle_of_a_move(stage: Stage, status: str, _instance: Any, used: Any) -> None:
    """Both hosts are ordered to destroy the guest. Each report frees that host's claim; the last one deletes the row."""
    stage.until(status)
    stage.conductor.termination.terminate(context(), [stage.uuid])
    holders = [host for host, memory_mb in zip(("h1", "h2"), used, strict=False) if memory_mb]
    assert [(host, stage.uuid) for host in holders] == stage.conductor.compute.terminations
    with pytest.raises(errors.Conflict):
        stage.operator.confirm_resize(stage.uuid)

    for host in holders:
        assert "deleted" != stage.state()[0]
        stage.conductor.agents.destroyed(context(), stage.uuid, host)

    assert ("deleted", (0, 0, 0)) == (stage.state()[0], stage.used())
    assert move_states.ERROR == stage.migration()["status"]


@pytest.mark.parametrize(
    ("decision", "expected", "flavor", "used"),
    [
        pytest.param("confirm_resize", ("active", None, "h2"), "large", (0, LARGE_MB, 0), id="confirmed: it stays"),
        pytest.param("revert_resize", ("active", None, "h1"), "", (SMALL_MB, 0, 0), id="reverted: it is as it was"),
    ],
)
def test_a_resize_ends(stage: Stage, decision: str, expected: Any, flavor: str, used: Any) -> None:
    """The hosts report their parts, some of them twice. Afterwards one host holds one claim."""
    stage.until(move_states.FINISHED)
    getattr(stage.operator, decision)(stage.uuid)
    if decision == "confirm_resize":
        assert move_states.CONFIRMED == stage.done("h1", move_states.CONFIRMING)
    else:
        assert move_states.RESUMING == stage.done("h2", move_states.REVERTING)
        assert move_states.RESUMING == stage.done("h2", move_states.REVERTING)
        assert move_states.REVERTED == stage.done("h1", move_states.RESUMING)
    assert (expected, used) == (stage.state(), stage.used())
    shown = stage.conductor.operator.show_instance(stage.uuid)
    assert flavor == shown["instance"]["flavor"]["name"]
    assert [] == shown["faults"]
    with pytest.raises(errors.Conflict, match="no resize of it waits"):
        stage.operator.revert_resize(stage.uuid)


def test_a_host_that_keeps_a_former_size_stays(stage: Stage) -> None:
    """The refusal names the migration, what to do, and the command that lists such moves."""
    stage.until(move_states.FINISHED)
    stage.go_down("h1")
    wanted = (
        f"takes part in 1 migration: {stage.migration()['uuid']}; confirm or revert .*'fleet migration list --host h1'"
    )
    with pytest.raises(errors.Conflict, match=wanted):
        stage.operator.delete_host("h1")


def test_a_resize_on_its_own_host_holds_both_flavors(database: Database) -> None:
    """Where allow_resize_to_same_host lets it stay, the host holds the flavor that the instance is not in, too."""
    stage = Stage(database, same_host=True)
    stage.resize("h1")
    stage.claim("h1")
    for status in (move_states.PRE_MIGRATING, move_states.POST_MIGRATING):
        assert (SMALL_MB + LARGE_MB, 0, 0) == stage.used()
        stage.done("h1", status)
    assert (("resized", None, "h1"), (SMALL_MB + LARGE_MB, 0, 0)) == (stage.state(), stage.used())
    stage.operator.confirm_resize(stage.uuid)
    stage.done("h1", move_states.CONFIRMING)
    assert (("active", None, "h1"), (LARGE_MB, 0, 0)) == (stage.state(), stage.used())
    (_spec, properties) = stage.conductor.scheduler.requests[-1]
    assert "ignore_hosts" not in properties


def test_the_scheduler_is_asked_for_the_new_flavor_elsewhere(stage: Stage) -> None:
    """The same select_destinations as for builds: the new flavor, without the source."""
    stage.resize("h2")
    spec, properties = stage.conductor.scheduler.requests[-1]
    assert (2048, 2048) == (spec["instance_type"]["memory_mb"], spec["instance_properties"]["memory_mb"])
    assert [stage.uuid] == spec["instance_uuids"]
    assert ["h1"] == properties["ignore_hosts"]
    assert {"num_attempts": 1, "hosts": []} == properties["retry"]


def test_a_late_repeated_or_foreign_word_changes_nothing(stage: Stage) -> None:
    """Only the acting host, with the present attempt and status, can move the record."""
    stage.until(move_states.PRE_MIGRATING)
    assert stage.claim("h2").status == move_states.PRE_MIGRATING
    assert move_states.PRE_MIGRATING == stage.done("h2", move_states.PRE_MIGRATING)
    assert move_states.PRE_MIGRATING == stage.done("h1", move_states.POST_MIGRATING)
    with pytest.raises(errors.NotFound, match="on host h3"):
        stage.claim("h3")
    assert (SMALL_MB, LARGE_MB, 0) == stage.used()


def test_no_valid_host_leaves_the_instance_as_it_was(stage: Stage) -> None:
    """A refused move is an event and a reason, no ERROR and no fault; another may follow."""
    stage.resize(no_valid_host())
    assert (("active", None, "h1"), (SMALL_MB, 0, 0)) == (stage.state(), stage.used())
    record = stage.migration()
    assert (move_states.ERROR, "NoValidHost") == (record["status"], record["failure"]["error"])
    shown = stage.conductor.operator.show_instance(stage.uuid)
    assert [] == shown["faults"]
    assert "NoValidHost" == shown["events"][-1]["result"]
    stage.conductor.clock.advance(1)
    stage.resize("h2")
    assert move_states.PREPARING == stage.migration()["status"]


def test_a_refused_claim_goes_to_the_alternate_then_to_the_scheduler_then_nowhere(stage: Stage) -> None:
    """As for builds: alternates first, scheduler_max_attempts in all, and the request names the tried hosts."""
    stage.resize("h2", "h3")
    assert move_states.PREPARING == stage.fail("h2", move_states.PREPARING)
    assert [("h2", stage.uuid), ("h3", stage.uuid)] == stage.conductor.compute.moves
    assert move_states.ACCEPTED == stage.fail("h3", move_states.PREPARING)
    stage._place("h2")
    assert [["h2", "h2"], ["h3", "h3"]] == stage.conductor.scheduler.requests[-1][1]["retry"]["hosts"]
    assert move_states.ERROR == stage.fail("h2", move_states.PREPARING)
    assert (("active", None, "h1"), (SMALL_MB, 0, 0)) == (stage.state(), stage.used())
    assert "after 3 attempts: h2, h3, h2" in stage.migration()["failure"]["message"]


@pytest.mark.parametrize("refused", [(), ("h2",), ("h2", "h3")], ids=["at once", "the alternate", "the second choice"])
def test_each_attempt_keeps_what_was_asked(stage: Stage, database: Database, refused: Sequence[str]) -> None:
    """A move that is confirmed by itself, and keeps promises, does so on whichever host it ends."""
    uuid, limits = uuidutils.generate_uuid(), stage.conductor.limits
    ctx = StepContext(limits, stage.conductor.clock())
    asked = {"confirms": True, "promised": True}
    database.write(acceptance.accept, uuid, stage.uuid, move_states.RESIZE, None, ctx, **asked)
    stage.conductor.scheduler.answers += [[("h2", ("h3",))], [("h2", ())]]
    stage.overdue()
    stage.work()
    for host in refused:
        stage.fail(host, move_states.PREPARING)
    if len(refused) == 2:
        stage.overdue()
        stage.work()
    assert {True} == {properties.get("promised") for _spec, properties in stage.conductor.scheduler.requests[1:]}
    destination = "h3" if len(refused) == 1 else "h2"
    stage.claim(destination, Claimed(memory_mb=SMALL_MB, disk_gb=10, vcpus=1))
    stage.done("h1", move_states.PRE_MIGRATING)
    assert move_states.CONFIRMING == stage.done(destination, move_states.POST_MIGRATING)


def test_a_move_claims_no_room_that_the_ledger_still_counts(stage: Stage) -> None:
    """As a build: what the destination may be used up to is in the record, and the ledger holds it against its sum."""
    other = stage.conductor.place("h2")
    stage.conductor.claim(other, "h2")
    stage.conductor.scheduler.limits = {"memory_mb": LARGE_MB + 1023.0}
    stage.resize("h2")
    with pytest.raises(errors.ComputeResourcesUnavailable, match="of memory may be used"):
        stage.claim("h2")
    assert (move_states.PREPARING, (SMALL_MB, 1024, 0)) == (stage.migration()["status"], stage.used())


@pytest.mark.parametrize(
    ("status", "host"),
    [
        pytest.param(move_states.PRE_MIGRATING, "h1", id="the source cannot switch it off"),
        pytest.param(move_states.POST_MIGRATING, "h2", id="the destination cannot start it"),
    ],
)
def test_a_failed_step_is_undone(stage: Stage, status: str, host: str) -> None:
    """The destination lets go, then the source starts the guest again: ACTIVE where and as it was."""
    stage.until(status)
    assert move_states.REVERTING == stage.fail(host, status)
    assert move_states.RESUMING == stage.done("h2", move_states.REVERTING)
    assert move_states.ERROR == stage.done("h1", move_states.RESUMING)
    assert (("active", None, "h1"), (SMALL_MB, 0, 0)) == (stage.state(), stage.used())
    assert "boom" == stage.migration()["failure"]["message"]


@pytest.mark.parametrize(
    ("status", "down", "expected", "told"),
    [
        pytest.param(move_states.PRE_MIGRATING, "h1", move_states.REVERTING, "h2", id="source lost before it is off"),
        pytest.param(move_states.POST_MIGRATING, "h2", move_states.REVERTING, "h2", id="destination lost"),
        pytest.param(move_states.CONFIRMING, "h1", move_states.CONFIRMED, None, id="a dead source is not waited for"),
        pytest.param(move_states.REVERTING, "h2", move_states.RESUMING, "h1", id="nor a dead destination"),
        pytest.param(move_states.RESUMING, "h1", move_states.ERROR, None, id="the source will start it by itself"),
    ],
)
def test_a_host_that_is_down_does_not_hold_a_move_up(
    stage: Stage, status: str, down: str, expected: str, told: str | None
) -> None:
    """The sweeper goes on without it; when it comes back it finds out."""
    stage.until(status)
    stage.conductor.compute.moves.clear()
    stage.go_down(down)
    stage.conductor.move_sweeper.sweep()
    assert expected == stage.migration()["status"]
    assert [(told, stage.uuid)] * bool(told) == stage.conductor.compute.moves


def test_a_source_that_dies_before_it_starts_its_guest_has_not_reverted(stage: Stage) -> None:
    """The instance is on it, and off; the history says that the step was lost."""
    stage.until(move_states.RESUMING)
    stage.go_down("h1")
    stage.conductor.move_sweeper.sweep()
    shown = stage.conductor.operator.show_instance(stage.uuid)
    assert (("active", None, "h1"), states.SHUTDOWN) == (stage.state(), shown["instance"]["power_state"])
    record = stage.migration()
    assert (move_states.ERROR, "AttemptLost") == (record["status"], record["failure"]["error"])
    assert (SMALL_MB, 0, 0) == stage.used()
    events = stage.conductor.events(stage.uuid)
    assert [] == [each for each in events if each["event"] == "revert"]
    assert ("resize", "AttemptLost", "h1") == tuple(events[-1][key] for key in ("event", "result", "host"))


@pytest.mark.parametrize(
    ("down", "refusal"),
    [
        pytest.param(["h1"], "its former host is down: confirm its resize, or wait", id="the former host"),
        pytest.param(["h1", "h2"], "and so is its present one: wait until one of them is up", id="both hosts"),
    ],
)
def test_a_guest_is_not_removed_for_a_host_that_cannot_start_it(
    stage: Stage, down: Sequence[str], refusal: str
) -> None:
    """A revert is refused while the former host is down; nothing has changed."""
    stage.until(move_states.FINISHED)
    stage.conductor.clock.advance(stage.conductor.limits.service_down_time_s + 1)
    stage.report(*({"h1", "h2", "h3"} - set(down)))
    with pytest.raises(errors.Conflict, match=refusal):
        stage.operator.revert_resize(stage.uuid)
    assert (move_states.FINISHED, ("resized", None, "h2")) == (stage.migration()["status"], stage.state())


def test_a_resize_between_two_lost_hosts_can_be_reverted_and_evacuated(stage: Stage) -> None:
    """The new host is off for certain: no guest runs there that a revert could remove."""
    stage.until(move_states.FINISHED)
    stage.conductor.clock.advance(stage.conductor.limits.service_down_time_s + 1)
    stage.report("h3")
    stage.operator.force_down("h2", True)
    stage.operator.revert_resize(stage.uuid)
    for _step in (move_states.REVERTING, move_states.RESUMING):
        stage.conductor.clock.advance(stage.conductor.limits.placing_timeout_s + 1)
        stage.report("h3")
        stage.conductor.move_sweeper.sweep()
    assert ("active", None, "h1") == stage.state()
    stage.operator.evacuate_instance(stage.uuid)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        pytest.param(move_states.PRE_MIGRATING, "h1", id="the source"),
        pytest.param(move_states.POST_MIGRATING, "h2", id="the destination"),
        pytest.param(move_states.REVERTING, "h2", id="the destination, to undo"),
        pytest.param(move_states.RESUMING, "h1", id="the source, to start again"),
        pytest.param(move_states.CONFIRMING, "h1", id="the source, to forget"),
    ],
)
def test_a_lost_order_is_sent_again(stage: Stage, status: str, told: str) -> None:
    """The acting host gets the order again, as long as the host is up and the deadline has not passed."""
    stage.until(status)
    stage.conductor.compute.moves.clear()
    stage.overdue()
    assert (status, [(told, stage.uuid)]) == (stage.migration()["status"], stage.conductor.compute.moves)


def test_a_lost_hand_out_is_handed_out_again_until_the_deadline(stage: Stage) -> None:
    """A move without a conductor is handed out again. At its deadline it ends, and the instance is as before."""
    stage.operator.resize_instance(stage.uuid, LARGE)
    stage.conductor.moves.cast.clear()
    stage.overdue()
    assert 1 == len(stage.conductor.moves.cast)
    stage.conductor.clock.advance(stage.conductor.limits.move_timeout_s)
    stage.conductor.move_sweeper.sweep()
    record = stage.migration()
    assert (move_states.ERROR, "MoveTimeout") == (record["status"], record["failure"]["error"])
    assert ("active", None, "h1") == stage.state()


def test_a_move_out_of_time_is_undone(stage: Stage) -> None:
    """A destination that lives but never finishes has to let go."""
    stage.until(move_states.POST_MIGRATING)
    stage.conductor.clock.advance(stage.conductor.limits.move_timeout_s)
    stage.overdue()
    assert move_states.REVERTING == stage.migration()["status"]


@pytest.mark.parametrize(
    ("what", "window_s", "waited_s", "status"),
    [
        pytest.param("never", 0, 10**6, move_states.FINISHED, id="no window"),
        pytest.param("not yet", 3600, 3599, move_states.FINISHED, id="there is time"),
        pytest.param("by itself", 3600, 3600, move_states.CONFIRMING, id="its time is over"),
    ],
)
def test_a_resize_is_confirmed_by_itself(
    database: Database, what: str, window_s: int, waited_s: int, status: str
) -> None:
    """Once, after resize_confirm_window; the former host is ordered to release its claim."""
    stage = Stage(database, limits=StepLimits(resize_confirm_window_s=window_s))
    stage.until(move_states.FINISHED)
    stage.conductor.clock.advance(waited_s)
    stage.report("h1", "h2", "h3")
    stage.conductor.move_sweeper.sweep()
    assert status == stage.migration()["status"]
    assert 0 == stage.conductor.move_sweeper.sweep()


@pytest.mark.parametrize(
    ("down", "refusal"),
    [
        pytest.param(["h2"], "is on a host that is down: revert its resize, .* still has its guest", id="the new host"),
        pytest.param(["h1", "h2"], "and so is its former host: wait until one of them is up", id="both hosts"),
    ],
)
def test_the_last_good_guest_is_not_removed(database: Database, down: Sequence[str], refusal: str) -> None:
    """While the new host is down, neither a user nor the window confirms a resize: the old guest would be removed."""
    stage = Stage(database, limits=StepLimits(resize_confirm_window_s=3600))
    stage.until(move_states.FINISHED)
    stage.conductor.clock.advance(3600)
    stage.report(*({"h1", "h2", "h3"} - set(down)))
    with pytest.raises(errors.Conflict, match=refusal):
        stage.operator.confirm_resize(stage.uuid)
    assert 0 == stage.conductor.move_sweeper.sweep()
    assert (move_states.FINISHED, ("resized", None, "h2")) == (stage.migration()["status"], stage.state())

    stage.report("h2")
    assert 1 == stage.conductor.move_sweeper.sweep()
    assert move_states.CONFIRMING == stage.migration()["status"]


@pytest.mark.parametrize(
    ("down", "is_off", "advice"),
    [
        pytest.param(["h2"], False, "revert its resize .*, its former host still has its guest", id="the new host"),
        pytest.param(
            ["h1", "h2"], True, "revert its resize .* it can then be evacuated from there", id="both, one off"
        ),
        pytest.param(["h1", "h2"], False, "wait until one of them is up, or its present host is off", id="both hosts"),
    ],
)
def test_the_way_out_for_a_resized_instance_whose_host_is_down(
    database: Database, down: Sequence[str], is_off: bool, advice: str
) -> None:
    """It is followed: the revert is accepted where it is advised."""
    stage = Stage(database)
    stage.until(move_states.FINISHED)
    stage.conductor.clock.advance(stage.conductor.limits.service_down_time_s + 1)
    stage.report(*({"h1", "h2", "h3"} - set(down)))
    if is_off:
        stage.operator.force_down("h2", True)
        with pytest.raises(errors.Conflict, match="revert its resize, then it can be evacuated"):
            stage.operator.confirm_resize(stage.uuid)
    with pytest.raises(errors.Conflict, match=advice):
        stage.operator.evacuate_instance(stage.uuid)
    if "revert" in advice:
        stage.operator.revert_resize(stage.uuid)
        assert move_states.REVERTING == stage.migration()["status"]


def test_a_resize_on_its_own_host_is_confirmed_though_the_host_is_down(database: Database) -> None:
    """No other host has a guest of it. Once it is ACTIVE it can be evacuated."""
    stage = Stage(database, same_host=True)
    stage.resize("h1")
    stage.claim("h1")
    for status in (move_states.PRE_MIGRATING, move_states.POST_MIGRATING):
        stage.done("h1", status)
    stage.go_down("h1")
    stage.operator.confirm_resize(stage.uuid)
    assert move_states.CONFIRMING == stage.migration()["status"]


def test_an_evacuation(stage: Stage) -> None:
    """The instance goes to a host that lives; the dead one's room is given back with it."""
    stage.evacuate("h2")
    assert ["h1"] == stage.conductor.scheduler.requests[-1][1]["ignore_hosts"]
    assert ("active", "rebuilding", "h1") == stage.state()
    stage.claim("h2", Claimed(memory_mb=SMALL_MB, disk_gb=10, vcpus=1))
    assert (("active", "rebuild_spawning", "h1"), (SMALL_MB, SMALL_MB, 0)) == (stage.state(), stage.used())
    assert move_states.DONE == stage.done("h2", move_states.PRE_MIGRATING)
    assert (("active", None, "h2"), (0, SMALL_MB, 0)) == (stage.state(), stage.used())

    stage.conductor.agents.destroyed(context(), stage.uuid, "h1")
    assert move_states.COMPLETED == stage.migration()["status"]
    assert ("active", None, "h2") == stage.state()


@pytest.mark.parametrize("when", ["before it is placed", "before it is claimed"])
def test_an_evacuation_ends_if_its_host_is_up_again(stage: Stage, when: str) -> None:
    """The guest runs there: a second one would ruin its data."""
    stage.go_down("h1")
    stage.operator.evacuate_instance(stage.uuid)
    back = Heartbeat("fleet-compute", ["h1"], INCARNATION)
    if when == "before it is placed":
        stage.conductor.agents.report_state(back)
    stage._place("h2")
    if when == "before it is claimed":
        stage.conductor.agents.report_state(back)
        with pytest.raises(errors.InvalidInput, match="host h1 is up again"):
            stage.claim("h2")
        refused = Attempt(stage.migration()["uuid"], 1, "h2")
        stage.progress.fail(context(), refused, move_states.PREPARING, BOOM)
    ended = stage.migration()
    assert move_states.ERROR == ended["status"]
    assert "host h1 is up again" in ended["failure"]["message"]
    assert ("active", None, "h1") == stage.state()


@pytest.mark.parametrize("shared", [False, True])
def test_a_host_that_is_back_before_its_guest_was_made_anew_keeps_it(stage: Stage, shared: bool) -> None:
    """The guest from the image is destroyed, not the one with the data. On shared storage both have the same data."""
    if shared:
        stage.conductor.add_hosts(["h1", "h2"], stats={"shared_storage": "nfs1"})
    stage.evacuate("h2")
    stage.claim("h2")
    stage.conductor.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION))
    status = stage.done("h2", move_states.PRE_MIGRATING)
    if shared:
        assert (move_states.DONE, ("active", None, "h2")) == (status, stage.state())
        return
    ended = stage.migration()
    assert (move_states.ERROR, ("active", None, "h1"), (SMALL_MB, 0, 0)) == (status, stage.state(), stage.used())
    assert "stays, with its data: host h1 is up again" in ended["failure"]["message"]
    # Its answer is repeated, and h2 has no part in the instance any more.
    assert move_states.ERROR == stage.done("h2", move_states.PRE_MIGRATING)
    assert [] == stage.conductor.database.read(instances.on_host, "h2")


def test_nobody_goes_back_to_a_host_that_has_not_cleaned_up(stage: Stage) -> None:
    """The guest left there would be counted twice, and its deletion taken for the new guest's."""
    stage.evacuate("h2")
    stage.claim("h2")
    stage.done("h2", move_states.PRE_MIGRATING)

    def ignored() -> list[str]:
        stage.conductor.scheduler.requests.clear()
        stage.operator.resize_instance(stage.uuid, LARGE)
        stage.conductor.scheduler.answers.append(errors.NoValidHost(reason="full"))
        stage.work()
        ((_spec, properties),) = stage.conductor.scheduler.requests
        return sorted(properties["ignore_hosts"])

    assert ["h1", "h2"] == ignored()
    stage.conductor.agents.destroyed(context(), stage.uuid, "h1")
    assert ["h2"] == ignored()


def test_a_stopped_instance_is_evacuated_and_stays_off(stage: Stage) -> None:
    """It cannot be started first, as for other moves."""
    stage.operator.stop_instance(stage.uuid)
    report = PowerReport(stage.uuid, "h1", states.POWERING_OFF, states.SHUTDOWN)
    assert stage.conductor.agents.power_done(context(), report)
    stage.evacuate("h2")
    assert ("stopped", states.REBUILDING, "h1") == stage.state()
    stage.claim("h2")
    assert move_states.DONE == stage.done("h2", move_states.PRE_MIGRATING)
    assert ("stopped", None, "h2") == stage.state()
    assert states.SHUTDOWN == stage.operator.show_instance(stage.uuid)["instance"]["power_state"]


def test_an_instance_whose_rebuild_has_failed_is_evacuated(stage: Stage) -> None:
    """Its host died meanwhile, so it can neither be rebuilt there nor started. Elsewhere it is made anew, and is ACTIVE."""
    stage.operator.rebuild_instance(stage.uuid, {})
    stage.conductor.clock.advance(stage.conductor.limits.build_timeout_s + 1)
    stage.conductor.power_sweeper.sweep()
    assert ("error", None, "h1") == stage.state()
    stage.evacuate("h2")
    assert ("error", states.REBUILDING, "h1") == stage.state()
    stage.claim("h2", Claimed(memory_mb=SMALL_MB, disk_gb=10, vcpus=1))
    assert move_states.DONE == stage.done("h2", move_states.PRE_MIGRATING)
    assert (("active", None, "h2"), (0, SMALL_MB, 0)) == (stage.state(), stage.used())


def test_an_instance_without_a_host_is_not_evacuated(stage: Stage) -> None:
    (uuid,) = stage.conductor.create()
    stage.conductor.scheduler.answers.append(errors.NoValidHost(reason="all full"))
    stage.conductor.work()
    assert ("error", None) == stage.conductor.state(uuid)[:2]
    with pytest.raises(errors.Conflict, match="is ERROR, not ACTIVE: .*otherwise delete it"):
        stage.operator.evacuate_instance(uuid)


def test_an_evacuation_that_fails_tries_the_next_host(stage: Stage) -> None:
    """A destination that cannot spawn gives its claim back; after the last one the instance is where it was."""
    stage.evacuate("h2", "h3")
    stage.claim("h2")
    assert move_states.PREPARING == stage.fail("h2", move_states.PRE_MIGRATING)
    assert (SMALL_MB, 0, 0) == stage.used()
    stage.claim("h3")
    stage.go_down("h3")
    stage.conductor.move_sweeper.sweep()
    assert (SMALL_MB, 0, 0) == stage.used()
    stage._place(no_valid_host())
    assert (move_states.ERROR, ("active", None, "h1")) == (stage.migration()["status"], stage.state())


def test_a_host_that_counts_as_dead_does_not_fail_its_evacuation(stage: Stage) -> None:
    """Its agent may still send reports, also forged ones, while the destination starts the guest."""
    stage.evacuate("h2", "h3")
    stage.claim("h2")
    before = stage.used()
    assert move_states.PRE_MIGRATING == stage.fail("h1", move_states.PRE_MIGRATING)
    assert ("h2", stage.used()) == (stage.migration()["dest_compute"], before)


def test_a_confirmation_that_fails_is_told_once(stage: Stage) -> None:
    """It is repeated until the source has done it."""
    stage.until(move_states.CONFIRMING)
    before = stage.conductor.events(stage.uuid)
    for _report in range(3):
        assert move_states.CONFIRMING == stage.fail("h1", move_states.CONFIRMING)
    (told,) = stage.conductor.events(stage.uuid)[len(before) :]
    assert ("resize", "h1") == (told["event"], told["host"])


def test_only_a_host_that_is_down_is_evacuated(stage: Stage) -> None:
    """What might still run there must not run twice: the error names the host."""
    with pytest.raises(errors.Conflict, match="host h1, whose fleet-compute is up"):
        stage.operator.evacuate_instance(stage.uuid)


@pytest.mark.parametrize(
    ("status", "match"),
    [
        pytest.param(move_states.PREPARING, "is ACTIVE .resize_prep.: wait", id="one is under way"),
        pytest.param(move_states.FINISHED, "is RESIZED, not ACTIVE: confirm or revert", id="one waits"),
    ],
)
def test_one_move_at_a_time(stage: Stage, status: str, match: str) -> None:
    """The error says what to do first."""
    stage.until(status)
    with pytest.raises(errors.Conflict, match=match):
        stage.operator.resize_instance(stage.uuid, LARGE)


def test_a_resize_to_no_root_disk_is_refused(stage: Stage) -> None:
    """It would keep its disk, and claim none. An instance without a size of its own may have any flavor."""
    with pytest.raises(errors.InvalidInput, match=r"flavor.root_gb is 0, and .* has a root disk of 10 GB"):
        stage.operator.resize_instance(stage.uuid, {**LARGE, "root_gb": 0})
    uuid = stage.conductor.place("h1", flavor={"vcpus": 1, "memory_mb": 1024})
    stage.conductor.claim(uuid, "h1")
    stage.conductor.finish(uuid, "h1")
    assert "accepted" == stage.operator.resize_instance(uuid, {"vcpus": 2, "memory_mb": 1024})["status"]


def test_a_resize_to_the_present_flavor_is_refused(stage: Stage) -> None:
    """Also after a resize the flavor that counts is the present one."""
    stage.until(move_states.CONFIRMING)
    stage.done("h1", move_states.CONFIRMING)
    with pytest.raises(errors.InvalidInput, match="flavor"):
        stage.operator.resize_instance(stage.uuid, LARGE)


def test_moves_are_listed_in_parts(stage: Stage) -> None:
    """The newest first; those of one moment by uuid."""
    conductor = stage.conductor
    for _time in range(3):
        stage.until(move_states.RESUMING)
        stage.done("h1", move_states.RESUMING)
        conductor.clock.advance(1)
    ask = conductor.operator.list_migrations
    whole = [each["uuid"] for each in ask()]
    assert whole[:2] == [each["uuid"] for each in ask({"host": "h1"}, limit=2)]
    assert whole[2:] == [each["uuid"] for each in ask(limit=2, marker=whole[1])]
    with pytest.raises(errors.NotFound, match=whole[0]):
        ask({"project_id": "nobody"}, marker=whole[0])


def test_a_group_counts_a_move_on_both_hosts(stage: Stage) -> None:
    """Anti-affinity: neither the host that is left nor the one that is gone to takes another member meanwhile."""
    conductor = stage.conductor
    conductor.operator.create_group("apart", "anti-affinity", 1)
    mine = conductor.place("h1", group="apart")
    conductor.claim(mine, "h1")
    conductor.finish(mine, "h1")
    stage.uuid = mine
    stage.resize("h2")
    stage.claim("h2")
    for host in ("h1", "h2"):
        other = conductor.place(host, group="apart")
        with pytest.raises(errors.GroupAffinityViolation):
            conductor.claim(other, host)


class Group:
    """Three members of a group on h1, which is down; ``evacuate`` moves one to the scheduler's choice."""

    def __init__(self, stage: Stage, policy: str, rules: Sequence[dict[str, Any]] = ()) -> None:
        self.stage, self.conductor = stage, stage.conductor
        self.conductor.operator.create_group("team", policy, 3, rules=list(rules))
        self.members = []
        for _number in range(3):
            uuid = self.conductor.place("h1", group="team")
            self.conductor.claim(uuid, "h1")
            self.conductor.finish(uuid, "h1")
            self.members.append(uuid)
        stage.go_down("h1")

    def accept(self, uuid: str) -> None:
        self.stage.operator.evacuate_instance(uuid)

    def place(self, *answers: Any) -> list[dict[str, Any]]:
        """Return the scheduler's request, with its answers."""
        before = len(self.conductor.scheduler.requests)
        self.conductor.scheduler.answers.extend([(answer, ())] for answer in answers)
        self.stage.work()
        return [properties for _spec, properties in self.conductor.scheduler.requests[before:]]

    def build(self, uuid: str, host: str) -> None:
        self.stage.uuid = uuid
        self.stage.claim(host)
        assert move_states.DONE == self.stage.done(host, move_states.PRE_MIGRATING)

    def host(self, uuid: str) -> str | None:
        return self.conductor.state(uuid)[3]


def test_an_affinity_group_leaves_a_dead_host_together(stage: Stage) -> None:
    """The dead host does not bind the first member. The first binds the others as soon as it is routed."""
    group = Group(stage, "affinity")
    one, two, three = group.members
    group.accept(one)
    (asked,) = group.place("h2")
    assert ([], [one]) == (asked["group_hosts"], asked["group_members"])
    group.accept(two)
    (asked,) = group.place("h2")
    assert (["h2"], {one, two}) == (asked["group_hosts"], set(asked["group_members"]))
    group.build(one, "h2")
    group.build(two, "h2")
    group.accept(three)
    (asked,) = group.place("h2")
    assert ["h2"] == asked["group_hosts"]
    group.build(three, "h2")
    assert ["h2"] * 3 == [group.host(uuid) for uuid in group.members]


def test_members_that_are_placed_at_once_follow_the_first(stage: Stage) -> None:
    """One that was to go elsewhere, by an answer made before the first was routed, is placed again, and follows."""
    group = Group(stage, "affinity")
    one, two, _three = group.members
    group.accept(one)
    group.accept(two)
    first, _late, again = group.place("h2", "h3", "h2")
    assert [[], ["h2"]] == [first["group_hosts"], again["group_hosts"]]
    group.build(one, "h2")
    group.build(two, "h2")
    assert ["h2", "h2"] == [group.host(one), group.host(two)]


def test_a_scheduler_without_the_groups_filter_cannot_part_an_affinity_group(stage: Stage) -> None:
    """The scheduler is called once more; then the claim refuses."""
    group = Group(stage, "affinity")
    one, two, _three = group.members
    group.accept(one)
    group.accept(two)
    assert 3 == len(group.place("h2", "h3", "h3"))
    group.build(one, "h2")
    stage.uuid = two
    with pytest.raises(errors.GroupAffinityViolation):
        stage.claim("h3")


def test_a_live_member_binds_an_evacuation(stage: Stage) -> None:
    """Only dead hosts are left out: a member that lives elsewhere is to be joined, as by any build."""
    group = Group(stage, "affinity")
    one, two, _three = group.members
    group.accept(one)
    group.place("h2")
    group.build(one, "h2")
    group.accept(two)
    (asked,) = group.place("h3", "h3")[:1]
    assert ["h2"] == asked["group_hosts"]
    stage.uuid = two
    with pytest.raises(errors.GroupAffinityViolation):
        stage.claim("h3")


def test_a_group_whose_destination_dies_too_moves_on_together(stage: Stage) -> None:
    """One member is on a second dead host. Neither dead host counts as a host of the group."""
    group = Group(stage, "affinity")
    one, two, _three = group.members
    group.accept(one)
    group.place("h2")
    group.build(one, "h2")
    stage.conductor.clock.advance(stage.conductor.limits.service_down_time_s + 1)
    stage.conductor.agents.report_state(Heartbeat("fleet-compute", ["h3"], INCARNATION))
    for uuid in (one, two):
        group.accept(uuid)
        group.place("h3")
        group.build(uuid, "h3")
    assert ["h3", "h3"] == [group.host(one), group.host(two)]


def test_an_anti_affinity_group_is_evacuated_apart(stage: Stage) -> None:
    """What affinity is forgiven changes nothing here: members on the dead host count as ever."""
    group = Group(stage, "anti-affinity")
    group.accept(group.members[0])
    (asked,) = group.place("h2")
    assert (["h1"], set(group.members)) == (asked["group_hosts"], set(asked["group_members"]))
    group.build(group.members[0], "h2")


def test_a_group_with_affinity_and_a_spread_leaves_a_dead_host(stage: Stage) -> None:
    """The members share a room and are spread over its racks. Those on the dead host neither bind nor count."""
    for host, rack in (("h1", "r1"), ("h2", "r2"), ("h3", "r3")):
        stage.operator.set_host_labels(host, {"room": "a", "rack": rack})
    # The scheduler's choice brings along how many members a rack may have.
    limit = f"{group_rule.LIMIT}rack"
    stage.conductor.scheduler.limits = {"memory_mb": 8000.0, limit: 3}
    rules = [{"policy": "affinity", "label": "room"}, {"policy": "spread", "label": "rack"}]
    group = Group(stage, "none", rules)
    stage.conductor.scheduler.limits = {"memory_mb": 8000.0, limit: 1}
    one, two, three = group.members
    for uuid, host in ((one, "h2"), (two, "h3")):
        group.accept(uuid)
        group.place(host)
        group.build(uuid, host)
    assert ["h2", "h3"] == [group.host(one), group.host(two)]
    # Another scheduler has chosen at the same moment: the rack has its member already.
    group.accept(three)
    group.place("h2")
    stage.uuid = three
    with pytest.raises(errors.GroupAffinityViolation):
        stage.claim("h2")


def test_agents_are_told_what_concerns_them(stage: Stage) -> None:
    """Source and destination find the move, a third host does not; the comparison expects each host's claim."""
    stage.until(move_states.FINISHED)
    assert [1, 1, 0] == [len(stage.progress.of_host(host, None)) for host in ("h1", "h2", "h3")]
    (seen,) = stage.progress.of_host("h1", [stage.uuid])
    claim = seen.claim_on("h1", "h1")
    assert claim is not None
    assert (SMALL_MB, LARGE_MB) == (claim.memory_mb, seen.instance.flavor.memory_mb)
    held = {"h1": [stage.uuid], "h2": [stage.uuid], "h3": []}
    assert {} == stage.conductor.agents.compare_instances(held)
    assert states.RESIZED == seen.instance.vm_state


@pytest.mark.parametrize("same_host", [False, True])
def test_a_migration_keeps_the_flavor(database: Database, same_host: bool) -> None:
    """The instance gets another host, even where a resize may stay; the record shows an unchanged flavor."""
    stage = Stage(database, same_host=same_host)
    stage.operator.migrate_instance(stage.uuid)
    stage._place("h2")
    (_spec, properties) = stage.conductor.scheduler.requests[-1]
    assert ["h1"] == properties["ignore_hosts"]
    (record,) = stage.conductor.operator.list_migrations({"instance_uuid": stage.uuid})
    assert ("resize", False) == (record["migration_type"], record["resized"])
    project = stage.conductor.operator.show_instance(stage.uuid)["instance"]["project_id"]
    assert [record] == stage.conductor.operator.list_migrations({"project_id": project})
    assert [] == stage.conductor.operator.list_migrations({"project_id": "another"})


@pytest.mark.parametrize("method", ["migrate_instance", "evacuate_instance"])
def test_a_destination_is_the_only_host_to_consider(stage: Stage, method: str) -> None:
    """The scheduler receives it at each attempt; a host that refuses the claim leaves no other choice."""
    if method == "evacuate_instance":
        stage.go_down("h1")
    getattr(stage.operator, method)(stage.uuid, host="h3")
    stage._place("h3")
    stage.conductor.scheduler.answers.append(no_valid_host())
    stage.fail("h3", move_states.PREPARING)
    stage.work()
    asked = [properties for _spec, properties in stage.conductor.scheduler.requests[-2:]]
    assert [{"host": "h3"}] * 2 == [each["requested_destination"] for each in asked]
    assert [["h3", "h3"]] == asked[1]["retry"]["hosts"]
    assert ("error", ("active", None, "h1")) == (stage.migration()["status"], stage.state())
    assert stage.migration()["failure"]["message"] == "No valid host was found. h3 was tried: boom"


def test_a_destination_stays_the_only_host_after_its_alternates(stage: Stage, database: Database) -> None:
    """A host with several nodes refuses the claim on each of them: no other host is considered then."""
    stage.operator.migrate_instance(stage.uuid, host="h2")
    stage._place("h2")

    def add_node(tx: Transaction) -> None:
        record = moves.lock(tx, stage.migration()["uuid"])[1]
        second: StoredPlace = {"host": "h2", "nodename": "second", "limits": {}}
        moves.change_plan(tx, record, stage.conductor.clock(), {"alternates": [second]})

    database.write(add_node)
    for _ in range(2):
        stage.fail("h2", move_states.PREPARING)
    stage.conductor.scheduler.answers.append(no_valid_host())
    stage.overdue()
    stage.work()
    assert {"host": "h2"} == stage.conductor.scheduler.requests[-1][1]["requested_destination"]


def test_a_destination_must_be_another_known_host(stage: Stage) -> None:
    """The operator learns it at once, and the instance is free for another task."""
    with pytest.raises(errors.NotFound, match="Host nowhere"):
        stage.operator.migrate_instance(stage.uuid, host="nowhere")
    with pytest.raises(errors.InvalidInput, match="host is h1, where"):
        stage.operator.migrate_instance(stage.uuid, host="h1")
    assert ("active", None, "h1") == stage.state()


def ways(stage: Stage, **by_host: str) -> None:
    """Hosts report on which way disks of their guests get to other hosts."""
    for host, way in by_host.items():
        stage.conductor.add_host(host, stats={"disks": way})


def test_a_move_considers_only_hosts_that_its_disks_can_reach(stage: Stage) -> None:
    """A host on another way, and one that copies nothing, could not start the guest."""
    ways(stage, h1="libvirt", h2="libvirt", h3="")
    stage.conductor.add_host("h4")
    stage.resize("h2")
    (_spec, properties) = stage.conductor.scheduler.requests[-1]
    assert ["h1", "h3", "h4"] == sorted(properties["ignore_hosts"])


def test_an_evacuation_is_built_from_its_image_anywhere(stage: Stage) -> None:
    ways(stage, h1="")
    stage.evacuate("h2")
    (_spec, properties) = stage.conductor.scheduler.requests[-1]
    assert (["h1"], None) == (properties["ignore_hosts"], properties.get("requested_destination"))


@pytest.mark.parametrize("same_host", [False, True])
def test_disks_that_cannot_leave_their_host(database: Database, same_host: bool) -> None:
    """What needs another host is refused at once; a resize that may stay considers only its own host."""
    stage = Stage(database, same_host=same_host)
    ways(stage, h1="")
    with pytest.raises(errors.Conflict, match="nothing copies its disks"):
        stage.operator.migrate_instance(stage.uuid)
    if same_host:
        stage.resize("h1")
        (_spec, properties) = stage.conductor.scheduler.requests[-1]
        assert {"host": "h1"} == properties["requested_destination"]
    else:
        with pytest.raises(errors.Conflict, match="nothing copies its disks"):
            stage.operator.resize_instance(stage.uuid, LARGE)
        assert ("active", None, "h1") == stage.state()


def test_users_see_how_much_is_copied(stage: Stage) -> None:
    """While the destination copies; what another host says, or too late, is dropped."""
    stage.resize("h2")
    stage.claim("h2")
    stage.done("h1", move_states.PRE_MIGRATING)

    def shown(host: str, percent: int, attempt: int = 1) -> int | None:
        stage.progress.copied(Attempt(stage.migration()["uuid"], attempt, host), percent)
        return stage.operator.show_instance(stage.uuid)["migration"].get("copied_percent")

    assert [None, None, 40] == [shown("h3", 10), shown("h2", 20, attempt=2), shown("h2", 40)]
    stage.done("h2", move_states.POST_MIGRATING)
    assert shown("h2", 99) is None
    stage.progress.copied(Attempt(stage.uuid, 1, "h2"), 50)


def test_copying_may_take_as_long_as_the_move(stage: Stage) -> None:
    """Other steps have the time of a spawn."""
    stage.resize("h2")
    claimed = stage.claim("h2")
    assert stage.conductor.limits.spawn_timeout_s == claimed.step_within_s
    stage.done("h1", move_states.PRE_MIGRATING)
    (record,) = stage.progress.of_host("h2", [stage.uuid])
    assert record.step_within_s == stage.conductor.limits.move_timeout_s


@pytest.mark.parametrize(("storage", "status"), [("", "error"), ("nfs1", move_states.PRE_MIGRATING)])
def test_a_guest_on_shared_storage_waits_for_its_destination(stage: Stage, storage: str, status: str) -> None:
    """It may run there, on the same disks; one that is made anew from its image has others."""
    stage.conductor.add_hosts(["h1", "h2", "h3"], stats={"disks": "", "shared_storage": storage})
    stage.evacuate("h2")
    stage.claim("h2")
    stage.conductor.clock.advance(stage.conductor.limits.move_timeout_s + 1)
    stage.conductor.agents.report_state(Heartbeat("fleet-compute", ["h2"], INCARNATION))
    stage.conductor.move_sweeper.sweep()
    assert status == stage.migration()["status"]


def test_disks_on_shared_storage_are_evacuated_to_hosts_that_have_it(stage: Stage) -> None:
    """Another host would make the guest anew from its image."""
    for host, storage in (("h1", "nfs1"), ("h2", "nfs2"), ("h3", "nfs1")):
        stage.conductor.add_host(host, stats={"disks": "", "shared_storage": storage})
    stage.evacuate("h3")
    (_spec, properties) = stage.conductor.scheduler.requests[-1]
    assert (["h1", "h2"], None) == (sorted(properties["ignore_hosts"]), properties.get("requested_destination"))
    # So are plans and proofs of what a loss leads to; a move leaves its host for none, as the disks stay.
    (lost,), (moved,) = (stage.operator.requests_of([stage.uuid], live=live) for live in (False, True))
    assert ["h2"] == lost["filter_properties"]["ignore_hosts"]
    assert {"host": "h1"} == moved["filter_properties"]["requested_destination"]
