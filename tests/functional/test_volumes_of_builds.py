# SPDX-License-Identifier: Apache-2.0
"""Instances that are built with volumes: reserved with the build, moved with its attempts, given back at its end."""

from __future__ import annotations

from concurrent import futures
from typing import Any

import pytest

from conductor_stub.steps import request_spec
from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.objects import BuildRequest, Place
from tests.worlds.conductor import INCARNATION, context
from tests.worlds.guests import Guests
from tests.worlds.neighbours import no_valid_host
from tests.worlds.volumes import A

FLAVOR = {"vcpus": 1, "memory_mb": 1024, "root_gb": 10}


@pytest.fixture
def guests(database: Database) -> Guests:
    made = Guests(database)
    made.add_hosts(["h1", "h2"], stats={"volume_hosts": "m1"})
    return made


@pytest.fixture
def volume(guests: Guests) -> str:
    return guests.available(name="data")


def mapping(*names: str) -> list[dict[str, Any]]:
    return [{"volume_id": name} for name in names]


def statuses(guests: Guests, uuid: str) -> list[tuple[str, str]]:
    return [(each["device"], each["status"]) for each in guests.operator.list_attachments([uuid])]


def failure(step: str = "spawn") -> Failure:
    return Failure(step, "SpawnFailed", "the hypervisor said no")


def test_a_guest_begins_with_its_volumes(guests: Guests, volume: str) -> None:
    """They are reserved with the request, ordered with the build, and in use once the guest runs."""
    more = guests.available(name="more")
    uuid = guests.place(
        "h1", name="web", block_device_mapping=[*mapping("data"), {"volume_id": more, "device_name": "vdb"}]
    )
    assert [("vdb", "reserved"), ("vdc", "reserved")] == sorted(statuses(guests, uuid))
    assert ["reserved"] * 2 == [guests.status(each) for each in (volume, more)]
    ((host, order),) = guests.compute.builds
    assert ("h1", {volume: "vdc", more: "vdb"}) == (
        host,
        {each["volume_uuid"]: each["device"] for each in order["volumes"]},
    )
    assert [] == guests.wants(uuid)
    guests.claim(uuid, "h1")
    assert order["volumes"] == guests.hosts.get_attachments(uuid, "h1")
    for _twice in range(2):
        guests.finish(uuid, "h1")
        assert [("vdb", "attached"), ("vdc", "attached")] == sorted(statuses(guests, uuid))
    shown = guests.operator.show_volume("data")
    assert ("in-use", ["web"]) == (shown["status"], [each["instance_name"] for each in shown["attachments"]])
    guests.operator.detach_volume(uuid, volume)
    assert [(volume, "detaching")] == [each[:2] for each in guests.wants(uuid) if each[0] == volume]


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        (mapping("other"), errors.NotFound, "Volume other"),
        (mapping("data", "data"), errors.InvalidInput, "names a volume twice"),
        (
            mapping("used"),
            errors.Conflict,
            "Volume used is reserved, not available: an instance is being built with it",
        ),
        ([{"volume_id": "data", "device_name": "vdz"}], errors.InvalidInput, "device_name"),
        ([{"volume_id": "data", "delete_on_termination": True}], errors.InvalidInput, "must be false"),
    ],
)
def test_what_cannot_be_reserved_is_refused(
    guests: Guests, volume: str, request_: Any, error: type[Exception], message: str
) -> None:
    """At once, and nothing is written."""
    guests.available(name="used")
    guests.create(name="first", block_device_mapping=mapping("used"))
    with pytest.raises(error, match=message):
        guests.create(block_device_mapping=request_)
    assert ["first"] == [each["name"] for each in guests.operator.list_instances()]
    assert "available" == guests.status(volume)


def test_one_volume_is_for_one_instance(guests: Guests, volume: str) -> None:
    with pytest.raises(errors.InvalidInput, match="is for one instance, and the request is for 2"):
        BuildRequest.from_wire({"flavor": FLAVOR, "count": 2, "block_device_mapping": mapping("data")})


