# SPDX-License-Identifier: Apache-2.0
"""Hosts that are down are fenced and their guests evacuated, and what stops that."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from conductor_stub.recovery import fencing, watch
from conductor_stub.steps import hook
from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.steps.fence import Outcome
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.recovery_settings import RecoverySettings
from conductor_stub.upkeep_conf import FENCE_COMMAND, FENCE_NONE
from fleet import errors, failpoints, states
from fleet.clock import seconds
from fleet.db.engine.database import Database
from fleet.db.hosts import services
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.operations import recoveries
from fleet.db.tables import models
from fleet.doctor import examination
from fleet.failpoints import names
from fleet.objects import BuildRequest, Claimed
from tests.functional import databases
from tests.operator_calls import Asked
from tests.worlds.conductor import INCARNATION, Conductor, context

HOSTS = ("h1", "h2", "h3", "h4")
SETTINGS = RecoverySettings(enabled=True, fence_command=["/sbin/off"], wait_time_s=120, largest_share=0.3, parallel=2)
FAILED = Outcome(False, "the fence failed: exit status 1")
CLAIM = Claimed(memory_mb=1024, disk_gb=10, vcpus=1)


class Stage:
    """Four hosts with guests on h1; agents are played by hand."""

    def __init__(
        self,
        database: Database,
        guests: int = 3,
        settings: RecoverySettings = SETTINGS,
        limits: StepLimits | None = None,
    ) -> None:
        self.settings = settings
        self.conductor = Conductor(database, recovery=settings, limits=limits)
        #: Another process of the same fleet.
        self.other = Conductor(database, recovery=settings, limits=limits, clock=self.conductor.clock)
        self.conductor.add_hosts(HOSTS)
        self.guests = [self.add("h1") for _number in range(guests)]
        self.conductor.keeper.look()

    def add(self, host: str, project: str = "web", **request: Any) -> str:
        asked = {"flavor": {"vcpus": 1, "memory_mb": 1024, "root_gb": 10}, **request}
        self.conductor.scheduler.answers.append([(host, ())])
        accepted = self.conductor.intake.accept(context(project), BuildRequest.from_wire(asked))
        uuid = accepted["instances"][0]["uuid"]
        self.conductor.work()
        self.conductor.claim(uuid, host)
        self.conductor.finish(uuid, host)
        return uuid

    def resize(self, source: str, destination: str) -> str:
        """Add an instance whose resize waits, on the destination, for a decision."""
        uuid = self.add(source)
        flavor = {"vcpus": 1, "memory_mb": 1024, "root_gb": 10, "name": "other"}
        self.conductor.operator.resize_instance(uuid, flavor)
        self.conductor.scheduler.answers.append([(destination, ())])
        self.conductor.moves.deliver(self.conductor.place_move)
        (record,) = self.conductor.operator.list_migrations({"instance_uuid": uuid})
        there = Attempt(record["uuid"], record["attempt"], destination, destination, INCARNATION)
        self.conductor.move_progress.claim(context(), there, CLAIM)
        self.conductor.move_progress.advance(
            context(), Attempt(record["uuid"], record["attempt"], source), "pre-migrating"
        )
        self.conductor.move_progress.advance(context(), there, "post-migrating")
        return uuid

    def beat(self, *silent: str) -> None:
        heard = [host for host in HOSTS if host not in silent]
        self.conductor.agents.report_state(Heartbeat("fleet-compute", heard, INCARNATION))

    def go_on(self, seconds: float, *silent: str) -> None:
        """Let time pass, while conductors look and all hosts but ``silent`` send heartbeats."""
        while seconds > 0:
            step = min(20.0, seconds)
            seconds -= step
            self.conductor.clock.advance(step)
            self.beat(*silent)
            self.conductor.keeper.look()

    def lose(self, *hosts: str) -> None:
        """Hosts are silent for the time of a recovery."""
        self.go_on(self.settings.wait_time_s + 1, *hosts)

    def under_way(self) -> int:
        now, down_time_s = self.conductor.clock(), self.conductor.limits.service_down_time_s
        return self.conductor.database.write(recoveries.under_way, now, down_time_s)

    def recoveries(self) -> list[dict[str, Any]]:
        return self.conductor.operator.list_recoveries()["recoveries"]

    def recovery(self, host: str = "h1") -> dict[str, Any]:
        return self.conductor.operator.show_recovery(host)

    def steps(self) -> list[str]:
        return [each["step"] for each in self.recovery()["steps"]]

    def statuses(self) -> list[str]:
        return [each["status"] for each in self.recovery()["guests"]]

    def evacuate(self, destination: str = "h2", ends: bool = True) -> int:
        """Play the destination of all evacuations that were handed out; return how many there were.

        :param ends: False: the guests may run there, and it does not say so
        """
        waiting = len(self.conductor.moves.cast)
        self.conductor.scheduler.answers.extend([[(destination, ())]] * waiting)
        self.conductor.moves.deliver(self.conductor.place_move)
        moving = [row for row in self.conductor.operator.list_migrations({}) if row["status"] == "preparing"]
        for row in moving:
            attempt = Attempt(row["uuid"], row["attempt"], destination, destination, INCARNATION)
            self.conductor.move_progress.claim(context(), attempt, CLAIM)
            if ends:
                self.conductor.move_progress.advance(context(), attempt, "pre-migrating")
        return len(moving)

    def host_of(self, uuid: str) -> str | None:
        return self.conductor.state(uuid)[3]


@pytest.fixture
def stage(database: Database) -> Stage:
    return Stage(database)


def test_a_host_that_dies_is_fenced_and_evacuated(stage: Stage) -> None:
    """Guests are moved two at a time, and never before the fence has succeeded."""
    stage.lose("h1")
    assert ["h1"] == [row["host"] for row in stage.recoveries()]
    assert [] == stage.conductor.operator.list_migrations({})
    assert 1 == len(stage.conductor.fences)
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    assert 2 == stage.evacuate()
    stage.go_on(1, "h1")
    assert 1 == stage.evacuate()
    stage.go_on(1, "h1")
    assert ["moved"] * 3 == stage.statuses()
    assert ["h2"] * 3 == [stage.host_of(uuid) for uuid in stage.guests]
    assert ["begun", "fencing", "fenced", "planned", "done"] == stage.steps()
    order = stage.conductor.fenced[0]
    assert (["/sbin/off"], "h1", 1) == (order.command, order.host, order.attempt)
    # Nothing is left on it: its silence begins no other recovery.
    stage.go_on(600, "h1")
    assert 1 == len(stage.recoveries())


class Asking(Asked):
    """The doctor's questions to the conductor of a stage."""

    def __init__(self, stage: Stage) -> None:
        self._operator = stage.conductor.operator

    def ask(self, method: str, **part: object) -> Any:
        return getattr(self._operator, method)(**part)

    def ping(self, topic: str) -> None:
        """It answers."""

    def describe_host(self, host: str) -> dict[str, Any]:
        return {}

    def describe_filters(self) -> dict[str, Any]:
        return {"left_out": []}


