# SPDX-License-Identifier: Apache-2.0
"""Shelved instances give their hosts back, and are placed anew: in the ledger."""

from __future__ import annotations

from typing import Any

import pytest

from conductor_stub.power.machine import PowerReport
from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.steps.limits import StepLimits
from fleet import errors, states
from fleet.db.engine.database import Database
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.tables import models
from fleet.db.upkeep import audit
from fleet.objects import host_report
from tests import factories
from tests.worlds.conductor import INCARNATION, Conductor, context

OFF, ON, GONE = states.SHUTDOWN, states.RUNNING, states.NOSTATE
OFFLOADING = states.SHELVING_OFFLOADING


def a_conductor(database: Database, after_s: float) -> Conductor:
    conductor = Conductor(database, limits=StepLimits(shelved_offload_time_s=after_s))
    for host, shelf in (("h1", "nfs"), ("h2", "nfs"), ("h3", "another")):
        conductor.add_host(host, stats={host_report.SHELF: shelf})
    return conductor


@pytest.fixture
def conductor(database: Database) -> Conductor:
    """Its instances leave their hosts at once."""
    return a_conductor(database, 0)


def running(conductor: Conductor, **request: Any) -> str:
    uuid = conductor.place("h1", name="web", **request)
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    return uuid


@pytest.fixture
def uuid(conductor: Conductor) -> str:
    return running(conductor)


def report(conductor: Conductor, uuid: str, task: str, power: int, failure: str = "") -> bool:
    return conductor.agents.power_done(context(), PowerReport(uuid, "h1", task, power, failure))


def shelve(conductor: Conductor, uuid: str) -> None:
    conductor.operator.shelve_instance(uuid)
    assert report(conductor, uuid, states.SHELVING, OFF)
    assert report(conductor, uuid, OFFLOADING, GONE)


def shown(conductor: Conductor, uuid: str) -> dict[str, Any]:
    return conductor.operator.show_instance(uuid)["instance"]


def test_a_shelved_instance_leaves_its_host(conductor: Conductor, uuid: str) -> None:
    """At once: no host holds anything for it, its quota counts on, and an audit finds nothing wrong."""
    conductor.operator.set_quota("tenant", {"instances": 1})
    used = conductor.memory_used("h1")
    conductor.operator.shelve_instance(uuid)
    report(conductor, uuid, states.SHELVING, OFF)
    assert ("shelved", OFFLOADING, 1, "h1", used) == (*conductor.state(uuid), conductor.memory_used("h1"))
    assert report(conductor, uuid, OFFLOADING, GONE)
    assert ("shelved_offloaded", None, 1, None, 0) == (*conductor.state(uuid), conductor.memory_used("h1"))
    assert [] == conductor.operator.show_host("h1")["instances"]
    assert GONE == shown(conductor, uuid)["power_state"]
    assert 1 == conductor.operator.show_quota("tenant")["used"]["instances"]
    with pytest.raises(errors.QuotaExceeded):
        conductor.create()
    assert ["shelve", "shelve-offload"] == [each["event"] for each in conductor.events(uuid)][-2:]
    assert [] == conductor.database.read(audit.find, conductor.clock())


def test_it_is_placed_again(conductor: Conductor, uuid: str) -> None:
    """Among hosts that reach its disk, at attempts that go on; the host gets the attempt whose disk was kept."""
    shelve(conductor, uuid)
    conductor.scheduler.answers.append([("h2", ())])
    asked = conductor.operator.unshelve_instance(uuid)
    assert ("building", "scheduling") == (asked["vm_state"], asked["task_state"])
    assert True is shown(conductor, uuid)["is_unshelved"]
    conductor.work()
    _spec, properties = conductor.scheduler.requests[-1]
    assert ["h3"] == properties["ignore_hosts"]
    (host, order) = conductor.compute.builds[-1]
    assert ("h2", 2, 1) == (host, order["attempt"], order["instance"]["shelved_attempt"])
    assert 1 == conductor.claim(uuid, "h2", attempt=2).shelved_attempt
    assert 1024 == conductor.memory_used("h2")
    assert conductor.finish(uuid, "h2", attempt=2).shelved_attempt is None
    assert ("active", None, 2, "h2") == conductor.state(uuid)
    assert False is shown(conductor, uuid)["is_unshelved"]
    assert [] == conductor.faults(uuid)