def test_disks_of_the_flavor_keep_their_names(guests: Guests, volume: str) -> None:
    flavor = {**FLAVOR, "ephemeral_gb": 5, "swap": 512}
    with pytest.raises(errors.InvalidInput, match="device_name is vdb, which is the name of another disk"):
        guests.create(flavor=flavor, block_device_mapping=[{"volume_id": volume, "device_name": "/dev/vdb"}])
    (uuid,) = guests.create(flavor=flavor, block_device_mapping=mapping(volume))
    assert [("vdd", "reserved")] == statuses(guests, uuid)


@pytest.mark.parametrize("silent", ["the backend", "an old agent"])
def test_a_refusal_leaves_the_volume(guests: Guests, volume: str, silent: str) -> None:
    if silent == "the backend":
        guests.backends.without_queue.add(A[0])
    else:
        guests.compute.pinned = errors.VersionPinned(topic="compute", method="b", needs="1.4", cap="1.3", pin=None)
    with pytest.raises(errors.FleetError):
        guests.create(block_device_mapping=mapping(volume))
    assert ("available", []) == (guests.status(volume), guests.operator.list_instances())


def test_of_builds_and_attachments_at_once_one_wins(guests: Guests, volume: str) -> None:
    there = guests.guest(name="there")

    def build(number: int) -> bool:
        try:
            if number % 2:
                guests.create(name=f"b{number}", block_device_mapping=mapping(volume))
            else:
                guests.operator.attach_volume(there, volume)
        except errors.Conflict:
            return False
        return True

    with futures.ThreadPoolExecutor(4) as together:
        won = sum(together.map(build, (1, 3, 5)))
    assert 1 == won
    assert 1 == len(guests.operator.show_volume(volume)["attachments"])


def test_a_repeated_request_is_one_build(guests: Guests, volume: str) -> None:
    """Its volume is reserved already, which is no reason against the repetition."""
    request = BuildRequest.from_wire({"flavor": FLAVOR, "block_device_mapping": mapping(volume)})
    answers = [guests.intake.accept(context(), request, "a token") for _twice in range(2)]
    assert answers[0] == answers[1]


def test_a_retry_takes_the_volumes_along(guests: Guests, volume: str) -> None:
    uuid = guests.place("h1", "h2", block_device_mapping=mapping(volume))
    guests.claim(uuid, "h1")
    guests.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), failure(), [Place("h2", "h2", {})])
    host, order = guests.compute.builds[-1]
    assert ("h2", [volume]) == (host, [each["volume_uuid"] for each in order["volumes"]])
    assert [] == guests.hosts.get_attachments(uuid, "h1")
    guests.claim(uuid, "h2", attempt=2)
    guests.finish(uuid, "h2", attempt=2)
    assert ([("vdb", "attached")], "in-use") == (statuses(guests, uuid), guests.status(volume))


@pytest.mark.parametrize("end", ["no host", "no attempt left", "refused", "timeout", "deleted early", "deleted late"])
def test_a_build_that_fails_without_a_guest_gives_its_volumes_back(guests: Guests, volume: str, end: str) -> None:
    """In the transaction that ends it."""
    if end in ("no host", "timeout", "deleted early"):
        (uuid,) = guests.create(block_device_mapping=mapping(volume))
    else:
        uuid = guests.place("h1", "h2", block_device_mapping=mapping(volume))
        if end != "refused":
            guests.claim(uuid, "h1")
    if end == "no host":
        guests.scheduler.answers.append(no_valid_host())
        guests.work()
    elif end == "no attempt left":
        for attempt, host in enumerate(("h1", "h2"), 1):
            if attempt > 1:
                guests.claim(uuid, host, attempt=attempt)
            here = Attempt(uuid, attempt, host, host)
            guests.placement.reschedule(context(), here, failure(), [Place("h2", "h2", {})])
    elif end == "refused":
        guests.placement.abort(context(), Attempt(uuid, 1, "h1", "h1"), failure("claim"))
    elif end == "timeout":
        guests.clock.advance(guests.limits.build_timeout_s + 1)
        guests.sweeper.sweep()
    else:
        guests.termination.terminate(context(), [uuid])
    if end == "deleted late":
        assert "reserved" == guests.status(volume)
        guests.agents.destroyed(context(), uuid, "h1")
    assert ("available", []) == (guests.status(volume), guests.operator.list_attachments([uuid]))
    guests.create(block_device_mapping=mapping(volume))


