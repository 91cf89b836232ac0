# SPDX-License-Identifier: Apache-2.0
"""Volumes that guests get and give back: each step in the ledger, and each step that is lost."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import pytest

from conductor_stub.volumes.creation import VolumeCreation
from fleet import errors, states
from fleet.clock import utcnow
from fleet.db.engine.database import Database
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.tables import models
from fleet.db.volumes import attachments as rows
from fleet.objects import VolumeRequest
from tests.functional.manage import Manage
from tests.functional.test_audit import break_it
from tests.worlds.conductor import INCARNATION, context
from tests.worlds.guests import Guests
from tests.worlds.volumes import A

FAILURE = "Host h1 does not reach the volume on m1@fast#p1: it is not there"


@pytest.fixture
def guests(database: Database) -> Guests:
    return Guests(database)


@pytest.fixture
def volume(guests: Guests) -> str:
    return guests.available(name="data")


@pytest.fixture
def uuid(guests: Guests) -> str:
    return guests.guest()


def test_a_volume_is_attached_and_detached(guests: Guests, volume: str, uuid: str) -> None:
    """The host reads what is wanted, and its report changes attachment and volume together."""
    begun = guests.operator.attach_volume("web", "data")
    assert ("attaching", "vdb", "h1") == (begun["status"], begun["device"], begun["host"])
    assert [("h1", uuid)] == guests.compute.attachments
    assert [(volume, "attaching", 1)] == guests.wants(uuid)
    (read,) = guests.hosts.get_attachments(uuid, "h1")
    where = {"kind": "file", "path": f"/srv/p1/volume-{volume}", "format": "raw"}
    assert (where, "m1@fast#p1") == (read["connection"], read["volume_host"])
    assert "attaching" == guests.status(volume)
    assert "attached" == guests.report(uuid)
    shown = guests.operator.show_volume("data")
    assert ("in-use", [("web", "vdb", "attached")]) == (
        shown["status"],
        [(each["instance_name"], each["device"], each["status"]) for each in shown["attachments"]],
    )
    assert [volume] == [each["volume"] for each in guests.operator.show_instance(uuid)["volumes"]]
    assert [shown["attachments"]] == [each["attachments"] for each in guests.operator.list_volumes()]
    guests.operator.detach_volume("web", "data")
    assert "detaching" == guests.status(volume)
    assert [(volume, "detaching", 2)] == guests.wants(uuid)
    assert guests.report(uuid) is None
    assert ("available", []) == (guests.status(volume), guests.wants(uuid))
    assert [("attach_volume", "success"), ("detach_volume", "success")] == guests.events(uuid)


def test_a_repeated_request_is_one_attachment(guests: Guests, volume: str, uuid: str) -> None:
    """A client whose answer was lost asks again, and a report that is repeated changes nothing."""
    assert 1 == len({guests.operator.attach_volume(uuid, volume)["uuid"] for _twice in range(2)})
    first = {
        "attachment_uuid": guests.hosts.get_attachments(uuid, "h1")[0]["uuid"],
        "status": "attaching",
        "attempt": 1,
    }
    assert ["attached"] * 2 == [guests.hosts.attachment_done(host="h1", **first)["status"] for _twice in range(2)]
    assert 1 == len({guests.operator.detach_volume(uuid, volume)["uuid"] for _twice in range(2)})
    assert "detaching" == guests.report(uuid, **first)
    assert "detaching" == guests.report(uuid, host="h1", status="detaching", attempt=1)
    assert guests.report(uuid) is None
    assert guests.hosts.attachment_done(host="h1", **{**first, "status": "detaching", "attempt": 2}) is None


def test_a_volume_has_one_guest_and_a_device_one_volume(guests: Guests, volume: str, uuid: str) -> None:
    other, second = guests.guest(name="db", host="h1"), guests.available(name="more")
    guests.attached(volume, uuid)
    with pytest.raises(
        errors.Conflict, match="Volume data is in-use, not available: detach it from its instance first"
    ):
        guests.operator.attach_volume(other, volume)
    with pytest.raises(errors.Conflict, match="not attached to instance db"):
        guests.operator.detach_volume(other, volume)
    with pytest.raises(errors.Conflict, match="device vdb is taken"):
        guests.operator.attach_volume(uuid, second, device="/dev/vdb")
    assert "vdx" == guests.operator.attach_volume(uuid, second, device="/dev/vdx")["device"]
    with pytest.raises(errors.InvalidInput, match="device"):
        guests.operator.attach_volume(uuid, second, device="/dev/sda")


def test_disks_of_the_flavor_keep_their_names(guests: Guests, volume: str) -> None:
    """An ephemeral disk and swap come before volumes."""
    flavor = {"vcpus": 1, "memory_mb": 1024, "root_gb": 5, "ephemeral_gb": 5, "swap": 512}
    assert "vdd" == guests.operator.attach_volume(guests.guest(flavor=flavor), volume)["device"]


def test_of_two_requests_at_once_one_wins(guests: Guests, volume: str, uuid: str) -> None:
    other = guests.guest(name="db")

    def attach(instance: str) -> str:
        try:
            return guests.operator.attach_volume(instance, volume)["instance"]
        except errors.Conflict:
            return ""

    with futures.ThreadPoolExecutor(2) as together:
        won = [each for each in together.map(attach, (uuid, other)) if each]
    assert 1 == len(won)
    assert won == [each["instance"] for each in guests.operator.show_volume(volume)["attachments"]]


@pytest.mark.parametrize(
    "change",
    [
        lambda guests: guests.operator.delete_volume("data"),
        lambda guests: guests.operator.extend_volume("data", 20),
        lambda guests: guests.operator.migrate_volume("data"),
        lambda guests: guests.operator.unmanage_volume("data"),
        lambda guests: guests.operator.create_snapshot("data"),
        lambda guests: guests.operator.create_volumes({"source": "data"}),
    ],
)
def test_a_volume_in_use_stays_as_it_is(guests: Guests, volume: str, uuid: str, change: Any) -> None:
    guests.attached(volume, uuid)
    with pytest.raises(errors.Conflict, match="is in-use, not available: detach it"):
        change(guests)


@pytest.mark.parametrize("end", ["made", "failed", "deleted"])
@pytest.mark.parametrize("kind", ["snapshot", "clone"])
def test_a_volume_that_is_being_copied_gets_no_guest(
    guests: Guests, volume: str, uuid: str, kind: str, end: str
) -> None:
    """A guest would write to it meanwhile, and the copy would have parts of the data before and after."""
    earlier = guests.available(source=volume)
    if kind == "snapshot":
        copy = guests.operator.create_snapshot(volume)["uuid"]
        delete = guests.operator.delete_snapshot
    else:
        copy, delete = guests.ask(A, source=volume), guests.operator.delete_volume
    for _time in range(2):
        with pytest.raises(errors.Conflict, match="is being copied to a snapshot or to another volume: wait"):
            guests.operator.attach_volume(uuid, volume)
        with pytest.raises(errors.Conflict, match="is being copied to a snapshot or to another volume: wait"):
            guests.create(block_device_mapping=[{"volume_id": volume}])
        guests.done(earlier)
    if end == "made":
        guests.done(copy)
    elif end == "failed":
        guests.clock.advance(guests.limits.volume_timeout_s + 1)
        guests.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION))
        guests.volume_sweeper.sweep()
    else:
        delete(copy)
    assert "attaching" == guests.operator.attach_volume(uuid, volume)["status"]


class Slow:
    """Writes requests one at a time, each after something else has happened."""

    def __init__(self, work: Callable[[Sequence[Any]], Sequence[Any]], first: Callable[[], object]) -> None:
        self._work, self._first = work, first

    def write(self, request: Any) -> Any:
        self._first()
        (answer,) = self._work([request])
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_volume_that_was_attached_meanwhile_is_not_copied(guests: Guests, volume: str, uuid: str) -> None:
    def grouped(work: Any, **_options: Any) -> Any:
        return Slow(work, lambda: guests.operator.attach_volume(uuid, volume))

    creation = VolumeCreation(guests.database, guests.volume_placement, grouped)
    with pytest.raises(errors.Conflict, match="is attaching, not available"):
        creation.accept(context(), VolumeRequest(source=volume))
    assert [volume] == [each["uuid"] for each in guests.operator.list_volumes()]


def test_what_cannot_be_attached_is_detached_again(guests: Guests, volume: str, uuid: str) -> None:
    """The volume is not available before the host says that its guest does not have it; then it says why."""
    guests.operator.attach_volume(uuid, volume)
    assert "detaching" == guests.report(uuid, failure=FAILURE)
    assert [(volume, "detaching", 2)] == guests.wants(uuid)
    assert "detaching" == guests.report(uuid, failure="the hypervisor does not answer")
    guests.clock.advance(10 * guests.limits.attach_timeout_s)
    assert 1 == guests.attachment_sweeper.sweep()
    assert "detaching" == guests.status(volume)
    assert guests.report(uuid) is None
    shown = guests.operator.show_volume(volume)
    assert ("available", FAILURE) == (shown["status"], shown["failure"]["message"])
    results = [("attach_volume", "failed"), ("detach_volume", "failed"), ("detach_volume", "success")]
    assert results == guests.events(uuid)
    guests.add_host("h1")
    guests.attached(volume, uuid)
    assert guests.operator.show_volume(volume)["failure"] is None


def test_a_guest_that_does_not_release_a_volume_keeps_it(guests: Guests, volume: str, uuid: str) -> None:
    guests.attached(volume, uuid)
    guests.operator.detach_volume(uuid, volume)
    assert "attached" == guests.report(uuid, failure="the guest has not released vdb within 20 s")
    shown = guests.operator.show_volume(volume)
    assert ("in-use", "the guest has not released vdb within 20 s") == (shown["status"], shown["failure"]["message"])
    guests.operator.detach_volume(uuid, volume)
    assert guests.report(uuid) is None


def test_lost_orders_are_sent_again_until_the_deadline(guests: Guests, volume: str, uuid: str) -> None:
    """What was to be attached is detached then, without an end; what was to be detached stays in use."""
    guests.compute.without_queue.add("h1")
    guests.operator.attach_volume(uuid, volume)
    guests.compute.without_queue.clear()
    assert (0, []) == (guests.attachment_sweeper.sweep(), guests.compute.attachments)
    guests.clock.advance(guests.limits.placing_timeout_s)
    assert (1, [("h1", uuid)]) == (guests.attachment_sweeper.sweep(), guests.compute.attachments)
    guests.clock.advance(guests.limits.attach_timeout_s)
    assert 1 == guests.attachment_sweeper.sweep()
    late = "Host h1 did not end attaching of device vdb within 300 s."
    shown = guests.operator.show_volume(volume)
    assert ("detaching", late) == (shown["status"], shown["failure"]["message"])
    assert guests.report(uuid) is None
    guests.add_host("h1")
    guests.attached(volume, uuid)
    guests.operator.detach_volume(uuid, volume)
    guests.clock.advance(guests.limits.attach_timeout_s)
    assert 1 == guests.attachment_sweeper.sweep()
    assert "in-use" == guests.status(volume)
    assert guests.report(uuid, status="detaching") is None
    assert "available" == guests.status(volume)


def test_a_deleted_instance_gives_its_volumes_back(guests: Guests, volume: str, uuid: str) -> None:
    """When its host has destroyed the guest, not before."""
    second = guests.available(name="more")
    guests.attached(volume, uuid)
    guests.operator.attach_volume(uuid, second)
    guests.termination.terminate(context(), [uuid])
    assert ["in-use", "attaching"] == [guests.status(each) for each in (volume, second)]
    with pytest.raises(errors.Conflict, match="being deleted"):
        guests.operator.detach_volume(uuid, volume)
    guests.agents.destroyed(context(), uuid, "h1")
    assert ["available"] * 2 == [guests.status(each) for each in (volume, second)]
    assert [] == guests.database.read(rows.of_instances, [uuid])
    assert states.DELETED == guests.operator.show_instance(uuid)["instance"]["vm_state"]
    guests.operator.delete_volume(volume)


@pytest.mark.parametrize("silent", ["the backend", "the host", "the guest is not there"])
def test_a_refusal_says_why(guests: Guests, volume: str, silent: str) -> None:
    """Nothing is written then."""
    uuid = guests.guest() if silent != "the guest is not there" else guests.create(name="web")[0]
    if silent == "the backend":
        guests.backends.without_queue.add(A[0])
    elif silent == "the host":
        guests.clock.advance(guests.limits.service_down_time_s + 1)
    match = {
        "the backend": "m1@fast",
        "the host": "on a host whose fleet-compute is down",
        "the guest is not there": "it must be ACTIVE or STOPPED",
    }[silent]
    with pytest.raises(errors.FleetError, match=match):
        guests.operator.attach_volume(uuid, volume)
    assert ("available", []) == (guests.status(volume), guests.operator.list_attachments([uuid]))


def test_lists_have_the_volumes_of_each_instance(
    guests: Guests, volume: str, uuid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few instances, and of many, for which all attachments are read."""
    guests.guest(name="without")
    guests.operator.attach_volume(uuid, volume)
    for few in (2, 1):
        monkeypatch.setattr(rows, "_FEW", few)
        listed = guests.operator.list_instances(limit=10)
        assert {"web": [volume], "without": []} == {each["name"]: each["volumes"] for each in listed}