@pytest.mark.parametrize("first", [1, 2])
def test_a_second_shelving(conductor: Conductor, uuid: str, first: int) -> None:
    """It may be shelved again, wherever it is, and has all attempts again."""
    for round_ in range(first):
        shelve(conductor, uuid)
        conductor.scheduler.answers.append([("h1", ())])
        conductor.operator.unshelve_instance(uuid)
        conductor.work()
        conductor.claim(uuid, "h1", attempt=round_ + 2)
        conductor.finish(uuid, "h1", attempt=round_ + 2)
    assert ("active", None, first + 1, "h1") == conductor.state(uuid)


def test_no_host_has_room(conductor: Conductor, uuid: str) -> None:
    """It is shelved as before, with a fault, and may be unshelved later."""
    shelve(conductor, uuid)
    conductor.scheduler.answers.append(errors.NoValidHost(reason="all full"))
    conductor.operator.unshelve_instance(uuid)
    conductor.work()
    assert ("shelved_offloaded", None, 2, None) == conductor.state(uuid)
    assert "all full" in conductor.faults(uuid)[-1]["message"]
    conductor.scheduler.answers.append([("h2", ())])
    conductor.operator.unshelve_instance(uuid)
    conductor.work()
    conductor.claim(uuid, "h2", attempt=3)
    assert 1 == conductor.finish(uuid, "h2", attempt=3).flavor.vcpus
    assert ("active", None, 3, "h2") == conductor.state(uuid)


def test_hosts_that_fail_use_up_the_attempts_of_this_time(conductor: Conductor, uuid: str) -> None:
    """Three, beside those of the first build; then it is shelved as before. Late orders of the first build do nothing."""
    shelve(conductor, uuid)
    conductor.scheduler.answers.extend([[("h2", ())]] * 3)
    conductor.operator.unshelve_instance(uuid)
    conductor.work()
    stale = Failure(step="spawn", code="Broken", message="late")
    conductor.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), stale, ())
    for attempt in (2, 3, 4):
        assert attempt == conductor.state(uuid)[2]
        conductor.claim(uuid, "h2", attempt=attempt)
        failure = Failure(step="spawn", code="Broken", message=f"no {attempt}")
        conductor.placement.reschedule(context(), Attempt(uuid, attempt, "h2", "h2"), failure, ())
        conductor.work()
    assert ("shelved_offloaded", None, 4, None) == conductor.state(uuid)
    assert 0 == conductor.memory_used("h2")
    (fault,) = conductor.faults(uuid)
    assert ("MaxRetriesExceeded", [2, 3, 4]) == (
        fault["error"],
        [each["attempt"] for each in fault["details"]["attempts"]],
    )


def test_a_lost_order_is_sent_again_until_the_deadline(conductor: Conductor, uuid: str) -> None:
    """By the sweeper of builds. Then it is shelved as before."""
    shelve(conductor, uuid)
    conductor.operator.unshelve_instance(uuid)
    conductor.clock.advance(conductor.limits.build_timeout_s)
    conductor.sweeper.sweep()
    assert ("shelved_offloaded", None, 2, None) == conductor.state(uuid)
    assert "Build did not end within 600 s" in conductor.faults(uuid)[-1]["message"]


def test_a_repeated_request_is_one_build(conductor: Conductor, uuid: str) -> None:
    shelve(conductor, uuid)
    for _twice in range(2):
        assert "building" == conductor.operator.unshelve_instance(uuid)["vm_state"]
    assert 2 == conductor.state(uuid)[2]
    assert 1 == [each["event"] for each in conductor.events(uuid)].count("unshelve")


def test_a_zone_or_a_host(conductor: Conductor, uuid: str) -> None:
    """The host is the administrator's to name, and must pass the filters. A host that was forced before is not now."""
    other = running(conductor, availability_zone="nova:h1")
    conductor.operator.create_aggregate("racks", {"availability_zone": "az2"})
    for each, asked, zone, destination in (
        (uuid, {"availability_zone": "az2"}, "az2", None),
        (other, {"host": "h2"}, "nova", {"host": "h2"}),
    ):
        shelve(conductor, each)
        conductor.scheduler.answers.append([("h2", ())])
        conductor.operator.unshelve_instance(each, **asked)
        conductor.work()
        spec, properties = conductor.scheduler.requests[-1]
        assert (zone, destination) == (
            spec["instance_properties"]["availability_zone"],
            properties.get("requested_destination"),
        )
        assert "force_hosts" not in properties