def given_up(guests: Guests, volume: str, end: str) -> str:
    """A build that has ended while h1 may have its guest."""
    uuid = guests.place("h1", name="web", block_device_mapping=mapping(volume))
    guests.claim(uuid, "h1")
    if end == "abort":
        guests.placement.abort(context(), Attempt(uuid, 1, "h1", "h1"), failure())
    else:
        guests.clock.advance(guests.limits.build_timeout_s + 1)
        guests.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION))
        guests.sweeper.end_overdue()
    return uuid


def held(guests: Guests, volume: str) -> bool:
    shown = guests.operator.show_volume(volume)
    return bool(shown["attachments"]) and "host h1 may still have its guest" in (shown["failure"] or {})["message"]


@pytest.mark.parametrize("end", ["abort", "timeout"])
def test_a_guest_that_may_run_keeps_its_volumes(guests: Guests, volume: str, end: str) -> None:
    """The build is in ERROR. Its host is ordered to remove the guest, and then they are available."""
    uuid = given_up(guests, volume, end)
    assert ("error", None) == guests.state(uuid)[:2]
    assert ("detaching", True) == (guests.status(volume), held(guests, volume))
    assert "h1" == guests.faults(uuid)[0]["details"]["guest_on"]
    with pytest.raises(errors.Conflict, match="is detaching"):
        guests.create(block_device_mapping=mapping(volume))
    for _time in range(2):
        guests.sweeper.retry_lost()
        (wanted,) = guests.agents.host_instances("h1", [uuid])
        assert ("h1", "deleting") == (wanted.host, wanted.task_state)
        guests.clock.advance(guests.limits.placing_timeout_s + 1)
    assert [("h1", uuid)] * 2 == guests.compute.terminations
    guests.agents.destroyed(context(), uuid, "h2")
    assert held(guests, volume)
    guests.agents.destroyed(context(), uuid, "h1")
    assert ("available", []) == (guests.status(volume), guests.operator.list_attachments([uuid]))
    assert [] == guests.agents.host_instances("h1", [uuid])
    guests.sweeper.retry_lost()
    assert 2 == len(guests.compute.terminations)
    guests.create(block_device_mapping=mapping(volume))


def test_a_guest_of_a_host_that_is_off_keeps_nothing(guests: Guests, volume: str) -> None:
    given_up(guests, volume, "timeout")
    guests.operator.force_down("h1", True)
    guests.sweeper.retry_lost()
    assert "available" == guests.status(volume)


def test_the_deletion_of_an_instance_waits_for_a_guest_that_may_run(guests: Guests, volume: str) -> None:
    uuid = given_up(guests, volume, "abort")
    guests.termination.terminate(context(), [uuid])
    guests.agents.destroyed(context(), uuid, "h2")
    assert held(guests, volume)
    assert [("h1", uuid)] == guests.compute.terminations
    guests.agents.destroyed(context(), uuid, "h1")
    assert ("available", "deleted") == (guests.status(volume), guests.state(uuid)[0])


@pytest.mark.parametrize("lost", ["silent", "slow"])
def test_a_host_that_may_have_started_the_guest_is_waited_for(guests: Guests, volume: str, lost: str) -> None:
    """No second guest gets the volumes before the host has handed the build back, or is off for certain."""
    uuid = guests.place("h1", block_device_mapping=mapping(volume))
    guests.claim(uuid, "h1")
    guests.clock.advance((guests.limits.service_down_time_s if lost == "silent" else guests.limits.spawn_timeout_s) + 1)
    guests.agents.report_state(Heartbeat("fleet-compute", ["h2"], INCARNATION))
    if lost == "slow":
        guests.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION))
    for _time in range(2):
        guests.sweeper.retry_lost()
        assert ("building", "spawning", 1, "h1") == guests.state(uuid)
    if lost == "slow":
        guests.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), failure(), [])
    else:
        guests.operator.force_down("h1", True)
        guests.sweeper.retry_lost()
    assert ("building", "scheduling", 2, None) == guests.state(uuid)