def test_the_doctor_names_what_waits_for_a_decision(database: Database) -> None:
    """It reads the conductor's own answers, with recoveries that are held and under way."""
    stage = Stage(database, settings=dataclasses.replace(SETTINGS, fence_attempts=1, largest_share=0.6))
    stage.add("h2")
    stage.conductor.outcomes.append(FAILED)
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.lose("h1", "h2")
    found = examination.daemons(Asking(stage), list, stage.conductor.clock)  # type: ignore[arg-type]
    assert ["host h1 is held: the fence has failed 1 times; the last time: the fence failed: exit status 1"] == [
        each.found for each in found if each.check == "recovery"
    ]


def test_recoveries_are_off_by_default(database: Database) -> None:
    stage = Stage(database, settings=dataclasses.replace(SETTINGS, enabled=False))
    stage.lose("h1")
    assert [] == stage.recoveries()


@pytest.mark.parametrize(
    ("default", "metadata", "recovered"),
    [
        pytest.param(False, ["on"], True, id="an aggregate switches it on"),
        pytest.param(True, ["off"], False, id="an aggregate switches it off"),
        pytest.param(False, ["on", "off"], False, id="off wins"),
        pytest.param(True, ["maybe"], True, id="another word decides nothing"),
    ],
)
def test_aggregates_decide_for_their_hosts(
    database: Database, default: bool, metadata: list[str], recovered: bool
) -> None:
    stage = Stage(database, settings=dataclasses.replace(SETTINGS, enabled=default))
    for number, value in enumerate(metadata):
        stage.conductor.operator.create_aggregate(f"a{number}", {"recovery": value})
        stage.conductor.operator.add_aggregate_host(f"a{number}", "h1")
    stage.go_on(1)
    stage.lose("h1")
    assert recovered == bool(stage.recoveries())


def test_a_host_whose_agent_was_stopped_is_not_recovered(stage: Stage) -> None:
    """An upgrade stops agents, and their guests run on."""
    stage.conductor.database.write(services.leave, services.COMPUTE, ["h1"], INCARNATION, stage.conductor.clock())
    stage.lose("h1")
    assert [] == stage.recoveries()


def test_a_host_that_is_back_before_its_fence_keeps_its_guests(stage: Stage) -> None:
    stage.lose("h1")
    stage.conductor.fences.clear()
    stage.go_on(hook.GRACE_S + SETTINGS.fence_timeout_s + 20)
    assert ["begun", "fencing", "returned"] == stage.steps()
    assert ["h1"] * 3 == [stage.host_of(uuid) for uuid in stage.guests]


def test_silence_while_no_conductor_looked_counts_for_nothing(database: Database) -> None:
    """All conductors were started anew. A host that reports a little later than the others is not fenced."""
    settings = dataclasses.replace(SETTINGS, wait_time_s=30)
    stage = Stage(database, guests=1, settings=settings, limits=StepLimits(service_down_time_s=15))
    stage.go_on(5)
    stage.conductor.clock.advance(40)
    for time_s in (0.1, 10, 10, 9):
        stage.go_on(time_s, "h1")
        assert [] == stage.recoveries()
    stage.go_on(2, "h1")
    assert ["h1"] == [each["host"] for each in stage.recoveries()]


def test_silence_of_many_hosts_stops_recoveries(stage: Stage) -> None:
    """Half of the hosts are silent: the network is to blame. Hosts that stay silent have their whole time again."""
    stage.add("h2")
    stage.lose("h1", "h2")
    assert [] == stage.recoveries()
    fleet = stage.conductor.operator.list_recoveries()["domains"][0]
    assert {"name": "", "hosts": 4, "silent": 2, "stopped": True} == fleet
    stage.go_on(SETTINGS.wait_time_s - 20, "h1")
    assert [] == stage.recoveries()
    stage.go_on(60, "h1")
    assert ["h1"] == [row["host"] for row in stage.recoveries()]


def test_silence_of_many_hosts_stops_recoveries_under_way(stage: Stage) -> None:
    stage.lose("h1")
    stage.conductor.run_fences()
    # h3 and h4 fall silent, too: no guest is moved meanwhile.
    stage.conductor.clock.advance(70)
    stage.beat("h1", "h3", "h4")
    stage.conductor.keeper.look()
    assert [] == stage.conductor.operator.list_migrations({})
    stage.go_on(20, "h1")
    assert 2 == len(stage.conductor.operator.list_migrations({}))


def test_an_operator_starts_a_recovery_in_spite_of_the_silence(stage: Stage) -> None:
    stage.add("h2")
    stage.lose("h1", "h2")
    started = stage.conductor.operator.start_recovery("h1")
    assert ("h1", True) == (started["host"], started["asked"])
    stage.go_on(1, "h1", "h2")
    assert ["h1"] == [each.host for each in (stage.conductor.run_fences(), *stage.conductor.fenced) if each]
    with pytest.raises(errors.Conflict, match="is up"):
        stage.conductor.operator.start_recovery("h3")