def test_an_unshelve_that_fails_changes_no_zone(conductor: Conductor, uuid: str) -> None:
    """The zone was for that unshelve; the next one may be anywhere again."""
    conductor.operator.create_aggregate("racks", {"availability_zone": "az2"})
    shelve(conductor, uuid)
    for asked in ({"availability_zone": "az2", "host": "h2"}, {}):
        conductor.scheduler.answers.append(errors.NoValidHost(reason="full"))
        conductor.operator.unshelve_instance(uuid, **asked)
        conductor.work()
        assert "shelved_offloaded" == conductor.state(uuid)[0]
    spec, properties = conductor.scheduler.requests[-1]
    assert "requested_destination" not in properties
    assert not spec["instance_properties"].get("availability_zone")


def test_it_does_not_go_to_a_host_that_it_was_evacuated_from(conductor: Conductor, uuid: str) -> None:
    """As for every move: until that host has removed the old guest, it would take the new one for it."""
    gone = {"source_compute": "h2", "source_node": "h2", "dest_compute": "h1", "dest_node": "h1"}
    values = {"uuid": factories.uuid(5), "instance_uuid": uuid, "migration_type": "evacuation", "status": "done"}
    values |= {"attempt": 1, "old_spec": {}, "new_spec": {}, "plan": {}, "created_at": conductor.clock(), **gone}
    conductor.database.write(lambda tx: tx.insert(models.migrations, values))
    shelve(conductor, uuid)

    def ignored() -> list[str]:
        conductor.scheduler.answers.append(errors.NoValidHost(reason="full"))
        conductor.operator.unshelve_instance(uuid)
        conductor.work()
        _spec, properties = conductor.scheduler.requests[-1]
        return properties["ignore_hosts"]

    assert ["h2", "h3"] == ignored()
    conductor.agents.destroyed(context(), uuid, "h2")
    assert ["h3"] == ignored()


@pytest.mark.parametrize(
    ("asked", "error", "reason"),
    [
        ({"availability_zone": "az2:h2"}, errors.InvalidInput, "must be a zone without a host"),
        ({"availability_zone": "az9"}, errors.InvalidInput, "names no zone of this fleet: 'az9'; known: nova"),
        ({"host": "h9"}, errors.NotFound, "h9"),
    ],
)
def test_places_that_cannot_be_named(
    conductor: Conductor, uuid: str, asked: dict[str, str], error: type[Exception], reason: str
) -> None:
    shelve(conductor, uuid)
    with pytest.raises(error, match=reason):
        conductor.operator.unshelve_instance(uuid, **asked)
    assert "shelved_offloaded" == conductor.state(uuid)[0]


def test_a_member_names_no_host(conductor: Conductor, uuid: str) -> None:
    shelve(conductor, uuid)
    with pytest.raises(errors.NotTrusted, match="only the administrator names the host"):
        conductor.operator.under("tenant", is_admin=False).unshelve_instance(uuid, host="h2")


def test_one_that_has_kept_its_host_starts_there(database: Database) -> None:
    conductor = a_conductor(database, -1)
    uuid = running(conductor)
    conductor.operator.shelve_instance(uuid)
    report(conductor, uuid, states.SHELVING, OFF)
    assert ("shelved", None, 1, "h1") == conductor.state(uuid)
    with pytest.raises(errors.Conflict, match="has kept its host"):
        conductor.operator.unshelve_instance(uuid, availability_zone="az2")
    assert states.UNSHELVING == conductor.operator.unshelve_instance(uuid)["task_state"]
    assert report(conductor, uuid, states.UNSHELVING, ON)
    assert ("active", None, 1, "h1") == conductor.state(uuid)


