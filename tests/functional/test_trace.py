# SPDX-License-Identifier: Apache-2.0
"""``fleet trace``: a build's way through the daemons, by the ledger."""

from __future__ import annotations

from typing import Any

import pytest

from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors
from fleet.db.engine.database import Database
from fleet.objects import Place
from fleet_cli.servers import timeline
from tests.worlds.conductor import Conductor, context
from tests.worlds.neighbours import no_valid_host
from tests.worlds.volumes import A, B, Volumes

HOSTS = ("h1", "h2")


def rescheduled(conductor: Conductor) -> str:
    """A build that h1 refused after 2 s and that h2 has finished 3 s later."""
    uuid = conductor.place("h1", "h2", name="web")
    conductor.clock.advance(2)
    refused = Failure("claim", "ClaimRefused", "no memory", 0.5)
    conductor.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), refused, [Place("h2", "h2", {})])
    conductor.claim(uuid, "h2", attempt=2)
    conductor.clock.advance(3)
    conductor.finish(uuid, "h2", attempt=2)
    return uuid


def told(conductor: Conductor, name: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(line[column] for column in columns) for line in timeline.lines(conductor.operator.trace(name))]


def test_a_server_that_was_tried_twice(conductor: Conductor) -> None:
    """Every step has its daemon, its host, its attempt, its outcome and the time since the request."""
    rescheduled(conductor)
    assert [
        (0.0, "fleet-conductor", None, "create", None, None, "success"),
        (2.0, "fleet-compute", "h1", "attempt", 1, "claim", "ClaimRefused"),
        (2.0, "fleet-compute", "h2", "claim", 2, None, "success"),
        (5.0, "fleet-compute", "h2", "attempt", 2, None, "success"),
    ] == told(conductor, "web", "since_s", "daemon", "host", "event", "attempt", "step", "outcome")


def test_a_request_has_all_its_instances(conductor: Conductor) -> None:
    """Both the request id and the reservation id find all of them."""
    first, second = conductor.create(name="many", count=2)
    conductor.create(name="other")
    instance = conductor.operator.show_instance(first)["instance"]
    expected = [("many-1", "create"), ("many-2", "create"), ("many-1", "now"), ("many-2", "now")]
    for name in (instance["request_id"], instance["reservation_id"]):
        assert expected == told(conductor, name, "server", "event")


def test_a_deleted_server_is_found_by_its_uuid(conductor: Conductor) -> None:
    """Its trace shows the deletion; the request that deleted it has only this step."""
    uuid = rescheduled(conductor)
    conductor.clock.advance(1)
    asked = context()
    conductor.termination.terminate(asked, [uuid])
    conductor.agents.destroyed(asked, uuid, "h2")
    assert [(6.0, "terminate"), (6.0, "delete")] == told(conductor, uuid, "since_s", "event")[-2:]
    assert [(0.0, "terminate"), (0.0, "delete")] == told(conductor, asked.request_id, "since_s", "event")


def test_a_failed_build_ends_with_its_fault(conductor: Conductor) -> None:
    """After the step that led to it."""
    conductor.scheduler.answers.append(errors.NoValidHost(reason="Full."))
    (uuid,) = conductor.create()
    conductor.work()
    assert [
        ("fleet-scheduler", "schedule", "NoValidHost"),
        ("fleet-conductor", "fault", "NoValidHost"),
    ] == told(conductor, uuid, "daemon", "event", "outcome")[1:]


def test_what_is_under_way_says_until_when(conductor: Conductor) -> None:
    """The last line shows the present step, when it is retried, and the deadline of the build."""
    uuid = conductor.place("h1")
    ((event, step, message),) = told(conductor, uuid, "event", "step", "message")[-1:]
    assert ("now", "placing") == (event, step)
    row = conductor.operator.trace(uuid)["instances"][0]
    assert f"looked at again at {row['step_deadline']}; given up at {row['deadline']}" == message