def test_a_host_reads_only_what_is_its_own(guests: Guests, volume: str, uuid: str) -> None:
    guests.operator.attach_volume(uuid, volume)
    assert [] == guests.wants(uuid, "h2")
    (found,) = guests.hosts.get_attachments(uuid, "h1")
    said = {"attachment_uuid": found["uuid"], "status": "attaching", "attempt": 1}
    assert guests.hosts.attachment_done(host="h2", **said) is None
    assert "attaching" == guests.status(volume)


def test_an_audit_gives_volumes_the_status_of_their_attachments(
    guests: Guests, volume: str, uuid: str, tmp_path: pathlib.Path
) -> None:
    """Also after the instance was deleted by hand, or the attachment."""
    others = [guests.available(name=name) for name in ("lonely", "free")]
    guests.clock.now = utcnow()
    guests.add_host("h1")
    guests.attached(volume, uuid)
    guests.operator.attach_volume(guests.guest(name="gone"), others[1])
    audit = Manage(guests.database, tmp_path)
    assert 0 == audit("audit", "-f", "json")[0]
    break_it(guests.database, models.volumes, status="available", where_uuid=volume)
    break_it(guests.database, models.volumes, status="in-use", where_uuid=others[0])
    break_it(guests.database, models.instances, deleted=True, where_name="gone")
    status, printed = audit("audit", "--heal", "-f", "json")
    found = sorted(each["found"] for each in json.loads("\n".join(printed)) if each["kind"] == "volume")
    assert [
        "it is attaching, and attached to gone, which is deleted",
        "it is available, and attached to web",
        "it is in-use, and attached to no instance",
    ] == found
    assert ["in-use", "available", "available"] == [guests.status(each) for each in (volume, *others)]
    assert 0 == audit("audit", "-f", "json")[0] or status == 4
