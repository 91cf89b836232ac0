# SPDX-License-Identifier: Apache-2.0
"""A host that boots in the middle of its recovery keeps its guests. Those that its fence has switched off are started."""

from __future__ import annotations

import dataclasses

import pytest

from conductor_stub.power.machine import PowerReport
from conductor_stub.steps.attempt import Attempt
from conductor_stub.steps.fence import Outcome
from conductor_stub.upkeep_conf import FENCE_NONE
from fleet import states
from fleet.db.engine.database import Database
from fleet.db.hosts.heartbeats import Heartbeat
from tests.functional.test_recovery import FAILED, SETTINGS, Stage
from tests.worlds.conductor import INCARNATION, context

ANEW = "life-two"


class Booting(Stage):
    """h1 is lost, and boots while others judge it."""

    def boot(self) -> None:
        self.conductor.clock.advance(1)
        self.conductor.add_host("h1", incarnation=ANEW)
        self.look()

    def look(self, after_s: float = 0) -> None:
        self.conductor.clock.advance(after_s)
        self.beat("h1")
        self.conductor.agents.report_state(Heartbeat("fleet-compute", ["h1"], ANEW))
        self.conductor.keeper.look()

    def fence(self, *outcomes: Outcome) -> None:
        self.conductor.outcomes.extend(outcomes)
        self.lose("h1")
        self.conductor.run_fences()
        self.go_on(1, "h1")

    def find_it_back(self) -> None:
        """The destinations of all evacuations under way learn that the host is back."""
        for row in self.conductor.operator.list_migrations({}):
            if row["status"] == "pre-migrating":
                attempt = Attempt(row["uuid"], row["attempt"], "h2", "h2", INCARNATION)
                self.conductor.move_progress.advance(context(), attempt, "pre-migrating")

    def started(self) -> list[str]:
        """Let the sweeper notify the host, which starts what its rows say, and return it."""
        self.conductor.power_sweeper.sweep()
        notices, self.conductor.compute.power = self.conductor.compute.power, []
        tasks = {uuid: str(self.conductor.state(uuid)[1]) for _host, uuid in notices}
        for uuid, task in tasks.items():
            power_state = states.SHUTDOWN if task == states.POWERING_OFF else states.RUNNING
            assert self.conductor.agents.power_done(context(), PowerReport(uuid, "h1", task, power_state))
        return [uuid for uuid, task in tasks.items() if task == states.POWERING_ON]

    def shown(self) -> tuple[str, list[str], list[str | None]]:
        return self.recovery()["status"], self.statuses(), [each["problem"] for each in self.recovery()["guests"]]


def test_guests_that_their_fence_has_switched_off_are_started(database: Database) -> None:
    """Once each: two whose evacuations have ended in vain, and one that waited for its turn."""
    stage = Booting(database)
    stage.fence()
    stage.evacuate(ends=False)
    stage.boot()
    assert ("moving", ["moving", "moving", "stayed"], [None] * 3) == stage.shown()
    assert 1 == len(stage.started())
    stage.find_it_back()
    stage.look()
    assert ("returned", ["stayed"] * 3, [None] * 3) == stage.shown()
    assert 2 == len(stage.started())
    assert [("active", None, "h1")] * 3 == [
        (*stage.conductor.state(uuid)[:2], stage.host_of(uuid)) for uuid in stage.guests
    ]
    assert ["starting", "starting", "returned"] == stage.steps()[-3:]
    told = [each["message"] for each in stage.recovery()["steps"] if each["step"] == "starting"]
    assert [f"{number} guests that are to run stay on the host, which was off" for number in (1, 2)] == told
    stage.look()
    assert [] == stage.started()


@pytest.mark.parametrize("task", ["stop_instance", "reboot_instance"])
def test_a_guest_with_a_task_is_started_after_it(database: Database, task: str) -> None:
    """The recovery shows that the guest waits for its task. An instance that was stopped is not started."""
    stage = Booting(database, guests=1)
    stage.fence()
    stage.evacuate(ends=False)
    stage.conductor.clock.advance(1)
    stage.conductor.add_host("h1", incarnation=ANEW)
    stage.find_it_back()
    getattr(stage.conductor.operator, task)(stage.guests[0])
    stage.look()
    problem = "its host is back, and was off: it is started when its task has ended"
    assert ("moving", ["waiting"], [problem]) == stage.shown()
    for _look in range(2):
        stage.look()
    assert 1 == stage.recovery()["guests"][0]["tries"]
    assert [] == stage.started()
    stage.look()
    assert ("returned", ["stayed"], [None]) == stage.shown()
    assert (stage.guests if task == "reboot_instance" else []) == stage.started()


def test_a_fence_that_fails_may_have_switched_the_host_off(database: Database) -> None:
    stage = Booting(database, guests=1)
    stage.fence(FAILED)
    stage.boot()
    stage.look(20)
    assert ("returned", ["stayed"], [None]) == stage.shown()
    assert stage.guests == stage.started()


@pytest.mark.parametrize(
    ("vm_state", "fence", "anew"),
    [
        pytest.param("stopped", "command", True, id="a guest that was stopped"),
        pytest.param("active", FENCE_NONE, True, id="its agent was started again, nothing was switched off"),
        pytest.param("active", "command", False, id="its agent was only cut off"),
    ],
)
def test_what_is_not_started(database: Database, vm_state: str, fence: str, anew: bool) -> None:
    stage = Booting(database, guests=1, settings=dataclasses.replace(SETTINGS, fence=fence))
    if vm_state == "stopped":
        stage.conductor.operator.stop_instance(stage.guests[0])
        stage.started()
    stage.fence(*([] if anew else [FAILED]))
    if anew:
        stage.evacuate(ends=False)
        stage.boot()
        stage.find_it_back()
        stage.look()
    else:
        stage.go_on(30)
    assert ("returned", ["stayed"]) == stage.shown()[:2]
    assert [] == stage.started()
