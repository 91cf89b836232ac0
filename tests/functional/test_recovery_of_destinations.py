# SPDX-License-Identifier: Apache-2.0
"""Hosts whose only guests are those that the ledger has elsewhere, or nowhere yet, are fenced when they are down."""

from __future__ import annotations

import dataclasses

import pytest

from conductor_stub.steps.attempt import Attempt
from conductor_stub.upkeep_conf import FENCE_COMMAND, FENCE_NONE, FENCE_STORAGE
from fleet import errors
from fleet.db.engine.database import Database
from tests.functional.test_recovery import SETTINGS, Stage
from tests.worlds.conductor import INCARNATION, context


def begins(stage: Stage, silent: str) -> None:
    """Let time pass until a recovery has just begun: its fence has a time."""
    for _look in range(60):
        if stage.recoveries():
            return
        stage.go_on(20, silent)
    pytest.fail(f"no recovery of {silent} begins")


class Leaving(Stage):
    """The guest of h1 has nothing that two guests may not share, and was moving to h2, which is silent by now."""

    def __init__(self, database: Database, fence: str = FENCE_COMMAND) -> None:
        super().__init__(database, 1, dataclasses.replace(SETTINGS, largest_share=0.6, fence=fence))
        self.lose("h1")
        self.conductor.run_fences()
        self.go_on(1, "h1")
        assert 1 == self.evacuate("h2", ends=False)
        self.go_on(80, "h1", "h2")

    def give_up(self) -> None:
        """The move goes on to h3."""
        self.conductor.move_sweeper.sweep()
        assert 1 == self.evacuate("h3")
        self.go_on(1, "h1", "h2")
        assert ("h3", "done") == (self.host_of(self.guests[0]), self.recovery()["status"])

    def fenced(self) -> list[str]:
        self.conductor.run_fences()
        return [order.host for order in self.conductor.fenced]


@pytest.mark.every_database
@pytest.mark.parametrize("is_back", [False, True], ids=["its former host is off", "its former host is back"])
def test_a_destination_that_was_given_up_is_fenced(database: Database, is_back: bool) -> None:
    """The guest runs elsewhere by then, and may run there too. Off for certain, the host is not fenced again."""
    stage = Leaving(database)
    assert [None] == [each["problem"] for each in stage.recovery()["guests"]]
    stage.give_up()
    assert ["h1"] == [row["host"] for row in stage.recoveries()]
    if is_back:
        stage.conductor.agents.destroyed(context(), stage.guests[0], "h1")
        assert "completed" == stage.conductor.operator.list_migrations({})[0]["status"]
    stage.lose("h1", "h2")
    begun = stage.recovery("h2")["steps"][0]["message"]
    assert begun.startswith("0 guests, and 1 that were given up there and may run; ")
    assert ["h1", "h2"] == stage.fenced()
    stage.go_on(600, "h1", "h2")
    assert ("done", ["h1", "h2"]) == (stage.recovery("h2")["status"], stage.fenced())
    assert 2 == len(stage.recoveries())


def test_a_destination_that_was_given_up_and_is_back_is_not_fenced(database: Database) -> None:
    """Its agent removes the guest. Silent again, the host has nothing to be recovered."""
    stage = Leaving(database)
    stage.give_up()
    stage.go_on(20, "h1")
    stage.lose("h1", "h2")
    assert (["h1"], 1) == (stage.fenced(), len(stage.recoveries()))


def test_a_destination_whose_guest_is_deleted_is_not_fenced(database: Database) -> None:
    stage = Leaving(database)
    stage.give_up()
    stage.conductor.termination.terminate(context(), stage.guests)
    stage.lose("h1", "h2")
    assert (["h1"], 1) == (stage.fenced(), len(stage.recoveries()))


@pytest.mark.parametrize("fence", [FENCE_NONE, FENCE_STORAGE])
def test_a_destination_that_was_given_up_is_recovered_once_without_a_fence(database: Database, fence: str) -> None:
    """The risk is in the steps of its recovery. It would otherwise begin again and again."""
    stage = Leaving(database, fence)
    stage.give_up()
    stage.lose("h1", "h2")
    stage.go_on(600, "h1", "h2")
    assert {"h1": "done", "h2": "done"} == {row["host"]: row["status"] for row in stage.recoveries()}
    assert 2 == len(stage.recoveries())


def test_a_destination_that_was_off_when_its_move_went_on_is_not_fenced_later(database: Database) -> None:
    """It was forced down before, and an operator takes that back before its agent starts."""
    stage = Leaving(database)
    stage.conductor.operator.force_down("h2", True)
    stage.give_up()
    stage.conductor.run_fences()
    stage.conductor.operator.force_down("h2", False)
    fenced = stage.fenced()
    stage.lose("h1", "h2")
    assert fenced == stage.fenced()


def test_a_former_destination_is_fenced_after_a_revert(database: Database) -> None:
    """The guest ran there until its resize was reverted, and the revert did not wait for the silent host."""
    stage = Stage(database, 0, dataclasses.replace(SETTINGS, wait_time_s=600))
    uuid = stage.resize("h2", "h1")
    stage.go_on(80, "h1")
    stage.conductor.operator.revert_resize(uuid)
    stage.go_on(60, "h1")
    stage.conductor.move_sweeper.sweep()
    (record,) = stage.conductor.operator.list_migrations({"instance_uuid": uuid})
    back = Attempt(record["uuid"], record["attempt"], "h2", "h2", INCARNATION)
    stage.conductor.move_progress.advance(context(), back, "resuming")
    assert ("active", "h2") == (stage.conductor.state(uuid)[0], stage.host_of(uuid))
    begins(stage, "h1")
    stage.conductor.run_fences()
    assert ["h1"] == [order.host for order in stage.conductor.fenced]