def test_a_build_without_volumes_does_not_wait_for_a_silent_host(guests: Guests) -> None:
    uuid = guests.place("h1")
    guests.claim(uuid, "h1")
    guests.clock.advance(guests.limits.service_down_time_s + 1)
    guests.sweeper.retry_lost()
    assert ("building", "scheduling", 2, None) == guests.state(uuid)


def test_hosts_that_do_not_reach_a_volume_are_left_out(guests: Guests, volume: str) -> None:
    """Hosts report ``volume_hosts``; where one does not, its agent decides. The refusal names the hosts."""
    guests.add_host("far", stats={"volume_hosts": "m2,n*"})
    guests.add_host("unknown")
    guests.scheduler.answers.append(no_valid_host())
    (uuid,) = guests.create(block_device_mapping=mapping(volume))
    guests.work()
    _spec, properties = guests.scheduler.requests[-1]
    assert ["far"] == properties["ignore_hosts"]
    (fault,) = guests.faults(uuid)
    assert "Volume data on machine m1 cannot be reached from 1 host: far." in fault["message"]


def test_an_order_is_as_long_in_a_fleet_of_any_size(guests: Guests, volume: str) -> None:
    """It does not name the hosts that the request left out: an agent reads none of them."""
    guests.add_host("far", stats={"volume_hosts": "m2,n*"})
    uuid = guests.place("h1", "h2", block_device_mapping=mapping(volume))
    guests.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), failure("claim"), [])
    assert ["h1", "h2"] == [host for host, _order in guests.compute.builds]
    assert all("far" not in str(order) for _host, order in guests.compute.builds)


@pytest.mark.parametrize(("reaching", "left"), [(2, None), (0, ["h1", "h2"])])
def test_a_build_in_a_large_fleet_names_the_fewer_hosts(
    guests: Guests, volume: str, monkeypatch: pytest.MonkeyPatch, reaching: int, left: list[str] | None
) -> None:
    monkeypatch.setattr(request_spec, "MANY", 3)
    guests.add_hosts([f"far{number}" for number in range(3)], stats={"volume_hosts": "m2"})
    guests.add_hosts([f"near{number}" for number in range(reaching)], stats={"volume_hosts": "m1"})
    guests.place("h1", block_device_mapping=mapping(volume))
    _spec, properties = guests.scheduler.requests[-1]
    assert ["far0", "far1", "far2"] == properties["ignore_hosts"]
    assert left == properties.get("within_hosts")


def test_an_order_that_an_agent_does_not_know_waits(guests: Guests, volume: str) -> None:
    """The agent was replaced by an older one meanwhile: its guest would have no volumes."""
    (uuid,) = guests.create(block_device_mapping=mapping(volume))
    guests.compute.pinned = errors.VersionPinned(topic="compute", method="b", needs="1.4", cap="1.3", pin=None)
    guests.scheduler.answers.append([("h1", ())])
    guests.work()
    assert [] == guests.compute.builds
    guests.compute.pinned = None
    guests.clock.advance(guests.limits.placing_timeout_s + 1)
    guests.scheduler.answers.append([("h1", ())])
    guests.sweeper.sweep()
    guests.work()
    assert ["h1"] == [host for host, _order in guests.compute.builds]
    assert "placing" == guests.state(uuid)[1]


def test_what_is_reserved_can_be_neither_detached_nor_deleted(guests: Guests, volume: str) -> None:
    (uuid,) = guests.create(name="web", block_device_mapping=mapping(volume))
    with pytest.raises(errors.Conflict, match="is being attached: wait"):
        guests.operator.detach_volume("web", volume)
    with pytest.raises(errors.Conflict, match="an instance is being built with it"):
        guests.operator.delete_volume(volume)
    assert uuid == guests.operator.attach_volume("web", volume)["instance"]
