# SPDX-License-Identifier: Apache-2.0
"""Live migrations in the ledger: the guest is on one host at each step, and both hosts hold what it needs."""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging

import oslo_messaging
import pytest

from conductor_stub.moves import ways
from conductor_stub.steps.attempt import Attempt
from conductor_stub.steps.limits import StepLimits
from fleet import errors, move_states, states
from fleet.db.engine.database import Database
from fleet.db.hosts import services
from fleet.db.instances import instances, moves
from fleet.db.operations import recoveries
from fleet.json_codec import JSONObject
from fleet.objects import Claimed
from tests.functional.test_moves import SMALL_MB, Stage
from tests.worlds.conductor import context

CLAIM = Claimed(memory_mb=SMALL_MB, disk_gb=10, vcpus=1)
BEGUN = (move_states.PRE_MIGRATING, "h2"), (move_states.RUNNING, "h1")
ARRIVED = (move_states.POST_MIGRATING, "h2"), (move_states.CONFIRMING, "h1")
BOTH = (SMALL_MB, SMALL_MB, 0)
UNMOVED = (("active", None, "h1"), (SMALL_MB, 0, 0))


class Live(Stage):
    """``h1`` and ``h2`` migrate running guests to each other."""

    def __init__(self, database: Database, limits: StepLimits | None = None) -> None:
        super().__init__(database, limits=limits)
        self.conductor.add_hosts(["h1", "h2"], stats={"live_migration": "fake"})

    def another(self, host: str) -> str:
        """A further active instance on ``host``."""
        uuid = self.conductor.place(host)
        self.conductor.claim(uuid, host)
        self.conductor.finish(uuid, host)
        return uuid

    def status_of(self, uuid: str) -> str:
        return self.operator.list_migrations({"instance_uuid": uuid})[0]["status"]

    def begin(self) -> None:
        self.operator.live_migrate_instance(self.uuid)
        self._place("h2")

    def until(self, status: str) -> None:
        self.begin()
        if status == move_states.PREPARING:
            return
        self.claim("h2", CLAIM)
        for step, host in (*BEGUN, *ARRIVED):
            if status == step:
                return
            self.done(host, step)

    def abort(self) -> str:
        return self.operator.abort_live_migration(self.uuid)["status"]

    def seen(self) -> tuple:
        return self.state(), self.used()

    def orders(self) -> list[tuple[str, str]]:
        """The hosts that were notified since the last call, and of what."""
        compute = self.conductor.compute
        found = [("move", host) for host, _uuid in compute.moves] + [("abort", host) for host, _uuid in compute.aborts]
        compute.moves.clear()
        compute.aborts.clear()
        return found


@pytest.fixture
def stage(database: Database) -> Live:
    return Live(database)


def test_each_step(stage: Live) -> None:
    """Until the source reports the arrival, the guest is the source's. Both hosts hold it until the source is cleaned up."""
    stage.begin()
    (_spec, properties) = stage.conductor.scheduler.requests[-1]
    assert ["h1", "h3"] == sorted(properties["ignore_hosts"])
    assert (("active", "migrating_prep", "h1"), (SMALL_MB, 0, 0)) == stage.seen()
    stage.claim("h2", CLAIM)
    before = {}
    for status, host in (*BEGUN, *ARRIVED):
        assert status == stage.migration()["status"]
        before[status] = stage.seen()
        stage.done(host, status)
    there = (("active", "migrating", "h2"), BOTH)
    assert {
        **dict.fromkeys(dict(BEGUN), (("active", "migrating", "h1"), BOTH)),
        **dict.fromkeys(dict(ARRIVED), there),
    } == before
    assert (("active", None, "h2"), (0, SMALL_MB, 0)) == stage.seen()
    assert (move_states.COMPLETED, None) == tuple(stage.migration()[key] for key in ("status", "failure"))
    assert [("move", "h2"), ("move", "h1"), ("move", "h2"), ("move", "h1")] == stage.orders()


@pytest.mark.parametrize(
    ("status", "told", "then"),
    [
        pytest.param(move_states.PREPARING, [], [], id="no host holds it"),
        pytest.param(move_states.PRE_MIGRATING, [("move", "h2")], ["h2"], id="the destination removes what it has"),
        pytest.param(move_states.RUNNING, [("abort", "h1")], ["h1", "h2"], id="first the source aborts"),
    ],
)
def test_an_abort(stage: Live, status: str, told: list, then: list[str]) -> None:
    """The guest stays, the destination's claim is released, and the record is ``cancelled``. Repeated, it does no harm."""
    stage.until(status)
    stage.orders()
    stage.abort()
    assert told == stage.orders()
    for host in then:
        now = stage.migration()["status"]
        if now == move_states.RUNNING:
            stage.abort()
            stage.fail(host, now)
        else:
            stage.done(host, now)
    record = stage.migration()
    assert (move_states.CANCELLED, "Aborted") == (record["status"], record["failure"]["error"])
    assert UNMOVED == stage.seen()
    with pytest.raises(errors.Conflict, match="no such live migration"):
        stage.abort()