def test_it_leaves_after_a_time(database: Database) -> None:
    """The sweeper offloads it after shelved_offload_time; the administrator's request offloads it at once."""
    conductor = a_conductor(database, 50)
    uuid = running(conductor)
    conductor.operator.shelve_instance(uuid)
    report(conductor, uuid, states.SHELVING, OFF)
    assert 0 == conductor.power_sweeper.sweep()
    conductor.clock.advance(50)
    assert 1 == conductor.power_sweeper.sweep()
    assert OFFLOADING == conductor.state(uuid)[1]
    report(conductor, uuid, OFFLOADING, OFF, "the shelf is full")
    assert ("shelved", None, 1, "h1") == conductor.state(uuid)
    assert 0 == conductor.power_sweeper.sweep()
    assert OFFLOADING == conductor.operator.shelve_offload_instance(uuid)["task_state"]


def test_it_leaves_although_its_host_was_silent_when_its_time_came(database: Database) -> None:
    conductor = a_conductor(database, 3600)
    uuid = running(conductor)
    conductor.operator.shelve_instance(uuid)
    report(conductor, uuid, states.SHELVING, OFF)
    conductor.clock.advance(3601)
    conductor.power_sweeper.sweep()
    assert ("shelved", None) == conductor.state(uuid)[:2]
    conductor.clock.advance(conductor.limits.build_timeout_s + 1)
    conductor.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION))
    conductor.power_sweeper.sweep()
    assert ("shelved", OFFLOADING) == conductor.state(uuid)[:2]


def test_it_leaves_after_an_unshelve_that_failed(database: Database) -> None:
    conductor = a_conductor(database, 50)
    uuid = running(conductor)
    conductor.operator.shelve_instance(uuid)
    report(conductor, uuid, states.SHELVING, OFF)
    conductor.operator.unshelve_instance(uuid)
    assert report(conductor, uuid, states.UNSHELVING, OFF, "no memory")
    assert ("shelved", None) == conductor.state(uuid)[:2]
    conductor.clock.advance(50)
    assert 1 == conductor.power_sweeper.sweep()
    assert OFFLOADING == conductor.state(uuid)[1]


def test_a_host_without_a_shelf_keeps_it(conductor: Conductor) -> None:
    """As if instances never left."""
    conductor.add_host("h4")
    uuid = conductor.place("h4")
    conductor.claim(uuid, "h4")
    conductor.finish(uuid, "h4")
    conductor.operator.shelve_instance(uuid)
    conductor.agents.power_done(context(), PowerReport(uuid, "h4", states.SHELVING, OFF))
    assert ("shelved", None, 1, "h4") == conductor.state(uuid)
    with pytest.raises(errors.Conflict, match="no place that other hosts reach"):
        conductor.operator.shelve_offload_instance(uuid)


def with_a_volume(conductor: Conductor, **request: Any) -> tuple[str, str]:
    """An instance, and a volume that it has."""
    conductor.add_backend("m1@files", "data")
    (volume,) = conductor.operator.create_volumes({"size": 1})["volumes"]
    values = {"status": "in-use", "step": None, "host": "m1@files", "pool": "data"}
    connection = {"kind": "fake", "path": "/data", "format": "raw"}
    conductor.database.write(lambda tx: tx.update(models.volumes, volume["uuid"], values))
    uuid = running(conductor, **request)
    attachment = {
        "uuid": "0" * 36, "volume_uuid": volume["uuid"], "instance_uuid": uuid, "device": "vdb", "status": "attached",
        "attempt": 1, "connection": connection, "created_at": conductor.clock(),
    }  # fmt: skip
    conductor.database.write(lambda tx: tx.insert(models.volume_attachments, attachment))
    return uuid, volume["uuid"]


def test_a_volume_that_is_detached_meanwhile_is_available(conductor: Conductor) -> None:
    """The host has destroyed the guest, and detaches nothing any more."""
    uuid, volume = with_a_volume(conductor)
    conductor.operator.shelve_instance(uuid)
    conductor.operator.detach_volume(uuid, volume)
    assert report(conductor, uuid, states.SHELVING, OFF)
    assert "detaching" == conductor.operator.show_volume(volume)["status"]
    assert report(conductor, uuid, OFFLOADING, GONE)
    assert ("available", []) == (
        conductor.operator.show_volume(volume)["status"],
        conductor.operator.list_attachments([uuid]),
    )