@pytest.mark.parametrize("by", ["labels", "aggregates", "both"])
def test_a_rack_is_a_domain_of_its_own(database: Database, by: str) -> None:
    """Two of two hosts of a room are silent, one of two of the other: only the latter is recovered."""
    settings = dataclasses.replace(SETTINGS, domain_label="room", largest_share=0.8)
    stage = Stage(database, settings=settings)
    stage.add("h3")
    operator = stage.conductor.operator
    for room in ("a", "b", "elsewhere"):
        operator.create_aggregate(f"room {room}", {"room": room})
    for host, room in (("h1", "a"), ("h2", "a"), ("h3", "b"), ("h4", "b")):
        if by != "aggregates":
            operator.set_host_labels(host, {"room": room})
        if by != "labels":
            operator.add_aggregate_host(f"room {room}" if by == "aggregates" else "room elsewhere", host)
    stage.lose("h1", "h2", "h3")
    assert ["h3"] == [row["host"] for row in stage.recoveries()]


def test_a_look_writes_the_racks_that_have_changed_only(database: Database) -> None:
    """Each conductor looks every two seconds. A large fleet has thousands of racks, and always hosts that are down."""
    stage = Stage(database, settings=dataclasses.replace(SETTINGS, domain_label="rack"))
    for host in HOSTS:
        stage.conductor.operator.set_host_labels(host, {"rack": f"of-{host}"})
    stage.lose("h1")
    with databases.statements(database.engine) as sent:
        stage.conductor.keeper.look()
    assert 1 == sum(each.startswith("UPDATE recovery_domains") for each in sent)
    shown = {each["name"]: each["silent"] for each in stage.conductor.operator.list_recoveries()["domains"]}
    assert {"": 1, "of-h1": 1} == shown
    stage.go_on(20, "h1", "h2")
    stage.go_on(60, "h1", "h2")
    shown = {each["name"]: each["silent"] for each in stage.conductor.operator.list_recoveries()["domains"]}
    assert {"": 2, "of-h1": 1, "of-h2": 1} == shown


