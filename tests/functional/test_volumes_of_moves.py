# SPDX-License-Identifier: Apache-2.0
"""Volumes follow their instance to hosts that reach them, and back. A refusal says which volume, and why."""

from __future__ import annotations

import fnmatch
from typing import Any

import pytest

from conductor_stub.moves import ways
from conductor_stub.steps import request_spec
from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors, move_states
from fleet.db.engine.database import Connection, Database
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.instances import instances
from fleet.objects import Claimed, Migration
from tests.functional import databases
from tests.worlds.conductor import INCARNATION, context
from tests.worlds.guests import Guests
from tests.worlds.neighbours import no_valid_host

CLAIM = Claimed(memory_mb=2048, disk_gb=10, vcpus=2)
LARGE = {"vcpus": 2, "memory_mb": 2048, "root_gb": 10}


class Moving(Guests):
    """An instance with a volume on ``h1``; ``h2`` reaches the volume, too."""

    def __init__(self, database: Database, **hosts: str) -> None:
        """:param hosts: ``volume_hosts`` of each"""
        super().__init__(database)
        for host, reached in {"h1": "m1", "h2": "m*", **hosts}.items():
            self.add_host(host, stats={"volume_hosts": reached})
        self.volume = self.available(name="data")
        self.uuid = self.guest("h1")
        self.attached(self.volume, self.uuid)

    def record(self) -> dict[str, Any]:
        return self.operator.list_migrations({"instance_uuid": self.uuid})[0]

    def accept(self, kind: str, **request: Any) -> None:
        if kind == "evacuate_instance":
            self.go_down("h1")
        if kind == "resize_instance":
            request.setdefault("flavor", LARGE)
        getattr(self.operator, kind)(self.uuid, **request)

    def begin(self, kind: str, to: str = "h2") -> None:
        """Bring a move to where its destination holds a claim."""
        self.scheduler.answers.append([(to, ())])
        self.accept(kind)
        self.moves.deliver(self.place_move)
        self.take(to)

    def take(self, host: str) -> Migration:
        record = self.record()
        here = Attempt(record["uuid"], record["attempt"], host, host, INCARNATION)
        return self.move_progress.claim(context(), here, CLAIM)

    def done_by(self, host: str, status: str) -> Migration:
        record = self.record()
        return self.move_progress.advance(context(), Attempt(record["uuid"], record["attempt"], host), status)

    def go_down(self, host: str) -> None:
        self.clock.advance(self.limits.service_down_time_s + 1)
        heard = [each["host"] for each in self.operator.list_hosts() if each["host"] != host]
        self.agents.report_state(Heartbeat("fleet-compute", heard, INCARNATION))

    def is_on(self) -> tuple[str, str]:
        """Host and status of the attachment."""
        (found,) = self.operator.list_attachments([self.uuid])
        return found["host"], found["status"]


@pytest.fixture
def moving(database: Database) -> Moving:
    return Moving(database)


def carried(migration: Migration) -> list[str]:
    return [each.volume_uuid for each in migration.volumes]


@pytest.mark.parametrize("decision", ["confirm", "revert"])
@pytest.mark.parametrize("kind", ["resize_instance", "migrate_instance"])
def test_a_volume_follows_a_resize_and_comes_back(moving: Moving, kind: str, decision: str) -> None:
    """Each host gets the volumes of the guest with the migration. The attachment has the host of the instance."""
    moving.begin(kind)
    (read,) = moving.move_progress.of_host("h2", [moving.uuid])
    assert [moving.volume] == carried(read)
    assert [moving.volume] == carried(moving.done_by("h1", move_states.PRE_MIGRATING))
    assert ("h1", "attached") == moving.is_on()
    moving.done_by("h2", move_states.POST_MIGRATING)
    assert ("h2", "attached") == moving.is_on()
    with pytest.raises(errors.Conflict, match="is being moved with its volumes: wait"):
        moving.operator.detach_volume(moving.uuid, moving.volume)
    with pytest.raises(errors.Conflict, match="is RESIZED"):
        moving.operator.attach_volume(moving.uuid, moving.available())
    if decision == "confirm":
        moving.operator.confirm_resize(moving.uuid)
        moving.done_by("h1", move_states.CONFIRMING)
    else:
        moving.operator.revert_resize(moving.uuid)
        assert [moving.volume] == carried(moving.done_by("h2", move_states.REVERTING))
        moving.done_by("h1", move_states.RESUMING)
    host = "h2" if decision == "confirm" else "h1"
    assert ((host, "attached"), "in-use") == (moving.is_on(), moving.status(moving.volume))
    moving.operator.detach_volume(moving.uuid, moving.volume)
    assert moving.report(moving.uuid, host) is None


