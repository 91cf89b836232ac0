# SPDX-License-Identifier: Apache-2.0
"""Maintenances in waves: a host is drained, worked on and taken back, whichever conductor looks, and whatever it meets."""

from __future__ import annotations

import contextlib
import datetime
import json
import pathlib
import re
import types
import uuid
from collections.abc import Collection
from typing import Any

import prometheus_client
import pytest

from conductor_stub.maintenance import draining, keeper, working
from conductor_stub.steps.attempt import Attempt
from conductor_stub.steps.balance_settings import BalanceSettings
from conductor_stub.steps.beside import Beside
from conductor_stub.steps.hook import Ended
from conductor_stub.steps.limits import StepContext
from conductor_stub.steps.maintenance_settings import MaintenanceSettings
from conductor_stub.steps.recovery_settings import RecoverySettings
from fleet import errors, failpoints, move_states, states
from fleet.clock import seconds
from fleet.db.engine.database import Connection, Database
from fleet.db.hosts import hosts, services
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.instances import instance_values, instances, moves
from fleet.db.operations import maintenances
from fleet.db.tables.instances import RequestedInstance
from fleet.failpoints import names
from fleet.objects import BuildRequest, Claimed
from fleet.rpc import versions
from tests.worlds.conductor import BALANCED, INCARNATION, Conductor, context

HOSTS = ("h1", "h2", "h3", "h4")
CLAIM = Claimed(memory_mb=1024, disk_gb=10, vcpus=1)
SETTINGS = MaintenanceSettings(hooks={"reboot": ("/sbin/reboot-host",)}, hook_timeout_s=600)
STEPS = (
    *((move_states.PRE_MIGRATING, False), (move_states.RUNNING, True)),
    *((move_states.POST_MIGRATING, False), (move_states.CONFIRMING, True)),
)


class Stage:
    """Four hosts that migrate running guests; agents are played by hand. ``other`` is a second conductor."""

    def __init__(self, database: Database, balance: BalanceSettings | None = None) -> None:
        settings = balance or BALANCED
        #: By host, why its agent takes no builds.
        self.alarms: dict[str, str] = {}
        self.conductor = Conductor(database, maintenance=SETTINGS, balance=settings)
        clock = self.conductor.clock
        self.other = Conductor(database, maintenance=SETTINGS, balance=settings, clock=clock)
        self.conductor.add_hosts(HOSTS, stats={"live_migration": "fake"})
        self.beat()

    def add(self, host: str, **more: object) -> str:
        asked = {"flavor": {"vcpus": 1, "memory_mb": 1024, "root_gb": 10}, **more}
        self.conductor.scheduler.answers.append([(host, ())])
        accepted = self.conductor.intake.accept(context("web"), BuildRequest.from_wire(asked))
        uuid = accepted["instances"][0]["uuid"]
        self.conductor.work()
        self.conductor.claim(uuid, host)
        self.conductor.finish(uuid, host)
        return str(uuid)

    def beat(self, *silent: str, incarnation: str = INCARNATION) -> None:
        self.report(*(host for host in HOSTS if host not in silent), incarnation=incarnation)

    def report(self, *hosts: str, incarnation: str = INCARNATION) -> None:
        """Send a heartbeat, and the alarms that the answer asks for."""
        said = versions.spoken("compute")
        answer = self.conductor.agents.report_state(Heartbeat("fleet-compute", hosts, incarnation, **said))
        if answer.alarmed:
            self.conductor.agents.report_hosts([], {}, {host: self.alarms.get(host, "") for host in answer.alarmed})

    def look(self, times: int = 1, conductor: Conductor | None = None) -> None:
        for _ in range(times):
            (conductor or self.conductor).maintenance_keeper.look()

    def later(self, seconds: float = 31, *silent: str) -> None:
        self.conductor.clock.advance(seconds)
        self.beat(*silent)
        self.look()

    def run(self, *waves: list[str], **options: Any) -> dict[str, Any]:
        asked = {"name": "kernel", "waves": list(waves), **options}
        return self.conductor.operator.create_maintenance(asked)

    def hosts(self) -> dict[str, str]:
        return {each["host"]: each["status"] for each in self.shown()["hosts"]}

    def shown(self) -> dict[str, Any]:
        return self.conductor.operator.show_maintenance("kernel")

    def problem(self, host: str) -> str | None:
        (found,) = [each["problem"] for each in self.shown()["hosts"] if each["host"] == host]
        return found

    def disabled(self) -> list[str]:
        found = self.conductor.database.read(services.list_all)
        return sorted(each.host for each in found if each.disabled)

    def moving(self) -> list[dict[str, Any]]:
        found = self.conductor.operator.list_migrations({})
        return [each for each in found if each["status"] in move_states.IN_PROGRESS]

    def arrive(self, *destinations: str) -> None:
        """Let the moves under way come to their ends, on these hosts."""
        self.conductor.scheduler.answers += [[(each, ())] for each in destinations]
        for conductor in (self.conductor, self.other):
            conductor.moves.deliver(self.conductor.place_move)
        for record in self.moving():
            uuid, attempt = record["uuid"], record["attempt"]
            source, there = record["source_compute"], record["dest_compute"]
            if there is None:
                # Its conductor has died before it asked a scheduler; the sweeper hands it out.
                continue
            self.conductor.move_progress.claim(context(), Attempt(uuid, attempt, there, there, INCARNATION), CLAIM)
            for status, at_source in STEPS:
                host = source if at_source else there
                self.conductor.move_progress.advance(context(), Attempt(uuid, attempt, host), status)


@pytest.fixture
def stage(database: Database) -> Stage:
    return Stage(database)


def test_a_wave_with_a_hook(stage: Stage) -> None:
    """The host takes no builds, its guest moves live to where the plan says, the hook runs once, and it is taken back."""
    guest = stage.add("h1")
    stage.run(["h1"], ["h2"], hook="reboot", destinations={"h1": {guest: "h3"}})
    stage.look()
    assert ({"h1": "draining", "h2": "waiting"}, ["h1"]) == (stage.hosts(), stage.disabled())
    stage.look()
    (move,) = stage.moving()
    assert (guest, "live-migration") == (move["instance_uuid"], move["migration_type"])
    assert "h3" == stage.conductor.database.read(_destination, guest)
    stage.look(3)
    assert [move["uuid"]] == [each["uuid"] for each in stage.moving()]
    stage.arrive("h3")
    stage.later()
    stage.look()
    assert "working" == stage.hosts()["h1"]
    stage.look(2)
    stage.conductor.run_fences()
    assert [(("/sbin/reboot-host", "h1"), "1")] == stage.conductor.hooked
    stage.look()
    assert ("returning", "its agent has not reported since the work was done") == (
        stage.hosts()["h1"],
        stage.problem("h1"),
    )
    stage.later(5)
    assert ("returning", "its agent has not reported its inventory since the work was done") == (
        stage.hosts()["h1"],
        stage.problem("h1"),
    )
    stage.later(5)
    stage.look()
    assert ({"h1": "done", "h2": "draining"}, ["h2"]) == (stage.hosts(), stage.disabled())
    told = [(event, said["host"]) for event, said in stage.conductor.notifier.infos if said.get("name") == "kernel"]
    steps = [f"maintenance.host.{status}" for status in ("draining", "working", "done")]
    assert [*((step, "h1") for step in steps), (steps[0], "h2")] == told