def test_a_fence_that_fails_is_tried_again_and_then_held(stage: Stage) -> None:
    """A held recovery waits for its operator; nothing was moved."""
    stage.conductor.outcomes.extend([FAILED] * 3)
    stage.lose("h1")
    for _try in range(3):
        stage.conductor.run_fences()
        for _look in range(9):
            if not stage.conductor.fences:
                stage.go_on(10, "h1")
    shown = stage.recovery()
    assert ("held", 3) == (shown["status"], shown["attempt"])
    assert "the fence has failed 3 times; the last time: the fence failed: exit status 1" == shown["problem"]
    assert [] == stage.conductor.operator.list_migrations({})
    stage.conductor.operator.pause_recovery(False, "h1")
    stage.go_on(1, "h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    assert 2 == stage.evacuate()


def test_two_conductors_fence_once(stage: Stage) -> None:
    stage.lose("h1")
    stage.other.keeper.look()
    assert (1, 0) == (len(stage.conductor.fences), len(stage.other.fences))


def test_a_conductor_that_dies_leaves_its_fence_to_another(stage: Stage) -> None:
    """The dead one only stood still: it begins no fence any more, as the host may run guests again by then."""
    stage.lose("h1")
    stage.conductor.clock.advance(hook.GRACE_S + SETTINGS.fence_timeout_s + 1)
    stage.beat("h1")
    stage.other.keeper.look()
    assert 1 == len(stage.other.fences)
    stage.conductor.run_fences()
    assert ([], "fencing") == (stage.conductor.fenced, stage.recovery()["status"])
    stage.other.run_fences()
    assert "moving" == stage.recovery()["status"]
    assert [2] == [order.attempt for order in stage.other.fenced]


def test_a_fence_that_succeeds_late_counts_for_nothing(stage: Stage) -> None:
    stage.lose("h1")
    stage.conductor.commands_take_s = hook.GRACE_S + SETTINGS.fence_timeout_s + 1
    stage.conductor.run_fences()
    assert (1, "fencing") == (len(stage.conductor.fenced), stage.recovery()["status"])


def test_a_host_that_reports_while_its_fence_waits_for_a_lock_is_not_fenced(stage: Stage) -> None:
    """The transaction began, or was repeated, before the heartbeats of a minute."""
    stage.lose("h1")
    stage.conductor.fences.clear()
    stage.conductor.clock.advance(hook.GRACE_S + SETTINGS.fence_timeout_s + 1)
    before = stage.conductor.clock()
    for _each in range(7):
        stage.conductor.clock.advance(10)
        stage.beat()
    times = iter([before])
    uuid, lease = stage.recovery()["uuid"], "00000000-0000-0000-0000-000000000001"

    def clock() -> datetime.datetime:
        return next(times, stage.conductor.clock())

    assert stage.conductor.database.write(fencing.take, uuid, lease, SETTINGS, stage.conductor.limits, clock) is None
    assert "returned" == stage.steps()[-1]


def test_a_fence_that_lies_is_found_out(stage: Stage) -> None:
    """The host reports on, in the life that was silent: nothing more is moved, and an operator must look."""
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.conductor.clock.advance(1)
    stage.beat()
    stage.conductor.keeper.look()
    shown = stage.recovery()
    assert "held" == shown["status"]
    assert (
        "its agent reports again, and was not started anew: check the host and its fence, then resume"
        == shown["problem"]
    )
    assert [] == stage.conductor.operator.list_migrations({})


def recovered(database: Database) -> Stage:
    """Whose only guest has left h1."""
    stage = Stage(database, guests=1)
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    stage.evacuate()
    stage.go_on(1, "h1")
    return stage


def test_a_fence_that_has_lied_is_found_out_after_the_recovery(database: Database) -> None:
    """Its guests are elsewhere already: an operator must look before the fence is trusted again."""
    stage = recovered(database)
    assert "done" == stage.recovery()["status"]
    stage.go_on(40)
    shown = stage.recovery()
    assert ("held", fencing.LIED, None) == (shown["status"], shown["problem"], shown["ended_at"])
    assert ["done", "held"] == stage.steps()[-2:]
    stage.conductor.operator.pause_recovery(False, "h1")
    stage.go_on(1)
    stage.conductor.run_fences()
    stage.go_on(40)
    assert ("returned", ["moved"]) == (stage.recovery()["status"], stage.statuses())


def test_a_host_that_was_started_anew_after_its_recovery_is_trusted(database: Database) -> None:
    stage = recovered(database)
    stage.conductor.add_host("h1", incarnation="life-two")
    for _look in range(2):
        stage.conductor.clock.advance(20)
        stage.conductor.agents.report_state(Heartbeat("fleet-compute", ["h1"], "life-two"))
        stage.beat("h1")
        stage.conductor.keeper.look()
    assert "done" == stage.recovery()["status"]


def test_guests_that_nobody_looks_after_take_no_room_of_other_recoveries(stage: Stage) -> None:
    """The host is back before its guests have moved: an operator resumes, and the recovery ends."""
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    assert 2 == stage.under_way()
    stage.conductor.clock.advance(1)
    stage.beat()
    stage.conductor.keeper.look()
    assert "held" == stage.recovery()["status"]
    stage.conductor.operator.pause_recovery(False, "h1")
    stage.conductor.keeper.look()
    assert ("returned", {"stayed"}) == (stage.recovery()["status"], set(stage.statuses()))
    assert 0 == stage.under_way()


def test_a_recovery_that_is_paused_takes_no_room_of_others(stage: Stage) -> None:
    """Its evacuations end, and no conductor writes that into its guests while it is paused."""
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    stage.conductor.operator.pause_recovery(True, "h1")
    assert 2 == stage.evacuate()
    assert ["moving", "moving", "waiting"] == stage.statuses()
    assert 0 == stage.under_way()


def test_a_host_whose_agent_was_stopped_meanwhile_is_not_fenced(stage: Stage) -> None:
    """It came back and was upgraded while all recoveries were paused."""
    stage.lose("h1")
    stage.conductor.fences.clear()
    stage.conductor.operator.pause_recovery(True)
    stage.go_on(hook.GRACE_S + SETTINGS.fence_timeout_s + 20)
    stage.conductor.database.write(services.leave, services.COMPUTE, ["h1"], INCARNATION, stage.conductor.clock())
    stage.conductor.operator.pause_recovery(False)
    stage.go_on(40, "h1")
    assert ("returned", 0) == (stage.recovery()["status"], len(stage.conductor.fences))
    assert "its guests run on" in stage.recovery()["steps"][-1]["message"]


def test_a_host_that_starts_again_after_its_fence_keeps_what_is_left(stage: Stage) -> None:
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    assert 2 == stage.evacuate()
    stage.conductor.clock.advance(1)
    stage.conductor.add_host("h1", incarnation="life-two")
    stage.conductor.keeper.look()
    assert "returned" == stage.recovery()["status"]
    assert {"moved": 2, "stayed": 1} == stage.recoveries()[0]["guests"]


def test_a_guest_that_finds_no_host_is_tried_again(stage: Stage) -> None:
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    stage.conductor.scheduler.answers.extend([errors.NoValidHost(reason="no room")] * 2)
    stage.conductor.moves.deliver(stage.conductor.place_move)
    stage.go_on(1, "h1")
    assert ["waiting", "waiting", "moving"] == stage.statuses()
    assert "no room" in stage.recovery()["guests"][0]["problem"]
    stage.go_on(60, "h1")
    while stage.evacuate():
        stage.go_on(1, "h1")
    assert "done" == stage.recovery()["status"]


@pytest.mark.parametrize("way", ["it is enabled", "it is heard of again"])
def test_a_guest_that_finds_no_host_is_tried_when_one_comes_into_use(database: Database, way: str) -> None:
    """Also some time later: a scheduler may not know the room of that host at once. Then it waits for its turn again."""
    stage = Stage(database, guests=1, settings=dataclasses.replace(SETTINGS, largest_share=0.9))
    silent = {"h1", "h4"} if way == "it is heard of again" else {"h1"}
    stage.conductor.operator.update_service("h4", way == "it is enabled", "fleet-compute", "repair")
    stage.lose(*silent)
    stage.conductor.run_fences()

    def tries(wait_s: float) -> int:
        stage.conductor.scheduler.answers.append(errors.NoValidHost(reason="no room"))
        stage.go_on(wait_s, *silent)
        number = len(stage.conductor.moves.cast)
        stage.conductor.moves.deliver(stage.conductor.place_move)
        stage.go_on(1, *silent)
        return number

    assert [1, 1, 1, 1, 0] == [tries(wait_s) for wait_s in (1, 10, 20, 40, 20)]
    stage.conductor.operator.update_service("h4", False, "fleet-compute")
    silent.discard("h4")
    assert [1, 0, 1, 0, 1, 0, 0] == [tries(wait_s) for wait_s in (1, 10, 10, 10, 30, 20, 20)]


def test_guests_go_where_the_plan_has_them(stage: Stage) -> None:
    """The scheduler is asked once, with all guests; the filters decide again on each host."""
    stage.conductor.scheduler.plan = dict(zip(stage.guests, ["h2", "h3", "h4"], strict=True))
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    assert [(["h1"], sorted(stage.guests))] == stage.conductor.scheduler.lost
    planned = {each["instance_uuid"]: each["destination"] for each in stage.recovery()["guests"]}
    assert stage.conductor.scheduler.plan == planned
    assert "3 guests have a place: 3 are planned" in [each["message"] for each in stage.recovery()["steps"]]
    stage.conductor.scheduler.answers.extend([errors.NoValidHost(reason="taken meanwhile")] * 2)
    stage.conductor.moves.deliver(stage.conductor.place_move)
    asked = [properties for _spec, properties in stage.conductor.scheduler.requests[-2:]]
    first = [each["instance_uuid"] for each in stage.recovery()["guests"]][:2]
    assert [{"host": planned[uuid]} for uuid in first] == [each["requested_destination"] for each in asked]
    assert [True, True] == [each["restores"] for each in asked]
    # The plan does not hold any more: all hosts are asked, at once.
    stage.go_on(1, "h1")
    assert [None, None] == [each["destination"] for each in stage.recovery()["guests"]][:2]
    assert ["moving", "moving", "waiting"] == stage.statuses()
    while stage.evacuate():
        asked = [properties for _spec, properties in stage.conductor.scheduler.requests[-2:]]
        assert any("requested_destination" not in each for each in asked)
        stage.go_on(1, "h1")
    assert "done" == stage.recovery()["status"]
    assert 1 == len(stage.conductor.scheduler.lost)


def test_a_guest_whose_planned_host_fails_goes_elsewhere_at_once(database: Database) -> None:
    """The same evacuation goes on: its next attempt asks for all hosts but that one."""
    stage = Stage(database, guests=1)
    stage.conductor.scheduler.plan = {stage.guests[0]: "h2"}
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    stage.evacuate("h2", ends=False)
    (record,) = stage.conductor.operator.list_migrations({})
    attempt = Attempt(record["uuid"], record["attempt"], "h2", "h2", INCARNATION)
    stage.conductor.move_progress.fail(context(), attempt, "pre-migrating", Failure("spawn", "SpawnFailed", "no disk"))
    stage.evacuate("h3")
    first, second = [properties for _spec, properties in stage.conductor.scheduler.requests[-2:]]
    assert ({"host": "h2"}, None) == tuple(each.get("requested_destination") for each in (first, second))
    assert [["h2", "h2"]] == second["retry"]["hosts"]
    stage.go_on(1, "h1")
    assert ("h3", "done", None, 1) == (
        stage.host_of(stage.guests[0]),
        stage.recovery()["status"],
        stage.recovery()["guests"][0]["destination"],
        len(stage.conductor.operator.list_migrations({})),
    )


def test_waits_are_doubled_and_end_when_an_operator_resumes(database: Database) -> None:
    stage = Stage(database, guests=1)
    stage.lose("h1")
    stage.conductor.run_fences()
    waits = []
    for number in range(3):
        if number:
            stage.conductor.operator.pause_recovery(False, "h1")
        stage.conductor.scheduler.answers.append(errors.NoValidHost(reason="no room"))
        stage.go_on(1, "h1")
        stage.conductor.moves.deliver(stage.conductor.place_move)
        stage.go_on(1, "h1")
        (due_at,) = database.read(lambda read: read.execute(sa.select(models.recovery_guests.c.due_at)).scalars().all())
        waits.append(round((due_at - stage.conductor.clock()).total_seconds()))
    assert ([10, 20, 40], 3) == (waits, stage.recovery()["guests"][0]["tries"])


def test_a_guest_with_a_task_is_tried_at_each_look(database: Database) -> None:
    """It counts no try, takes no turn of the others, and is moved as soon as its task has ended."""
    stage = Stage(database, guests=2, settings=dataclasses.replace(SETTINGS, parallel=1))
    stage.lose("h1")
    first, second = [each["instance_uuid"] for each in stage.recovery()["guests"]]
    database.write(lambda tx: tx.update(models.instances, first, {"task_state": states.RESIZE_REVERTING}))
    stage.conductor.run_fences()
    for _look in range(5):
        stage.go_on(1, "h1")
        stage.evacuate()
    assert ("h1", "h2") == (stage.host_of(first), stage.host_of(second))
    shown = stage.recovery()["guests"][0]
    assert ("waiting", 0) == (shown["status"], shown["tries"])
    assert shown["problem"].endswith("(resize_reverting): wait until its task has ended")
    database.write(lambda tx: tx.update(models.instances, first, {"task_state": None}))
    stage.go_on(1, "h1")
    assert 1 == stage.evacuate()
    stage.go_on(1, "h1")
    assert ("h2", "done") == (stage.host_of(first), stage.recovery()["status"])


def test_members_of_groups_are_part_of_the_plan(database: Database) -> None:
    stage = Stage(database, guests=0)
    stage.conductor.operator.create_group("apart", "anti-affinity")
    lost, other = (stage.add(host, project="tenant", group="apart") for host in ("h1", "h2"))
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    assert [(["h1"], sorted([lost, other]))] == stage.conductor.scheduler.lost


def test_without_a_plan_the_recovery_goes_on(stage: Stage) -> None:
    stage.conductor.scheduler.failure = errors.NotSupported(what="plan_loss", driver="Own")
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    stage.conductor.scheduler.failure = None
    assert 2 == stage.evacuate()
    (message,) = [each["message"] for each in stage.recovery()["steps"] if each["step"] == "planned"]
    assert message.startswith("without a plan, the scheduler chooses for each guest: ")


def test_a_conductor_that_dies_after_it_accepted_a_move_moves_nothing_twice(stage: Stage) -> None:
    """The order to place it is lost; another conductor goes on, and the move's own sweeper hands it out again."""
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    stage.conductor.moves.cast.clear()
    stage.other.keeper.look()
    stage.other.keeper.look()
    of_guests = [row["instance_uuid"] for row in stage.conductor.operator.list_migrations({})]
    assert 2 == len(of_guests) == len(set(of_guests))


def test_an_operator_pauses_one_recovery_and_all(stage: Stage) -> None:
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.conductor.operator.pause_recovery(True, "h1")
    stage.go_on(20, "h1")
    assert [] == stage.conductor.operator.list_migrations({})
    stage.conductor.operator.pause_recovery(False, "h1")
    stage.conductor.operator.pause_recovery(True)
    stage.go_on(20, "h1")
    assert [] == stage.conductor.operator.list_migrations({})
    assert stage.conductor.operator.list_recoveries()["paused"]
    stage.conductor.operator.pause_recovery(False)
    stage.go_on(1, "h1")
    assert 2 == len(stage.conductor.operator.list_migrations({}))
    acts = [each["act"] for each in stage.conductor.operator.list_acts()]
    assert {"recovery.pause", "recovery.resume"} <= set(acts)


def _pause(stage: Stage) -> None:
    stage.other.operator.pause_recovery(True)


def _fall_silent(stage: Stage) -> None:
    """Another conductor finds three of four hosts silent."""
    stage.conductor.clock.advance(100)
    stage.beat("h1", "h2", "h3")
    stage.other.keeper.look()


@pytest.mark.parametrize("stops", [_pause, _fall_silent], ids=["paused", "too many hosts are silent"])
def test_what_stops_recoveries_in_the_middle_of_a_look_counts_at_once(
    database: Database, stops: Callable[[Stage], None]
) -> None:
    """A look at many recoveries takes long: each asks a scheduler for a plan. No host is switched off after that."""
    stage = Stage(database, settings=dataclasses.replace(SETTINGS, largest_share=0.5))
    stage.add("h2")
    stage.go_on(40, "h1")
    stage.go_on(80, "h1", "h2")
    stage.conductor.run_fences()
    stage.conductor.clock.advance(20)
    stage.beat("h1", "h2")

    def plan(host: str, _guests: object) -> tuple[dict[str, str], str]:
        stops(stage)
        return {}, f"no plan for {host}"

    stage.conductor.keeper._plan = plan
    stage.go_on(20, "h1", "h2")
    assert {"h1": "moving", "h2": "fencing"} == {each["host"]: each["status"] for each in stage.recoveries()}
    assert ([], []) == (stage.conductor.fences, stage.other.fences)
    assert [] == stage.conductor.operator.list_migrations({})


def test_a_guest_that_is_deleted_meanwhile_is_left_alone(stage: Stage) -> None:
    """Its host is down, so that it goes when the host is back."""
    stage.lose("h1")
    stage.conductor.termination.terminate(context(), [stage.guests[0]])
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    assert 2 == stage.evacuate()
    stage.go_on(1, "h1")
    assert {"moved": 2, "gone": 1} == stage.recoveries()[0]["guests"]
    assert "done" == stage.recovery()["status"]


@pytest.mark.parametrize("guests", [0, 2], ids=["alone", "with others"])
def test_a_resized_guest_holds_a_recovery_open_until_it_is_reverted(database: Database, guests: int) -> None:
    """The recovery names it, with what to do. Its former host starts the guest that it has kept."""
    stage = Stage(database, guests)
    resized = stage.resize("h2", "h1")
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    assert guests == stage.evacuate()
    stage.go_on(40, "h1")
    (left,) = [each for each in stage.recovery()["guests"] if each["status"] != "moved"]
    assert ("moving", resized, "waiting") == (stage.recovery()["status"], left["instance_uuid"], left["status"])
    assert "is RESIZED, not ACTIVE: revert its resize" in left["problem"]

    stage.conductor.operator.revert_resize(resized)
    stage.go_on(60, "h1")
    stage.conductor.move_sweeper.sweep()
    stage.go_on(1, "h1")
    assert ("h2", "done") == (stage.host_of(resized), stage.recovery()["status"])
    assert {"gone": 1, **({"moved": guests} if guests else {})} == stage.recoveries()[0]["guests"]


def test_a_guest_that_is_being_deleted_begins_no_recovery(stage: Stage) -> None:
    """It stays on the host that is down. Another fence would switch the host off while its operator starts it."""
    stage.lose("h1")
    stage.conductor.termination.terminate(context(), [stage.guests[0]])
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    assert 2 == stage.evacuate()
    stage.go_on(600, "h1")
    assert ("h1", ["done"], 1) == (
        stage.host_of(stage.guests[0]),
        [each["status"] for each in stage.recoveries()],
        len(stage.conductor.fenced),
    )
    assert [] == stage.conductor.fences
    with pytest.raises(errors.Conflict, match="has no guests that can be evacuated"):
        stage.conductor.operator.start_recovery("h1")


@pytest.mark.parametrize(("task", "state"), [("stop", "active"), ("rebuild", "active"), ("offload", "shelved")])
@pytest.mark.parametrize("fence", [FENCE_COMMAND, FENCE_NONE])
def test_a_guest_whose_task_its_host_did_not_end_is_evacuated(
    database: Database, task: str, state: str, fence: str
) -> None:
    """At once if its host is off for certain, else after the time of the task."""
    stage = Stage(database, guests=1, settings=dataclasses.replace(SETTINGS, fence=fence))
    (uuid,) = stage.guests
    if task == "rebuild":
        stage.conductor.operator.rebuild_instance(uuid, {})
    elif task == "stop":
        stage.conductor.operator.stop_instance(uuid)
    else:
        values = {"vm_state": states.SHELVED, "task_state": states.SHELVING_OFFLOADING}
        deadline = stage.conductor.clock() + seconds(stage.conductor.limits.build_timeout_s)
        times = dict.fromkeys(("deadline", "step_deadline"), deadline)
        stage.conductor.database.write(lambda tx: tx.update(models.instances, uuid, {**values, **times}))
    stage.lose("h1")
    stage.conductor.run_fences()
    stage.go_on(1, "h1")
    assert int(fence == FENCE_COMMAND) == stage.evacuate()
    if fence == FENCE_NONE and task == "offload":
        # Only its host ends an offload that has begun, and it may be back.
        stage.conductor.operator.force_down("h1", True)
    for _minute in range(20 if fence == FENCE_NONE else 1):
        stage.go_on(60, "h1")
        stage.conductor.power_sweeper.sweep()
        stage.evacuate()
    assert (["moved"], "done") == (stage.statuses(), stage.recovery()["status"])
    assert (state, None, "h2") == (*stage.conductor.state(uuid)[:2], stage.host_of(uuid))


class Arriving(Stage):
    """The guests of h1 have addresses, and are moving to h2: it may run them, though it has no guest by the ledger."""

    def __init__(self, database: Database, guests: int = 3, settings: RecoverySettings = SETTINGS) -> None:
        super().__init__(database, 0, dataclasses.replace(settings, largest_share=0.6))
        self.conductor.operator.create_network({"name": "lab", "bridge": "br0", "subnet": "192.0.2.0/24"})
        self.guests = [self.add("h1", networks=[{"network": "lab"}]) for _number in range(guests)]
        self.lose("h1")
        self.conductor.run_fences()
        self.go_on(1, "h1")
        self.moving = self.evacuate("h2", ends=False)

    def sweep(self, after_s: float = 0) -> list[str]:
        """Let the sweeper look at what is overdue by then; return the statuses of the moves."""
        self.conductor.clock.advance(after_s)
        self.conductor.move_sweeper.sweep()
        return sorted(row["status"] for row in self.conductor.operator.list_migrations({}))

    def problems(self) -> list[str | None]:
        return [each["problem"] for each in self.recovery()["guests"]]


def test_a_destination_that_dies_is_fenced_too(database: Database) -> None:
    """Then its guests, which it may have started, go to another host."""
    stage = Arriving(database, guests=2)
    assert 2 == stage.moving
    stage.lose("h1", "h2")
    assert ["pre-migrating"] * 2 == stage.sweep()
    assert "h2" == stage.recoveries()[0]["host"]
    begun = stage.recovery("h2")["steps"][0]["message"]
    assert begun.startswith("0 guests, and 2 that were moving to it; ")
    stage.conductor.run_fences()
    assert ["h1", "h2"] == [order.host for order in stage.conductor.fenced]
    stage.go_on(1, "h1", "h2")
    assert ("moving", None) == (stage.recovery("h2")["status"], stage.recovery("h2")["problem"])
    assert ["accepted"] * 2 == stage.sweep(60)
    stage.go_on(1, "h1", "h2")
    assert "done" == stage.recovery("h2")["status"]
    assert 2 == stage.evacuate("h3")
    stage.go_on(1, "h1", "h2")
    assert ["h3", "h3"] == [stage.host_of(uuid) for uuid in stage.guests]
    assert "done" == stage.recovery()["status"]


def test_guests_that_wait_for_a_silent_destination_hold_up_no_others(database: Database) -> None:
    """Its fence fails: the guests say what they wait for. Those of another host are moved."""
    stage = Arriving(database, guests=3, settings=dataclasses.replace(SETTINGS, fence_attempts=1))
    other = stage.add("h3")
    stage.conductor.outcomes.append(FAILED)
    stage.lose("h1", "h2")
    stage.conductor.run_fences()
    stage.go_on(1, "h1", "h2")
    assert "held" == stage.recovery("h2")["status"]
    waits = "it may run on h2, which is silent: it waits until h2 is fenced, back, or off for certain: switch it off, "
    waits += "and say so with 'fleet service force-down h2'"
    assert [waits, waits] == stage.problems()[:2]
    stage.conductor.operator.pause_recovery(True, "h1")
    stage.lose("h1", "h2", "h3")
    stage.conductor.operator.start_recovery("h3")
    stage.go_on(1, "h1", "h2", "h3")
    stage.conductor.run_fences()
    stage.go_on(1, "h1", "h2", "h3")
    stage.evacuate("h4")
    stage.go_on(1, "h1", "h2", "h3")
    assert "h4" == stage.host_of(other)


def test_an_operator_ends_the_wait_for_a_silent_destination(database: Database) -> None:
    """Its recovery, which he may start, runs no fence that counts; his word does."""
    stage = Arriving(database, guests=1)
    stage.conductor.operator.create_aggregate("rack", {"recovery": "off", "recovery_fence": "none"})
    stage.conductor.operator.add_aggregate_host("rack", "h2")
    stage.lose("h1", "h2")
    assert ["h1"] == [row["host"] for row in stage.recoveries()]
    stage.conductor.operator.start_recovery("h2")
    stage.go_on(1, "h1", "h2")
    stage.conductor.run_fences()
    stage.go_on(1, "h1", "h2")
    told = "guests (1 that were moving to it) wait until it is off for certain: switch it off, and say so with "
    assert ("moving", told + "'fleet service force-down h2'") == (
        stage.recovery("h2")["status"],
        stage.recovery("h2")["problem"],
    )
    stage.conductor.operator.force_down("h2", True)
    stage.go_on(1, "h1", "h2")
    assert (None, [None]) == (stage.recovery("h2")["problem"], stage.problems())
    assert ["accepted"] == stage.sweep(60)
    stage.go_on(1, "h1", "h2")
    assert "done" == stage.recovery("h2")["status"]


def test_the_order_of_guests(database: Database) -> None:
    """The flavor's priority decides first; a project's orders only the guests of that project; the largest go first."""
    stage = Stage(database, guests=0)
    small = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}
    urgent = {**small, "extra_specs": {"recovery:priority": "5"}}
    nonsense = {**small, "extra_specs": {"recovery:priority": "1e999"}}
    wanted = {
        "greedy": {"flavor": small, "metadata": {"recovery_priority": "1000"}},
        "greedy too": {"flavor": small, "metadata": {"recovery_priority": "999"}},
        "urgent": {"flavor": urgent},
        "nonsense": {"flavor": nonsense},
        "large": {"flavor": {**small, "memory_mb": 2048}},
    }
    projects = {"greedy": "a", "greedy too": "a"}
    made = {}
    for name, request in wanted.items():
        made[stage.add("h1", **request, project=projects.get(name, "b"))] = name
    stage.lose("h1")
    order = [made[each["instance_uuid"]] for each in stage.recovery()["guests"]]
    assert ["urgent", "greedy", "large", "greedy too", "nonsense"] == order


