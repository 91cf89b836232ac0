# SPDX-License-Identifier: Apache-2.0
"""Hosts of a maintenance that do not come back: they hold up nothing for ever, and what is left on them is recovered."""

from __future__ import annotations

import pytest

from conductor_stub.steps.hook import Ended
from conductor_stub.steps.recovery_settings import RecoverySettings
from fleet import states
from fleet.db.engine.database import Database
from fleet.db.instances import instances
from tests.functional.test_maintenance import SETTINGS, Stage
from tests.worlds.conductor import Conductor

RETURN_S = SETTINGS.return_timeout_s
LATE = f"it has not returned within {RETURN_S:.0f} s: "


class Dying(Stage):
    """h1 has a stopped guest. A host that is down is fenced and recovered."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        on = RecoverySettings(enabled=True, fence_command=["/sbin/off"], wait_time_s=120)
        self.conductor = Conductor(database, maintenance=SETTINGS, recovery=on, clock=self.conductor.clock)
        guest = self.add("h1")
        resting = {"vm_state": "stopped", "power_state": states.SHUTDOWN}
        database.write(lambda tx: tx.update(instances.INSTANCES, guest, resting))

    def work(self, *ends: Ended, **options: object) -> None:
        """Run a maintenance of h1 and then h2, until the hook of h1 has ended."""
        self.conductor.hook_ends.extend(ends)
        self.run(["h1"], ["h2"], hook="reboot", **options)
        self.look()
        self.later()
        self.look()
        self.conductor.run_fences()

    def wait(self, seconds: float, *silent: str) -> None:
        """Let time pass in steps in which conductors look for hosts to recover."""
        for _ in range(int(seconds / 30)):
            self.later(30, *silent)
            self.conductor.keeper.look()

    def recovered(self) -> list[str]:
        return [each["host"] for each in self.conductor.operator.list_recoveries()["recoveries"]]

    def told(self) -> list[str]:
        infos = self.conductor.notifier.infos
        return [said["problem"] for event, said in infos if event == "maintenance.host.failed"]


@pytest.fixture
def stage(database: Database) -> Dying:
    return Dying(database)


def test_a_host_that_dies_beside_its_hook(stage: Dying) -> None:
    """It has the time to return; then it has failed, and its stopped guest is recovered."""
    stage.work()
    stage.wait(RETURN_S - 30, "h1")
    assert ("returning", "its agent is down", [], []) == (
        *(stage.hosts()["h1"], stage.problem("h1")),
        *(stage.recovered(), stage.told()),
    )
    stage.wait(60, "h1")
    late = f"{LATE}its agent is down"
    assert ("failed", late, ["h1"], [late]) == (
        *(stage.hosts()["h1"], stage.problem("h1")),
        *(stage.recovered(), stage.told()),
    )
    assert "h1" in stage.disabled()


def test_a_host_of_another_release_is_not_recovered(stage: Dying) -> None:
    """Its agent is up: it stays out of use."""
    stage.work(wanted_release="9.9")
    stage.wait(RETURN_S + 60)
    assert ("failed", [], ["h1"]) == (stage.hosts()["h1"], stage.recovered(), stage.disabled())
    assert "and 9.9 is wanted" in str(stage.problem("h1"))


def test_a_host_whose_agent_is_not_well_for_too_long(stage: Dying) -> None:
    """No report enables it afterwards: an operator decides."""
    stage.alarms["h1"] = "no disk"
    stage.work()
    stage.wait(RETURN_S + 60)
    assert ("failed", f"{LATE}its agent takes no builds: no disk") == (stage.hosts()["h1"], stage.problem("h1"))
    stage.alarms.clear()
    stage.wait(60)
    assert ("failed", ["h1"]) == (stage.hosts()["h1"], stage.disabled())


@pytest.mark.parametrize("silent", [(), ("h1",)], ids=["up", "down"])
def test_a_host_whose_hook_has_failed(stage: Dying, silent: tuple[str, ...]) -> None:
    """No fence breaks into what the hook may have left behind; an operator may ask for it."""
    stage.work(Ended(False, "the hook failed: exit status 3"))
    stage.wait(180, *silent)
    assert ("failed", []) == (stage.hosts()["h1"], stage.recovered())
    if silent:
        stage.conductor.operator.start_recovery("h1")
        assert ["h1"] == stage.recovered()


def test_a_host_that_is_given_more_time(stage: Dying) -> None:
    """The work was done: no hook runs again, and the whole time counts anew."""
    stage.work()
    stage.wait(RETURN_S + 30, "h1")
    assert "failed" == stage.hosts()["h1"]
    stage.conductor.operator.pause_maintenance("kernel", False)
    stage.wait(RETURN_S - 120, "h1")
    assert "returning" == stage.hosts()["h1"]
    stage.wait(90)
    assert ({"h1": "done", "h2": "draining"}, 1) == (stage.hosts(), len(stage.conductor.hooked))


def test_a_pause_is_no_time_to_return_in(stage: Dying) -> None:
    stage.work()
    stage.later(5, "h1")
    stage.conductor.operator.pause_maintenance("kernel", True)
    stage.wait(RETURN_S, "h1")
    stage.conductor.operator.pause_maintenance("kernel", False)
    stage.look()
    assert "returning" == stage.hosts()["h1"]


def test_a_host_that_is_down_before_its_turn(stage: Dying) -> None:
    """It may come back; then it is left out. The wave after it goes on, and no hook runs for it."""
    stage.conductor.clock.advance(120)
    stage.run(["h2"], ["h3"], hook="reboot")
    stage.wait(RETURN_S, "h2")
    assert ({"h2": "waiting", "h3": "waiting"}, "its agent is down") == (stage.hosts(), stage.problem("h2"))
    stage.wait(60, "h2")
    assert ({"h2": "skipped", "h3": "draining"}, ["h3"]) == (stage.hosts(), stage.disabled())
    assert "its agent is down: it was not drained" == stage.problem("h2")


def test_a_host_that_is_back_in_its_turn(stage: Dying) -> None:
    stage.conductor.clock.advance(120)
    stage.run(["h2"], hook="reboot")
    stage.later(1, "h2")
    assert ("waiting", "its agent is down") == (stage.hosts()["h2"], stage.problem("h2"))
    stage.later(5)
    assert ("draining", None) == (stage.hosts()["h2"], stage.problem("h2"))


def test_a_pause_is_no_time_to_come_back_in(stage: Dying) -> None:
    stage.conductor.clock.advance(120)
    stage.run(["h2"], hook="reboot")
    stage.later(1, "h2")
    stage.conductor.operator.pause_maintenance("kernel", True)
    stage.wait(RETURN_S + 60, "h2")
    stage.conductor.operator.pause_maintenance("kernel", False)
    stage.look()
    assert ("waiting", "its agent is down") == (stage.hosts()["h2"], stage.problem("h2"))


def test_a_host_that_is_off_before_its_turn(stage: Dying, database: Database) -> None:
    """Nothing is waited for."""
    stage.conductor.operator.force_down("h2", True)
    stage.run(["h2"], ["h3"], hook="reboot")
    stage.look(2)
    assert ({"h2": "skipped", "h3": "draining"}, ["h3"]) == (stage.hosts(), stage.disabled())


def test_a_host_that_dies_while_it_is_drained(stage: Dying) -> None:
    """Nobody recovers it: it fails, and drains on when it is back."""
    stage.conductor = stage.other
    stage.add("h2")
    stage.run(["h2"], hook="reboot")
    stage.look()
    stage.wait(RETURN_S - 60, "h2")
    assert "draining" == stage.hosts()["h2"]
    stage.wait(120, "h2")
    assert ("failed", ["its agent is down: it was lost while it was drained"]) == (stage.hosts()["h2"], stage.told())
    stage.conductor.operator.pause_maintenance("kernel", False)
    stage.wait(60, "h2")
    assert "draining" == stage.hosts()["h2"]
    stage.later()
    stage.look()
    assert 1 == len(stage.moving())


def test_a_host_that_dies_when_it_is_empty_gets_no_hook(stage: Dying) -> None:
    """Until it is back."""
    stage.run(["h3"], hook="reboot")
    stage.look()
    stage.conductor.clock.advance(90)
    stage.beat("h3")
    stage.look(2)
    assert ("draining", "its agent is down", []) == (stage.hosts()["h3"], stage.problem("h3"), stage.conductor.fences)
    stage.later(5)
    stage.look()
    assert ("working", 1) == (stage.hosts()["h3"], len(stage.conductor.fences))


def test_a_paused_maintenance_whose_last_host_is_left_out_ends(stage: Dying) -> None:
    """Its name is free again."""
    stage.work(Ended(False, "the hook failed: exit status 3"))
    stage.conductor.operator.pause_maintenance("kernel", True)
    for host in ("h2", "h1"):
        stage.look()
        assert "running" == stage.shown()["maintenance"]["status"]
        stage.conductor.operator.skip_maintenance_host("kernel", host)
    stage.look()
    assert "ended" == stage.shown()["maintenance"]["status"]
    assert ["maintenance.ended"] == [
        event for event, _said in stage.conductor.notifier.infos if event.endswith("ended")
    ]
    stage.run(["h1"])