def test_a_drain_reads_the_reports_of_few_hosts(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at each host that is drained would otherwise read all hosts of the fleet, under the lock of its row."""
    stage.add("h1")
    read: list[Collection[str] | None] = []
    stats_of_all = hosts.stats_of_all

    def noted(connection: Connection, key: str, within: Collection[str] | None = None) -> list[tuple[str, str | None]]:
        read.append(within)
        return stats_of_all(connection, key, within)

    monkeypatch.setattr(hosts, "stats_of_all", noted)
    stage.run(["h1"])
    stage.look(3)
    assert 1 == len(stage.moving())
    assert (True, False) == (bool(read), None in read)


def _destination(connection: Connection, guest: str) -> str | None:
    """The only host that is asked for at first."""
    record = moves.of_instance(connection, guest)
    assert record is not None
    return record.plan.get("preferred")


_FAILED_AT = datetime.datetime(2026, 1, 1)


def _record(error: str, preferred: str | None = None, kind: str = "live-migration") -> Any:
    plan = {} if preferred is None else {"preferred": preferred}
    times = {"created_at": _FAILED_AT, "updated_at": _FAILED_AT}
    return types.SimpleNamespace(
        instance_uuid="g",
        status="error",
        migration_type=kind,
        plan=plan,
        failure={"error": error, "message": error},
        **times,
    )


def test_what_a_failed_move_says_of_the_next_one() -> None:
    """The host of the plan alone was asked: all others are, at once. Evacuations were tried while the host was down."""
    assert ("", None, 1) == draining._last_failure([_record("NoValidHost", "h2")], "g")
    assert ("", None, 0) == draining._last_failure([_record("Conflict", kind="evacuation")], "g")
    for records in ([_record("NoValidHost")], [_record("Aborted", "h2")], [_record("NoValidHost", "h2")] * 2):
        why, again_at, tries = draining._last_failure(records, "g")
        assert (records[-1].failure["error"], True, len(records)) == (
            why,
            again_at is not None and again_at > _FAILED_AT,
            tries,
        )


def test_without_a_hook_a_restart_is_waited_for(stage: Stage) -> None:
    """The operator does the work; a host that is empty says so, and is done when its agent has a new life."""
    stage.run(["h1"])
    stage.look()
    stage.later()
    stage.look(2)
    assert ("working", "it is empty: do the work, and start its agent anew") == (
        stage.hosts()["h1"],
        stage.problem("h1"),
    )
    stage.later()
    assert "working" == stage.hosts()["h1"]
    stage.conductor.add_host("h1", stats={"live_migration": "fake"}, incarnation="life-two")
    stage.look()
    stage.conductor.clock.advance(1)
    stage.report("h1", incarnation="life-two")
    stage.look(2)
    stage.report("h1", incarnation="life-two")
    stage.look(2)
    assert ({"h1": "done"}, [], "ended") == (stage.hosts(), stage.disabled(), stage.shown()["maintenance"]["status"])


def test_without_a_hook_no_hooks_are_waited_for(stage: Stage) -> None:
    """A conductor runs so many hooks at a time, and has no free place for one more."""
    stage.conductor.maintenance_keeper._hooks = Beside(0, lambda work: None)
    stage.run(["h1"])
    stage.look()
    stage.later()
    stage.look()
    assert "working" == stage.hosts()["h1"]
    stage.conductor.add_host("h1", stats={"live_migration": "fake"}, incarnation="life-two")
    stage.look()
    assert "returning" == stage.hosts()["h1"]


def test_the_wanted_release(stage: Stage) -> None:
    """A host whose agent is of another release waits, and says so."""
    stage.run(["h1"], hook="reboot", wanted_release="9.9")
    stage.look()
    stage.later()
    stage.look()
    stage.conductor.run_fences()
    stage.later(5)
    assert f"its agent is of release {versions.release()}, and 9.9 is wanted" == stage.problem("h1")
    stage.later()
    assert "returning" == stage.hosts()["h1"]


def test_a_host_whose_agent_is_not_well_after_the_work_waits(stage: Stage) -> None:
    """Its driver fails after the reboot: it takes no builds, says why, and the next host is not emptied meanwhile."""
    stage.run(["h1"], ["h2"], hook="reboot")
    stage.look()
    stage.later()
    stage.look()
    stage.conductor.run_fences()
    stage.alarms["h1"] = "its inventory is not known: the driver failed with OSError"
    for _look in range(3):
        stage.later(5)
    expected = {"h1": "returning", "h2": "waiting"}
    problem = "its agent takes no builds: its inventory is not known: the driver failed with OSError"
    assert (expected, problem, ["h1"]) == (stage.hosts(), stage.problem("h1"), stage.disabled())
    stage.alarms.clear()
    for _look in range(2):
        stage.later(5)
    assert ({"h1": "done", "h2": "draining"}, ["h2"]) == (stage.hosts(), stage.disabled())


@pytest.mark.parametrize("decision", ["skip", "cancel"])
def test_a_host_that_waits_for_a_report_is_given_back(stage: Stage, decision: str) -> None:
    """An operator does not wait for a report that may not come."""
    stage.run(["h1"], hook="reboot")
    stage.look()
    stage.later()
    stage.look()
    stage.conductor.run_fences()
    stage.later(5)
    assert "its agent has not reported its inventory since the work was done" == stage.problem("h1")
    operator = stage.conductor.operator
    given = {"skip": lambda: operator.skip_maintenance_host("kernel", "h1"),
             "cancel": lambda: operator.cancel_maintenance("kernel")}  # fmt: skip
    given[decision]()
    assert ({"h1": "skipped"}, []) == (stage.hosts(), stage.disabled())
    why = {"skip": "an operator has left it out", "cancel": "the maintenance was cancelled"}
    assert why[decision] == stage.problem("h1")


@pytest.mark.parametrize("status", ["failed", "returning"])
def test_a_host_that_an_operator_enables_too_early(stage: Stage, database: Database, status: str) -> None:
    """Its hook has failed, or its agent is not of the wanted release: ``skip`` takes it out, nothing else.

    The operator is told. One that an earlier conductor has enabled is disabled again.
    """
    stage.run(["h1"], hook="reboot", wanted_release="9.9")
    stage.conductor.hook_ends.append(Ended(status == "returning", "the hook failed: exit status 3"))
    stage.look()
    stage.later()
    stage.look()
    stage.conductor.run_fences()
    stage.later()
    with pytest.raises(errors.Conflict, match="h1 is in maintenance kernel: 'fleet maintenance skip kernel h1'"):
        stage.conductor.operator.update_service("h1", False)
    assert ["h1"] == stage.disabled()
    database.write(services.set_disabled, "h1", "fleet-compute", False, None, stage.conductor.clock())
    stage.later(5)
    assert ({"h1": status}, ["h1"]) == (stage.hosts(), stage.disabled())
    stage.conductor.operator.skip_maintenance_host("kernel", "h1")
    failed = ": the hook failed: exit status 3" if status == "failed" else ""
    assert ([], f"an operator has left it out{failed}") == (stage.disabled(), stage.problem("h1"))


def test_a_reason_goes_when_it_is_none_any_more(stage: Stage) -> None:
    """One move at a time: the host is up again, and its guests leave one after the other."""
    for _number in range(3):
        stage.add("h1")
    stage.run(["h1"], moves_at_a_time=1)
    stage.look()
    stage.later(31 * 3, "h1")
    assert "its agent is down" == stage.problem("h1")
    stage.later(1)
    assert (None, 1) == (stage.problem("h1"), len(stage.moving()))


def test_a_host_shows_that_its_hook_waits_for_a_place(stage: Stage) -> None:
    """Until a conductor has a free one, be it another."""
    hooks = stage.conductor.maintenance_keeper._hooks
    stage.conductor.maintenance_keeper._hooks = Beside(0, lambda work: None)
    stage.run(["h1"], hook="reboot")
    stage.look(3)

    assert "its hook waits: 32 hooks run already" == stage.problem("h1")
    stage.conductor.maintenance_keeper._hooks = hooks
    stage.look()
    assert stage.problem("h1") is None
    stage.conductor.run_fences()
    assert 1 == len(stage.conductor.hooked)


def test_a_hook_that_fails(stage: Stage) -> None:
    """The host stays out of use with the reason, until an operator goes on; then the hook runs again."""
    stage.run(["h1"], hook="reboot")
    stage.conductor.hook_ends.append(Ended(False, "the hook failed: exit status 3"))
    stage.look()
    stage.later()
    stage.look()
    stage.conductor.run_fences()
    stage.later()
    measured = {"status": "failed"}
    assert 1 == prometheus_client.REGISTRY.get_sample_value("fleet_conductor_maintenance_hosts", measured)
    assert ("failed", "the hook failed: exit status 3", ["h1"]) == (
        stage.hosts()["h1"],
        stage.problem("h1"),
        stage.disabled(),
    )
    stage.conductor.operator.pause_maintenance("kernel", False)
    stage.look()
    stage.conductor.run_fences()
    stage.later(5)
    stage.later(5)
    assert ("done", ["1", "2"]) == (stage.hosts()["h1"], [attempt for _command, attempt in stage.conductor.hooked])


def test_a_conductor_that_dies_beside_a_hook(stage: Stage) -> None:
    """Its lease ends, then another one runs the hook again. The first one only stood still: it begins no hook any more."""
    stage.run(["h1"], hook="reboot")
    stage.look()
    stage.later()
    stage.look()
    assert 1 == len(stage.conductor.fences)
    stage.look(1, stage.other)
    assert [] == stage.other.fences
    stage.conductor.clock.advance(SETTINGS.hook_timeout_s + 16)
    stage.beat()
    stage.look(1, stage.other)
    stage.conductor.run_fences()
    assert ([], "working") == (stage.conductor.hooked, stage.hosts()["h1"])
    stage.other.run_fences()
    assert "returning" == stage.hosts()["h1"]


def test_a_stopped_instance_whose_guest_runs_all_the_same_holds_a_host_up(stage: Stage, database: Database) -> None:
    """Its host did not answer to a start in time, and has started it later: the hook would reboot it."""
    guest = stage.add("h1")
    odd = {"vm_state": states.STOPPED, "power_state": states.RUNNING}
    database.write(lambda tx: tx.update(instances.INSTANCES, guest, odd))
    name = database.read(instances.get, guest).name
    stage.run(["h1"], hook="reboot")
    stage.look()
    stage.later()
    stage.look(2)
    assert ("draining", [], f"{name} is STOPPED, and its guest runs: stop it on h1") == (
        stage.hosts()["h1"],
        stage.conductor.fences,
        stage.problem("h1"),
    )
    database.write(lambda tx: tx.update(instances.INSTANCES, guest, {"power_state": states.SHUTDOWN}))
    stage.look(2)
    assert "working" == stage.hosts()["h1"]


def test_no_guest_comes_while_a_host_is_worked_on(stage: Stage) -> None:
    """A build was in the queue of its agent for longer than a drain waits for, and a scheduler did not know of the drain."""
    stage.conductor.scheduler.answers.append([("h1", ())])
    asked = BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 1024, "root_gb": 10}})
    late = stage.conductor.intake.accept(context("web"), asked)["instances"][0]["uuid"]
    stage.conductor.work()
    stage.run(["h1"], hook="reboot")
    stage.look(2)
    stage.later(31)
    stage.look(2)
    assert ("working", 1) == (stage.hosts()["h1"], len(stage.conductor.fences))
    with pytest.raises(errors.ComputeResourcesUnavailable, match="host h1 is empty for a maintenance"):
        stage.conductor.claim(late, "h1")
    guest = stage.add("h2")
    stage.conductor.scheduler.answers.append([("h1", ())])
    record = stage.conductor.operator.live_migrate_instance(guest)
    stage.conductor.moves.deliver(stage.conductor.place_move)
    attempt = Attempt(record["uuid"], 1, "h1", "h1", INCARNATION)
    with pytest.raises(errors.ComputeResourcesUnavailable, match="host h1 is empty for a maintenance"):
        stage.conductor.move_progress.claim(context(), attempt, CLAIM)


def test_a_hook_that_ends_late_counts_for_nothing(stage: Stage) -> None:
    stage.run(["h1"], hook="reboot")
    stage.look()
    stage.later()
    stage.look()
    stage.conductor.commands_take_s = SETTINGS.hook_timeout_s + 16
    stage.conductor.run_fences()
    assert (1, "working") == (len(stage.conductor.hooked), stage.hosts()["h1"])


def test_a_hook_does_not_run_again_under_a_guest(stage: Stage, database: Database) -> None:
    """The conductor of the first run has died, and an owner has started a guest there: it moves away first."""
    guest = stage.add("h1")
    database.write(
        lambda tx: tx.update(instances.INSTANCES, guest, {"vm_state": "stopped", "power_state": states.SHUTDOWN})
    )
    stage.run(["h1"], hook="reboot")
    stage.look()
    stage.later()
    stage.look()
    assert 1 == len(stage.conductor.fences)
    started = {"vm_state": "active", "power_state": states.RUNNING}
    database.write(lambda tx: tx.update(instances.INSTANCES, guest, started))
    stage.look()
    assert "working" == stage.hosts()["h1"]
    stage.conductor.clock.advance(SETTINGS.hook_timeout_s + 16)
    stage.beat()
    stage.look(2, stage.other)
    assert ("draining", [], [guest]) == (
        stage.hosts()["h1"],
        stage.other.fences,
        [each["instance_uuid"] for each in stage.moving()],
    )
    stage.arrive("h2")
    stage.conductor.clock.advance(31)
    stage.beat()
    stage.look(2, stage.other)
    stage.other.run_fences()
    assert ("returning", [((*SETTINGS.hooks["reboot"], "h1"), "2")]) == (stage.hosts()["h1"], stage.other.hooked)


def test_two_conductors_ask_for_one_move(stage: Stage) -> None:
    """Whoever looks, each guest moves once, and no more than the plan allows at a time."""
    for _ in range(3):
        stage.add("h1")
    stage.run(["h1"], moves_at_a_time=2)
    for _ in range(3):
        stage.look()
        stage.look(1, stage.other)
    assert 2 == len(stage.moving()) == len({each["instance_uuid"] for each in stage.moving()})
    stage.arrive("h2", "h2")
    stage.look(2)
    assert 1 == len(stage.moving())


def test_guests_that_cannot_move_while_they_run(stage: Stage, database: Database) -> None:
    """They hold the host up, with the reason; with ``cold`` they are switched off, moved, and their moves confirmed."""
    guest = stage.add("h1")
    pinned = {"claimed_numa_topology": {"cells": []}}
    database.write(lambda tx: tx.update(instances.INSTANCES, guest, pinned))
    stage.run(["h1"])
    stage.look(2)
    assert "has NUMA cells" in (stage.problem("h1") or "")
    assert [] == stage.moving()
    stage.conductor.operator.cancel_maintenance("kernel")
    assert ({"h1": "skipped"}, []) == (stage.hosts(), stage.disabled())
    stage.run(["h1"], cold=True)
    stage.look(2)
    (move,) = stage.moving()
    assert move_states.RESIZE == move["migration_type"]
    # It comes to its end without the maintenance.
    stage.conductor.operator.cancel_maintenance("kernel")
    record = database.write(moves.find, move["uuid"])
    assert record is not None
    assert record.plan["confirms"]


@pytest.mark.parametrize("lack", ["power", "processor"])
def test_guests_whose_live_migration_could_never_succeed(stage: Stage, database: Database, lack: str) -> None:
    """They are not tried: they hold the host up, with the reason, and ``cold`` moves them."""
    guest = stage.add("h1")
    if lack == "power":
        database.write(lambda tx: tx.update(instances.INSTANCES, guest, {"power_state": states.SHUTDOWN}))
    else:
        way = {"live_migration": "fake", "live_migration_cpu": "host-model"}
        new, old = (json.dumps({"features": each}) for each in (["avx512", "sse4"], ["sse4"]))
        stage.conductor.add_hosts(HOSTS[1:], stats=way, cpu_info=old)
        stage.conductor.add_host("h1", stats=way, cpu_info=new)
    stage.run(["h1"])
    stage.look(2)
    reason = "does not run (its power state is off)" if lack == "power" else "h2 lacks avx512"
    assert (True, []) == (reason in (stage.problem("h1") or ""), stage.moving())
    stage.conductor.operator.cancel_maintenance("kernel")
    stage.run(["h1"], cold=True)
    stage.look(2)
    assert [move_states.RESIZE] == [move["migration_type"] for move in stage.moving()]


def test_a_move_that_fails_is_tried_again_later(stage: Stage) -> None:
    """The host says why it waits; the next time the scheduler chooses among all hosts."""
    guest = stage.add("h1")
    stage.run(["h1"], destinations={"h1": {guest: "h2"}})
    stage.look(2)
    (move,) = stage.moving()
    stage.conductor.operator.abort_live_migration(guest)
    stage.look()
    assert ([], True) == (stage.moving(), "stays: The live migration was aborted" in (stage.problem("h1") or ""))
    stage.later(31)
    (again,) = stage.moving()
    assert move["uuid"] != again["uuid"]
    assert stage.conductor.database.read(_destination, guest) is None


def test_a_guest_that_finds_no_host_is_tried_when_one_comes_into_use(stage: Stage) -> None:
    stage.conductor.operator.update_service("h3", True, "fleet-compute", "repair")
    stage.add("h1")
    stage.run(["h1"])

    def tries(wait_s: float) -> int:
        stage.later(wait_s)
        number = len(stage.conductor.moves.cast)
        stage.conductor.scheduler.answers += [errors.NoValidHost(reason="no room")] * number
        stage.conductor.moves.deliver(stage.conductor.place_move)
        return number

    assert [0, 1, 0, 1, 0] == [tries(wait_s) for wait_s in (1, 1, 20, 11, 20)]
    stage.conductor.operator.update_service("h3", False, "fleet-compute")
    assert [1, 0, 1, 0, 1, 0] == [tries(wait_s) for wait_s in (1, 10, 11, 20, 21, 20)]


def test_paused_and_gone_on(stage: Stage) -> None:
    """Nothing begins while it is paused."""
    stage.add("h1")
    stage.run(["h1"])
    stage.conductor.operator.pause_maintenance("kernel", True)
    stage.look(3)
    assert ({"h1": "waiting"}, [], []) == (stage.hosts(), stage.disabled(), stage.moving())
    stage.conductor.operator.pause_maintenance("kernel", False)
    stage.look(2)
    assert 1 == len(stage.moving())


def test_a_host_that_was_disabled_stays_so(stage: Stage, database: Database) -> None:
    now = stage.conductor.clock()
    database.write(services.set_disabled, "h1", "fleet-compute", True, "broken fan", now)
    stage.run(["h1"])
    stage.look()
    stage.conductor.operator.skip_maintenance_host("kernel", "h1")
    stage.look()
    assert (["h1"], "ended") == (stage.disabled(), stage.shown()["maintenance"]["status"])


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"waves": [["h9"]]}, errors.NotFound, "h9"),
        ({"waves": [["h1"], ["h1"]]}, errors.InvalidInput, "maintenance.waves has h1 twice"),
        ({"waves": []}, errors.InvalidInput, "maintenance.waves"),
        ({"waves": [["h1"]], "hook": "rm"}, errors.InvalidInput, "maintenance.hook is rm, and .* has reboot"),
        ({"waves": [["h1"]], "destinations": {"h2": {}}}, errors.InvalidInput, "has h2, which is in no wave"),
        ({"waves": [["h1"]], "moves_at_a_time": 0}, errors.InvalidInput, "moves_at_a_time"),
        ({"waves": [["h1"]], "command": "reboot"}, errors.InvalidInput, "command"),
    ],
)
def test_what_is_refused(stage: Stage, asked: dict[str, Any], error: type[Exception], message: str) -> None:
    """The field is named, and nothing is written."""
    with pytest.raises(error, match=message):
        stage.conductor.operator.create_maintenance({"name": "kernel", **asked})
    assert [] == stage.conductor.operator.list_maintenances()


def test_hosts_that_are_left_out_are_named(stage: Stage) -> None:
    """They are in no wave, and another maintenance may have them."""
    create, wanted = stage.conductor.operator.create_maintenance, {"name": "kernel", "waves": [["h1"]]}
    with pytest.raises(errors.InvalidInput, match="left_out has h1, which is in a wave"):
        create(wanted, left_out={"h1": ""})
    with pytest.raises(errors.NotFound, match="h9"):
        create(wanted, left_out={"h9": ""})
    shown = create(wanted, left_out={"h2": "it is down"})
    assert [(0, "h2", "skipped", "it is down"), (1, "h1", "waiting", None)] == [
        (each["wave"], each["host"], each["status"], each["problem"]) for each in shown["hosts"]
    ]
    assert (1, 1, {"skipped": 1, "waiting": 1}) == tuple(
        shown["maintenance"][name] for name in ("wave", "waves", "hosts")
    )
    create({"name": "other", "waves": [["h2"]]}, left_out={"h1": "is in kernel"})
    stage.conductor.operator.cancel_maintenance("other")
    assert {"h1": "waiting", "h2": "skipped"} == stage.hosts()


def test_a_host_is_in_one_maintenance_at_a_time(stage: Stage) -> None:
    stage.run(["h1"])
    for name, message in (("other", "Host h1 is in a maintenance"), ("kernel", "Maintenance kernel has not ended")):
        hosts = ["h1"] if name == "other" else ["h2"]
        with pytest.raises(errors.Conflict, match=message):
            stage.conductor.operator.create_maintenance({"name": name, "waves": [hosts]})


class Emptied(Stage):
    """h1 is worked on, with a stopped guest; a host that is down is fenced and recovered."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        on = RecoverySettings(enabled=True, fence_command=["/sbin/off"], wait_time_s=120)
        self.conductor = Conductor(database, maintenance=SETTINGS, recovery=on, clock=self.conductor.clock)
        self.guest = self.add("h1")
        self.change(vm_state="stopped", power_state=states.SHUTDOWN)
        self.run(["h1"], hook="reboot")
        self.look()
        self.later()

    def change(self, **values: object) -> None:
        self.conductor.database.write(lambda tx: tx.update(instances.INSTANCES, self.guest, values))

    def recovered(self) -> list[str]:
        """Let h1 be silent; return the hosts that are recovered."""
        for _ in range(10):
            self.later(20, "h1")
            self.conductor.keeper.look()
        return [each["host"] for each in self.conductor.operator.list_recoveries()["recoveries"]]


def test_a_recovery_leaves_it_alone(database: Database) -> None:
    """A host that is switched off for its maintenance is not fenced, though stopped guests are on it."""
    stage = Emptied(database)
    assert "working" == stage.hosts()["h1"]
    assert [] == stage.recovered()


@pytest.mark.parametrize(("status", "recovered"), [("working", []), ("failed", ["h1"])])
def test_a_host_where_a_guest_runs_again_is_recovered(database: Database, status: str, recovered: list[str]) -> None:
    """After the work there has failed, its owner starts the guest; then the host dies."""
    stage = Emptied(database)
    (row,) = database.read(maintenances.hosts, stage.shown()["maintenance"]["uuid"])
    leased = {"lease_until": stage.conductor.clock() + seconds(3600)} if status == "working" else {}
    database.write(maintenances.update_host, row.id, stage.conductor.clock(), status=status, **leased)
    stage.change(vm_state="active")
    assert recovered == stage.recovered()


def test_a_guest_that_runs_again_is_recovered_though_the_maintenance_is_paused(database: Database) -> None:
    """No conductor drains the host again meanwhile, and no hook runs there."""
    stage = Emptied(database)
    stage.conductor.operator.pause_maintenance("kernel", True)
    stage.change(vm_state="active")
    assert (["h1"], "working") == (stage.recovered(), stage.hosts()["h1"])


def test_moves_of_a_host_that_died_take_no_room_of_the_others(stage: Stage) -> None:
    """They wait for it until their deadlines. The other hosts of the wave go on."""
    guests = {host: stage.add(host) for host in ("h1", "h2")}
    stage.run(["h1", "h2"], moves_at_a_time=1)
    stage.look(3)
    assert [guests["h1"]] == [each["instance_uuid"] for each in stage.moving()]
    for _ in range(4):
        stage.later(20, "h1")
    stage.look()
    assert set(guests.values()) == {each["instance_uuid"] for each in stage.moving()}


def test_a_host_that_is_removed_while_it_is_drained(stage: Stage) -> None:
    """No hook runs for it, and the next wave does not wait for its agent."""
    stage.run(["h1"], ["h2"], hook="reboot")
    stage.look()
    stage.conductor.clock.advance(120)
    stage.beat("h1")
    stage.conductor.operator.delete_host("h1")
    stage.look(2)
    stage.conductor.run_fences()
    assert ({"h1": "skipped", "h2": "draining"}, []) == (stage.hosts(), stage.conductor.hooked)
    assert "the host is gone" == stage.problem("h1")


def test_no_hook_runs_beside_a_recovery(database: Database) -> None:
    """h1 dies with a stopped guest while it is drained. Its fence would switch it off in the middle of the work.

    No hook runs afterwards: it is off, and an operator decides.
    """
    stage = Stage(database)
    on = RecoverySettings(enabled=True, fence_command=["/sbin/off"], wait_time_s=120)
    stage.conductor = Conductor(database, maintenance=SETTINGS, recovery=on, clock=stage.conductor.clock)
    conductor, guest = stage.conductor, stage.add("h1")
    database.write(
        lambda tx: tx.update(instances.INSTANCES, guest, {"vm_state": "stopped", "power_state": states.SHUTDOWN})
    )
    stage.run(["h1"], hook="reboot")
    stage.look()
    conductor.operator.pause_maintenance("kernel", True)
    for _ in range(8):
        stage.later(20, "h1")
        conductor.keeper.look()
    assert 1 == len(conductor.fences)
    conductor.operator.pause_maintenance("kernel", False)
    stage.later(31, "h1")
    stage.later(31, "h1")
    stage.look(2)
    assert (1, [], "draining") == (len(conductor.fences), conductor.hooked, stage.hosts()["h1"])
    assert "its recovery has not ended: see 'fleet recovery show h1'" in str(stage.problem("h1"))
    # The first one has taken too long.
    conductor.fences.clear()
    conductor.keeper.look()
    conductor.run_fences()
    conductor.keeper.look()
    conductor.scheduler.answers.append([("h2", ())])
    conductor.moves.deliver(conductor.place_move)
    (record,) = stage.moving()
    attempt = Attempt(record["uuid"], record["attempt"], "h2", "h2", INCARNATION)
    conductor.move_progress.claim(context(), attempt, CLAIM)
    conductor.move_progress.advance(context(), attempt, move_states.PRE_MIGRATING)
    stage.look(2)
    assert [] == conductor.fences
    conductor.keeper.look()
    stage.look(2)
    conductor.run_fences()
    assert "done" == conductor.operator.show_recovery("h1")["status"]
    lost = "its agent is down: it was lost while it was drained"
    assert ([], "failed", lost) == (conductor.hooked, stage.hosts()["h1"], stage.problem("h1"))


def test_a_recovery_that_begins_before_a_hook_runs_again(database: Database) -> None:
    """The first run of the hook has failed. Meanwhile the host has died under a guest that was started there."""
    stage = Emptied(database)
    stage.conductor.operator.pause_maintenance("kernel", True)
    stage.change(vm_state="active")
    assert ["h1"] == stage.recovered()
    stage.change(vm_state="stopped", power_state=states.SHUTDOWN)
    stage.conductor.operator.pause_maintenance("kernel", False)
    stage.conductor.fences.clear()
    stage.look(2)
    assert ("draining", []) == (stage.hosts()["h1"], stage.conductor.fences)


def test_guests_of_a_host_that_is_down_are_left_to_its_recovery(stage: Stage) -> None:
    stage.add("h1")
    stage.run(["h1"])
    stage.look()
    stage.later(120, "h1")
    stage.look(2)
    assert ([], "its agent is down") == (stage.moving(), stage.problem("h1"))


def test_the_longest_name(stage: Stage) -> None:
    """Its host is disabled, and takes builds again."""
    name = "k" * 255
    stage.conductor.operator.create_maintenance({"name": name, "waves": [["h1"]]})
    stage.look()
    assert ["h1"] == stage.disabled()
    stage.conductor.operator.cancel_maintenance(name)
    assert [] == stage.disabled()


def test_a_hook_that_one_conductor_has_not(stage: Stage) -> None:
    """It is left to the other one."""
    stage.run(["h1"], hook="reboot")
    stage.conductor.maintenance_keeper._settings = MaintenanceSettings()
    stage.look()
    stage.later()
    stage.look(2)
    assert "working" == stage.hosts()["h1"]
    assert re.fullmatch(
        r"no conductor has begun its hook: \[maintenance\] hooks of the conductor on \S+ has no reboot",
        stage.problem("h1") or "",
    )
    stage.look(conductor=stage.other)
    stage.other.run_fences()
    assert ("returning", 1) == (stage.hosts()["h1"], len(stage.other.hooked))


def test_a_hook_that_no_conductor_has(stage: Stage) -> None:
    """It fails after the time of a hook, in which pauses do not count. The conductor sends the notification."""
    stage.run(["h1"], hook="reboot")
    settings = MaintenanceSettings(hook_timeout_s=100)
    stage.conductor.maintenance_keeper._settings = settings
    stage.look()
    stage.later()
    stage.look()
    stage.conductor.operator.pause_maintenance("kernel", True)
    stage.later(200)
    stage.conductor.operator.pause_maintenance("kernel", False)
    stage.look()
    for _ in range(4):
        assert "working" == stage.hosts()["h1"]
        stage.later(30)
    stage.later(11)
    assert "failed" == stage.hosts()["h1"]
    told = [said["problem"] for event, said in stage.conductor.notifier.infos if event == "maintenance.host.failed"]
    assert [stage.problem("h1")] == told


@pytest.mark.parametrize("ends", ["no hook", "succeeds", "fails"])
def test_a_host_that_is_removed_after_it_was_emptied_is_left_out(stage: Stage, ends: str) -> None:
    """As by a hook that takes it out of the fleet. The next wave begins."""
    stage.run(["h1"], ["h2"], hook=None if ends == "no hook" else "reboot")
    stage.conductor.hook_ends.append(Ended(ends == "succeeds", "the hook has ended"))
    stage.look()
    stage.later()
    stage.look()
    stage.conductor.run_fences()
    expected = {"no hook": "working", "succeeds": "returning", "fails": "failed"}
    assert expected[ends] == stage.hosts()["h1"]
    stage.conductor.clock.advance(stage.conductor.limits.service_down_time_s + 1)
    stage.beat("h1")
    stage.conductor.operator.delete_host("h1")
    stage.look(2)
    assert ({"h1": "skipped", "h2": "draining"}, "the host is gone") == (stage.hosts(), stage.problem("h1"))


def test_an_agent_of_a_version_without_alarms_comes_back(stage: Stage) -> None:
    """Its inventory says that it is well."""
    stage.run(["h1"], hook="reboot")
    stage.look()
    stage.later()
    stage.look()
    stage.conductor.run_fences()
    stage.later()
    assert ("returning", ["h1"]) == (stage.hosts()["h1"], stage.disabled())
    report = {"host": "h1", "node": "h1", "vcpus": 8, "memory_mb": 8000, "local_gb": 100}
    stage.conductor.agents.report_hosts([report], {"h1": ["h1"]})
    stage.look()
    assert ({"h1": "done"}, []) == (stage.hosts(), stage.disabled())


def test_a_guest_that_another_conductor_moves_is_no_problem(stage: Stage, database: Database) -> None:
    """Both have read it before its move."""
    guest = stage.add("h1")
    stage.run(["h1"])
    stage.look(2)
    assert 1 == len(stage.moving())
    (plan,) = database.read(maintenances.going_on)
    (row,) = database.read(maintenances.wave, plan.uuid)
    seen = draining.Guest(guest, move_states.LIVE_MIGRATION, None)
    ctx = StepContext(stage.other.limits, stage.other.clock())
    assert database.write(draining.begin_move, plan.uuid, row.id, seen, "another", ctx) is None


def test_a_guest_on_its_way_to_the_host_is_waited_for(stage: Stage) -> None:
    """The hook does not run under a guest that arrives: it comes, and goes again."""
    guest = stage.add("h2")
    stage.conductor.operator.live_migrate_instance(guest, "h1")
    stage.conductor.scheduler.answers.append([("h1", ())])
    stage.conductor.moves.deliver(stage.conductor.place_move)
    stage.run(["h1"], hook="reboot")
    stage.look()
    stage.later()
    stage.look(2)
    assert ("draining", []) == (stage.hosts()["h1"], stage.conductor.fences)
    stage.arrive()
    stage.look()
    (move,) = stage.moving()
    assert (guest, "h1") == (move["instance_uuid"], move["source_compute"])


def test_a_guest_that_is_built_before_the_hook_runs(stage: Stage, database: Database) -> None:
    """The agent's claim was being written when the host became empty. The conductor drains and disables the host again."""
    stage.run(["h1"], hook="reboot")
    stage.look()
    stage.later()
    assert "working" == stage.hosts()["h1"]
    database.write(services.set_disabled, "h1", "fleet-compute", False, None, stage.conductor.clock())
    guest = stage.add("h2")
    database.write(lambda tx: tx.update(instances.INSTANCES, guest, {"host": "h1", "node": "h1"}))
    stage.look()
    assert ("draining", []) == (stage.hosts()["h1"], stage.conductor.fences)
    stage.look()
    assert (["h1"], 1) == (stage.disabled(), len(stage.moving()))


def test_one_broken_request_holds_up_its_host_only(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host says why, and the others go on."""
    broken, sound = stage.add("h1"), stage.add("h2")

    def readable(row: RequestedInstance) -> None:
        if row.uuid == broken:
            raise errors.RequestUnreadable(kind="instance", uuid=row.uuid)

    monkeypatch.setattr(instance_values, "require_readable", readable)
    stage.run(["h1", "h2"])
    stage.look(3)
    assert [sound] == [each["instance_uuid"] for each in stage.moving()]
    assert stage.problem("h1")


def test_a_host_that_dies_while_it_is_drained_is_recovered(database: Database) -> None:
    on = RecoverySettings(enabled=True, fence_command=["/sbin/off"], wait_time_s=120)
    stage = Stage(database)
    stage.conductor = Conductor(database, maintenance=SETTINGS, recovery=on, clock=stage.conductor.clock)
    stage.add("h1")
    stage.run(["h1"])
    stage.look(2)
    stage.conductor.keeper.look()
    for _ in range(12):
        stage.later(20, "h1")
        stage.conductor.keeper.look()
    assert ["h1"] == [each["host"] for each in stage.conductor.operator.list_recoveries()["recoveries"]]
    assert "its agent is down" in (stage.problem("h1") or "")


def test_a_guest_that_has_left_meanwhile_is_not_moved_again(stage: Stage, database: Database) -> None:
    """A conductor that was slow has read the host before another one, or an operator, has moved the guest."""
    guest = stage.add("h1")
    plan = stage.run(["h1"])["maintenance"]["uuid"]
    stage.look()
    (row,) = database.read(maintenances.hosts, plan)
    ctx = stage.conductor.move_placement.step_context()
    (seen,) = database.write(draining.settle, plan, row.id, SETTINGS, ctx).guests
    database.write(lambda tx: tx.update(instances.INSTANCES, guest, {"host": "h3", "node": "h3"}))
    assert database.write(draining.begin_move, plan, row.id, seen, str(uuid.uuid4()), ctx) is None
    assert [] == stage.moving()


@pytest.mark.parametrize("first_is_refused", [True, False])
def test_a_refused_guest_does_not_hold_up_the_others(stage: Stage, database: Database, first_is_refused: bool) -> None:
    """Whichever comes first: one has cells, and its disks cannot leave the host."""
    guests = sorted([stage.add("h1"), stage.add("h1")])
    refused, able = guests if first_is_refused else reversed(guests)
    pinned = {"claimed_numa_topology": {"cells": []}}
    database.write(lambda tx: tx.update(instances.INSTANCES, refused, pinned))
    stage.conductor.add_host("h1", stats={"live_migration": "fake", "disks": ""})
    stage.run(["h1"], cold=True, moves_at_a_time=1)
    stage.look(3)
    assert [able] == [each["instance_uuid"] for each in stage.moving()]
    # One that was not asked yet holds nothing up.
    assert first_is_refused == ("cannot leave its host" in (stage.problem("h1") or ""))


def test_many_refused_guests_do_not_hold_up_the_others(stage: Stage, database: Database) -> None:
    """They fill each look. The next look begins with the guests that were not tried."""
    *refused, able = sorted(stage.add("h1") for _number in range(3))
    pinned = {"claimed_numa_topology": {"cells": []}}
    for each in refused:
        database.write(lambda tx, uuid=each: tx.update(instances.INSTANCES, uuid, pinned))
    stage.conductor.add_host("h1", stats={"live_migration": "fake", "disks": ""})
    stage.run(["h1"], cold=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeper, "_TRIES", 1)
        stage.look(5)
    assert [able] == [each["instance_uuid"] for each in stage.moving()]


def test_a_host_whose_turn_has_not_come_may_be_enabled(stage: Stage) -> None:
    """It takes builds until then, and so does one whose maintenance has ended."""
    stage.run(["h1"], ["h2"])
    stage.look()
    for host in ("h2", "h1"):
        stage.conductor.operator.update_service(host, True, "fleet-compute", "bad RAM")
    stage.conductor.operator.update_service("h2", False)
    stage.conductor.operator.cancel_maintenance("kernel")
    stage.conductor.operator.update_service("h1", False)
    assert [] == stage.disabled()


def test_an_operator_who_disables_a_host_meanwhile_keeps_it_so(stage: Stage, database: Database) -> None:
    stage.run(["h1"])
    stage.look()
    database.write(services.set_disabled, "h1", "fleet-compute", True, "bad RAM", stage.conductor.clock())
    stage.conductor.operator.cancel_maintenance("kernel")
    assert ["h1"] == stage.disabled()


def test_a_host_whose_hook_runs_is_not_given_back(stage: Stage) -> None:
    """Neither by skipping it nor by cancelling; afterwards both may."""
    stage.run(["h1"], hook="reboot")
    stage.look()
    stage.later()
    stage.look()
    for decide in (
        lambda: stage.conductor.operator.cancel_maintenance("kernel"),
        lambda: stage.conductor.operator.skip_maintenance_host("kernel", "h1"),
    ):
        with pytest.raises(errors.Conflict, match="has its hook running, until .* pause the maintenance"):
            decide()
    stage.conductor.run_fences()
    stage.conductor.operator.cancel_maintenance("kernel")
    assert ({"h1": "skipped"}, []) == (stage.hosts(), stage.disabled())


def resized(stage: Stage, larger: bool = True) -> str:
    """An instance that waits, on h2, for the confirmation of its move from h1."""
    guest = stage.add("h1")
    if larger:
        flavor = {"vcpus": 2, "memory_mb": 2048, "root_gb": 10, "name": "large"}
        stage.conductor.operator.resize_instance(guest, flavor)
    else:
        stage.conductor.operator.migrate_instance(guest)
    stage.conductor.scheduler.answers.append([("h2", ())])
    stage.conductor.moves.deliver(stage.conductor.place_move)
    (record,) = stage.moving()
    attempt = Attempt(record["uuid"], record["attempt"], "h2", "h2", INCARNATION)
    stage.conductor.move_progress.claim(context(), attempt, Claimed(memory_mb=2048, disk_gb=10, vcpus=2))
    for host, status in (("h1", move_states.PRE_MIGRATING), ("h2", move_states.POST_MIGRATING)):
        stage.conductor.move_progress.advance(context(), Attempt(record["uuid"], record["attempt"], host), status)
    return guest


def test_a_resize_that_waits_is_named(stage: Stage) -> None:
    """It holds disks on the host until its owner has decided."""
    guest = resized(stage)
    stage.run(["h1"], hook="reboot")
    stage.look()
    stage.later()
    stage.look(2)
    (name,) = [each["name"] for each in stage.conductor.operator.list_instances({"uuids": [guest]})]
    expected = f"{name} waits for its resize to be confirmed or reverted"
    assert ("draining", expected) == (stage.hosts()["h1"], stage.problem("h1"))


def test_a_cold_move_is_not_confirmed_while_its_new_host_is_down(stage: Stage) -> None:
    """The host that is drained may have the only guest that is left. It is named, and holds up nothing else."""
    resized(stage, larger=False)
    stage.conductor.clock.advance(stage.conductor.limits.service_down_time_s + 1)
    stage.beat("h2")
    stage.run(["h1"], hook="reboot")
    stage.look(3)
    assert "is on a host that is down: revert its resize" in (stage.problem("h1") or "")
    stage.later()
    stage.look(2)
    assert [move_states.CONFIRMING] == [each["status"] for each in stage.moving()]


def test_a_commit_whose_outcome_was_unknown(stage: Stage, database: Database) -> None:
    """A transaction that runs twice finds what it has done: the lease of a hook, and a maintenance."""
    stage.run(["h1"], hook="reboot")
    stage.look()
    stage.later()
    uuid = stage.shown()["maintenance"]["uuid"]
    (row,) = database.read(maintenances.hosts, uuid)
    ctx = StepContext(stage.conductor.limits, stage.conductor.clock())
    orders = [database.write(working.take, uuid, row.id, "lease", SETTINGS, ctx) for _ in range(2)]
    assert orders[0] == orders[1] is not None
    values = {"uuid": "again", "name": "twice", "moves_at_a_time": 1, "created_at": stage.conductor.clock()}
    for _ in range(2):
        database.write(maintenances.create, values, [["h2"]], {}, {})


def test_while_agents_are_too_old(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits, shows why, and logs so once a minute and not at each look."""

    def refuse() -> None:
        raise errors.VersionPinned(topic="compute", method="advance_migration", needs="1.4", cap="1.3", pin="auto")

    stage.add("h1")
    stage.run(["h1", "h2"])
    monkeypatch.setattr(stage.conductor.compute, "require_live_migration", refuse, raising=False)
    stage.look(2)
    stage.later()
    stage.look(2)
    # The work on an empty host may be what they wait for.
    assert ({"h1": "draining", "h2": "working"}, []) == (stage.hosts(), stage.moving())
    assert 1 == sum("waits with host h1" in each.message for each in caplog.records)
    assert "1.4" in (stage.problem("h1") or "")


def test_old_ones_are_removed(stage: Stage, database: Database) -> None:
    stage.run(["h1"])
    stage.conductor.operator.cancel_maintenance("kernel")
    stage.conductor.clock.advance(maintenances.KEPT.total_seconds() + 1)
    assert 1 == database.write(maintenances.remove_old, stage.conductor.clock())
    assert [] == stage.conductor.operator.list_maintenances()


@pytest.mark.on_sqlite
@pytest.mark.parametrize(
    ("point", "action"),
    [
        *((f"{step}.after_commit", "raise") for step in names.MAINTENANCE_TRANSACTIONS),
        *(
            pytest.param(f"{step}.before_commit", "raise", marks=pytest.mark.long)
            for step in names.MAINTENANCE_TRANSACTIONS
        ),
        *((f"{step}.after_commit", "disconnect") for step in names.MAINTENANCE_TRANSACTIONS),
    ],
)
def test_a_failure_in_any_transaction_loses_nothing(
    stage: Stage, points: pathlib.Path, caplog: pytest.LogCaptureFixture, point: str, action: str
) -> None:
    """A conductor that fails there goes on at its next look: the guest moves once, and the host is taken back."""
    guest = stage.add("h1")
    stage.run(["h1"], hook="reboot", destinations={"h1": {guest: "h3"}})
    points.write_text(json.dumps({point: {"action": action, "times": 1}}))
    for _look in range(60):
        for step in (stage.later, stage.look, stage.conductor.run_fences):
            with contextlib.suppress(failpoints.FailpointReached):
                step()
        stage.conductor.move_sweeper.sweep()
        stage.arrive(*(["h3"] if stage.moving() else []))
        if stage.hosts() == {"h1": "done"}:
            break
    assert f"Failpoint {point}: {action}" in caplog.messages
    assert ({"h1": "done"}, []) == (stage.hosts(), stage.disabled())
    made = stage.conductor.operator.list_migrations({})
    assert [(guest, "h3", "completed")] == [
        (each["instance_uuid"], each["dest_compute"], each["status"]) for each in made
    ]
    # A hook whose end was not written runs again, when its lease has ended.
    assert 1 <= len(stage.conductor.hooked) <= 2
