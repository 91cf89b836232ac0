# SPDX-License-Identifier: Apache-2.0
"""What an audit makes of guests that do not run."""

from __future__ import annotations

import dataclasses
import logging
import threading

import oslo_messaging
import pytest

from compute_agent.drivers.base import GuestInfo
from compute_agent.drivers.fake import FakeDriver
from compute_agent.ledger.notifications import Notifications
from compute_agent.work import comparison, recovery
from compute_agent.work.restarts import Restarts
from fleet import errors, states
from fleet.agent.work_queues import WorkQueues
from fleet.objects import Instance
from fleet.objects.guest_restarts import RestartLimits
from tests.unit.compute_agent import builders
from tests.worlds.one_host import OneHost, one_host


class Driver(FakeDriver):
    """``crash`` ends a guest; ``unknown`` has guests without a readable state; with ``stubborn`` no guest starts again."""

    unknown = ""
    stubborn = False

    def crash(self, uuid: str, state: int = states.CRASHED) -> None:
        self._guests[uuid] = dataclasses.replace(self._guests[uuid], power_state=state)

    def lose(self, uuid: str) -> None:
        del self._guests[uuid]

    def get_info(self, instance_uuid: str) -> GuestInfo:
        if instance_uuid == self.unknown:
            raise RuntimeError("the hypervisor does not answer")
        return super().get_info(instance_uuid)

    def power_on(self, context: object, instance: Instance) -> None:
        if self.stubborn:
            raise RuntimeError("no such file")
        super().power_on(context, instance)  # type: ignore[arg-type]


def a_host_with_a_guest(
    action: str = "nothing", restarts: Restarts | None = None
) -> tuple[OneHost, Driver, Instance, builders.Notifier]:
    """With one active instance."""
    conf = builders.a_conf(reserved_host_memory_mb=0, lost_guest_action=action)
    driver, notifier = Driver(conf), builders.Notifier()
    world = one_host(conf, driver, notifications=Notifications(notifier))  # type: ignore[arg-type]
    if restarts is not None:
        world.guests._restarts = restarts
    instance = world.conductor.place(builders.an_instance())
    world.build(instance)
    notifier.sent.clear()
    return world, driver, instance, notifier


def row(world: OneHost, instance: Instance) -> tuple[str, int]:
    found = world.conductor.rows[instance.uuid]
    return found.vm_state, found.power_state


def test_guests_that_run_are_no_news() -> None:
    world, _driver, _instance, notifier = a_host_with_a_guest()
    assert 0 == world.compare()
    assert [] == notifier.sent


LOST = [("crashed", states.CRASHED, "its process has ended"), ("gone", states.NOSTATE, "the host has no such guest")]