def test_without_a_fence_the_risk_is_in_the_steps(database: Database) -> None:
    stage = Stage(database, settings=dataclasses.replace(SETTINGS, fence=FENCE_NONE, fence_command=()))
    stage.lose("h1")
    stage.go_on(1, "h1")
    messages = [each["message"] for each in stage.recovery()["steps"]]
    assert any(each.startswith("NOT fenced: a guest whose host is only cut off runs twice") for each in messages)
    assert 2 == stage.evacuate()


@pytest.mark.parametrize(("wish", "is_off"), [("none", False), ("storage", False), ("pdu", True)])
def test_a_host_whose_command_has_failed_is_not_off_without_one(database: Database, wish: str, is_off: bool) -> None:
    """The administrator takes the risk after a try: a guest may still run there, and nothing may write beside it."""
    stage = Stage(database, settings=NAMED)
    stage.conductor.outcomes.append(FAILED)
    stage.lose("h1")
    stage.conductor.run_fences()
    assert ("fencing", 1) == (stage.recovery()["status"], stage.recovery()["attempt"])
    stage.conductor.operator.create_aggregate("hurry", {"recovery_fence": wish})
    stage.conductor.operator.add_aggregate_host("hurry", "h1")
    stage.go_on(21, "h1")
    stage.conductor.run_fences()
    assert ("moving", is_off) == (stage.recovery()["status"], database.write(recoveries.is_off, "h1"))


