# SPDX-License-Identifier: Apache-2.0
"""Administrators set the state of instances; what a machine drives is left to it."""

from __future__ import annotations

import pytest

from conductor_stub.power.machine import PowerReport
from fleet import errors, states
from fleet.db.tables import models
from fleet.db.upkeep import acts
from tests.worlds.conductor import Conductor, context


@pytest.fixture
def uuid(conductor: Conductor) -> str:
    uuid = conductor.place("h1", name="web")
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    return uuid


def test_error_and_back(conductor: Conductor, uuid: str) -> None:
    """It stays on its host with what it has claimed; the fault says who has done it, and the acts have it."""
    used = conductor.memory_used("h1")
    assert "error" == conductor.operator.reset_state(uuid, "error")["vm_state"]
    assert ("error", None, 1, "h1") == conductor.state(uuid)
    (fault,) = conductor.faults(uuid)
    assert ("StateReset", "An administrator has set the state of the instance to ERROR.") == (
        fault["error"],
        fault["message"],
    )
    conductor.operator.reset_state(uuid, "active")
    assert ("active", None, 1, "h1") == conductor.state(uuid)
    assert used == conductor.memory_used("h1")
    told = [(each["event"], each["message"]) for each in conductor.events(uuid)][-2:]
    assert [("reset-state", "error"), ("reset-state", "active")] == told
    changes = [row.changes for row in conductor.database.read(acts.newest, 2) if row.act == "server.reset_state"]
    assert [{"vm_state": ["error", "active"]}, {"vm_state": ["active", "error"]}] == changes


def test_a_repeated_request_changes_nothing(conductor: Conductor, uuid: str) -> None:
    for _twice in range(2):
        conductor.operator.reset_state(uuid, "error")
    assert (1, ["reset-state"]) == (
        len(conductor.faults(uuid)),
        [each["event"] for each in conductor.events(uuid) if each["event"] == "reset-state"],
    )


def test_a_power_task_ends(conductor: Conductor, uuid: str) -> None:
    """The host's report is late then."""
    conductor.operator.stop_instance(uuid)
    conductor.operator.reset_state(uuid, "active")
    assert ("active", None, 1, "h1") == conductor.state(uuid)
    report = PowerReport(uuid, "h1", states.POWERING_OFF, states.SHUTDOWN)
    assert not conductor.agents.power_done(context(), report)


@pytest.mark.parametrize("state", ["active", "error"])
def test_what_is_under_way_is_left_alone(conductor: Conductor, uuid: str, state: str) -> None:
    """A build, a move, a resize that waits, a deletion: each ends by itself or by its own verb."""
    building = conductor.place("h1", name="new")
    with pytest.raises(errors.Conflict, match=r"is BUILDING \(placing\): wait"):
        conductor.operator.reset_state(building, state)
    conductor.operator.migrate_instance(uuid)
    with pytest.raises(errors.Conflict, match=r"\(resize_prep\): wait"):
        conductor.operator.reset_state(uuid, state)
    values = {"vm_state": "resized", "task_state": None}
    conductor.database.write(lambda tx: tx.update(models.instances, uuid, values))
    with pytest.raises(errors.Conflict, match="confirm or revert its move first"):
        conductor.operator.reset_state(uuid, state)
    conductor.termination.terminate(context(), [uuid])
    with pytest.raises(errors.Conflict, match=r"\(deleting\): wait"):
        conductor.operator.reset_state(uuid, state)


def test_what_is_on_no_host_is_not_active(conductor: Conductor) -> None:
    """A build that has failed everywhere."""
    conductor.scheduler.answers.append(errors.NoValidHost(reason="none"))
    (uuid,) = conductor.create(name="web")
    conductor.work()
    with pytest.raises(errors.Conflict, match="it is on no host, so it cannot be ACTIVE; delete it"):
        conductor.operator.reset_state(uuid, "active")


def test_states_that_cannot_be_set(conductor: Conductor, uuid: str) -> None:
    for state in ("stopped", "", "ACTIVE"):
        with pytest.raises(errors.InvalidInput, match="state"):
            conductor.operator.reset_state(uuid, state)
