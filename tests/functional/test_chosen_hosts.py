# SPDX-License-Identifier: Apache-2.0
"""Only the host that was chosen for a build claims it, hands it back or ends it; and it chooses no other host."""

from __future__ import annotations

import pytest

from conductor_stub.builds import choice
from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors
from fleet.db.tables import models
from fleet.objects import Place
from tests.functional.test_own_volumes import statements
from tests.worlds.conductor import Conductor, context

SPAWN = Failure(step="spawn", code="SpawnFailed", message="The driver said no", duration_s=0.5)
FULL = Failure(step="claim", code="ComputeResourcesUnavailable", message="it is full")


@pytest.fixture
def fleet(conductor: Conductor) -> Conductor:
    conductor.add_hosts(["h1", "h2", "h3", "evil"])
    return conductor


def orders(conductor: Conductor, uuid: str) -> list[str]:
    """The hosts that got an order."""
    return [host for host, build in conductor.compute.builds if build["instance"]["uuid"] == uuid]


@pytest.mark.parametrize("host", ["evil", "h2"])
def test_no_other_host_claims(fleet: Conductor, host: str) -> None:
    """Nor an alternate before its turn. The chosen host can still claim."""
    uuid = fleet.place("h1", "h2")
    with pytest.raises(errors.StaleBuild, match=f"host {host} was not chosen"):
        fleet.claim(uuid, host)
    assert ("building", "placing", 1, None) == fleet.state(uuid)
    assert "h1" == fleet.claim(uuid, "h1").host


def test_nobody_claims_before_a_host_is_chosen(fleet: Conductor) -> None:
    """A build that its conductor has taken, and a build that waits."""
    (uuid,) = fleet.create()
    with pytest.raises(errors.StaleBuild):
        fleet.claim(uuid, "evil")
    taken = fleet.database.write(fleet.placement._machine.take, [uuid], 1, fleet.placement.step_context())
    assert [uuid] == [row.uuid for row in taken]
    with pytest.raises(errors.StaleBuild, match="was not chosen"):
        fleet.claim(uuid, "evil")


def test_no_other_host_hands_back_or_ends_a_build(fleet: Conductor) -> None:
    """Before the claim, and after it."""
    uuid = fleet.place("h1", "h2")
    evil = Attempt(uuid, 1, "evil", "evil")
    for state in ("placing", "spawning"):
        fleet.placement.reschedule(context(), evil, SPAWN, [Place("evil", "evil", {})])
        fleet.placement.abort(context(), evil, SPAWN)
        assert ("building", state, 1, "h1" if state == "spawning" else None) == fleet.state(uuid)
        if state == "placing":
            fleet.claim(uuid, "h1")
    assert ["h1"] == orders(fleet, uuid)


@pytest.mark.parametrize("failure", [SPAWN, FULL], ids=["spawn", "claim"])
def test_a_host_does_not_choose_the_next_one(fleet: Conductor, failure: Failure) -> None:
    """The next host is an alternate of the scheduler, with the limits of the scheduler."""
    uuid = fleet.place("h1", "h2")
    if failure is SPAWN:
        fleet.claim(uuid, "h1")
    sent = [Place("evil", "evil", {"memory_mb": 10**6}), Place("h2", "h2", {"memory_mb": 10**6})]
    fleet.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), failure, sent)
    assert ["h1", "h2"] == orders(fleet, uuid)
    _host, order = fleet.compute.builds[-1]
    assert {} == order["limits"]
    attempt = fleet.state(uuid)[2]
    with pytest.raises(errors.StaleBuild):
        fleet.claim(uuid, "evil", attempt)
    fleet.claim(uuid, "h2", attempt)


def test_a_build_that_an_earlier_release_has_placed_is_claimed(fleet: Conductor) -> None:
    """Its row does not have the choice. What this release places next is compared."""
    uuid = fleet.place("h1")
    with fleet.database.engine.begin() as connection:
        connection.execute(models.instances.update().values(chosen=None))
    assert "h2" == fleet.claim(uuid, "h2").host


def test_the_choice_is_forgotten_with_the_end_of_the_build(fleet: Conductor) -> None:
    """So that lists of instances do not read it."""
    uuid = fleet.place("h1", "h2")
    fleet.claim(uuid, "h1")
    fleet.finish(uuid, "h1")
    with fleet.database.engine.connect() as connection:
        assert [None] == [row.chosen for row in connection.execute(models.instances.select())]


def test_the_choice_of_many_builds_is_one_statement(fleet: Conductor) -> None:
    """Each row gets its own places, with limits of any number. Databases without binary JSON take 16 builds at a time."""
    limits = {"memory_mb": 1.5e9, "disk_gb": 0.1}
    uuids = fleet.create(count=20)
    fleet.database.write(fleet.placement._machine.take, uuids, 1, fleet.placement.step_context())
    places = {
        uuid: [Place(f"h{number}", 'näme "x"', limits), Place("h2", "h2", {})] for number, uuid in enumerate(uuids)
    }
    with statements(fleet.database) as seen:
        fleet.database.write(choice.write, [{uuid: (1, each)} for uuid, each in places.items()])
    assert (1 if fleet.database.dialect == "postgresql" else 2) == sum("chosen" in each for each in seen)
    with fleet.database.engine.connect() as connection:
        found = {row.uuid: row.chosen for row in connection.execute(models.instances.select())}
    assert {uuid: [place.to_wire() for place in each] for uuid, each in places.items()} == found


def test_a_choice_for_an_earlier_attempt_is_not_written(fleet: Conductor) -> None:
    """Nor one for a build that waits again."""
    taken, waiting = fleet.create(count=2)
    fleet.database.write(fleet.placement._machine.take, [taken], 1, fleet.placement.step_context())
    place = [Place("evil", "evil", {})]
    fleet.database.write(choice.write, [{taken: (2, place), waiting: (1, place)}])
    with fleet.database.engine.connect() as connection:
        found = {row.uuid: row.chosen for row in connection.execute(models.instances.select())}
    assert {taken: [], waiting: None} == found