def test_a_volume_that_was_being_attached_is_available(conductor: Conductor) -> None:
    """The conductor may die before it notifies the host. No host is left that could attach it, or end the attachment."""
    conductor.add_backend("m1@files", "data")
    (made,) = conductor.operator.create_volumes({"size": 1})["volumes"]
    values = {"status": "available", "step": None, "host": "m1@files", "pool": "data"}
    conductor.database.write(lambda tx: tx.update(models.volumes, made["uuid"], values))
    uuid = running(conductor)
    conductor.operator.attach_volume(uuid, made["uuid"])
    shelve(conductor, uuid)
    assert "shelved_offloaded" == conductor.state(uuid)[0]
    assert [] == conductor.operator.list_attachments([uuid])
    found = conductor.operator.show_volume(made["uuid"])
    assert ("available", True) == (found["status"], "has left its host" in found["failure"]["message"])
    another = running(conductor)
    conductor.operator.attach_volume(another, made["uuid"])
    assert another == conductor.operator.list_attachments([another])[0]["instance"]


def test_a_volume_of_an_instance_on_no_host_is_given_back_at_once(conductor: Conductor) -> None:
    """No host has a guest to take it from. While a host builds the instance, the volume stays reserved for its guest."""
    uuid, volume = with_a_volume(conductor)
    shelve(conductor, uuid)
    conductor.scheduler.answers.append(errors.NoValidHost(reason="all full"))
    conductor.operator.unshelve_instance(uuid)
    with pytest.raises(errors.Conflict, match="is being attached: wait"):
        conductor.operator.detach_volume(uuid, volume)
    conductor.work()
    begun = conductor.operator.detach_volume(uuid, volume)
    assert ("detaching", volume) == (begun["status"], begun["volume"])
    assert ("available", []) == (
        conductor.operator.show_volume(volume)["status"],
        conductor.operator.list_attachments([uuid]),
    )
    assert "detach_volume" == conductor.events(uuid)[-1]["event"]
    with pytest.raises(errors.Conflict, match="is available, and not attached to instance"):
        conductor.operator.detach_volume(uuid, volume)


def test_addresses_and_volumes_stay(conductor: Conductor) -> None:
    """Also if no host has room: the volume is reserved until the guest runs again."""
    conductor.operator.create_network({"name": "lab", "bridge": "br0", "subnet": "192.0.2.0/24"})
    uuid, volume = with_a_volume(conductor, networks="auto")
    address = shown(conductor, uuid)["interfaces"]

    def held() -> tuple[Any, str, str]:
        (found,) = conductor.operator.list_attachments([uuid])
        status = conductor.operator.show_volume(volume)["status"]
        return shown(conductor, uuid)["interfaces"], found["status"], status

    shelve(conductor, uuid)
    assert (address, "reserved", "reserved") == held()
    conductor.scheduler.answers.append(errors.NoValidHost(reason="all full"))
    conductor.operator.unshelve_instance(uuid)
    conductor.work()
    assert (address, "reserved", "reserved") == held()
    conductor.scheduler.answers.append([("h2", ())])
    conductor.operator.unshelve_instance(uuid)
    conductor.work()
    assert [volume] == [each["volume_uuid"] for each in conductor.compute.builds[-1][1]["volumes"]]
    conductor.claim(uuid, "h2", attempt=3)
    conductor.finish(uuid, "h2", attempt=3)
    assert (address, "attached", "in-use") == held()


def test_it_is_deleted_at_once(conductor: Conductor, uuid: str) -> None:
    """No host has anything of it to destroy. One that is being unshelved is deleted as any build."""
    shelve(conductor, uuid)
    conductor.termination.terminate(context(), [uuid])
    assert "deleted" == conductor.state(uuid)[0]


