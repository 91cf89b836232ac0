# SPDX-License-Identifier: Apache-2.0
"""One host's part of live migrations: a guest that is not known to have left or arrived is neither started nor destroyed."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from compute_agent.drivers.base import DestinationUnreachable, LiveMigrationFailed
from compute_agent.ledger.notifications import Notifications
from compute_agent.manager import ComputeManager
from compute_agent.work.moves.mover import Mover
from fleet import move_states, states
from fleet.agent.work_queues import WorkQueues
from fleet.objects import Claimed, Sizing
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.test_move import DEST, OTHER, SMALL, SOURCE, UUID, Part

CLAIM = Claimed(memory_mb=512, disk_gb=10, vcpus=1)
ABORTED = {"error": "Aborted", "message": "aborted"}
LOST = {"error": move_states.LOST, "message": "lost"}


def live(status: str, role: dict[str, Any], failure: Any = None, **fake: Any) -> Part:
    part = Part(status, **role, kind=move_states.LIVE_MIGRATION, **fake)
    held = part.migration.held and dataclasses.replace(part.migration.held, claimed=CLAIM)
    part.migration = part.moves.put(part.migration, new=Sizing(SMALL), held=held, failure=failure)
    return part


def manager(part: Part, queues: WorkQueues) -> ComputeManager:
    """The RPC surface of the part's host; only its moves are used."""
    mover = Mover(part.world.host, part.ledger, Notifications(), give_back_slot=queues.give_back_slot)
    nothing: Any = None
    return ComputeManager(part.world.host, part.world.builder, mover, nothing, nothing, nothing, queues)


@pytest.mark.parametrize(
    ("status", "role", "after", "held_mb", "power", "notified"),
    [
        pytest.param("preparing", DEST, "running", 512, states.NOSTATE, "pre", id="the destination claims, prepares"),
        pytest.param("running", SOURCE, "post-migrating", 512, None, "", id="the source moves it"),
        pytest.param("post-migrating", DEST, "confirming", 512, states.RUNNING, "post.dest", id="it is taken in"),
        pytest.param("confirming", SOURCE, "completed", 0, None, "post", id="the source lets go"),
        pytest.param("reverting", DEST, "error", 0, None, "rollback.dest", id="the destination lets go"),
    ],
)
def test_each_part(status: str, role: dict, after: str, held_mb: int, power: int | None, notified: str) -> None:
    part = live(status, role)
    if status != "running" and role is SOURCE:
        # The claims have changed places.
        arrived = part.moves._arrived(part.migration)
        part.moves.put(arrived, status=status)
        part.world.driver.destroy(builders.a_context(), part.instance.uuid)
    if status == "reverting":
        part.world.driver.pre_live_migration(builders.a_context(), part.migration.at_destination, OTHER)
    assert [(after, held_mb, power)] * 2 == [(part.look(), part.held_mb(), part.power()) for _twice in range(2)]
    name = f"live_migration.{notified}." if notified else "live_migration."
    assert [f"{name}start", f"{name}end"] == part.notified()


def test_a_destination_that_cannot_prepare_leaves_nothing() -> None:
    part = live("pre-migrating", DEST, failing_hosts=["*"])
    assert ("error", 0, None) == (part.look(), part.held_mb(), part.power())


def test_a_migration_that_failed_leaves_the_guest_running() -> None:
    part = live("running", SOURCE)

    def fail(*_arguments: object, **_more: object) -> None:
        raise LiveMigrationFailed("no way")

    part.world.driver.live_migration = fail
    assert ("reverting", 512, states.RUNNING) == (part.look(), part.held_mb(), part.power())
    assert "no way" == part.moves.records[UUID].failure["message"]


def test_an_outcome_that_is_unknown_is_not_reported() -> None:
    """The next order finds out: the guest may have arrived."""
    part = live("running", SOURCE)
    migrate, lost = part.world.driver.live_migration, [OSError("libvirt is away")]

    def answer(*arguments: Any, **more: Any) -> None:
        migrate(*arguments, **more)
        if lost:
            raise lost.pop()

    part.world.driver.live_migration = answer
    assert ("running", []) == (part.look(), part.moves.told)
    assert ("post-migrating", [("running", "done")]) == (part.look(), part.moves.told)


def test_progress_is_sent() -> None:
    part = live("running", SOURCE)
    part.look()
    assert [0] == part.moves.copied