def test_an_abort_that_is_too_late(stage: Live) -> None:
    """The guest may have left before the source reads of the abort. Afterwards there is none."""
    stage.until(move_states.RUNNING)
    stage.abort()
    assert move_states.POST_MIGRATING == stage.done("h1", move_states.RUNNING)
    with pytest.raises(errors.Conflict, match="post-migrating: it cannot be aborted"):
        stage.abort()
    stage.done("h2", move_states.POST_MIGRATING)
    assert move_states.COMPLETED == stage.done("h1", move_states.CONFIRMING)
    assert stage.migration()["failure"] is None


def test_only_the_migration_that_is_named_is_aborted(stage: Live) -> None:
    stage.until(move_states.RUNNING)
    with pytest.raises(errors.Conflict, match="no such live migration"):
        stage.operator.abort_live_migration(stage.uuid, migration=stage.uuid)
    assert (
        move_states.RUNNING
        == stage.operator.abort_live_migration(stage.uuid, migration=stage.migration()["uuid"])["status"]
    )


def test_a_failure_leaves_the_guest_where_it_is(stage: Live) -> None:
    """Only the source can say that it failed."""
    stage.until(move_states.RUNNING)
    assert move_states.RUNNING == stage.fail("h2", move_states.RUNNING)
    assert move_states.REVERTING == stage.fail("h1", move_states.RUNNING)
    assert BOTH == stage.used()
    assert move_states.ERROR == stage.done("h2", move_states.REVERTING)
    assert (UNMOVED, "boom") == (stage.seen(), stage.migration()["failure"]["message"])


def test_a_destination_that_cannot_prepare_is_replaced(stage: Live) -> None:
    """Nothing has left the source yet."""
    stage.conductor.add_host("h3", stats={"live_migration": "fake"})
    stage.operator.live_migrate_instance(stage.uuid)
    stage._place("h2", "h3")
    stage.claim("h2", CLAIM)
    stage.fail("h2", move_states.PRE_MIGRATING)
    assert (move_states.PREPARING, "h3") == tuple(stage.migration()[key] for key in ("status", "dest_compute"))
    assert (("active", "migrating_prep", "h1"), (SMALL_MB, 0, 0)) == stage.seen()


def test_out_of_time(stage: Live) -> None:
    """The order to abort is repeated until the source reports: only its hypervisor knows where the guest is."""
    stage.until(move_states.RUNNING)
    stage.orders()
    stage.overdue()
    assert [("move", "h1")] == stage.orders()
    stage.conductor.clock.advance(stage.conductor.limits.move_timeout_s)
    for _again in range(2):
        stage.overdue()
        assert (move_states.RUNNING, [("abort", "h1")]) == (stage.migration()["status"], stage.orders())
    stage.fail("h1", move_states.RUNNING)
    stage.done("h2", move_states.REVERTING)
    record = stage.migration()
    assert (move_states.ERROR, "MoveTimeout", UNMOVED) == (record["status"], record["failure"]["error"], stage.seen())


def _lost_source(stage: Live) -> None:
    stage.until(move_states.RUNNING)
    stage.go_down("h1")
    stage.conductor.move_sweeper.sweep()
    assert move_states.RUNNING == stage.migration()["status"]
    stage.conductor.clock.advance(stage.conductor.limits.move_timeout_s)
    stage.go_down("h1")
    stage.orders()
    stage.conductor.move_sweeper.sweep()
    assert (move_states.REVERTING, [("move", "h2")]) == (stage.migration()["status"], stage.orders())


def test_a_host_that_is_down_migrates_no_guest(stage: Live) -> None:
    """The move would wait for it, and hold up the evacuation of the guest, which is begun at once."""
    stage.go_down("h1")
    with pytest.raises(errors.Conflict, match="fleet-compute is down: .* If the host is certainly off, evacuate it"):
        stage.operator.live_migrate_instance(stage.uuid)
    assert UNMOVED == stage.seen()
    assert "evacuation" == stage.operator.evacuate_instance(stage.uuid)["migration_type"]