@pytest.mark.parametrize(
    ("method", "options", "reason"),
    [
        ("start_instance", {}, "on no host: unshelve it first"),
        ("shelve_instance", {}, "on no host: unshelve it first"),
        ("migrate_instance", {}, "unshelve it first"),
        ("evacuate_instance", {}, "unshelve it first"),
        ("rebuild_instance", {"request": {}}, "it must be on a host"),
        ("reset_state", {"state": "active"}, "unshelve it, or delete it"),
        ("reset_state", {"state": "error"}, "unshelve it, or delete it"),
    ],
)
def test_what_needs_a_host(conductor: Conductor, uuid: str, method: str, options: dict[str, Any], reason: str) -> None:
    shelve(conductor, uuid)
    with pytest.raises(errors.Conflict, match=reason):
        getattr(conductor.operator, method)(uuid, **options)


def test_an_offload_that_has_begun_is_not_given_up(conductor: Conductor, uuid: str) -> None:
    """Its guest may be destroyed already: the host is asked again until it reports the end."""
    conductor.operator.shelve_instance(uuid)
    report(conductor, uuid, states.SHELVING, OFF)
    for _number in range(2):
        conductor.clock.advance(conductor.limits.build_timeout_s + 1)
        conductor.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION))
        conductor.power_sweeper.sweep()
        assert ("shelved", OFFLOADING) == conductor.state(uuid)[:2]
    assert report(conductor, uuid, OFFLOADING, GONE)
    assert "shelved_offloaded" == conductor.state(uuid)[0]


def test_an_offload_from_a_host_that_is_certainly_off_is_given_up(conductor: Conductor, uuid: str) -> None:
    """The host never reports its end. The instance is SHELVED there as before, and may be evacuated."""
    conductor.operator.shelve_instance(uuid)
    report(conductor, uuid, states.SHELVING, OFF)
    conductor.clock.advance(conductor.limits.build_timeout_s + 1)
    conductor.power_sweeper.sweep()
    assert ("shelved", OFFLOADING) == conductor.state(uuid)[:2]
    conductor.operator.force_down("h1", True)
    with pytest.raises(errors.Conflict, match="wait until its task has ended"):
        conductor.operator.evacuate_instance(uuid)
    conductor.clock.advance(conductor.limits.build_timeout_s + 1)
    conductor.power_sweeper.sweep()
    assert ("shelved", None, 1, "h1") == conductor.state(uuid)
    conductor.clock.advance(conductor.limits.build_timeout_s + 1)
    conductor.power_sweeper.sweep()
    assert ("shelved", None, 1, "h1") == conductor.state(uuid)
    conductor.operator.evacuate_instance(uuid)
    assert states.REBUILDING == conductor.state(uuid)[1]


def test_an_offload_that_failed_is_tried_again(conductor: Conductor, uuid: str) -> None:
    """Its history has the failure once."""
    conductor.operator.shelve_instance(uuid)
    report(conductor, uuid, states.SHELVING, OFF)
    for _again in range(3):
        assert report(conductor, uuid, OFFLOADING, OFF, "the shelf is full")
        assert ("shelved", None) == conductor.state(uuid)[:2]
        conductor.clock.advance(conductor.limits.build_timeout_s + 1)
        conductor.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION))
        conductor.power_sweeper.sweep()
        assert ("shelved", OFFLOADING) == conductor.state(uuid)[:2]
    assert 1 == [each["message"] for each in conductor.events(uuid)].count("the shelf is full")


def test_nobody_starts_a_guest_that_is_half_offloaded(conductor: Conductor, uuid: str) -> None:
    conductor.operator.shelve_instance(uuid)
    report(conductor, uuid, states.SHELVING, OFF)
    assert report(conductor, uuid, OFFLOADING, GONE, "its disk cannot be removed")
    assert ("shelved", OFFLOADING) == conductor.state(uuid)[:2]
    with pytest.raises(errors.Conflict, match="wait until its task has ended"):
        conductor.operator.unshelve_instance(uuid)
    conductor.compute.power.clear()
    conductor.clock.advance(conductor.limits.placing_timeout_s + 1)
    conductor.power_sweeper.sweep()
    assert [("h1", uuid)] == conductor.compute.power
    assert report(conductor, uuid, OFFLOADING, GONE)
    assert "shelved_offloaded" == conductor.state(uuid)[0]