def test_an_abort_reaches_a_migration_that_runs() -> None:
    """The queue of the instance is occupied: another thread brings the order. Without one in the record it is dropped."""
    part = live("running", SOURCE, live_migration_delay=1)
    begun, may_go_on = threading.Event(), threading.Event()

    def pause(_seconds: float) -> None:
        begun.set()
        may_go_on.wait(30)

    part.world.driver._pause = pause
    thread = threading.Thread(target=part.look)
    thread.start()
    assert begun.wait(30)
    context = builders.a_context()
    part.mover.abort(context, part.instance.uuid)
    assert not part.world.driver._aborted
    part.moves.put(part.moves.records[UUID], failure=ABORTED)
    part.mover.abort(context, part.instance.uuid)
    may_go_on.set()
    thread.join(30)
    assert ("reverting", states.RUNNING) == (part.moves.records[UUID].status, part.power())


def test_a_long_migration_holds_no_slot_of_builds_and_repeated_orders_do_not_pile_up() -> None:
    """The conductor repeats the order while the guest moves. One repetition is left, which finds the next step."""
    part = live("running", SOURCE, live_migration_delay=1)
    begun, may_go_on, built = threading.Event(), threading.Event(), threading.Event()

    def pause(_seconds: float) -> None:
        begun.set()
        may_go_on.wait(30)

    part.world.driver._pause = pause
    executor = builders.ThreadExecutor()
    queues = WorkQueues(executor, slots=1)
    agent = manager(part, queues)
    context, reads = builders.a_context(), part.moves.reads
    agent.advance_migration(context, instance_uuid=part.instance.uuid)
    assert begun.wait(30)
    for _repetition in range(5):
        agent.advance_migration(context, instance_uuid=part.instance.uuid)
    queues.submit("another", built.set, takes_slot=True)
    assert built.wait(30)
    may_go_on.set()
    assert queues.wait(30)
    executor.join()
    assert ("post-migrating", 2) == (part.moves.records[UUID].status, part.moves.reads - reads)


@pytest.mark.parametrize(("left", "after"), [(False, "reverting"), (True, "post-migrating")])
def test_a_migration_that_is_to_be_aborted_is_not_begun(left: bool, after: str) -> None:
    """An agent that was restarted looks whether the guest has left before."""
    part = live("running", SOURCE, failure=ABORTED)
    if left:
        part.world.driver.destroy(builders.a_context(), part.instance.uuid)
    assert (after, None if left else states.RUNNING) == (part.look(), part.power())


@pytest.mark.parametrize(
    ("failure", "power", "after", "expected"),
    [
        pytest.param(LOST, states.RUNNING, "confirming", states.RUNNING, id="the source was lost, the guest is here"),
        pytest.param(LOST, states.NOSTATE, "error", None, id="it has not arrived"),
        pytest.param(ABORTED, states.RUNNING, "error", None, id="the source says that it has the guest"),
    ],
)
def test_a_destination_looks_before_it_undoes(failure: dict, power: int, after: str, expected: int | None) -> None:
    part = live("reverting", DEST, failure)
    here = part.migration.at_destination
    driver, context = part.world.driver, builders.a_context()
    driver.pre_live_migration(context, here, OTHER)
    if power == states.RUNNING:
        driver.post_live_migration_at_destination(context, here)
    assert (after, expected) == (part.look(), part.power())


def test_a_guest_with_half_of_its_memory_here_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is at its source, which may come back; the order is sent again."""
    part = live("reverting", DEST, LOST)
    driver = part.world.driver
    driver.pre_live_migration(builders.a_context(), part.migration.at_destination, OTHER)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(driver, "is_halfway", lambda _uuid: True)
        assert ("reverting", states.NOSTATE) == (part.look(), part.power())
    assert ("error", None) == (part.look(), part.power())


@pytest.mark.parametrize("answer", ["is_halfway", "has_arrived"])
def test_a_guest_that_arrives_between_two_looks_is_not_removed(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent of its source is lost, and libvirt moves it all the same. The order is sent again."""
    part = live("reverting", DEST, LOST)
    driver = part.world.driver
    driver.pre_live_migration(builders.a_context(), part.migration.at_destination, OTHER)
    looks = [False]
    with monkeypatch.context() as arriving:
        arriving.setattr(driver, answer, lambda _uuid: not looks or looks.pop())
        assert ("reverting", states.NOSTATE, []) == (part.look(), part.power(), looks)


