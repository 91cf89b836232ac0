# SPDX-License-Identifier: Apache-2.0
"""One host's part of moves: its claims, its driver calls, and repeated looks that do no harm."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from compute_agent.drivers.base import SpawnFailed
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.ledger.notifications import Notifications
from compute_agent.work import recovery
from compute_agent.work.moves.mover import Mover
from fleet import errors, move_states, states
from fleet.agent.patience import Patience
from fleet.objects import Claimed, Holding, HostLimits, Image, Instance, Migration, Sizing
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST, Notifier
from tests.worlds.move_ledger import MoveLedger
from tests.worlds.one_host import one_host

UUID = "00000000-0000-0000-0000-00000000000a"
OTHER = "host2"
SMALL, LARGE = builders.a_flavor(), builders.a_flavor(memory_mb=1024, vcpus=2)
SMALL_CLAIM = {"claimed_memory_mb": 512, "claimed_disk_gb": 10, "claimed_vcpus": 1}
LARGE_CLAIM = Claimed(memory_mb=1024, disk_gb=10, vcpus=2)


class Part:
    """The host ``host1`` as source or destination of one move."""

    def __init__(self, status: str, source: str = HOST, dest: str = OTHER, kind: str = move_states.RESIZE, **fake: Any):
        self.world = one_host(builders.a_conf(reserved_host_memory_mb=0, fake=fake))
        instance = builders.an_instance(flavor=SMALL, vm_state=states.ACTIVE, host=source, node=source, **SMALL_CLAIM)
        if source == HOST:
            self.world.driver.spawn(builders.a_context(), instance, Image())
        claimed = status not in move_states.UNCLAIMED
        self.moves = MoveLedger()
        self.migration = self.moves.put(
            Migration(
                uuid=UUID,
                instance=instance,
                migration_type=kind,
                status=status,
                attempt=1,
                source_compute=source,
                source_node=source,
                old=Sizing(SMALL),
                new=Sizing(SMALL if kind == move_states.EVACUATION else LARGE),
                dest_compute=dest,
                dest_node=dest,
                held=Holding(instance.uuid, dest, dest, LARGE_CLAIM) if claimed else None,
            )
        )
        patience = Patience(self.world.stopping, self.world.stopping._clock)
        self.ledger = MoveCalls(self.moves, patience, limit_s=10)
        self.notifier = Notifier()
        self.mover = Mover(self.world.host, self.ledger, Notifications(self.notifier))  # type: ignore[arg-type]

    @property
    def instance(self) -> Instance:
        return self.migration.instance

    def look(self) -> str:
        """The host looks at the record; returns its status then."""
        self.mover.run(builders.a_context(), self.instance.uuid)
        return self.moves.records[UUID].status

    def notified(self) -> list[str]:
        """After ``compute.instance.``; the publisher and the level are looked at, too."""
        for level, publisher, event, _payload in self.notifier.sent:
            assert (("ERROR" if event.endswith("error") else "INFO"), f"compute.{HOST}") == (level, publisher)
        return [event.removeprefix("compute.instance.") for _level, _publisher, event, _payload in self.notifier.sent]

    def held_mb(self) -> int:
        return self.world.tracker.held().memory_mb

    def power(self) -> int | None:
        """Of the guest here; None without one."""
        try:
            return self.world.driver.get_info(self.instance.uuid).state
        except errors.NotFound:
            return None


SOURCE, DEST, BOTH = {}, {"source": OTHER, "dest": HOST}, {"dest": HOST}


@pytest.mark.parametrize(
    ("status", "role", "after", "held_mb", "power"),
    [
        pytest.param("preparing", DEST, "pre-migrating", 1024, None, id="destination claims the new flavor"),
        pytest.param("preparing", SOURCE, "preparing", 512, states.RUNNING, id="not the source's turn"),
        pytest.param("pre-migrating", SOURCE, "post-migrating", 512, states.SHUTDOWN, id="source switches off"),
        pytest.param("post-migrating", DEST, "finished", 1024, states.RUNNING, id="destination starts it"),
        pytest.param("preparing", BOTH, "finished", 512 + 1024, states.RUNNING, id="one host does it all, holds both"),
        pytest.param("reverting", DEST, "resuming", 0, None, id="destination lets go"),
        pytest.param("resuming", SOURCE, "reverted", 512, states.RUNNING, id="source starts it again"),
    ],
)
def test_each_part_of_a_resize(status: str, role: dict, after: str, held_mb: int, power: int | None) -> None:
    """A host does its part of the status. It does nothing if another host must act, and nothing twice."""
    part = Part(status, **role)
    assert [(after, held_mb, power)] * 2 == [(part.look(), part.held_mb(), part.power()) for _twice in range(2)]


@pytest.mark.parametrize(
    ("status", "role", "expected"),
    [
        pytest.param("preparing", SOURCE, [], id="not this host's turn"),
        pytest.param("preparing", DEST, ["resize.prep.start", "resize.prep.end"], id="a destination's claim"),
        pytest.param("pre-migrating", SOURCE, ["resize.start", "resize.end"], id="switched off"),
        pytest.param("post-migrating", DEST, ["finish_resize.start", "finish_resize.end"], id="started"),
        pytest.param("confirming", SOURCE, ["resize.confirm.start", "resize.confirm.end"], id="confirmed"),
        pytest.param("reverting", DEST, ["resize.revert.start"], id="a revert begins"),
        pytest.param("resuming", SOURCE, ["resize.revert.end"], id="and ends on the other host"),
        pytest.param(
            "preparing", DEST | {"kind": move_states.EVACUATION}, ["rebuild.start", "rebuild.end"], id="evacuated"
        ),
        pytest.param(
            "pre-migrating",
            DEST | {"kind": move_states.EVACUATION, "failing_hosts": [HOST]},
            ["rebuild.start", "rebuild.error"],
            id="not evacuated",
        ),
        pytest.param(
            "post-migrating",
            DEST | {"failing_hosts": [HOST]},
            ["finish_resize.start", "finish_resize.error", "resize.revert.start"],
            id="not started, and undone",
        ),
    ],
)
def test_the_owner_of_the_fleet_is_notified(status: str, role: dict, expected: list[str]) -> None:
    """Each host sends a notification of its steps, with nova's names and the flavor of the step."""
    part = Part(status, **role)
    part.look()
    assert expected == part.notified()
    sizes = {payload["new_instance_type_id"] for *_about, payload in part.notifier.sent}
    assert sizes == ({part.migration.new.flavor.id} if expected else set())