class Building(Stage):
    """h2 has nothing but a build with an address, which it has claimed."""

    def __init__(self, database: Database, fence: str = FENCE_COMMAND) -> None:
        super().__init__(database, 0, dataclasses.replace(SETTINGS, fence=fence))
        self.conductor.operator.create_network({"name": "lab", "bridge": "br0", "subnet": "192.0.2.0/24"})
        self.uuid = self.conductor.place("h2", networks=[{"network": "lab"}])
        self.conductor.claim(self.uuid, "h2")

    def waits_for(self) -> str | None:
        return self.conductor.operator.show_instance(self.uuid).get("waits_for")

    def sweep(self) -> None:
        self.conductor.scheduler.answers.append([("h3", ())])
        self.conductor.sweeper.sweep()
        self.conductor.work()

    def give_up(self) -> None:
        """The time of the build is over, and recoveries were not on until then."""
        self.conductor.operator.create_aggregate("rack", {"recovery": "off"})
        self.conductor.operator.add_aggregate_host("rack", "h2")
        self.go_on(self.conductor.limits.build_timeout_s, "h2")
        self.conductor.sweeper.sweep()
        assert ("error", None, 1, None) == self.conductor.state(self.uuid)
        self.conductor.operator.remove_aggregate_host("rack", "h2")

    def recover(self) -> None:
        """Let the recovery of h2 begin, fence, and be as far as it comes before the build goes on."""
        begins(self, "h2")
        self.conductor.run_fences()
        self.go_on(1, "h2")


@pytest.mark.every_database
def test_a_host_that_only_builds_is_fenced(database: Database) -> None:
    """The build then goes on elsewhere. Until then it says for what it waits."""
    stage = Building(database)
    assert stage.waits_for() is None
    stage.go_on(80, "h2")
    stage.sweep()
    assert ("building", "spawning", 1, "h2") == stage.conductor.state(stage.uuid)
    assert (stage.waits_for() or "").startswith(
        "host h2, which is silent and may run it: until h2 is fenced, back, or "
    )
    stage.recover()
    begun = stage.recovery("h2")["steps"][0]["message"]
    assert begun.startswith("0 guests, and 1 builds that may run there; ")
    assert ("moving", None) == (stage.recovery("h2")["status"], stage.waits_for())
    stage.sweep()
    assert ("placing", 2) == stage.conductor.state(stage.uuid)[1:3]
    stage.go_on(1, "h2")
    assert ("done", ["h2"]) == (stage.recovery("h2")["status"], [order.host for order in stage.conductor.fenced])
    stage.go_on(600, "h2")
    assert 1 == len(stage.recoveries())


@pytest.mark.every_database
def test_a_host_of_a_build_that_was_given_up_is_fenced(database: Database) -> None:
    """Its addresses are free then."""
    stage = Building(database)
    stage.give_up()
    stage.recover()
    begun = stage.recovery("h2")["steps"][0]["message"]
    assert begun.startswith("0 guests, and 1 builds that may run there; ")
    stage.go_on(40, "h2")
    stage.conductor.sweeper.sweep()
    stage.go_on(1, "h2")
    assert "done" == stage.recovery("h2")["status"]
    shown = stage.conductor.operator.show_instance(stage.uuid)["instance"]
    assert not shown["interfaces"]


def test_a_build_that_finds_no_other_host_says_what_became_of_the_first(database: Database) -> None:
    """The scheduler only knows that it was tried."""
    stage = Building(database)
    stage.recover()
    tried = errors.NoValidHost(reason="1 of 1 was tried.", details={"reason_code": "RACE_LOST"})
    stage.conductor.scheduler.answers.append(tried)
    stage.conductor.sweeper.sweep()
    stage.conductor.work()
    (fault,) = stage.conductor.faults(stage.uuid)
    assert "HOSTS_DOWN" == fault["details"]["reason_code"]
    assert fault["message"].endswith("attempt 1 on h2 in step spawning: host h2 stopped sending heartbeats.")


def test_a_host_of_a_build_without_a_fence_waits_for_an_operator(database: Database) -> None:
    """Nobody has switched it off. His word ends the wait."""
    stage = Building(database, FENCE_NONE)
    stage.recover()
    told = "guests (1 builds that may run there) wait until it is off for certain: switch it off, and say so with "
    assert ("moving", told + "'fleet service force-down h2'") == tuple(
        stage.recovery("h2")[name] for name in ("status", "problem")
    )
    stage.conductor.operator.force_down("h2", True)
    stage.sweep()
    stage.go_on(1, "h2")
    assert ("placing", "done") == (stage.conductor.state(stage.uuid)[1], stage.recovery("h2")["status"])


def test_an_operator_recovers_a_host_that_only_builds(database: Database) -> None:
    stage = Building(database)
    stage.go_on(80, "h2")
    assert "fencing" == stage.conductor.operator.start_recovery("h2")["status"]


def test_builds_on_a_host_that_was_forced_down_need_no_fence(database: Database) -> None:
    """They go on by themselves, and the host has nothing else."""
    stage = Building(database)
    stage.conductor.operator.force_down("h2", True)
    stage.go_on(1, "h2")
    stage.sweep()
    assert ("placing", 2) == stage.conductor.state(stage.uuid)[1:3]
    assert [] == stage.recoveries()