@pytest.mark.parametrize("chosen", [False, True], ids=["when a host is chosen", "when it claims"])
def test_a_source_that_is_off_before_the_migration_has_begun(stage: Live, chosen: bool) -> None:
    """If it is off for certain, no other host claims anything, and the guest can be evacuated."""
    stage.operator.live_migrate_instance(stage.uuid)
    if chosen:
        stage._place("h2")
    stage.operator.force_down("h1", True)
    if chosen:
        with pytest.raises(errors.InvalidInput, match="is live-migration, and host h1 is off for certain"):
            stage.claim("h2", CLAIM)
        stage.fail("h2", move_states.PREPARING)
    else:
        stage._place("h2")
    failure = stage.migration()["failure"]["message"]
    assert (UNMOVED, True) == (stage.seen(), "host h1 is off for certain" in failure)
    assert "evacuation" == stage.operator.evacuate_instance(stage.uuid)["migration_type"]


def test_a_source_that_is_lost_is_waited_for_until_the_deadline(stage: Live) -> None:
    """Then the destination looks. The guest is not there: it is the lost host's, which may be evacuated."""
    _lost_source(stage)
    assert move_states.ERROR == stage.done("h2", move_states.REVERTING)
    assert (UNMOVED, "AttemptLost") == (stage.seen(), stage.migration()["failure"]["error"])
    assert "evacuation" == stage.operator.evacuate_instance(stage.uuid)["migration_type"]


@pytest.mark.parametrize("arrived", [False, True])
def test_a_source_that_is_off_for_certain_is_not_waited_for(stage: Live, arrived: bool) -> None:
    """The destination looks at once. Unless the guest has arrived there, it can be evacuated."""
    stage.until(move_states.RUNNING)
    stage.go_down("h1")
    stage.conductor.move_sweeper.sweep()
    assert move_states.RUNNING == stage.migration()["status"]
    stage.operator.force_down("h1", True)
    stage.orders()
    stage.go_down("h1")
    stage.conductor.move_sweeper.sweep()
    assert (move_states.REVERTING, [("move", "h2")]) == (stage.migration()["status"], stage.orders())
    if arrived:
        assert move_states.POST_MIGRATING == stage.done("h2", move_states.RUNNING)
        return
    assert move_states.ERROR == stage.done("h2", move_states.REVERTING)
    assert {"error": "AttemptLost", "message": "host h1 is off for certain"}.items() <= stage.migration()[
        "failure"
    ].items()
    assert "evacuation" == stage.operator.evacuate_instance(stage.uuid)["migration_type"]


def test_a_source_that_a_recovery_has_switched_off(stage: Live) -> None:
    """It is off for certain, as if an operator had forced it down."""
    stage.until(move_states.RUNNING)
    stage.go_down("h1")
    database, now = stage.conductor.database, stage.conductor.clock()
    database.write(recoveries.begin, "r", "h1", [], now, None, False)
    database.write(recoveries.update, "r", now, fenced_at=now, attempt=1)
    stage.go_down("h1")
    stage.conductor.move_sweeper.sweep()
    assert move_states.REVERTING == stage.migration()["status"]


def test_a_destination_that_is_down_for_certain_is_not_waited_for(stage: Live) -> None:
    """While it only sends no heartbeats, the migration goes on. A fence replaces the failure that the record had."""
    stage.until(move_states.RUNNING)
    stage.go_down("h2")
    stage.conductor.move_sweeper.sweep()
    assert (move_states.RUNNING, None) == (stage.migration()["status"], stage.migration()["failure"])
    stage.operator.abort_live_migration(stage.uuid)
    stage.operator.force_down("h2", True)
    stage.go_down("h2")
    stage.orders()
    stage.conductor.move_sweeper.sweep()
    assert [("abort", "h1")] == stage.orders()
    assert (move_states.RUNNING, "DestinationLost") == (
        stage.migration()["status"],
        stage.migration()["failure"]["error"],
    )
    assert move_states.REVERTING == stage.fail("h1", move_states.RUNNING)
    stage.go_down("h2")
    stage.conductor.move_sweeper.sweep()
    assert (UNMOVED, "DestinationLost") == (stage.seen(), stage.migration()["failure"]["error"])


def test_the_guest_of_a_lost_source_has_arrived(stage: Live) -> None:
    """The destination reports it; the source cleans up when it is back, and is not waited for."""
    _lost_source(stage)
    assert move_states.POST_MIGRATING == stage.done("h2", move_states.RUNNING)
    assert ("active", "migrating", "h2") == stage.state()
    assert move_states.CONFIRMING == stage.done("h2", move_states.POST_MIGRATING)
    stage.go_down("h1")
    stage.conductor.move_sweeper.sweep()
    assert (("active", None, "h2"), (0, SMALL_MB, 0)) == stage.seen()


