# SPDX-License-Identifier: Apache-2.0
"""Stop, start, reboot, suspend and resume in the ledger: tasks that end by their host's report, or by their deadline."""

from __future__ import annotations

import pytest

from conductor_stub.power.machine import PowerReport
from fleet import errors, states
from fleet.db.tables import models
from tests.worlds.conductor import Conductor, context

OFF, ON, CRASHED = states.SHUTDOWN, states.RUNNING, states.CRASHED
STOP, START, REBOOT = "stop_instance", "start_instance", "reboot_instance"
SUSPEND, RESUME = "suspend_instance", "resume_instance"
HALTED = states.SUSPENDED


@pytest.fixture
def uuid(conductor: Conductor) -> str:
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    return uuid


def ask(conductor: Conductor, method: str, uuid: str, **options: bool) -> str:
    """The task that the row has then."""
    return getattr(conductor.operator, method)(uuid, **options)["task_state"]


def report(conductor: Conductor, uuid: str, task: str, power: int, failure: str = "", host: str = "h1") -> bool:
    return conductor.agents.power_done(context(), PowerReport(uuid, host, task, power, failure))


def shown(conductor: Conductor, uuid: str) -> tuple[str, str | None, int]:
    instance = conductor.operator.show_instance(uuid)["instance"]
    return instance["vm_state"], instance["task_state"], instance["power_state"]


def power_events(conductor: Conductor, uuid: str) -> list[tuple[str, str, str]]:
    wanted = set(states.POWER_TASKS.values())
    found = [each for each in conductor.events(uuid) if each["event"] in wanted]
    return [(each["event"], each["result"], each["message"]) for each in found]


def test_an_instance_is_stopped_started_and_rebooted(conductor: Conductor, uuid: str) -> None:
    """Each is a task, an order to the host and an event. What the instance claims stays claimed."""
    used = conductor.memory_used("h1")
    assert states.POWERING_OFF == ask(conductor, STOP, uuid)
    assert [("h1", uuid)] == conductor.compute.power
    assert report(conductor, uuid, states.POWERING_OFF, OFF)
    assert ("stopped", None, OFF) == shown(conductor, uuid)
    assert states.POWERING_ON == ask(conductor, START, uuid)
    assert report(conductor, uuid, states.POWERING_ON, ON)
    assert ("active", None, ON) == shown(conductor, uuid)
    for hard, task in ((False, states.REBOOTING), (True, states.REBOOTING_HARD)):
        assert task == ask(conductor, REBOOT, uuid, hard=hard)
        assert report(conductor, uuid, task, ON)
    assert ("active", None, ON) == shown(conductor, uuid)
    assert [(each, "success", "") for each in ("stop", "start", "reboot", "reboot")] == power_events(conductor, uuid)
    assert used == conductor.memory_used("h1")


def test_a_late_report_does_not_end_the_next_task(conductor: Conductor, uuid: str) -> None:
    """Of the same kind: each report names the deadline that its host has read. An older agent names none."""
    deadlines = []
    for _twice in range(2):
        ask(conductor, STOP, uuid)
        (found,) = conductor.agents.host_instances("h1", [uuid])
        deadlines.append(found.task_deadline)
        if len(deadlines) == 1:
            report(conductor, uuid, states.POWERING_OFF, ON, "it took too long")
            conductor.clock.advance(0.001)
    for deadline, counts in ((deadlines[0], False), (deadlines[1], True)):
        late = PowerReport(uuid, "h1", states.POWERING_OFF, OFF, deadline=deadline)
        assert counts == conductor.agents.power_done(context(), late)
    (found,) = conductor.agents.host_instances("h1", [uuid])
    assert found.task_deadline is None


def test_a_hard_reboot_starts_a_stopped_instance(conductor: Conductor, uuid: str) -> None:
    ask(conductor, STOP, uuid)
    report(conductor, uuid, states.POWERING_OFF, OFF)
    ask(conductor, REBOOT, uuid, hard=True)
    report(conductor, uuid, states.REBOOTING_HARD, ON)
    assert ("active", None, ON) == shown(conductor, uuid)