@pytest.mark.parametrize(
    ("kind", "status", "done"),
    [
        ("evacuate_instance", move_states.PRE_MIGRATING, ()),
        ("migrate_instance", move_states.POST_MIGRATING, (("h1", move_states.PRE_MIGRATING),)),
    ],
)
def test_a_silent_destination_may_write_to_the_volume(
    moving: Moving, kind: str, status: str, done: tuple[tuple[str, str], ...]
) -> None:
    """No other host gets the guest until it is off for certain."""
    moving.begin(kind)
    for host, step in done:
        moving.done_by(host, step)
    for _time in range(3):
        moving.go_down("h2")
        moving.move_sweeper.sweep()
    assert (status, 1) == (moving.record()["status"], moving.record()["attempt"])
    moving.operator.force_down("h2", True)
    moving.go_down("h2")
    moving.move_sweeper.sweep()
    assert status != moving.record()["status"] or moving.record()["attempt"] > 1


def test_an_evacuation_waits_for_a_destination_that_may_have_the_guest(moving: Moving) -> None:
    """It is up and reports nothing, because it cannot clean up: its order is repeated, also after the deadline."""
    moving.begin("evacuate_instance")
    moving.clock.advance(moving.limits.move_timeout_s + 1)
    moving.agents.report_state(Heartbeat("fleet-compute", ["h2"], INCARNATION))
    ordered = len(moving.compute.moves)
    moving.move_sweeper.sweep()
    assert (move_states.PRE_MIGRATING, 1) == (moving.record()["status"], moving.record()["attempt"])
    assert ordered < len(moving.compute.moves)
    with pytest.raises(errors.Conflict, match="wait until its task has ended"):
        moving.operator.evacuate_instance(moving.uuid)
    record = moving.record()
    failed = Failure(move_states.PRE_MIGRATING, "SpawnFailed", "the hypervisor said no")
    moving.move_progress.fail(context(), Attempt(record["uuid"], 1, "h2", "h2"), move_states.PRE_MIGRATING, failed)
    assert ("error", ("h1", "attached")) == (moving.record()["status"], moving.is_on())


def test_a_volume_follows_an_evacuation(moving: Moving) -> None:
    moving.begin("evacuate_instance")
    assert ("h1", "attached") == moving.is_on()
    moving.done_by("h2", move_states.PRE_MIGRATING)
    assert ("h2", "attached") == moving.is_on()


def test_a_move_that_is_deleted_gives_the_volume_back(moving: Moving) -> None:
    """When both hosts have destroyed what they have."""
    moving.begin("migrate_instance")
    moving.termination.terminate(context(), [moving.uuid])
    moving.agents.destroyed(context(), moving.uuid, "h1")
    assert "in-use" == moving.status(moving.volume)
    moving.agents.destroyed(context(), moving.uuid, "h2")
    assert "available" == moving.status(moving.volume)


@pytest.mark.parametrize("kind", ["resize_instance", "migrate_instance", "evacuate_instance"])
def test_a_volume_that_no_other_host_reaches(database: Database, kind: str) -> None:
    """The refusal names the volume, but no machine: projects may resize. A host that is down detaches none."""
    moving = Moving(database, h2="other")
    advice = "it waits for its host" if kind == "evacuate_instance" else "detach it"
    with pytest.raises(errors.Conflict, match=f"has volume data, whose data no other host reaches: {advice}"):
        moving.accept(kind)
    assert ("h1", "attached") == moving.is_on()


@pytest.mark.parametrize("kind", ["migrate_instance", "evacuate_instance"])
def test_a_destination_that_does_not_reach_the_volume(database: Database, kind: str) -> None:
    moving = Moving(database, far="")
    with pytest.raises(errors.Conflict, match="volume data with data on machine m1, which host far does not reach"):
        moving.accept(kind, host="far")
    moving.accept(kind, host="h2")


def test_hosts_that_do_not_reach_the_volume_are_left_out(database: Database) -> None:
    moving = Moving(database, far="")
    moving.scheduler.answers.append(no_valid_host())
    moving.accept("migrate_instance")
    moving.moves.deliver(moving.place_move)
    _spec, properties = moving.scheduler.requests[-1]
    assert {"h1", "far"} == set(properties["ignore_hosts"])
    assert "Volume data on machine m1 cannot be reached from 1 host: far." in moving.record()["failure"]["message"]