def test_a_destination_that_may_have_the_guest_is_waited_for(stage: Live) -> None:
    """Both hosts are down: which of them has the guest is decided when one is back."""
    _lost_source(stage)
    stage.go_down("h2")
    stage.conductor.move_sweeper.sweep()
    assert (move_states.REVERTING, BOTH) == (stage.migration()["status"], stage.used())


def test_a_destination_reads_that_the_source_is_down_for_certain(stage: Live) -> None:
    """It may have a part of the guest's memory, and waits for the rest until then. Its record ends in ``error``."""
    _lost_source(stage)
    for off in (False, True, True):
        if off:
            stage.operator.force_down("h1", True)
        stage.go_down("h1")
        stage.orders()
        stage.conductor.move_sweeper.sweep()
        failure = stage.migration()["failure"]
        assert (move_states.REVERTING, [("move", "h2")]) == (stage.migration()["status"], stage.orders())
        assert ("AttemptLost", "h1", off) == (
            *(failure["error"], failure["details"]["host"]),
            move_states.has_lost_source(failure),
        )
    assert move_states.ERROR == stage.done("h2", move_states.REVERTING)
    assert "evacuation" == stage.operator.evacuate_instance(stage.uuid)["migration_type"]


def test_a_source_that_is_down_for_certain_when_the_destination_is_asked(stage: Live) -> None:
    stage.until(move_states.RUNNING)
    stage.operator.force_down("h1", True)
    stage.go_down("h1")
    stage.conductor.move_sweeper.sweep()
    assert move_states.has_lost_source(stage.migration()["failure"])


def test_both_hosts_are_lost_for_certain(stage: Live) -> None:
    """Nobody has the guest: it can be evacuated."""
    _lost_source(stage)
    stage.operator.force_down("h2", True)
    stage.go_down("h2")
    stage.conductor.move_sweeper.sweep()
    assert (UNMOVED, "AttemptLost") == (stage.seen(), stage.migration()["failure"]["error"])


def test_a_destination_that_a_recovery_has_switched_off_is_down_for_certain(stage: Live) -> None:
    """As if an operator had forced it down, until its agent reports again."""
    stage.until(move_states.RUNNING)
    stage.go_down("h2")
    now = stage.conductor.clock()
    database = stage.conductor.database
    database.write(recoveries.begin, "r", "h2", [], now, None, False)
    agent = services.SERVICES.update().where(services.SERVICES.c.host == "h2")
    # After an orderly stop of the agent, its host may have come back since the fence.
    for attempt, seen, expected in ((0, now, None), (1, None, None), (1, now, "DestinationLost")):
        database.write(recoveries.update, "r", now, fenced_at=now, attempt=attempt)
        with database.engine.begin() as connection:
            connection.execute(agent.values(last_seen_up=seen))
        stage.go_down("h2")
        stage.conductor.move_sweeper.sweep()
        assert expected == (stage.migration()["failure"] or {}).get("error")


@pytest.mark.parametrize(
    ("status", "down", "expected"),
    [
        pytest.param(move_states.POST_MIGRATING, "h2", move_states.CONFIRMING, id="the guest is there all the same"),
        pytest.param(move_states.CONFIRMING, "h1", move_states.COMPLETED, id="a dead source is not waited for"),
    ],
)
def test_hosts_that_are_down_after_the_arrival(stage: Live, status: str, down: str, expected: str) -> None:
    stage.until(status)
    assert status == stage.fail(down, status)
    stage.go_down(down)
    stage.conductor.move_sweeper.sweep()
    assert (expected, "h2") == (stage.migration()["status"], stage.state()[2])


def test_progress_is_the_sources(stage: Live) -> None:
    stage.until(move_states.RUNNING)

    def shown(host: str, percent: int) -> int | None:
        stage.progress.copied(Attempt(stage.migration()["uuid"], 1, host), percent)
        return stage.operator.show_instance(stage.uuid)["migration"].get("copied_percent")

    assert [None, 40] == [shown("h2", 10), shown("h1", 40)]
    stage.done("h1", move_states.RUNNING)
    assert shown("h1", 99) is None