@pytest.mark.parametrize(("name", "found", "words"), LOST, ids=[case[0] for case in LOST])
def test_a_guest_that_does_not_run_is_reported_once(
    name: str, found: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One audit writes the row, one log line and one notification. The instance stays ACTIVE and keeps its claim."""
    world, driver, instance, notifier = a_host_with_a_guest()
    driver.lose(instance.uuid) if name == "gone" else driver.crash(instance.uuid)
    used = world.tracker.view().used
    for _audit in range(3):
        world.compare()
    assert (states.ACTIVE, found) == row(world, instance)
    assert 1 == world.conductor.calls.count("report_guest")
    (line,) = builders.lines(caplog, logging.ERROR)
    assert f"The guest of instance {instance.uuid} on host1 does not run: {words}" == line
    ((_level, publisher, event, said),) = notifier.sent
    assert ("compute.host1", "compute.instance.update") == (publisher, event)
    assert (name, "running") == (said["power_state"], said["old_power_state"])
    assert used == world.tracker.view().used


def test_a_guest_that_runs_again_is_reported() -> None:
    """Whoever has started it."""
    world, driver, instance, _notifier = a_host_with_a_guest()
    driver.crash(instance.uuid)
    world.compare()
    driver.crash(instance.uuid, states.RUNNING)
    world.compare()
    assert (states.ACTIVE, states.RUNNING) == row(world, instance)


def test_what_was_lost_while_the_agent_was_down_is_reported_at_its_start() -> None:
    world, driver, instance, _notifier = a_host_with_a_guest()
    driver.lose(instance.uuid)
    recovery.recover(builders.a_context(), world.host, world.ledger, None, world.guests)
    assert (states.ACTIVE, states.NOSTATE) == row(world, instance)


def test_a_guest_is_started_again_by_the_audit_after_the_one_that_reported_it(caplog: pytest.LogCaptureFixture) -> None:
    """A supervisor has the time of one audit to do that itself."""
    world, driver, instance, _notifier = a_host_with_a_guest("restart")
    driver.crash(instance.uuid)
    world.compare()
    assert (states.ACTIVE, states.CRASHED) == row(world, instance)
    assert states.CRASHED == driver.get_info(instance.uuid).state
    world.compare()
    assert (states.ACTIVE, states.RUNNING) == row(world, instance)
    assert states.RUNNING == driver.get_info(instance.uuid).state
    assert 0 == world.compare()


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "does not start"])
def test_a_guest_that_cannot_be_started_is_one_warning(gone: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Each audit tries again; nothing is spawned anew where a guest with its disk was."""
    world, driver, instance, _notifier = a_host_with_a_guest("restart")
    driver.stubborn = not gone
    driver.lose(instance.uuid) if gone else driver.crash(instance.uuid)
    for _audit in range(4):
        world.compare()
    warnings = [line for line in builders.lines(caplog, logging.WARNING) if line.startswith("Cannot start the guest")]
    assert 1 == len(warnings)
    assert (states.ACTIVE, states.NOSTATE if gone else states.CRASHED) == row(world, instance)


def test_an_instance_is_set_to_error_by_the_audit_after_the_one_that_reported_it() -> None:
    """It keeps its host and claim: the rest of the guest is still there."""
    world, driver, instance, _notifier = a_host_with_a_guest("error")
    used = world.tracker.view().used
    driver.crash(instance.uuid)
    world.compare()
    assert (states.ACTIVE, states.CRASHED) == row(world, instance)
    for _audit in range(2):
        world.compare()
    assert (states.ERROR, states.CRASHED) == row(world, instance)
    assert 2 == world.conductor.calls.count("report_guest")
    assert used == world.tracker.view().used


BUSY = [("building", states.SPAWNING), ("moving", states.RESIZE_MIGRATING), ("deleting", states.DELETING)]


@pytest.mark.parametrize(("what", "task"), BUSY, ids=[case[0] for case in BUSY])
def test_a_guest_that_is_worked_on_is_not_lost(what: str, task: str) -> None:
    world, driver, instance, _notifier = a_host_with_a_guest("error")
    instance = world.conductor.put(world.conductor.rows[instance.uuid], task_state=task)
    driver.lose(instance.uuid)
    world.guests.settle(builders.a_context(), world.host, instance)
    assert "report_guest" not in world.conductor.calls


def test_a_row_that_has_moved_on_is_left_alone() -> None:
    """It was read before; the conductor compares and sets."""
    world, driver, instance, notifier = a_host_with_a_guest()
    before = world.conductor.rows[instance.uuid]
    world.conductor.put(before, task_state=states.DELETING)
    driver.lose(instance.uuid)
    world.guests.settle(builders.a_context(), world.host, before)
    assert states.RUNNING == world.conductor.rows[instance.uuid].power_state
    assert [] == notifier.sent


def test_what_the_driver_cannot_tell_is_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    world, driver, instance, _notifier = a_host_with_a_guest("error")
    driver.unknown = instance.uuid
    world.compare()
    assert (states.ACTIVE, states.RUNNING) == row(world, instance)
    assert "cannot tell the state of 1 guests: RuntimeError: the hypervisor does not answer" in caplog.text


@pytest.mark.parametrize("silence", [oslo_messaging.MessagingTimeout(), errors.NotTrusted(reason="no")])
def test_a_conductor_that_does_not_take_it_is_told_by_the_next_audit(silence: Exception) -> None:
    world, driver, instance, _notifier = a_host_with_a_guest()
    driver.crash(instance.uuid)
    world.conductor.script("report_guest", silence, times=1000)
    world.compare()
    assert (states.ACTIVE, states.RUNNING) == row(world, instance)
    world.conductor._script.clear()
    world.compare()
    assert (states.ACTIVE, states.CRASHED) == row(world, instance)


@pytest.mark.parametrize("action", ["nothing", "restart", "error"])
def test_an_announced_change_is_reported_and_left_to_the_audits(action: str) -> None:
    """However often it is announced: only audits act, because what runs the guests may be about to start it again."""
    world, driver, instance, _notifier = a_host_with_a_guest(action)
    driver.crash(instance.uuid)
    for _twice in range(2):
        world.guests.noticed(builders.a_context(), world.host, instance.uuid)
    assert (states.ACTIVE, states.CRASHED) == row(world, instance)


def test_an_announced_change_of_an_instance_with_work_is_left_to_that_work() -> None:
    """And so is one of a guest that this host does not hold."""
    world, _driver, instance, _notifier = a_host_with_a_guest()
    executor = builders.ThreadExecutor()
    queues = WorkQueues(executor, slots=0)
    begun, may_end = threading.Event(), threading.Event()
    queues.submit(instance.uuid, lambda: begun.set() or may_end.wait())  # type: ignore[func-returns-value]
    begun.wait()
    assert not comparison.notice(world.host, queues, world.guests, instance.uuid)
    assert not comparison.notice(world.host, queues, world.guests, "00000000-0000-0000-0000-000000000000")
    may_end.set()
    executor.join()
    assert comparison.notice(world.host, queues, world.guests, instance.uuid)
    executor.join()


def test_a_host_whose_hypervisor_is_away_takes_no_builds_until_it_answers() -> None:
    """Its node stays, with an alarm that says why."""
    world, driver, _instance, _notifier = a_host_with_a_guest()

    def refuse(node: str) -> None:
        raise errors.ReportRefused(host=builders.HOST, node=node, field="it", reason="cannot be read")

    read, driver.get_available_resource = driver.get_available_resource, refuse  # type: ignore[method-assign,assignment]
    world.reporter.audit()
    assert "cannot be read" in world.host.alarm()
    driver.get_available_resource = read  # type: ignore[method-assign]
    world.reporter.audit()
    assert "" == world.host.alarm()


def test_a_guest_that_keeps_dying_ends_in_error(caplog: pytest.LogCaptureFixture) -> None:
    """After two restarts; the first comes with the audit after the one that reported it."""
    world, driver, instance, _notifier = a_host_with_a_guest("restart", Restarts(RestartLimits(most=2, wait_s=0)))
    for _death in range(2):
        driver.crash(instance.uuid)
        world.compare()
        world.compare()
        assert (states.ACTIVE, states.RUNNING) == row(world, instance)
    driver.crash(instance.uuid)
    world.compare()
    world.compare()
    assert (states.ERROR, states.CRASHED) == row(world, instance)
    assert "its guest was started 2 times within 3600 s" in builders.lines(caplog, logging.ERROR)[-1]


FATES = [
    pytest.param("start", (states.ACTIVE, states.RUNNING), "Started the guest", id="it starts the guest"),
    pytest.param("wait", (states.ACTIVE, states.CRASHED), None, id="it is not due yet"),
    pytest.param("moved", (states.ACTIVE, states.CRASHED), "moves to another host: it keeps dying", id="it moves"),
    pytest.param("failed", (states.ACTIVE, states.CRASHED), "is set to ERROR: it keeps dying", id="it is given up"),
]


@pytest.mark.parametrize(("fate", "left", "line"), FATES)
def test_the_conductor_counts_and_decides(
    caplog: pytest.LogCaptureFixture, fate: str, left: tuple[str, int], line: str | None
) -> None:
    """The limits of the agent, used up or not, do not matter then."""
    world, driver, instance, _notifier = a_host_with_a_guest("restart", Restarts(RestartLimits(most=1, wait_s=10**6)))
    world.guests._moves = True
    driver.crash(instance.uuid)
    world.compare()
    caplog.clear()
    world.conductor.fates.append(fate)
    world.compare()
    assert (left, True) == (row(world, instance), world.conductor.asked_to_move)
    told = builders.lines(caplog, logging.WARNING)
    assert not told if line is None else any(line in each for each in told)