def test_a_fence_that_is_not_configured_is_told(database: Database) -> None:
    stage = Stage(database, settings=dataclasses.replace(SETTINGS, fence_command=()))
    stage.lose("h1")
    stage.go_on(1, "h1")
    assert ("held", "[recovery] fence_command is not set") == (
        stage.recovery()["status"],
        stage.recovery()["problem"],
    )


def test_recoveries_of_hosts_that_are_not_there(stage: Stage) -> None:
    with pytest.raises(errors.NotFound, match="Recovery of host h9"):
        stage.conductor.operator.show_recovery("h9")
    with pytest.raises(errors.NotFound, match="Host h9"):
        stage.conductor.operator.start_recovery("h9")
    with pytest.raises(errors.NotFound):
        stage.conductor.operator.pause_recovery(True, "h9")


NAMED = dataclasses.replace(SETTINGS, fence_commands={"pdu": ["/sbin/pdu-off", "-v"], "ipmi": ["/sbin/ipmi-off"]})


@pytest.mark.parametrize(
    ("wishes", "command", "problem"),
    [
        pytest.param([], ["/sbin/off"], "", id="that of the configuration"),
        pytest.param(["pdu"], ["/sbin/pdu-off", "-v"], "", id="a named command"),
        pytest.param(["pdu", "pdu"], ["/sbin/pdu-off", "-v"], "", id="two aggregates agree"),
        pytest.param(["pdu", "ipmi"], None, "its aggregates name several fences: ipmi, pdu", id="and do not"),
        pytest.param(
            ["nosuch"], None, "[recovery] fence_commands has no nosuch, which its aggregate names", id="unknown"
        ),
        pytest.param(["none"], None, "", id="no fence, at the risk of the administrator"),
    ],
)
def test_aggregates_choose_the_fence(
    database: Database, wishes: list[str], command: list[str] | None, problem: str
) -> None:
    stage = Stage(database, settings=NAMED)
    for number, wish in enumerate(wishes):
        stage.conductor.operator.create_aggregate(f"of-{number}", {"recovery_fence": wish})
        stage.conductor.operator.add_aggregate_host(f"of-{number}", "h1")
    stage.lose("h1")
    stage.conductor.run_fences()
    assert [command] * (command is not None) == [list(order.command) for order in stage.conductor.fenced]
    assert problem == (stage.recovery()["problem"] or "")
    assert ("NOT fenced" in stage.recovery()["steps"][1]["message"]) == (wishes == ["none"])