def test_what_cannot_be_migrated_is_refused_at_once(stage: Live, database: Database) -> None:
    """The sentence says why, and the instance is free for another task."""
    refused = [
        ({"host": "h3"}, errors.InvalidInput, "host is h3, which does not take running guests of h1"),
        ({"host": "h1"}, errors.InvalidInput, "host is h1, where"),
        ({"host": "h9"}, errors.NotFound, "Host h9"),
    ]
    for arguments, error, message in refused:
        with pytest.raises(error, match=message):
            stage.operator.live_migrate_instance(stage.uuid, **arguments)
    stage.conductor.add_host("h2")
    with pytest.raises(errors.Conflict, match="no other host takes its running guests"):
        stage.operator.live_migrate_instance(stage.uuid)
    stage.conductor.add_host("h1")
    with pytest.raises(errors.Conflict, match="host h1, which does not migrate running guests"):
        stage.operator.live_migrate_instance(stage.uuid)
    pinned = {"claimed_numa_topology": {"cells": []}}
    database.write(lambda tx: tx.update(instances.INSTANCES, stage.uuid, pinned))
    with pytest.raises(errors.Conflict, match="host h1, which does not migrate running guests"):
        stage.operator.live_migrate_instance(stage.uuid)
    stage.conductor.add_host("h1", stats={"live_migration": "fake"})
    with pytest.raises(errors.Conflict, match="has NUMA cells, .*, with which host h1 migrates no running guests"):
        stage.operator.live_migrate_instance(stage.uuid)
    devices = {"claimed_numa_topology": None, "claimed_pci_devices": [{"address": "0000:81:00.1"}]}
    database.write(lambda tx: tx.update(instances.INSTANCES, stage.uuid, devices))
    with pytest.raises(errors.Conflict, match="has PCI devices of its host, which a running guest keeps"):
        stage.operator.live_migrate_instance(stage.uuid)
    assert UNMOVED == stage.seen()