@pytest.mark.parametrize("power", [OFF, HALTED])
def test_an_instance_is_suspended_and_resumed(conductor: Conductor, uuid: str, power: int) -> None:
    """Whether its memory is in a file, so that it is off, or stays where it is."""
    used = conductor.memory_used("h1")
    assert states.SUSPENDING == ask(conductor, SUSPEND, uuid)
    assert report(conductor, uuid, states.SUSPENDING, power)
    assert ("suspended", None, power) == shown(conductor, uuid)
    assert used == conductor.memory_used("h1")
    assert {} == conductor.agents.compare_instances({"h1": [uuid]}, {"h1": {uuid: power}})
    assert [] == conductor.operator.examine()["down"]
    with pytest.raises(errors.Conflict, match="resume it first"):
        conductor.operator.migrate_instance(uuid)
    assert states.RESUMING == ask(conductor, RESUME, uuid)
    assert report(conductor, uuid, states.RESUMING, ON)
    assert ("active", None, ON) == shown(conductor, uuid)
    assert [(each, "success", "") for each in ("suspend", "resume")] == power_events(conductor, uuid)


def test_a_suspended_instance_whose_memory_does_not_come_back(conductor: Conductor, uuid: str) -> None:
    """It stays suspended, and a hard reboot starts it without."""
    set_state(conductor, uuid, "suspended", OFF)
    ask(conductor, RESUME, uuid)
    report(conductor, uuid, states.RESUMING, OFF, "the file is damaged")
    assert ("suspended", None, OFF) == shown(conductor, uuid)
    ask(conductor, REBOOT, uuid, hard=True)
    report(conductor, uuid, states.REBOOTING_HARD, ON)
    assert ("active", None, ON) == shown(conductor, uuid)


@pytest.mark.parametrize(("vm_state", "power"), [("active", ON), ("stopped", OFF)])
def test_an_instance_is_shelved_and_unshelved(conductor: Conductor, uuid: str, vm_state: str, power: int) -> None:
    """It keeps its host and what it claims; meanwhile nothing else is done with it, and it may be evacuated as it is."""
    set_state(conductor, uuid, vm_state, power)
    used = conductor.memory_used("h1")
    assert states.SHELVING == ask(conductor, "shelve_instance", uuid)
    assert report(conductor, uuid, states.SHELVING, OFF)
    assert ("shelved", None, OFF) == shown(conductor, uuid)
    assert used == conductor.memory_used("h1")
    assert {} == conductor.agents.compare_instances({"h1": [uuid]}, {"h1": {uuid: OFF}})
    assert [] == conductor.operator.examine()["down"]
    for other, options in ((START, {}), (REBOOT, {"hard": True}), (SUSPEND, {}), ("shelve_instance", {})):
        with pytest.raises(errors.Conflict, match="is SHELVED: unshelve it first"):
            ask(conductor, other, uuid, **options)
    with pytest.raises(errors.Conflict, match="unshelve it first"):
        conductor.operator.migrate_instance(uuid)
    assert states.UNSHELVING == ask(conductor, "unshelve_instance", uuid)
    assert report(conductor, uuid, states.UNSHELVING, ON)
    assert ("active", None, ON) == shown(conductor, uuid)
    assert [(each, "success", "") for each in ("shelve", "unshelve")] == power_events(conductor, uuid)