def test_a_guest_whose_host_is_back_is_not_kept_twice() -> None:
    """The ledger answers that the evacuation has ended: what was made here is destroyed, and holds nothing."""
    part = Part("pre-migrating", **DEST, kind=move_states.EVACUATION)
    ended = dataclasses.replace(part.migration, status=move_states.ERROR, held=None)
    part.moves._advance = lambda _record: part.moves.put(ended)  # type: ignore[method-assign]
    assert ("error", 0, None) == (part.look(), part.held_mb(), part.power())
    assert [("pre-migrating", "done")] == part.moves.told


def test_a_confirmed_resize_leaves_nothing_on_the_source() -> None:
    """The guest that was kept is destroyed, and its room given back."""
    part = Part("pre-migrating")
    part.look()
    arrived = part.moves._arrived(part.moves.records[UUID])
    part.moves.put(arrived, status=move_states.CONFIRMING)
    assert ("confirmed", 0, None) == (part.look(), part.held_mb(), part.power())


def test_a_resize_that_is_confirmed_on_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver deletes what it kept for a revert; the guest runs on."""
    part = Part("preparing", **BOTH)
    assert "finished" == part.look()
    forgotten: list[str] = []
    monkeypatch.setattr(part.world.driver, "forget_former_size", lambda _context, uuid: forgotten.append(uuid))
    part.moves.put(part.moves.records[UUID], status=move_states.CONFIRMING)
    assert ("confirmed", states.RUNNING) == (part.look(), part.power())
    assert [part.instance.uuid] == forgotten


def test_a_refused_claim_is_told_and_holds_nothing() -> None:
    """The tracker's no, and the ledger's, give the claim back."""
    full = Part("preparing", **DEST)
    full.moves.put(full.migration, limits={"memory_mb": 700.0})
    assert ("error", 0) == (full.look(), full.held_mb())
    assert "Free memory 700.00 MB < requested 1024 MB" in full.moves.records[UUID].failure["message"]
    assert ["resize.prep.start", "resize.error"] == full.notified()
    assert "ComputeResourcesUnavailable" == full.notifier.sent[-1][-1]["exception"]

    apart = Part("preparing", **DEST)
    apart.moves.refusal = errors.GroupAffinityViolation(
        instance_uuid="i", host=HOST, policy="anti-affinity", group_uuid="g"
    )
    assert ("error", 0) == (apart.look(), apart.held_mb())


def test_a_failed_start_is_undone_and_the_source_starts_again() -> None:
    """On one host: the driver cannot start the new flavor, so the old one runs again."""
    part = Part("post-migrating", **BOTH)
    part.world.driver.conf.set_override("failing_hosts", [HOST], group="fake")
    part.world.driver.migrate_disk_and_power_off(builders.a_context(), part.instance, HOST, LARGE)
    assert ("reverted", 512, states.RUNNING) == (part.look(), part.held_mb(), part.power())
    assert [("post-migrating", "finish"), ("reverting", "done"), ("resuming", "done")] == part.moves.told


def test_an_evacuated_instance_is_built_anew() -> None:
    """What an earlier try has left is destroyed first."""
    part = Part("preparing", **DEST, kind=move_states.EVACUATION)
    part.world.driver.spawn(builders.a_context(), dataclasses.replace(part.instance, node=HOST), Image())
    assert ("done", 512, states.RUNNING) == (part.look(), part.held_mb(), part.power())


def test_an_evacuated_instance_that_is_stopped_is_off() -> None:
    part = Part("preparing", **DEST, kind=move_states.EVACUATION)
    part.moves.put(part.migration, instance=dataclasses.replace(part.instance, vm_state=states.STOPPED))
    assert ("done", 512, states.SHUTDOWN) == (part.look(), part.held_mb(), part.power())
    assert "switched_off" not in part.world.driver.get_per_instance_usage()[part.instance.uuid]


def test_a_guest_that_is_taken_over_is_not_built() -> None:
    part = Part("preparing", **DEST, kind=move_states.EVACUATION, failing_hosts=[HOST])

    def take_over(context: object, instance: Instance, source: str, volumes: object) -> bool:
        assert source == OTHER
        part.world.driver._run(instance)
        return True

    part.world.driver.take_over = take_over
    assert ("done", 512, states.RUNNING) == (part.look(), part.held_mb(), part.power())


def test_a_failed_evacuation_leaves_nothing() -> None:
    """Neither guest nor claim; the next host is the conductor's to choose."""
    part = Part("preparing", **DEST, kind=move_states.EVACUATION, failing_hosts=[HOST])
    assert ("error", 0, None) == (part.look(), part.held_mb(), part.power())


