# SPDX-License-Identifier: Apache-2.0
"""Builds that wait for room: rows that no worker holds, woken or ended by any conductor."""

from __future__ import annotations

from concurrent import futures

import pytest

from fleet import errors
from fleet.clock import seconds
from fleet.db.engine.database import Database
from fleet.db.tables import models
from fleet.objects import BuildRequest
from tests.worlds.conductor import Conductor, context

TWO_HOURS_S = 7200


def refusal(code: str = "CAPACITY", placed: int = 0) -> errors.NoValidHost:
    reason = "There are not enough hosts available: 2 of 2 are too full."
    return errors.NoValidHost(reason=reason, details={"reason_code": code, "considered": 2, "placed": placed})


@pytest.fixture
def conductor(database: Database) -> Conductor:
    made = Conductor(database)
    made.add_host("h1")
    return made


def queue(conductor: Conductor, code: str = "CAPACITY", **request: object) -> str:
    """One build that waits for room."""
    conductor.scheduler.answers.append(refusal(code))
    (uuid,) = conductor.create(**{"wait_for_capacity_s": TWO_HOURS_S, **request})
    conductor.work()
    # A build that waits behind one of its shape asks for no decision.
    conductor.scheduler.answers.clear()
    return uuid


def look(conductor: Conductor, after_s: float = 0) -> int:
    """Let time pass, then look at the queue and do what was handed out."""
    conductor.clock.advance(after_s)
    conductor.room_queue.look()
    return conductor.work()


@pytest.mark.parametrize("code", ["CAPACITY", "HOSTS_DOWN", "POLICY", "TOLERANCE"])
def test_a_build_waits_for_room(conductor: Conductor, code: str) -> None:
    """It is queued with the reason; no message and no step deadline belongs to it, and nobody acts on it."""
    uuid = queue(conductor, code)
    began = conductor.clock()

    assert ("building", "queued", 1, None) == conductor.state(uuid)
    shown = conductor.operator.show_instance(uuid)
    assert code == shown["queued"]["reason"]
    assert shown["queued"]["wait_until"] == shown["instance"]["deadline"]
    assert ["create", "queue"] == [each["event"] for each in shown["events"]]
    assert [("compute_task.build_instances.queued", uuid)] == [
        (event, payload["instance_id"]) for event, payload in conductor.notifier.infos
    ]
    conductor.clock.advance(conductor.limits.queue_recheck_interval_s - 1)
    assert 0 == conductor.sweeper.sweep() + look(conductor)
    assert conductor.clock() - began < seconds(TWO_HOURS_S)


NOT_WAITING = [
    ("no host could take it even when empty", "NEVER_FITS", {"wait_for_capacity_s": 60}),
    ("the request is wrong", "MISCONFIGURED", {"wait_for_capacity_s": 60}),
    ("the request does not wait", "CAPACITY", {"wait_for_capacity_s": 0}),
    ("nothing is said about it", "CAPACITY", {}),
]


@pytest.mark.parametrize(("why", "code", "request_"), NOT_WAITING, ids=[case[0] for case in NOT_WAITING])
def test_a_build_that_does_not_wait(conductor: Conductor, why: str, code: str, request_: dict) -> None:
    """It ends in ERROR at once, with the reason."""
    conductor.scheduler.answers.append(refusal(code))
    (uuid,) = conductor.create(**request_)
    conductor.work()
    assert ("error", None, 1, None) == conductor.state(uuid)
    assert [code] == [fault["details"]["reason_code"] for fault in conductor.faults(uuid)]


def test_a_waiting_build_is_tried_again_and_placed(conductor: Conductor) -> None:
    """At the same attempt, and with the time that a new build has."""
    uuid = queue(conductor)
    conductor.scheduler.answers.append([("h1", ())])
    assert 1 == look(conductor, after_s=conductor.limits.queue_recheck_interval_s)

    assert ("building", "placing", 1, None) == conductor.state(uuid)
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    assert ("active", None, 1, "h1") == conductor.state(uuid)


def test_a_build_that_is_refused_again_waits_on(conductor: Conductor) -> None:
    """Until the same moment, with the newer reason; its history and the notifications do not grow."""
    uuid = queue(conductor)
    until = conductor.operator.show_instance(uuid)["queued"]["wait_until"]
    for _again in range(3):
        conductor.scheduler.answers.append(refusal("HOSTS_DOWN"))
        assert 1 == look(conductor, after_s=conductor.limits.queue_recheck_interval_s)
    shown = conductor.operator.show_instance(uuid)
    assert ("HOSTS_DOWN", until) == (shown["queued"]["reason"], shown["queued"]["wait_until"])
    assert ["create", "queue"] == [each["event"] for each in shown["events"]]
    assert 1 == len(conductor.notifier.infos)


def test_a_build_that_can_never_fit_any_more_ends(conductor: Conductor) -> None:
    """The only host that was large enough has been removed."""
    uuid = queue(conductor)
    conductor.scheduler.answers.append(refusal("NEVER_FITS"))
    look(conductor, after_s=conductor.limits.queue_recheck_interval_s)
    assert ("error", None, 1, None) == conductor.state(uuid)


def test_a_wait_ends_at_its_deadline(conductor: Conductor) -> None:
    """In ERROR, with the reason of the last refusal and the time that it has waited; the queue forgets it."""
    uuid = queue(conductor, wait_for_capacity_s=90)
    conductor.clock.advance(89)
    look(conductor)
    assert ("building", "queued", 1, None) == conductor.state(uuid)
    look(conductor, after_s=1)

    assert ("error", None, 1, None) == conductor.state(uuid)
    (fault,) = conductor.faults(uuid)
    assert "CAPACITY" == fault["details"]["reason_code"]
    assert "within 1 min 30 s. The last refusal: There are not enough hosts" in fault["message"]
    assert 0 == _queued(conductor)