def given_up(conductor: Conductor, uuid: str) -> None:
    """An unshelve whose host h2 could not remove the guest."""
    shelve(conductor, uuid)
    conductor.scheduler.answers.append([("h2", ())])
    conductor.operator.unshelve_instance(uuid)
    conductor.work()
    attempt = int(conductor.state(uuid)[2])
    conductor.claim(uuid, "h2", attempt=attempt)
    failure = Failure(step="spawning", code="DestroyFailed", message="The guest cannot be removed")
    conductor.placement.abort(context(), Attempt(uuid, attempt, "h2", "h2"), failure)
    assert "shelved_offloaded" == conductor.state(uuid)[0]


def test_an_unshelve_waits_for_a_guest_that_could_not_be_removed(conductor: Conductor, uuid: str) -> None:
    """The agent has given up while the guest may run: no other host starts one before the agent has removed it."""
    given_up(conductor, uuid)
    with pytest.raises(errors.Conflict, match="may still have a guest on host h2"):
        conductor.operator.unshelve_instance(uuid)
    conductor.agents.destroyed(context(), uuid, "h1")
    with pytest.raises(errors.Conflict, match="may still have a guest on host h2"):
        conductor.operator.unshelve_instance(uuid)
    conductor.agents.destroyed(context(), uuid, "h2")
    assert "building" == conductor.operator.unshelve_instance(uuid)["vm_state"]


@pytest.mark.parametrize("end", ["removed", "off"])
def test_a_volume_stays_with_a_guest_that_could_not_be_removed(conductor: Conductor, end: str) -> None:
    """The guest may write to it: no other guest gets the volume before the host has removed the guest, or is off."""
    uuid, volume = with_a_volume(conductor)
    given_up(conductor, uuid)
    with pytest.raises(errors.Conflict, match="may still have a guest on host h2"):
        conductor.operator.detach_volume(uuid, volume)
    assert "reserved" == conductor.operator.show_volume(volume)["status"]
    if end == "removed":
        conductor.agents.destroyed(context(), uuid, "h2")
    else:
        conductor.operator.force_down("h2", True)
    conductor.operator.detach_volume(uuid, volume)
    assert "available" == conductor.operator.show_volume(volume)["status"]


def test_a_host_that_is_certainly_off_has_no_guest(conductor: Conductor, uuid: str) -> None:
    given_up(conductor, uuid)
    conductor.operator.force_down("h2", True)
    assert "building" == conductor.operator.unshelve_instance(uuid)["vm_state"]


def test_an_unshelve_whose_host_is_silent_starts_no_second_guest(conductor: Conductor, uuid: str) -> None:
    """Both would write to the disk that was kept. The instance is shelved again when the build's time is over."""
    shelve(conductor, uuid)
    conductor.scheduler.answers.append([("h2", ())])
    conductor.operator.unshelve_instance(uuid)
    conductor.work()
    conductor.claim(uuid, "h2", attempt=int(conductor.state(uuid)[2]))
    conductor.clock.advance(conductor.limits.service_down_time_s + 1)
    conductor.sweeper.sweep()
    assert ("building", "spawning", "h2") == (*conductor.state(uuid)[:2], conductor.state(uuid)[3])
    conductor.clock.advance(conductor.limits.build_timeout_s)
    conductor.sweeper.sweep()
    assert "shelved_offloaded" == conductor.state(uuid)[0]
    with pytest.raises(errors.Conflict, match="may still have a guest on host h2"):
        conductor.operator.unshelve_instance(uuid)


def test_instances_of_one_request_are_unshelved_each_for_itself(conductor: Conductor) -> None:
    """They differ by now: each has its own zone, host, flavor and disk."""
    conductor.scheduler.answers.append([("h1", ()), ("h1", ())])
    both = conductor.create(count=2)
    conductor.work()
    for each in both:
        conductor.claim(each, "h1")
        conductor.finish(each, "h1")
        shelve(conductor, each)
        conductor.operator.unshelve_instance(each, host="h2" if each == both[0] else None)
    conductor.scheduler.requests.clear()
    conductor.scheduler.answers.extend([[("h2", ())], [("h1", ())]])
    conductor.clock.advance(conductor.limits.placing_timeout_s + 1)
    conductor.tasks.cast.clear()
    conductor.sweeper.sweep()
    conductor.work()
    assert [1, 1] == [spec["num_instances"] for spec, _properties in conductor.scheduler.requests]