def test_in_a_large_fleet_the_hosts_that_are_left_are_named(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands that do not reach a volume make megabytes of each request, those that do a line."""
    monkeypatch.setattr(request_spec, "MANY", 3)
    moving = Moving(database, far="", further="", H3="m1")
    moving.scheduler.answers.append(no_valid_host())
    moving.accept("migrate_instance")
    moving.moves.deliver(moving.place_move)
    _spec, properties = moving.scheduler.requests[-1]
    assert ({"h1", "far", "further"}, {"h2", "H3"}) == tuple(
        set(properties[name]) for name in ("ignore_hosts", "within_hosts")
    )


def test_what_many_hosts_report_is_compared_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison for each host takes ten seconds of a transaction at 100,000 hosts."""
    moving = Moving(database, **{f"far{number}": "other,others-*" for number in range(20)})
    compared: list[str] = []
    matches = fnmatch.fnmatchcase

    def counted(name: str, pattern: str) -> bool:
        compared.append(pattern)
        return matches(name, pattern)

    monkeypatch.setattr(fnmatch, "fnmatchcase", counted)
    with databases.statements(database.engine) as sent:
        moving.accept("migrate_instance")
    assert 1 == len([each for each in sent if "FROM compute_nodes" in each and "ORDER BY" in each])
    assert ["m*", "m1", "other", "others-*"] == sorted(compared)


def test_guests_with_data_on_one_machine_are_compared_together(moving: Moving) -> None:
    more = moving.guest("h1", name="more")
    moving.attached(moving.available(name="more"), more)
    read = moving.database.read
    rows = read(instances.of_uuids, [moving.uuid, more])

    def left_out(connection: Connection) -> list[frozenset[str]]:
        way = ways.of_rows(connection, rows)
        return [way.lacking(row) for row in rows]

    moving.add_host("far", stats={"volume_hosts": "other"})
    one, other = read(left_out)
    assert {"far"} == one
    assert one is other


@pytest.mark.parametrize("status", ["attaching", "detaching"])
def test_a_volume_on_its_way_is_waited_for(moving: Moving, status: str) -> None:
    volume = moving.volume
    if status == "attaching":
        volume = moving.available(name="more")
        moving.operator.attach_volume(moving.uuid, volume)
    else:
        moving.operator.detach_volume(moving.uuid, volume)
    with pytest.raises(errors.Conflict, match=f"which is {status}: wait until that has ended"):
        moving.accept("migrate_instance")


@pytest.mark.parametrize("status", ["attaching", "late to attach", "detaching"])
def test_a_guest_is_evacuated_whose_host_died_while_it_attached(moving: Moving, status: str) -> None:
    """The host ends no attachment any more. If it is certainly off, the volume is free once the guest runs elsewhere."""
    volume = moving.volume
    if status == "detaching":
        moving.operator.detach_volume(moving.uuid, volume)
    else:
        volume = moving.available(name="more")
        moving.operator.attach_volume(moving.uuid, volume)
    if status == "late to attach":
        moving.clock.advance(moving.limits.attach_timeout_s + 1)
        moving.attachment_sweeper.sweep()
        assert "detaching" == moving.status(volume)
    with pytest.raises(errors.Conflict, match="if its host is certainly off, run 'fleet service force-down'"):
        moving.accept("evacuate_instance")
    moving.operator.force_down("h1", True)
    moving.begin("evacuate_instance")
    (read,) = moving.move_progress.of_host("h2", [moving.uuid])
    assert ([] if status == "detaching" else [moving.volume]) == carried(read)
    assert ("attaching" if status == "attaching" else "detaching") == moving.status(volume)
    moving.done_by("h2", move_states.PRE_MIGRATING)
    assert "available" == moving.status(volume)
    assert "Host h1 is off" in moving.operator.show_volume(volume)["failure"]["message"]
    left = [each["volume_name"] for each in moving.operator.list_attachments([moving.uuid])]
    assert ([] if status == "detaching" else ["data"]) == left
    assert "h2" == moving.operator.attach_volume(moving.guest("h2", name="other"), volume)["host"]


def _on_its_way(moving: Moving, status: str) -> str:
    """Return a volume that the guest's host is to attach or to detach."""
    if status == "detaching":
        moving.operator.detach_volume(moving.uuid, moving.volume)
        return moving.volume
    volume = moving.available(name="more")
    moving.operator.attach_volume(moving.uuid, volume)
    return volume


@pytest.mark.parametrize("status", ["attaching", "detaching"])
def test_an_evacuation_that_fails_leaves_a_volume_on_its_way_where_it_is(moving: Moving, status: str) -> None:
    """The guest runs on if its host was not off after all. The host that comes back ends what it was to do."""
    volume = _on_its_way(moving, status)
    moving.operator.force_down("h1", True)
    moving.scheduler.answers.append(no_valid_host())
    moving.accept("evacuate_instance")
    moving.moves.deliver(moving.place_move)
    assert ("error", status) == (moving.record()["status"], moving.status(volume))
    with pytest.raises(errors.Conflict, match=f"is {status}"):
        moving.operator.attach_volume(moving.guest("h2", name="other"), volume)
    moving.operator.force_down("h1", False)
    moving.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION))
    wanted = moving.wants(moving.uuid)
    assert (volume, status, 1 if status == "attaching" else 2) in wanted
    found = [each["uuid"] for each in moving.operator.list_attachments([moving.uuid]) if each["volume"] == volume]
    moving.report(moving.uuid, attachment_uuid=found[0], status=status, attempt=1 if status == "attaching" else 2)
    assert ("in-use" if status == "attaching" else "available") == moving.status(volume)


