# SPDX-License-Identifier: Apache-2.0
"""The scheduler requests of a dry run, the hints to schedulers, and the code of a fault."""

from __future__ import annotations

import oslo_messaging
import pytest

from conductor_stub.operators.announcements import Announcements
from conductor_stub.operators.catalog import CatalogManager
from conductor_stub.operators.dry_run import DryRun
from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.steps.limits import StepLimits
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.feed import feed
from fleet.objects import BuildRequest, Place, RequestSpec
from tests.worlds.conductor import Conductor, Operator, context


@pytest.fixture
def dry_run(conductor: Conductor, database: Database) -> DryRun:
    return DryRun(database, conductor.intake, conductor.placement)


FLAVOR = {"vcpus": 2, "memory_mb": 512, "extra_specs": {"hw:numa_nodes": "2"}}
ASKED = {"flavor": FLAVOR, "count": 2, "scheduler_hints": {"same_host": []}, "availability_zone": "east"}


def without_identity(asked: dict) -> tuple[dict, dict]:
    """Uuids differ from one request to the next."""
    spec, properties = asked["request_spec"], asked["filter_properties"]
    spec["instance_uuids"] = [str(len(each)) for each in spec["instance_uuids"]]
    spec["instance_properties"] = {**spec["instance_properties"], "uuid": "", "reservation_id": ""}
    return spec, properties


def test_a_request_that_is_not_made(conductor: Conductor, dry_run: DryRun) -> None:
    """A dry run returns exactly the request that a build sends to the scheduler, and writes nothing."""
    conductor.operator.create_group("apart", "anti-affinity", 1)
    conductor.operator.create_aggregate("racks", {"availability_zone": "east"})
    request = {**ASKED, "group": "apart"}
    planned = dry_run.request_for(context(), BuildRequest.from_wire(request))
    assert conductor.operator.list_instances({}) == []
    RequestSpec.from_wire(planned["request_spec"], planned["filter_properties"])

    conductor.scheduler.answers.append([("h1", ()), ("h1", ())])
    uuids = conductor.create(**request)
    conductor.work()
    ((spec, properties),) = conductor.scheduler.requests
    # As a group member the build knows of itself; the plan has no members yet.
    assert sorted(properties.pop("group_members")) == sorted(uuids)
    assert planned["filter_properties"].pop("group_members") == []
    properties.pop("retry")
    planned["filter_properties"].pop("retry")
    asked = {"request_spec": spec, "filter_properties": properties}
    assert without_identity(planned) == without_identity(asked)


def test_a_request_that_cannot_be_made(dry_run: DryRun) -> None:
    """A dry run refuses it as ``create`` does."""
    with pytest.raises(errors.NotFound):
        dry_run.request_for(context(), BuildRequest.from_wire({"flavor": "nosuch"}))


def test_an_instance_that_is_there(conductor: Conductor, dry_run: DryRun) -> None:
    """The request is that of its first attempt, under its own uuid."""
    uuid = conductor.place("h1", name="web")
    asked = dry_run.request_of("web")
    assert asked["request_spec"]["instance_uuids"] == [uuid]
    assert asked["filter_properties"]["retry"] == {"num_attempts": 1, "hosts": []}
    holding = {"instance_uuid": uuid, "host": None, "node": None, "claimed": None}
    assert asked["request_spec"]["holding"] == holding
    with pytest.raises(errors.NotFound):
        dry_run.request_of("nosuch")


class FakeScheduler:
    def __init__(self, lost: bool = False) -> None:
        self.lost = lost
        self.told: list[dict] = []

    def update_aggregates(self, context: object, aggregates: list[dict]) -> None:
        if self.lost:
            raise oslo_messaging.MessageDeliveryFailure("no broker")
        self.told += aggregates


def catalog(database: Database, scheduler: FakeScheduler) -> Operator:
    return Operator(CatalogManager(database, Announcements(database, scheduler)))  # type: ignore[arg-type]


def test_schedulers_are_notified_of_aggregates(database: Database) -> None:
    """The message has the generation of the change: a scheduler that has read it ignores the message."""
    scheduler = FakeScheduler()
    changed = catalog(database, scheduler).create_aggregate("racks", {"availability_zone": "east"})
    assert scheduler.told == [{**changed, "generation": database.read(feed.generation)}]


def test_a_lost_announcement_is_no_failure(database: Database, caplog) -> None:
    """The change is committed: schedulers will read it."""
    operator = catalog(database, FakeScheduler(lost=True))
    changed = operator.create_aggregate("racks", {})
    assert [changed] == operator.list_aggregates()
    assert "they will read the change" in caplog.text


def test_the_fault_of_refused_claims(database: Database) -> None:
    """Each refusal spends an attempt, and the fault lists the attempts."""
    conductor = Conductor(database, StepLimits(claim_refusals=0))
    conductor.add_hosts(["h1", "h2", "h3"])
    uuid = conductor.place("h1", "h2", "h3")
    refused = Failure(step="claim", code="ComputeResourcesUnavailable", message="full")
    for attempt, host in enumerate(("h1", "h2", "h3"), 1):
        others = conductor.compute.builds[-1][1]["alternates"]
        places = [Place(**each) for each in others]
        conductor.placement.reschedule(context(), Attempt(uuid, attempt, host, host), refused, places)
    (fault,) = conductor.faults(uuid)
    assert (fault["error"], fault["details"]["reason_code"]) == ("MaxRetriesExceeded", "RACE_LOST")
    assert len(fault["details"]["attempts"]) == 3
