# SPDX-License-Identifier: Apache-2.0
"""What one host does about power tasks: the row decides, repeated orders do no harm, and audits know stopped guests."""

from __future__ import annotations

import dataclasses
import functools
import logging
import threading

import oslo_messaging
import pytest

from compute_agent.drivers.base import ComputeDriver, SpawnFailed
from compute_agent.ledger.notifications import Notifications
from compute_agent.work.power import PowerSwitch
from compute_agent.work.power_sync import RESTART
from fleet import states
from fleet.agent.time_limit import Overrun
from fleet.context import RequestContext
from fleet.objects import Attachment, Instance, VolumeConnection
from tests import factories, leftovers
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import Notifier
from tests.worlds.one_host import one_host


class Switched:
    """One running guest, and its switch."""

    def __init__(self, **options: object) -> None:
        self.world = one_host(builders.a_conf(reserved_host_memory_mb=0, **options))
        self.uuid = self.world.conductor.place(builders.an_instance()).uuid
        self.world.build(self.row)
        self.notifier = Notifier()
        self.switch = PowerSwitch(self.world.host, self.world.ledger, Notifications(self.notifier))  # type: ignore[arg-type]

    @property
    def row(self) -> Instance:
        return self.world.conductor.rows[self.uuid]

    @property
    def state(self) -> tuple[str, str | None, int]:
        return self.row.vm_state, self.row.task_state, self.row.power_state

    @property
    def guest(self) -> int:
        return self.world.driver.get_info(self.uuid).state

    def order(self, task: str) -> None:
        self.world.conductor.put(self.row, task_state=task)
        self.switch.run(builders.a_context(), self.uuid)


@pytest.fixture
def switched() -> Switched:
    return Switched()


def test_a_guest_is_stopped_started_and_rebooted(switched: Switched) -> None:
    """As the task of the row says; each step is a notification with nova's name."""
    switched.order(states.POWERING_OFF)
    assert (("stopped", None, states.SHUTDOWN), states.SHUTDOWN) == (switched.state, switched.guest)
    switched.order(states.POWERING_ON)
    assert (("active", None, states.RUNNING), states.RUNNING) == (switched.state, switched.guest)
    for task in (states.REBOOTING, states.REBOOTING_HARD):
        switched.order(task)
        assert (("active", None, states.RUNNING), states.RUNNING) == (switched.state, switched.guest)
    told = [event.removeprefix("compute.instance.") for _level, _host, event, _what in switched.notifier.sent]
    assert [f"{act}.{when}" for act in ("power_off", "power_on", *["reboot"] * 2) for when in ("start", "end")] == told


def test_a_guest_is_suspended_and_resumed(switched: Switched) -> None:
    switched.order(states.SUSPENDING)
    assert (("suspended", None, states.SUSPENDED), states.SUSPENDED) == (switched.state, switched.guest)
    switched.order(states.RESUMING)
    assert (("active", None, states.RUNNING), states.RUNNING) == (switched.state, switched.guest)
    told = [event.removeprefix("compute.instance.") for _level, _host, event, _what in switched.notifier.sent]
    assert [f"{act}.{when}" for act in ("suspend", "resume") for when in ("start", "end")] == told


@pytest.mark.parametrize(
    ("vm_state", "power"), [("active", states.RUNNING), ("stopped", states.SHUTDOWN), ("error", 1)]
)
def test_a_guest_is_made_anew(switched: Switched, vm_state: str, power: int) -> None:
    """With the volumes that it has; one that was stopped is off. It may be half made, or gone."""
    row = switched.row
    data = VolumeConnection("fake", "/data", "raw")
    switched.world.conductor.attachments["a"] = attached = Attachment(
        factories.uuid(1), factories.uuid(2), row.uuid, "vdb", "attached", 2, "s1@b#p", data
    )
    for gone in (False, True):
        if gone:
            switched.world.driver.destroy(builders.a_context(), row.uuid)
        switched.world.conductor.put(switched.row, vm_state=vm_state)
        switched.order(states.REBUILD_DISK)
        assert ((vm_state if vm_state == "stopped" else "active", None), power) == (switched.state[:2], switched.guest)
        assert {row.uuid: [attached.volume_uuid]} == switched.world.driver.attached_volumes()
    told = [event.removeprefix("compute.instance.") for _level, _host, event, _what in switched.notifier.sent]
    assert ["rebuild.start", "rebuild.end"] * 2 == told