def test_what_nobody_has_heard_of(conductor: Conductor) -> None:
    """The error has the name, and what it could refer to."""
    with pytest.raises(errors.NotFound, match="Instance, volume, snapshot, reservation or request nowhere"):
        conductor.operator.trace("nowhere")


def test_a_volume_that_was_tried_twice(database: Database) -> None:
    """Its claims, the attempt that failed, the one that succeeded, and what is done with it later."""
    volumes = Volumes(database)
    uuid = volumes.ask(A, B, name="data")
    volumes.clock.advance(2)
    volumes.volume_scheduler.answers.append((B,))
    volumes.fails(uuid)
    volumes.clock.advance(4)
    volumes.serve()
    volumes.done(uuid, host=B[0])
    volumes.operator.extend_volume("data", 20)
    volumes.clock.advance(1)
    volumes.done(uuid, "extending", B[0])
    volumes.operator.delete_volume("data")
    expected = [
        ("fleet-conductor", None, "create", None, None, "success", None),
        ("fleet-conductor", "m1@fast#p1", "claim", 1, None, "success", 0.0),
        ("fleet-volume", "m1@fast#p1", "creating", 1, "working", "OSError", 2.0),
        ("fleet-conductor", "m2@slow#p2", "claim", 2, None, "success", 0.0),
        ("fleet-volume", "m2@slow#p2", "creating", 2, "working", "success", 4.0),
        ("fleet-conductor", "m2@slow#p2", "extending", 2, None, "begun", None),
        ("fleet-volume", "m2@slow#p2", "extending", 3, "working", "success", 1.0),
        ("fleet-conductor", "m2@slow#p2", "deleting", 3, None, "begun", None),
        ("fleet-volume", "m2@slow#p2", "now", 3, "working", "under way", None),
    ]
    columns = ("daemon", "host", "event", "attempt", "step", "outcome", "duration_s")
    assert expected == told(volumes, uuid, *columns)
    assert expected == told(volumes, "data", *columns)
    shown = volumes.operator.show_volume(uuid)
    assert [("creating", "m1@fast#p1", "the disk is full")] == [
        (each["event"], each["host"], each["message"]) for each in shown["faults"]
    ]
    request = shown["request_id"]
    assert expected == told(volumes, request, *columns)
    volumes.done(uuid, "deleting", B[0])
    assert ("fleet-volume", "m2@slow#p2", "deleting", 3, "working", "success", 0.0) == told(volumes, uuid, *columns)[-1]


def test_volumes_that_end_before_a_backend_has_them(database: Database) -> None:
    """The scheduler's refusal has its message. A volume that is deleted while it waits has no step that ended well."""
    volumes = Volumes(database)
    volumes.volume_scheduler.answers.append(no_valid_host())
    (made,) = volumes.operator.create_volumes({"size": 10})["volumes"]
    volumes.serve()
    columns = ("daemon", "event", "step", "outcome")
    assert ("fleet-scheduler", "creating", "placing", "NoValidHost") == told(volumes, made["uuid"], *columns)[-1]
    (waiting,) = volumes.operator.create_volumes({"size": 10})["volumes"]
    volumes.operator.delete_volume(waiting["uuid"])
    assert ("fleet-conductor", "deleted", None, "success") == told(volumes, waiting["uuid"], *columns)[-1]


def test_a_volume_that_is_retyped_where_it_is(database: Database) -> None:
    """It claims nothing: between the beginning and the end of the retype there is no event."""
    volumes = Volumes(database)
    volumes.operator.create_volume_type({"name": "solid"})
    uuid = volumes.available()
    volumes.volume_scheduler.answers.append([A])
    volumes.operator.retype_volume(uuid, "solid")
    volumes.serve()
    volumes.done(uuid, "retyping")
    assert [("retyping", "begun"), ("retyping", "success")] == told(volumes, uuid, "event", "outcome")[-2:]