@pytest.mark.parametrize(
    ("before", "method"),
    [
        (("active", ON), "shelve_instance"),
        (("stopped", OFF), "shelve_instance"),
        (("shelved", OFF), "unshelve_instance"),
    ],
)
def test_a_shelve_or_unshelve_that_fails_or_is_late(
    conductor: Conductor, uuid: str, before: tuple[str, int], method: str
) -> None:
    """The instance is as it was, with an event that says why."""
    set_state(conductor, uuid, *before)
    task = ask(conductor, method, uuid)
    report(conductor, uuid, task, before[1], "the hypervisor said no")
    assert (before[0], None, before[1]) == shown(conductor, uuid)
    ask(conductor, method, uuid)
    conductor.clock.advance(conductor.limits.power_timeout_s)
    assert 1 == conductor.power_sweeper.sweep()
    assert (before[0], None, before[1]) == shown(conductor, uuid)
    assert ["failed", "PowerTimeout"] == [result for _event, result, _why in power_events(conductor, uuid)]


def test_a_repeated_request_is_one_task(conductor: Conductor, uuid: str) -> None:
    """A client whose answer was lost asks again."""
    assert [states.POWERING_OFF] * 2 == [ask(conductor, STOP, uuid) for _twice in range(2)]
    assert [True, False] == [report(conductor, uuid, states.POWERING_OFF, OFF) for _twice in range(2)]
    assert 1 == len(power_events(conductor, uuid))


def test_a_failure_leaves_the_instance_as_it_was(conductor: Conductor, uuid: str) -> None:
    ask(conductor, STOP, uuid)
    assert report(conductor, uuid, states.POWERING_OFF, ON, "the hypervisor said no")
    assert ("active", None, ON) == shown(conductor, uuid)
    assert [("stop", "failed", "the hypervisor said no")] == power_events(conductor, uuid)


@pytest.mark.parametrize(("task", "host"), [(states.POWERING_ON, "h1"), (states.POWERING_OFF, "h2")])
def test_a_report_that_does_not_fit_changes_nothing(conductor: Conductor, uuid: str, task: str, host: str) -> None:
    """About another task, or by another host."""
    ask(conductor, STOP, uuid)
    assert not report(conductor, uuid, task, ON, host=host)
    assert ("active", states.POWERING_OFF, ON) == shown(conductor, uuid)


def test_a_lost_order_is_sent_again_until_the_deadline(conductor: Conductor, uuid: str) -> None:
    """After it the instance is as before, with an event that says why; a late report changes nothing."""
    conductor.compute.without_queue.add("h1")
    ask(conductor, STOP, uuid)
    assert [] == conductor.compute.power
    conductor.compute.without_queue.clear()
    assert 0 == conductor.power_sweeper.sweep()
    conductor.clock.advance(conductor.limits.placing_timeout_s)
    assert 1 == conductor.power_sweeper.sweep()
    assert [("h1", uuid)] == conductor.compute.power
    assert 0 == conductor.power_sweeper.sweep()
    conductor.clock.advance(conductor.limits.power_timeout_s)
    assert 1 == conductor.power_sweeper.sweep()
    assert ("active", None, ON) == shown(conductor, uuid)
    late = "Host h1 did not end powering-off within 300 s."
    assert [("stop", "PowerTimeout", late)] == power_events(conductor, uuid)
    assert not report(conductor, uuid, states.POWERING_OFF, OFF)


def test_other_sweepers_leave_power_tasks_alone(conductor: Conductor, uuid: str) -> None:
    ask(conductor, STOP, uuid)
    conductor.clock.advance(conductor.limits.placing_timeout_s)
    assert (0, 0) == (conductor.sweeper.sweep(), conductor.move_sweeper.sweep())
    assert ("active", states.POWERING_OFF, ON) == shown(conductor, uuid)


def test_a_deletion_ends_a_power_task(conductor: Conductor, uuid: str) -> None:
    """The host destroys the guest; the report about the task is late."""
    ask(conductor, STOP, uuid)
    conductor.termination.terminate(context(), [uuid])
    assert not report(conductor, uuid, states.POWERING_OFF, OFF)
    conductor.agents.destroyed(context(), uuid, "h1")
    assert "deleted" == shown(conductor, uuid)[0]