def test_what_a_late_host_has_started_is_destroyed() -> None:
    """While it started the guest, the move was taken from it: neither guest nor claim stays."""
    part = Part("post-migrating", **DEST)
    part.moves.meanwhile = lambda: part.moves.put(part.migration, status=move_states.RESUMING, held=None) and None
    assert ("resuming", 0, None) == (part.look(), part.held_mb(), part.power())


def test_a_deleted_instance_is_left_to_its_termination() -> None:
    """No step is begun for it."""
    part = Part("pre-migrating")
    part.moves.put(part.migration, instance=dataclasses.replace(part.instance, task_state=states.DELETING))
    assert ("pre-migrating", states.RUNNING, []) == (part.look(), part.power(), part.moves.told)


def test_an_agent_that_restarts_counts_what_moves_hold() -> None:
    """A destination after its claim, and a source whose guest waits for the confirmation, keep guest and claim."""
    for role in (SOURCE, DEST):
        part = Part("post-migrating", **role)
        part.look()
        before = (part.held_mb(), part.power())
        part.world.host.release(part.instance.uuid)
        recovery.recover(builders.a_context(), part.world.host, part.world.ledger, part.ledger)
        assert before == (part.held_mb(), part.power())


def test_a_guest_that_a_finished_move_had_switched_off_is_started() -> None:
    """The move ended without this host, which was thought dead: the next comparison finds the guest off."""
    part = Part("pre-migrating")
    part.look()
    part.moves.records.clear()
    part.world.conductor.put(part.instance)
    assert states.SHUTDOWN == part.power()
    part.world.compare()
    assert states.RUNNING == part.power()


def test_a_move_claim_stands_beside_the_instances_own() -> None:
    """Both count, each is given back by itself, and neither may be taken twice."""
    tracker, instance = builders.a_tracker(), builders.an_instance()
    tracker.instance_claim(instance, HostLimits())
    claim = tracker.resize_claim(dataclasses.replace(instance, flavor=LARGE), HostLimits())
    assert (512 + 1024, 2) == (tracker.held().memory_mb, len(tracker.view().instances) + 1)
    with pytest.raises(errors.StaleBuild):
        tracker.resize_claim(instance, HostLimits())
    with pytest.raises(errors.ComputeResourcesUnavailable):
        tracker.rebuild_claim(builders.an_instance(), HostLimits(memory_mb=1700.0))
    claim.abort()
    assert 512 == tracker.held().memory_mb
    tracker.rebuild_claim(dataclasses.replace(instance, flavor=LARGE), HostLimits())
    tracker.drop_move_claim(instance.uuid)
    assert 512 == tracker.held().memory_mb