@pytest.mark.on_sqlite
@pytest.mark.parametrize(
    ("point", "action"),
    [
        *((f"{step}.after_commit", "raise") for step in names.RECOVERY_TRANSACTIONS),
        *(
            pytest.param(f"{step}.before_commit", "raise", marks=pytest.mark.long)
            for step in names.RECOVERY_TRANSACTIONS
        ),
        *((f"{step}.after_commit", "disconnect") for step in names.RECOVERY_TRANSACTIONS),
    ],
)
def test_a_failure_in_any_transaction_moves_nothing_twice(
    stage: Stage,
    points: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    action: str,
) -> None:
    """A conductor that fails there goes on at its next look, and a transaction whose outcome is unknown is repeated."""
    points.write_text(json.dumps({point: {"action": action, "times": 1}}))
    look, run_fences = stage.conductor.keeper.look, stage.conductor.run_fences

    def again(work: Callable[[], object]) -> None:
        with contextlib.suppress(failpoints.FailpointReached):
            work()

    monkeypatch.setattr(stage.conductor.keeper, "look", lambda: again(look))
    stage.lose("h1")
    for _time in range(40):
        again(run_fences)
        stage.evacuate()
        stage.go_on(20, "h1")
        stage.conductor.move_sweeper.sweep()
        if stage.recovery()["status"] == "done":
            break
    assert f"Failpoint {point}: {action}" in caplog.messages
    assert ("done", ["moved"] * 3) == (stage.recovery()["status"], stage.statuses())
    assert ["h2"] * 3 == [stage.host_of(uuid) for uuid in stage.guests]
    finished = [row for row in stage.conductor.operator.list_migrations({}) if row["status"] == "done"]
    assert sorted(stage.guests) == sorted(row["instance_uuid"] for row in finished)
    assert 1 <= len(stage.conductor.fenced) <= 2


def test_a_look_begins_a_bounded_number_of_recoveries(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of hosts may fail at once, and until a look ends no operator can pause the recoveries."""
    monkeypatch.setattr(watch, "_MOST_BEGUN", 2)
    for host in HOSTS[1:]:
        stage.add(host)
    for host in HOSTS[:3]:
        stage.conductor.operator.force_down(host, True)
    begun = []
    for _look in range(3):
        stage.conductor.keeper.look()
        begun.append(len(stage.recoveries()))
    assert [2, 3, 3] == begun