REFUSED = [
    pytest.param(("active", ON), START, {}, "its guest is running: it must be off", id="runs already"),
    pytest.param(("stopped", OFF), STOP, {}, "its guest is off: it must run", id="off already"),
    pytest.param(("stopped", OFF), REBOOT, {}, "it must be ACTIVE", id="a soft reboot of nothing"),
    pytest.param(("active", OFF), SUSPEND, {}, "its guest is off: it must run", id="nothing to suspend"),
    pytest.param(("suspended", HALTED), SUSPEND, {}, "it must run", id="suspended already"),
    pytest.param(("active", ON), RESUME, {}, "it must be SUSPENDED", id="not suspended"),
    pytest.param(("suspended", OFF), START, {}, "it must be off", id="a start in place of a resume"),
    pytest.param(("suspended", OFF), STOP, {}, "it must run", id="a stop of a suspended one"),
    pytest.param(("active", ON), "unshelve_instance", {}, "it must be SHELVED", id="not shelved"),
    pytest.param(("suspended", OFF), "shelve_instance", {}, "it must be ACTIVE or STOPPED", id="a suspended one"),
    pytest.param(("resized", ON), STOP, {}, "is RESIZED", id="a resize waits"),
    pytest.param(("error", ON), REBOOT, {"hard": True}, "is ERROR", id="in error"),
]


@pytest.mark.parametrize(("state", "method", "options", "reason"), REFUSED)
def test_what_cannot_be_switched(
    conductor: Conductor, uuid: str, state: tuple[str, int], method: str, options: dict, reason: str
) -> None:
    set_state(conductor, uuid, *state)
    with pytest.raises(errors.Conflict, match=reason):
        ask(conductor, method, uuid, **options)
    assert [] == conductor.compute.power


ALLOWED = [
    pytest.param(("active", CRASHED), START, id="a guest that has ended by itself"),
    pytest.param(("stopped", ON), STOP, id="a guest that somebody else has started"),
    pytest.param(("suspended", ON), SUSPEND, id="a guest that somebody else has resumed"),
]


@pytest.mark.parametrize(("state", "method"), ALLOWED)
def test_a_guest_that_differs_from_its_row_can_be_switched(
    conductor: Conductor, uuid: str, state: tuple[str, int], method: str
) -> None:
    set_state(conductor, uuid, *state)
    assert ask(conductor, method, uuid) in states.POWER_TASKS


def set_state(conductor: Conductor, uuid: str, vm_state: str, power_state: int) -> None:
    values = {"vm_state": vm_state, "power_state": power_state}
    conductor.database.write(lambda tx: tx.update(models.instances, uuid, values))


def test_an_instance_on_a_host_that_is_down_cannot_be_switched(conductor: Conductor, uuid: str) -> None:
    conductor.clock.advance(conductor.limits.service_down_time_s + 1)
    with pytest.raises(errors.Conflict, match="on a host whose fleet-compute is down"):
        ask(conductor, STOP, uuid)


def test_an_instance_with_a_task_cannot_be_switched_or_moved(conductor: Conductor, uuid: str) -> None:
    ask(conductor, STOP, uuid)
    for method, arguments in ((START, {}), ("migrate_instance", {})):
        with pytest.raises(errors.Conflict, match="powering-off"):
            getattr(conductor.operator, method)(uuid, **arguments)
    report(conductor, uuid, states.POWERING_OFF, OFF)
    with pytest.raises(errors.Conflict, match="start it first"):
        conductor.operator.migrate_instance(uuid)


def test_a_stopped_instance_is_compared_by_its_power_state(conductor: Conductor, uuid: str) -> None:
    """A guest that is off is as it should be. A guest that runs, or is gone, is not."""
    ask(conductor, STOP, uuid)
    report(conductor, uuid, states.POWERING_OFF, OFF)
    held = {"h1": [uuid]}
    assert {} == conductor.agents.compare_instances(held, {"h1": {uuid: OFF}})
    for other in (ON, states.NOSTATE):
        assert held == conductor.agents.compare_instances(held, {"h1": {uuid: other}})
    assert [] == conductor.operator.examine()["down"]
