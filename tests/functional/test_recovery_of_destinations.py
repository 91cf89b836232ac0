# SPDX-License-Identifier: Apache-2.0
"""Hosts whose only guests are those that the ledger has elsewhere, or nowhere yet, are fenced when they are down."""

from __future__ import annotations

import dataclasses

import pytest

from conductor_stub.steps.attempt import Attempt
from conductor_stub.upkeep_conf import FENCE_COMMAND, FENCE_NONE, FENCE_STORAGE
from fleet.db.engine.database import Database
from tests.functional.test_recovery import SETTINGS, Stage
from tests.worlds.conductor import INCARNATION, context


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
def test_a_destination_that_was_given_up_is_fenced(database: Database) -> None:
    """The guest runs elsewhere by then, and may run there too. Off for certain, the host is not fenced again."""
    stage = Leaving(database)
    assert [None] == [each["problem"] for each in stage.recovery()["guests"]]
    stage.give_up()
    assert ["h1"] == [row["host"] for row in stage.recoveries()]
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
    while not stage.recoveries():
        stage.go_on(20, "h1")
    stage.conductor.run_fences()
    assert ["h1"] == [order.host for order in stage.conductor.fenced]