def test_a_half_whose_source_is_off_for_certain_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of its memory is lost, and the guest cannot continue; its disks here are the newest."""
    part = live("reverting", DEST, {**LOST, "details": {"host": OTHER, "source_is_off": True}})
    driver = part.world.driver
    driver.pre_live_migration(builders.a_context(), part.migration.at_destination, OTHER)
    off = []
    monkeypatch.setattr(driver, "is_halfway", lambda _uuid: not off)
    monkeypatch.setattr(driver, "power_off", lambda _context, instance: off.append(instance.uuid))
    monkeypatch.setattr(driver, "has_arrived", lambda _uuid: bool(off))
    assert ("confirming", [part.instance.uuid]) == (part.look(), off)


def test_a_source_with_half_of_the_memory_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The destination has reported the guest too early. It needs the half until it has all, or has lost its own."""
    part = live("running", SOURCE)
    part.moves.put(part.moves._arrived(part.migration), status="confirming")
    driver, asked = part.world.driver, []
    with monkeypatch.context() as halfway:
        halfway.setattr(driver, "waits_for", lambda _uuid, host: not asked.append(host))
        assert ("confirming", states.RUNNING, [OTHER]) == (part.look(), part.power(), asked)
    assert ("completed", None) == (part.look(), part.power())


@pytest.mark.parametrize(("halfway", "power"), [(True, states.SHUTDOWN), (False, states.RUNNING)])
def test_a_guest_of_which_a_lost_host_has_a_part_is_switched_off(
    halfway: bool, power: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has all of its memory here runs on."""
    part = live("running", SOURCE, failure={"error": "DestinationLost", "message": "fenced", "details": {}})
    monkeypatch.setattr(part.world.driver, "is_halfway", lambda _uuid: halfway)
    assert ("reverting", power) == (part.look(), part.power())


def test_a_lost_destination_reaches_a_migration_that_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """libvirt may wait for the destination without an end: the guest is switched off beside that call, which then ends."""
    part = live("running", SOURCE, live_migration_delay=1)
    driver, begun, ended = part.world.driver, threading.Event(), threading.Event()

    def wait(*_arguments: object, **_more: object) -> None:
        begun.set()
        assert ended.wait(30)
        raise LiveMigrationFailed("its QEMU has ended")

    def power_off(*arguments: Any) -> None:
        type(driver).power_off(driver, *arguments)
        ended.set()

    driver.live_migration, driver.power_off = wait, power_off
    monkeypatch.setattr(driver, "is_halfway", lambda _uuid: not ended.is_set())
    thread = threading.Thread(target=part.look)
    thread.start()
    assert begun.wait(30)
    failure = {"error": move_states.DESTINATION_LOST, "message": "fenced", "details": {}}
    part.moves.put(part.moves.records[UUID], failure=failure)
    part.mover.abort(builders.a_context(), part.instance.uuid)
    is_over = ended.is_set()
    ended.set()
    thread.join(30)
    assert (True, "reverting", states.SHUTDOWN) == (is_over, part.moves.records[UUID].status, part.power())


@pytest.mark.parametrize(
    ("failure", "after"),
    [
        pytest.param(None, "running", id="under way"),
        pytest.param(ABORTED, "running", id="aborted by an operator"),
        pytest.param({"error": "MoveTimeout", "message": "late"}, "running", id="past its deadline"),
        pytest.param({"error": move_states.DESTINATION_LOST, "message": "off"}, "post-migrating", id="off for certain"),
    ],
)
def test_a_destination_that_does_not_answer_has_no_guest_for_that(failure: Any, after: str) -> None:
    """The source does not have the guest any more. Time alone does not show where the guest is."""
    part = live("running", SOURCE, failure)

    def unreachable(*_arguments: object, **_more: object) -> None:
        raise DestinationUnreachable("no answer")

    part.world.driver.live_migration = unreachable
    assert after == part.look()


def test_without_a_guest_there_is_nothing_to_find() -> None:
    part = live("reverting", DEST, LOST)
    assert ("error", 0) == (part.look(), part.held_mb())


def test_a_driver_that_cannot_says_so() -> None:
    part = live("running", SOURCE)
    part.world.driver.live_migration = lambda *arguments, **more: super(  # type: ignore[method-assign]
        type(part.world.driver), part.world.driver
    ).live_migration(*arguments, **more)
    assert "reverting" == part.look()
    assert "A live migration" in part.moves.records[UUID].failure["message"]