@pytest.mark.parametrize("status", ["attaching", "detaching"])
def test_a_volume_on_its_way_keeps_its_status_during_an_evacuation(moving: Moving, status: str) -> None:
    """The new guest is made without it, so neither its deadline nor a host that is back turns it into one that follows."""
    volume = _on_its_way(moving, status)
    moving.operator.force_down("h1", True)
    moving.begin("evacuate_instance")
    moving.clock.advance(moving.limits.attach_timeout_s + 1)
    moving.attachment_sweeper.sweep()
    assert status == moving.status(volume)
    assert 0 == moving.attachment_sweeper.sweep()
    (found,) = [each for each in moving.operator.list_attachments([moving.uuid]) if each["volume"] == volume]
    failure = "busy" if status == "detaching" else ""
    attempt = 2 if status == "detaching" else 1
    assert status == moving.report(
        moving.uuid, attachment_uuid=found["uuid"], status=status, attempt=attempt, failure=failure
    )


def test_a_late_detachment_does_not_free_a_volume_that_is_moving(moving: Moving) -> None:
    """The destination may run the guest with it already."""
    moving.operator.detach_volume(moving.uuid, moving.volume)
    (wanted,) = moving.wants(moving.uuid)
    (found,) = moving.operator.list_attachments([moving.uuid])
    moving.clock.advance(moving.limits.attach_timeout_s + 1)
    moving.attachment_sweeper.sweep()
    assert "in-use" == moving.status(moving.volume)
    moving.agents.report_state(Heartbeat("fleet-compute", ["h1", "h2"], INCARNATION))
    moving.begin("migrate_instance")
    late = {"attachment_uuid": found["uuid"], "status": "detaching", "attempt": wanted[2]}
    assert "attached" == moving.report(moving.uuid, **late)
    assert "in-use" == moving.status(moving.volume)


LIVE = {"live_migration": "kvm", "live_migration_takes": "volumes"}


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        pytest.param({}, "is on host h1, which does not migrate running guests", id="no live migration"),
        pytest.param(
            {"h1": {**LIVE, "live_migration_takes": "cells"}, "h2": LIVE},
            "has 1 volume: data, with which host h1 migrates no running guests",
            id="the source moves guests without volumes",
        ),
        pytest.param(
            {"h1": LIVE, "h2": {"live_migration": "kvm"}, "h3": LIVE},
            "is on host h1, and no other host takes its running guests with its 1 volume: data",
            id="one host does not take it, and the other does not reach the volume",
        ),
        pytest.param({"h1": LIVE, "h2": LIVE, "h3": LIVE}, "", id="a host takes it and reaches the volume"),
    ],
)
def test_a_guest_with_volumes_moves_while_it_runs_where_hosts_take_it(
    database: Database, hosts: dict[str, dict[str, str]], message: str
) -> None:
    """h3 does not reach the volume: neither a move nor a plan sends the guest there."""
    moving = Moving(database, h3="other")
    for host, stats in hosts.items():
        moving.add_host(host, stats={"volume_hosts": {"h1": "m1", "h2": "m*", "h3": "other"}[host], **stats})
    assert {moving.uuid: message} == moving.operator.live_obstacles([moving.uuid])
    if message:
        with pytest.raises(errors.Conflict, match=f"{message}: migrate it without --live"):
            moving.accept("live_migrate_instance")
        return
    (planned,) = moving.operator.requests_of([moving.uuid], live=True)
    moving.begin("live_migrate_instance")
    (_spec, properties) = moving.scheduler.requests[-1]
    assert [["h3"], ["h1", "h3"]] == [
        sorted(each["ignore_hosts"]) for each in (planned["filter_properties"], properties)
    ]
    found = moving.done_by("h2", move_states.PRE_MIGRATING)
    assert [moving.volume] == carried(found)
    moving.done_by("h1", move_states.RUNNING)
    assert ("h2", "attached") == moving.is_on()


def test_a_disk_of_the_new_flavor_needs_the_name_of_a_volume(moving: Moving) -> None:
    with pytest.raises(errors.Conflict, match="has volume data as vdb, which is a disk of the new flavor"):
        moving.accept("resize_instance", flavor={**LARGE, "ephemeral_gb": 5})


def test_agents_that_are_too_old(moving: Moving) -> None:
    """They would start the guest without its volume."""
    moving.compute.pinned = errors.VersionPinned(topic="compute", method="b", needs="1.4", cap="1.3", pin=None)
    with pytest.raises(errors.VersionPinned):
        moving.accept("migrate_instance")
    assert ("active", None, 1, "h1") == moving.state(moving.uuid)
