# SPDX-License-Identifier: Apache-2.0
"""Power states that an agent reports: stored by compare-and-set, with an event, and with a fault on demand."""

from __future__ import annotations

import pytest

from conductor_stub.agents.guests import Observation
from conductor_stub.operators.diagnosis import Diagnosis
from fleet import states
from tests.worlds.conductor import Conductor, context

CRASHED, RUNNING, GONE = states.CRASHED, states.RUNNING, states.NOSTATE


@pytest.fixture
def uuid(conductor: Conductor) -> str:
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    return uuid


def seen(
    conductor: Conductor, uuid: str, found: int, expected: int = RUNNING, host: str = "h1", failed: bool = False
) -> bool:
    return conductor.agents.observed(context(), Observation(uuid, host, found, expected, failed))


def power(conductor: Conductor, uuid: str) -> tuple[str, int]:
    shown = conductor.operator.show_instance(uuid)["instance"]
    return shown["vm_state"], shown["power_state"]


def power_events(conductor: Conductor, uuid: str) -> list[str]:
    return [each["result"] for each in conductor.events(uuid) if each["event"] == "power"]


def test_only_rows_that_differ_are_looked_at_again(conductor: Conductor, uuid: str) -> None:
    """By what the driver shows; a guest of which it shows nothing is not among them."""
    compare = conductor.agents.compare_instances
    held = {"h1": [uuid]}
    assert {} == compare(held, {"h1": {uuid: RUNNING}})
    assert {} == compare(held, {"h1": {}})
    assert held == compare(held, {"h1": {uuid: GONE}})
    conductor.termination.terminate(context(), [uuid])
    assert {} == compare(held, {"h1": {uuid: GONE}})


def test_the_row_shows_what_was_found(conductor: Conductor, uuid: str) -> None:
    """Each change is an event; a repeated report changes nothing; what runs again is shown, too."""
    for _twice in range(2):
        assert seen(conductor, uuid, CRASHED)
    assert ("active", CRASHED) == power(conductor, uuid)
    assert seen(conductor, uuid, RUNNING, expected=CRASHED)
    assert ("active", RUNNING) == power(conductor, uuid)
    assert ["crashed", "success"] == power_events(conductor, uuid)


STALE = [
    ("another host", {"host": "h2"}),
    ("another state was expected", {"expected": states.SHUTDOWN}),
]


@pytest.mark.parametrize(("what", "changes"), STALE, ids=[case[0] for case in STALE])
def test_a_report_that_does_not_fit_changes_nothing(conductor: Conductor, uuid: str, what: str, changes: dict) -> None:
    assert not seen(conductor, uuid, CRASHED, **changes)
    assert ("active", RUNNING) == power(conductor, uuid)


def test_an_instance_that_is_worked_on_is_left_alone(conductor: Conductor, uuid: str) -> None:
    building = conductor.place("h1")
    conductor.claim(building, "h1")
    assert not seen(conductor, building, GONE, expected=GONE)
    conductor.termination.terminate(context(), [uuid])
    assert not seen(conductor, uuid, GONE)
    assert not seen(conductor, "00000000-0000-0000-0000-000000000000", GONE)


def test_an_instance_in_error_keeps_its_host_and_can_be_deleted(conductor: Conductor, uuid: str) -> None:
    """An instance is set to ERROR only after its row shows that its guest does not run."""
    assert not seen(conductor, uuid, CRASHED, failed=True)
    seen(conductor, uuid, CRASHED)
    for _twice in range(2):
        assert seen(conductor, uuid, CRASHED, expected=CRASHED, failed=True)
    assert ("error", None, 1, "h1") == conductor.state(uuid)
    (fault,) = conductor.faults(uuid)
    assert ("GuestDown", "The guest on host h1 does not run: its process has ended.") == (
        fault["error"],
        fault["message"],
    )
    assert 1024 == conductor.memory_used("h1")
    conductor.termination.terminate(context(), [uuid])
    assert [("h1", uuid)] == conductor.compute.terminations
    conductor.agents.destroyed(context(), uuid, "h1")
    assert 0 == conductor.memory_used("h1")


def test_the_examination_lists_active_instances_without_a_running_guest(conductor: Conductor, uuid: str) -> None:
    examine = Diagnosis(conductor.database, "c1", conductor.clock).run
    assert [] == examine()["down"]
    seen(conductor, uuid, CRASHED)
    assert [(uuid, "h1", CRASHED)] == [(one["uuid"], one["host"], one["power_state"]) for one in examine()["down"]]