def test_a_short_wait_does_not_shorten_a_build(conductor: Conductor) -> None:
    """A build that is woken just before its wait ends has the whole time of a build."""
    uuid = queue(conductor, wait_for_capacity_s=conductor.limits.queue_recheck_interval_s + 5)
    conductor.scheduler.answers.append([("h1", ())])
    look(conductor, after_s=conductor.limits.queue_recheck_interval_s)
    conductor.clock.advance(10)
    conductor.sweeper.end_overdue()
    assert ("building", "placing", 1, None) == conductor.state(uuid)


def test_a_waiting_build_is_deleted_at_once(conductor: Conductor) -> None:
    uuid = queue(conductor)
    conductor.termination.terminate(context(), [uuid])
    assert [] == conductor.operator.list_instances({"uuids": [uuid]})
    assert 0 == _queued(conductor)
    look(conductor, after_s=TWO_HOURS_S)
    assert 1 == len(conductor.scheduler.requests)


@pytest.mark.parametrize("when", ["woken", "placing"])
def test_a_build_is_deleted_after_it_was_woken(conductor: Conductor, when: str) -> None:
    """The worker that was handed the build finds nothing to do, or its answer changes nothing."""
    uuid = queue(conductor)
    conductor.clock.advance(conductor.limits.queue_recheck_interval_s)
    conductor.room_queue.look()
    if when == "placing":
        conductor.scheduler.answers.append(refusal())
        conductor.scheduler.before = lambda: conductor.termination.terminate(context(), [uuid])
    else:
        conductor.termination.terminate(context(), [uuid])
    conductor.work()
    assert 0 == len(conductor.operator.list_instances({"uuids": [uuid]}))
    assert 0 == look(conductor, after_s=TWO_HOURS_S)


def test_a_conductor_dies_after_it_has_woken_a_build(conductor: Conductor) -> None:
    """The message is lost, so the sweeper hands the build out."""
    uuid = queue(conductor)
    conductor.clock.advance(conductor.limits.queue_recheck_interval_s)
    conductor.room_queue.look()
    conductor.tasks.cast.clear()
    conductor.clock.advance(conductor.limits.retry_interval_s)
    conductor.scheduler.answers.append([("h1", ())])
    conductor.sweeper.retry_lost()
    conductor.work()
    assert ("building", "placing", 1, None) == conductor.state(uuid)


def test_two_conductors_wake_a_build_once(conductor: Conductor) -> None:
    """Eight looks at the same moment hand out each of ten builds of different sizes once."""
    uuids = {queue(conductor, flavor={"vcpus": 1, "memory_mb": 512 + size}) for size in range(10)}
    conductor.clock.advance(conductor.limits.queue_recheck_interval_s)
    with futures.ThreadPoolExecutor(8) as threads:
        for look_ in [threads.submit(conductor.room_queue.look) for _each in range(8)]:
            look_.result(timeout=60)
    handed = [uuid for _context, those, _attempt in conductor.tasks.cast for uuid in those]
    assert sorted(uuids) == sorted(handed)


def test_of_builds_that_are_alike_one_is_tried_again(conductor: Conductor) -> None:
    """The scheduler would answer the others in the same way; they have their turn when it is placed."""
    for _each in range(10):
        queue(conductor)
    conductor.scheduler.answers.append(refusal())
    assert 1 == look(conductor, after_s=conductor.limits.queue_recheck_interval_s)
    assert 0 == look(conductor, after_s=1)


def test_a_build_is_tried_again_although_no_host_has_changed(conductor: Conductor) -> None:
    """It was refused because of a booking that has ended without a claim, or of a promise that was taken back."""
    known = refusal()
    known.details["state"] = {"generation": 10**6}
    conductor.scheduler.answers.append(known)
    conductor.create(wait_for_capacity_s=TWO_HOURS_S)
    conductor.work()
    conductor.scheduler.answers.append([("h1", ())])
    assert 1 == look(conductor, after_s=conductor.limits.queue_recheck_interval_s)


def test_those_that_fit_are_built_and_the_others_wait(conductor: Conductor) -> None:
    """As min_count allows; the waiting ones are then placed one by one."""
    conductor.scheduler.answers.append(refusal(placed=2))
    conductor.scheduler.answers.append([("h1", ()), ("h1", ())])
    uuids = conductor.create(count=3, min_count=2, wait_for_capacity_s=TWO_HOURS_S)
    conductor.work()
    assert ["placing", "placing", "queued"] == [conductor.state(uuid)[1] for uuid in uuids]
    conductor.scheduler.answers.append([("h1", ())])
    look(conductor, after_s=conductor.limits.queue_recheck_interval_s)
    assert "placing" == conductor.state(uuids[2])[1]


def test_the_default_of_a_project(database: Database) -> None:
    """A project's own value, or that of all others; a request decides for itself."""
    conductor = Conductor(database, waits={"tenant": 60, "*": 0})

    def wait_s(**request: object) -> int | None:
        wanted = BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 1}, **request})
        return conductor.intake.plan(context(), wanted)[0]["spec"].get("wait_for_capacity_s")

    assert [60, None, 5] == [wait_s(), wait_s(wait_for_capacity_s=0), wait_s(wait_for_capacity_s=5)]


def _queued(conductor: Conductor) -> int:
    return conductor.database.read(lambda connection: len(connection.execute(models.queued_builds.select()).all()))