def test_a_host_is_found_that_is_not_among_the_first(stage: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first hosts that move guests in the same way may not take this one."""
    monkeypatch.setattr(ways, "_FEW", 2)
    monkeypatch.setattr(ways.Ways, "_needs", lambda _ways, _row: frozenset({"cells"}))
    takes = {"live_migration": "fake", "live_migration_takes": "cells"}
    stage.conductor.add_host("h1", stats=takes)
    for host in ("h2", "h3", "h4"):
        stage.conductor.add_host(host, stats={"live_migration": "fake"})
    (obstacle,) = stage.operator.live_obstacles([stage.uuid]).values()
    assert "no other host takes its running guests" in obstacle
    stage.conductor.add_host("h4", stats=takes)
    assert {stage.uuid: ""} == stage.operator.live_obstacles([stage.uuid])


def test_cells_need_hosts_that_claim_them_anew(stage: Live, database: Database) -> None:
    """The destination claims other CPUs, and the source reads which in the record. Then they are the instance's."""
    takes = {"live_migration": "fake", "live_migration_takes": "cells"}
    here, there = ({"cells": [{"id": number, "cpuset": [0], "memory": 256}]} for number in (0, 1))
    database.write(lambda tx: tx.update(instances.INSTANCES, stage.uuid, {"claimed_numa_topology": here}))
    stage.conductor.add_host("h1", stats=takes)
    (obstacle,) = stage.operator.live_obstacles([stage.uuid]).values()
    assert obstacle.endswith("no other host takes its running guests with its NUMA cells, pinned CPUs or huge pages")
    stage.conductor.add_host("h2", stats={**takes, "live_migration_takes": "volumes,cells"})
    assert {stage.uuid: ""} == stage.operator.live_obstacles([stage.uuid])
    stage.begin()
    (_spec, properties) = stage.conductor.scheduler.requests[-1]
    assert ["h1", "h3"] == sorted(properties["ignore_hosts"])
    stage.claim("h2", dataclasses.replace(CLAIM, numa_topology=there))
    record = stage.migration()
    asked = Attempt(record["uuid"], record["attempt"], "h2")
    found = stage.progress.advance(context(), asked, move_states.PRE_MIGRATING)
    assert found.held is not None
    assert found.held.claimed is not None
    assert there == found.held.claimed.numa_topology
    for status, host in (BEGUN[1], *ARRIVED):
        stage.done(host, status)
    row = database.read(instances.get, stage.uuid)
    assert (there, "h2") == (row.claimed_numa_topology, row.host)


_OWN = {"live_migration_cpu": "host-model"}


@pytest.mark.parametrize(
    ("stats", "there", "expected"),
    [
        pytest.param({}, {}, None, id="guests see a processor that all hosts have"),
        pytest.param(_OWN, _OWN, {"vendor": "Intel", "features": ["avx2", "sse4"]}, id="its"),
        pytest.param(_OWN, {}, None, id="the agent of another host is older"),
    ],
)
def test_the_destination_has_the_processor_that_the_guest_sees(
    stage: Live, stats: JSONObject, there: JSONObject, expected: JSONObject | None
) -> None:
    """The scheduler's filter gets it, for the move and for plans, so that no host refuses the guest at the end."""
    cpu = json.dumps({"vendor": "Intel", "features": ["sse4", "avx2"]})
    stage.conductor.add_host("h2", stats={"live_migration": "fake", **there}, cpu_info=cpu)
    stage.conductor.add_host("h1", stats={"live_migration": "fake", **stats}, cpu_info=cpu)
    (planned,) = stage.operator.requests_of([stage.uuid], live=True)
    (anew,) = stage.operator.requests_of([stage.uuid])
    assert (expected, None) == tuple(each["filter_properties"].get("guest_cpu") for each in (planned, anew))
    assert ["h3"] == planned["filter_properties"]["ignore_hosts"]
    stage.begin()
    (_spec, properties) = stage.conductor.scheduler.requests[-1]
    assert expected == properties.get("guest_cpu")


def test_a_deletion_in_the_middle(stage: Live) -> None:
    """Both hosts destroy what they have."""
    stage.until(move_states.RUNNING)
    stage.operator.abort_live_migration(stage.uuid)
    stage.conductor.termination.terminate(context(), [stage.uuid])
    assert states.DELETING == stage.state()[1]
    for host in ("h1", "h2"):
        stage.conductor.agents.destroyed(context(), stage.uuid, host)
    assert (0, 0, 0) == stage.used()


def test_an_agent_that_is_too_old(stage: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """None begins. One that runs when such an agent comes is aborted later: the sweeper repeats the order."""
    pinned = errors.VersionPinned(method="live_migration_abort", needs="1.4", topic="compute", pin="auto", cap="1.3")

    def refuse(*_arguments: object) -> None:
        raise pinned

    stage.until(move_states.RUNNING)
    with monkeypatch.context() as older:
        for name in ("live_migration_abort", "require_live_migration"):
            older.setattr(stage.conductor.compute, name, refuse)
        assert move_states.RUNNING == stage.abort()
        with pytest.raises(errors.VersionPinned):
            stage.operator.live_migrate_instance(stage.uuid)
    stage.orders()
    stage.overdue()
    assert [("abort", "h1")] == stage.orders()


def test_who_can_leave_is_told_before(stage: Live, database: Database) -> None:
    """By uuid, with the reason that a live migration would be refused for; unknown instances are left out."""
    ask = stage.operator.live_obstacles
    assert {stage.uuid: ""} == ask([stage.uuid, "00000000-0000-0000-0000-00000000abcd"])
    stage.conductor.add_host("h2")
    assert {stage.uuid: "is on host h1, and no other host takes its running guests"} == ask([stage.uuid])
    stage.conductor.add_host("h1")
    assert {stage.uuid: "is on host h1, which does not migrate running guests"} == ask([stage.uuid])
    stage.conductor.add_host("h1", stats={"live_migration": "fake"})
    pinned = {"claimed_numa_topology": {"cells": []}}
    database.write(lambda tx: tx.update(instances.INSTANCES, stage.uuid, pinned))
    assert "cells" in ask([stage.uuid])[stage.uuid]
    assert {} == ask([])
    with pytest.raises(errors.InvalidInput, match="uuids"):
        ask(["no uuid"])


@pytest.mark.parametrize("found", [states.SHUTDOWN, states.CRASHED, states.PAUSED, states.SUSPENDED])
def test_a_guest_that_does_not_run(stage: Live, database: Database, found: int) -> None:
    """It cannot leave its host live. A cold move takes it, and starts it."""
    database.write(lambda tx: tx.update(instances.INSTANCES, stage.uuid, {"power_state": found}))
    why = f"has a guest that does not run (its power state is {states.POWER_NAMES[found]})"
    assert {stage.uuid: why} == stage.operator.live_obstacles([stage.uuid])
    with pytest.raises(errors.Conflict, match="its power state is .*: migrate it without --live"):
        stage.operator.live_migrate_instance(stage.uuid)
    stage.operator.migrate_instance(stage.uuid)
    stage._place("h2")
    stage.claim("h2", CLAIM)
    for host, status in (("h1", move_states.PRE_MIGRATING), ("h2", move_states.POST_MIGRATING)):
        stage.done(host, status)
    stage.operator.confirm_resize(stage.uuid)
    stage.done("h1", move_states.CONFIRMING)
    assert ("active", None, "h2") == stage.state()
    assert {stage.uuid: ""} == stage.operator.live_obstacles([stage.uuid])


def test_a_guest_of_a_driver_that_knows_no_states(stage: Live, database: Database) -> None:
    """Such a driver reports none, and may migrate running guests all the same."""
    database.write(lambda tx: tx.update(instances.INSTANCES, stage.uuid, {"power_state": states.NOSTATE}))
    assert {stage.uuid: ""} == stage.operator.live_obstacles([stage.uuid])


@pytest.mark.parametrize("first", [1, 20], ids=["looked for in all hosts", "found among the first"])
def test_a_processor_that_no_other_host_has(stage: Live, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """The filters would refuse the live migration on every host. Once another host has it, the guest can move."""
    monkeypatch.setattr(ways, "_FEW", first)
    new, old = (json.dumps({"vendor": "Intel", "features": each}) for each in (["avx512", "sse4"], ["sse4"]))
    way = {"live_migration": "fake", **_OWN}
    stage.conductor.add_host("h1", stats=way, cpu_info=new)
    stage.conductor.add_hosts(["h2", "h3"], stats=way, cpu_info=old)
    why = "sees the processor of host h1, and no other host has all its features (h2 lacks avx512)"
    assert {stage.uuid: why} == stage.operator.live_obstacles([stage.uuid])
    with pytest.raises(errors.Conflict, match="h2 lacks avx512.: migrate it without --live"):
        stage.operator.live_migrate_instance(stage.uuid)
    stage.conductor.add_host("h4", stats=way, cpu_info=new)
    assert {stage.uuid: ""} == stage.operator.live_obstacles([stage.uuid])
    with pytest.raises(
        errors.InvalidInput, match="is h2, which lacks avx512 of the processor that the guest sees on h1"
    ):
        stage.operator.live_migrate_instance(stage.uuid, host="h2")
    stage.operator.live_migrate_instance(stage.uuid, host="h4")


def test_a_host_that_reports_no_processor(stage: Live) -> None:
    """It lacks all features, as for the filter."""
    way, report = {"live_migration": "fake", **_OWN}, json.dumps({"features": ["sse4"]})
    stage.conductor.add_host("h1", stats=way, cpu_info=report)
    stage.conductor.add_host("h2", stats=way)
    assert "(h2 lacks sse4)" in stage.operator.live_obstacles([stage.uuid])[stage.uuid]


def test_guests_wait_for_a_slot(database: Database) -> None:
    """Of the moves that leave a host, two are under way; the third begins when one has ended, and its wait costs no time."""
    stage = Live(database, StepLimits(live_per_host=2))
    uuids = [stage.uuid, *(stage.another("h1") for _ in range(2))]
    for uuid in uuids:
        stage.operator.live_migrate_instance(uuid)
        stage.conductor.scheduler.answers.append([("h2", ())])
    stage.work()
    statuses = {uuid: stage.status_of(uuid) for uuid in uuids}
    assert ["accepted", "preparing", "preparing"] == sorted(statuses.values())
    (waiting,) = [uuid for uuid, status in statuses.items() if status == "accepted"]
    allowed = datetime.timedelta(seconds=stage.conductor.limits.move_timeout_s)

    def look_again() -> None:
        stage.conductor.clock.advance(stage.conductor.limits.retry_interval_s + 1)
        stage.conductor.move_sweeper.sweep()
        stage.work()

    look_again()
    record = database.read(moves.of_instance, waiting)
    assert record is not None
    assert ("accepted", stage.conductor.clock() + allowed) == (record.status, record.deadline)
    ended = next(uuid for uuid in uuids if uuid != waiting)
    stage.operator.abort_live_migration(ended)
    look_again()
    assert ("cancelled", "preparing") == (stage.status_of(ended), stage.status_of(waiting))


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(StepLimits(live_per_host=1), id="the destination has one slot"),
        pytest.param(StepLimits(live_in_fleet=1), id="the fleet has one slot"),
    ],
)
def test_slots_of_destinations_and_of_the_fleet(database: Database, limits: StepLimits) -> None:
    """Two guests of two hosts go to one host: the second waits, whether the scheduler or the administrator has chosen it."""
    stage = Live(database, limits)
    stage.conductor.add_host("h3", stats={"live_migration": "fake"})
    other = stage.another("h3")
    for uuid in (stage.uuid, other):
        stage.operator.live_migrate_instance(uuid)
        stage.conductor.scheduler.answers.append([("h2", ())])
    stage.work()
    assert ["accepted", "preparing"] == sorted(stage.status_of(uuid) for uuid in (stage.uuid, other))


def test_an_alternate_asks_for_a_slot(database: Database) -> None:
    """h3 was free when it became an alternate of the first guest; meanwhile another guest goes there."""
    stage = Live(database, StepLimits(live_per_host=1))
    stage.conductor.add_host("h3", stats={"live_migration": "fake"})
    stage.conductor.add_host("h4", stats={"live_migration": "fake"})
    other = stage.another("h4")
    stage.operator.live_migrate_instance(stage.uuid)
    stage.conductor.scheduler.answers.append([("h2", ("h3",))])
    stage.work()
    stage.operator.live_migrate_instance(other)
    stage.conductor.scheduler.answers.append([("h3", ())])
    stage.work()
    assert ["preparing", "preparing"] == [stage.status_of(uuid) for uuid in (stage.uuid, other)]
    stage.fail("h2", move_states.PREPARING)
    assert "accepted" == stage.status_of(stage.uuid)


def test_a_wait_for_a_slot_is_calm(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, warned of never, and the longer it lasts, the more seldom the move is handed out."""
    stage = Live(database, StepLimits(live_per_host=1))
    waiting = stage.another("h1")
    stage.until(move_states.RUNNING)
    caplog.set_level(logging.INFO)
    stage.operator.live_migrate_instance(waiting)
    stage.work()
    waits = []
    for _look in range(20):
        record = database.read(moves.of_instance, waiting)
        assert record is not None
        assert record.step_deadline is not None
        waits.append((record.step_deadline - stage.conductor.clock()).total_seconds())
        stage.conductor.clock.advance(waits[-1])
        stage.conductor.move_sweeper.sweep()
        stage.work()
    assert (stage.conductor.limits.retry_interval_s, 30) == (waits[0], waits[-1])
    assert waits == sorted(waits)
    assert 1 == sum("waits: 1 guests leave host h1" in each.getMessage() for each in caplog.records)
    assert [] == [each.getMessage() for each in caplog.records if "handed out again" in each.getMessage()]


def test_a_move_that_has_waited_for_a_slot_has_a_deadline(database: Database) -> None:
    """From the moment at which it has its slot. No scheduler answers then: it ends like a move that never waited."""
    stage = Live(database, StepLimits(live_per_host=1))
    waiting, limits = stage.another("h1"), stage.conductor.limits
    stage.until(move_states.RUNNING)
    stage.operator.live_migrate_instance(waiting)
    stage.work()
    stage.fail("h1", move_states.RUNNING)
    stage.done("h2", move_states.REVERTING)
    silence = oslo_messaging.MessagingTimeout("no scheduler")
    deadlines = []
    for _look in range(6):
        stage.conductor.clock.advance(limits.move_timeout_s / 5)
        stage.conductor.scheduler.answers.append(silence)
        stage.conductor.move_sweeper.sweep()
        stage.work()
        deadlines.append(stage.operator.list_migrations({"instance_uuid": waiting})[0]["deadline"])
    assert 1 == len(set(deadlines))
    assert move_states.ERROR == stage.status_of(waiting)


def test_a_wait_for_a_slot_of_a_destination_is_calm(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """The source has a slot each time that the move is handed out; the chosen host has none. The wait is logged once."""
    stage = Live(database, StepLimits(live_per_host=1))
    stage.conductor.add_host("h3", stats={"live_migration": "fake"})
    waiting = stage.another("h3")
    stage.until(move_states.RUNNING)
    caplog.set_level(logging.INFO)
    stage.operator.live_migrate_instance(waiting)
    for _look in range(3):
        stage.conductor.scheduler.answers.append([("h2", ())])
        stage.conductor.clock.advance(31)
        stage.conductor.move_sweeper.sweep()
        stage.work()
    assert 1 == sum("waits: 1 guests leave host h2" in each.getMessage() for each in caplog.records)


def test_a_move_that_waits_for_a_slot_outlives_an_outage(database: Database) -> None:
    """No conductor has looked for longer than a move may take: it has not begun, and goes on waiting."""
    stage = Live(database, StepLimits(live_per_host=1))
    waiting = stage.another("h1")
    stage.until(move_states.RUNNING)
    stage.operator.live_migrate_instance(waiting)
    stage.work()
    record = database.read(moves.of_instance, waiting)
    assert record is not None
    stage.conductor.clock.advance(stage.conductor.limits.move_timeout_s + 1)
    stage.conductor.move_sweeper.sweep()
    stage.work()
    found = database.read(moves.find, record.uuid)
    assert found is not None
    assert (move_states.ACCEPTED, None) == (found.status, found.failure)