def test_disks_are_fetched_from_another_host_only() -> None:
    """Before the guest starts; their progress is sent, but not more often than users look at it."""
    for role, fetched in ((DEST, [(OTHER, UUID)]), (BOTH, [])):
        part, calls = Part("post-migrating", **role), []

        def fetch(context: object, instance: Instance, source: str, move: str, progress: Any) -> None:
            calls.append((source, move))  # noqa: B023
            assert part.power() is None  # noqa: B023
            for percent in (1, 2, 3):
                progress(percent)

        part.world.driver.fetch_disks = fetch
        part.mover = Mover(part.world.host, part.ledger, Notifications(part.notifier), lambda: 0.0)  # type: ignore[arg-type]
        assert (fetched, "finished", [1] if fetched else []) == (calls, part.look(), part.moves.copied)


def test_progress_that_is_lost_stops_no_copy() -> None:
    part = Part("post-migrating", **DEST)
    part.moves.copied = None  # type: ignore[assignment]
    part.world.driver.fetch_disks = lambda *arguments: arguments[-1](5)
    assert "finished" == part.look()


def test_disks_that_cannot_be_fetched_undo_the_move() -> None:
    part = Part("post-migrating", **DEST)

    def fail(*_arguments: object) -> None:
        raise SpawnFailed("the source is away")

    part.world.driver.fetch_disks = fail
    assert ("resuming", 0, None) == (part.look(), part.held_mb(), part.power())
    assert [("post-migrating", "finish"), ("reverting", "done")] == part.moves.told


CELLS: dict[str, Any] = {"cells": []}
DEVICES: list[dict[str, Any]] = [{"address": "0000:05:00.0"}]


@pytest.mark.parametrize(
    ("status", "kind", "call"),
    [("post-migrating", move_states.RESIZE, "finish_migration"), ("pre-migrating", move_states.EVACUATION, "spawn")],
)
def test_a_guest_starts_with_what_was_claimed_for_it_here(status: str, kind: str, call: str) -> None:
    """Its row still has the cells and devices of its source."""
    part = Part(status, **DEST, kind=kind)
    there = {"claimed_numa_topology": {"cells": ["of the source"]}, "claimed_pci_devices": []}
    held = part.migration.held
    assert held is not None
    assert held.claimed is not None
    claim = dataclasses.replace(held.claimed, numa_topology=CELLS, pci_devices=DEVICES)
    part.migration = part.moves.put(
        part.migration,
        instance=dataclasses.replace(part.instance, **there),
        held=dataclasses.replace(held, claimed=claim),
    )
    given: list[Instance] = []
    real = getattr(part.world.driver, call)

    def seen(context: Any, instance: Instance, *more: Any, **options: Any) -> None:
        given.append(instance)
        real(context, instance, *more, **options)

    setattr(part.world.driver, call, seen)
    part.look()
    assert [(CELLS, DEVICES)] == [(each.claimed_numa_topology, each.claimed_pci_devices) for each in given]


def test_what_a_failed_evacuation_left_is_destroyed_before_another_host_is_tried() -> None:
    """Two guests may ruin the data: while it cannot be destroyed, nothing is reported, and the step is repeated."""
    part = Part("pre-migrating", **DEST, kind=move_states.EVACUATION, failing_hosts=[HOST])
    destroy = part.world.driver.destroy

    def hangs(*_arguments: Any) -> None:
        raise ConnectionError("libvirt is away")

    part.world.driver.destroy = hangs
    assert "pre-migrating" == part.look()
    part.world.driver.destroy = destroy
    assert "pre-migrating" != part.look()


def test_an_evacuation_that_ends_while_a_new_agent_reads_keeps_its_guest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last report of the former agent arrives between the two reads."""
    part = Part("pre-migrating", **DEST, kind=move_states.EVACUATION)
    arrived = dataclasses.replace(part.instance, host=HOST, node=HOST)
    part.world.driver.spawn(builders.a_context(), arrived, Image())
    reads: list[str] = []

    def moves_read(*_arguments: object) -> dict[str, Migration]:
        reads.append("moves")
        return {part.instance.uuid: part.migration} if len(reads) == 1 else {}

    def instances_read(*_arguments: object) -> list[Instance]:
        reads.append("instances")
        return [arrived] if len(reads) == 2 else []

    monkeypatch.setattr(part.ledger, "of_host", moves_read)
    monkeypatch.setattr(part.world.ledger, "get_host_instances", instances_read)
    recovery.recover(builders.a_context(), part.world.host, part.world.ledger, part.ledger)
    assert part.power() is not None