def test_a_rebuild_that_fails_is_reported(switched: Switched, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the driver's reason. Nothing is left of the guest, and the row says so."""

    def fails(*_arguments: object, **_options: object) -> None:
        raise SpawnFailed("no image")

    monkeypatch.setattr(switched.world.driver, "spawn", fails)
    switched.order(states.REBUILD_DISK)
    assert ("error", None, states.NOSTATE) == switched.state
    assert "no image" == switched.world.conductor.failures[switched.uuid]


def test_a_rebuild_has_the_time_of_a_spawn(switched: Switched) -> None:
    """Other tasks have that of the driver."""
    limits: list[float | None] = []
    switched.switch._within = lambda _context, limit_s, work: (limits.append(limit_s), work())[1]
    for task in (states.REBUILD_DISK, states.POWERING_OFF):
        switched.world.conductor.put(switched.row, task_state=task)
        switched.switch.run(builders.a_context(), switched.uuid, 100)
    assert [90, switched.world.host.policy.driver_timeout_s] == limits


def test_a_rebuild_waits_for_the_volumes(switched: Switched) -> None:
    """Without an answer nothing is done: the conductor sends the order again."""
    switched.world.conductor.script("get_attachments", oslo_messaging.MessagingTimeout("silence"), times=1000)
    switched.order(states.REBUILD_DISK)
    assert (states.REBUILD_DISK, states.RUNNING) == (switched.row.task_state, switched.guest)


def test_a_guest_is_shelved_and_unshelved(switched: Switched) -> None:
    """It is off, and on again."""
    switched.order(states.SHELVING)
    assert (("shelved", None, states.SHUTDOWN), states.SHUTDOWN) == (switched.state, switched.guest)
    switched.order(states.UNSHELVING)
    assert (("active", None, states.RUNNING), states.RUNNING) == (switched.state, switched.guest)
    told = [event.removeprefix("compute.instance.") for _level, _host, event, _what in switched.notifier.sent]
    assert [f"{act}.{when}" for act in ("shelve", "unshelve") for when in ("start", "end")] == told


def test_a_reboot_is_hard_if_the_task_says_so(switched: Switched, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(switched.world.driver, "reboot", lambda context, instance, hard: asked.append(hard))
    for task in (states.REBOOTING, states.REBOOTING_HARD):
        switched.order(task)
    assert [False, True] == asked


def test_an_order_without_a_task_does_nothing(switched: Switched, caplog: pytest.LogCaptureFixture) -> None:
    """It is repeated, late or forged; the first two are no news."""
    switched.switch.run(builders.a_context(), switched.uuid)
    assert states.RUNNING == switched.guest
    assert [] == builders.lines(caplog, logging.WARNING)
    switched.world.conductor.put(switched.row, host="host2", task_state=states.POWERING_OFF)
    switched.switch.run(builders.a_context(), switched.uuid)
    assert states.RUNNING == switched.guest
    assert "the ledger does not have it on this host" in builders.lines(caplog, logging.WARNING)[0]


def test_a_driver_that_fails_is_reported(switched: Switched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row stays what it was, with what the guest is really doing."""

    def fails(context: object, instance: object) -> None:
        raise RuntimeError("the hypervisor said no")

    monkeypatch.setattr(switched.world.driver, "power_off", fails)
    switched.order(states.POWERING_OFF)
    assert ("active", None, states.RUNNING) == switched.state
    assert "RuntimeError: the hypervisor said no" == switched.world.conductor.failures[switched.uuid]


def test_a_guest_that_is_gone_is_reported(switched: Switched) -> None:
    switched.world.driver.destroy(builders.a_context(), switched.uuid)
    switched.order(states.POWERING_ON)
    assert ("active", None, states.NOSTATE) == switched.state
    assert f"Guest {switched.uuid} could not be found." == switched.world.conductor.failures[switched.uuid]


def test_nothing_is_done_while_no_conductor_answers(switched: Switched) -> None:
    silence = oslo_messaging.MessagingTimeout("silence")
    switched.world.conductor.script("get_host_instances", silence, times=1000)
    switched.order(states.POWERING_OFF)
    assert (states.POWERING_OFF, states.RUNNING) == (switched.row.task_state, switched.guest)


def test_a_report_whose_answer_is_lost_is_repeated(switched: Switched) -> None:
    switched.world.conductor.script("power_done", oslo_messaging.MessagingTimeout("silence"), done=True)
    switched.order(states.POWERING_OFF)
    assert ("stopped", None, states.SHUTDOWN) == switched.state


@pytest.mark.parametrize(
    ("task", "power"),
    [
        (states.POWERING_OFF, states.SHUTDOWN),
        (states.SUSPENDING, states.SUSPENDED),
        (states.SHELVING, states.SHUTDOWN),
    ],
)
def test_an_audit_leaves_a_stopped_or_suspended_guest_alone(task: str, power: int) -> None:
    """It is as it should be: no report, no restart, and the agent does not take it for one that a move has left."""
    switched = Switched(lost_guest_action=RESTART)
    switched.order(task)
    calls = list(switched.world.conductor.calls)
    switched.world.compare()
    assert power == switched.guest
    assert "report_guest" not in switched.world.conductor.calls[len(calls) :]


def test_an_audit_reports_a_stopped_guest_that_runs(switched: Switched, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody else has started it. The row shows it; the agent does not fight."""
    switched.order(states.POWERING_OFF)
    switched.world.driver.power_on(builders.a_context(), switched.row)
    switched.world.compare()
    assert (("stopped", None, states.RUNNING), states.RUNNING) == (switched.state, switched.guest)
    assert "is running, and the instance is stopped" in builders.lines(caplog, logging.WARNING)[-1]


def test_a_rebuild_that_takes_too_long_before_its_guest_is_made_leaves_the_former_one(switched: Switched) -> None:
    """Its image was being fetched. The guest runs on, and the row says that the rebuild has failed."""

    def overrun(*_arguments: object) -> None:
        raise Overrun("it has not ended after 90 s")

    switched.switch._within = overrun
    switched.world.conductor.put(switched.row, attempt=switched.row.attempt + 1)
    switched.order(states.REBUILD_DISK)
    assert (("error", None, states.RUNNING), states.RUNNING) == (switched.state, switched.guest)


def test_a_rebuild_that_takes_too_long_leaves_no_guest(
    switched: Switched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent destroys the guest before its report. A destroy that fails does not keep the report back."""

    def overrun(*_arguments: object) -> None:
        raise Overrun("it has not ended after 90 s")

    switched.switch._within = overrun
    switched.order(states.REBUILD_DISK)
    assert ("error", None, states.NOSTATE) == switched.state
    assert "it has not ended" in switched.world.conductor.failures[switched.uuid]
    monkeypatch.setattr(switched.world.driver, "destroy", overrun)
    switched.order(states.REBUILD_DISK)
    assert ("error", None) == switched.state[:2]
    assert "Cannot clean up" in builders.lines(caplog, logging.ERROR)[-1]


@pytest.mark.parametrize("task", [states.SHELVING_OFFLOADING, states.REBOOTING])
def test_what_took_too_long_does_nothing_later(task: str, switched: Switched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first half ends late; the second half would destroy, or start, the guest of later work. That waits for it."""
    driver, go_on, calls = switched.world.driver, threading.Event(), []
    first = "shelve" if task == states.SHELVING_OFFLOADING else "power_off"

    def slowly(context: RequestContext, instance: Instance) -> None:
        calls.append(first)
        go_on.wait()

    monkeypatch.setattr(driver, first, slowly)
    monkeypatch.setattr(driver, "reboot", functools.partial(ComputeDriver.reboot, driver))
    monkeypatch.setattr(driver, "destroy", lambda *_arguments: calls.append("destroy"))
    monkeypatch.setattr(driver, "power_on", lambda *_arguments: calls.append("power_on"))
    switched.world.host.policy = dataclasses.replace(switched.world.host.policy, driver_timeout_s=0.05)
    for _order in range(2):
        switched.world.conductor.put(switched.row, task_state=task)
        switched.switch.run(builders.a_context(), switched.uuid, 0.05)
        assert "it has not ended" in switched.world.conductor.failures[switched.uuid]
    go_on.set()
    leftovers.join("driver")
    assert [first] == calls
