# SPDX-License-Identifier: Apache-2.0
"""Which process serves a host, by the ledger."""

from __future__ import annotations

import logging
import math
import uuid as uuid_module

import pytest

from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.hosts import services
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.schema import identity
from fleet.objects import fields
from tests.worlds.conductor import INCARNATION, Conductor

HOSTS = ("h1", "h2")
MINE = str(uuid_module.UUID(int=1))


TAKEOVERS = [
    ("the same machine, at once", "one", 0, True),
    ("another machine while the first lives", "two", 0, False),
    ("another machine when the first is no longer heard of", "two", 61, True),
]


@pytest.mark.parametrize(("who", "identity", "silence_s", "taken"), TAKEOVERS, ids=[case[0] for case in TAKEOVERS])
def test_who_may_take_a_host_over(conductor: Conductor, who: str, identity: str, silence_s: float, taken: bool) -> None:
    """A restarted agent may.

    A second agent with the same host name is refused with the name of the first, and not registered.
    """
    machines = {"one": str(uuid_module.UUID(int=1)), "two": str(uuid_module.UUID(int=2))}
    first = {"host": "h9", "binary": "fleet-compute", "topic": "compute", "pid": 7, "hostname": "m1"}
    conductor.agents.register_services([{**first, "incarnation": "a", "identity": machines["one"]}])
    conductor.clock.advance(silence_s)
    second = {**first, "incarnation": "b", "identity": machines[identity], "pid": 8}
    if taken:
        conductor.agents.register_services([{**second, "host": "h8"}, second])
        assert ["h9"] == conductor.agents.report_state(Heartbeat("fleet-compute", ["h9"], "a")).superseded
        return
    with pytest.raises(errors.HostTaken) as refused:
        conductor.agents.register_services([{**second, "host": "h8"}, second])
    assert f"Host h9 is served by another agent: pid 7 on m1, identity {machines['one']}, since" in str(refused.value)
    assert [] == conductor.agents.report_state(Heartbeat("fleet-compute", ["h9"], "a")).superseded
    assert "h8" not in {service["host"] for service in conductor.operator.list_services()}


@pytest.mark.parametrize("binary", ["fleet-compute", "fleet-volume"])
def test_a_late_registration_of_a_former_life(conductor: Conductor, binary: str) -> None:
    """It does not end the agent that lives. A conductor may have taken the message before the former life ended."""
    mine = {"host": "h9", "binary": binary, "topic": binary.removeprefix("fleet-"), "identity": MINE, "pid": 7}

    def register(incarnation: str, **life: int) -> None:
        conductor.agents.register_services([{**mine, "incarnation": incarnation, **life}])

    def superseded(incarnation: str) -> bool:
        return bool(conductor.agents.report_state(Heartbeat(binary, ["h9"], incarnation)).superseded)

    register("second", life=2)
    for life in ({"life": 1}, {"life": 0}):
        with pytest.raises(errors.HostTaken, match="Host h9 is served by another agent: pid 7"):
            register("first", **life)
    assert not superseded("second")
    register("second", life=2)
    register("third", life=3)
    assert (True, False) == (superseded("second"), superseded("third"))
    conductor.clock.advance(61)
    register("restored from a backup", life=1)
    assert superseded("third")
    register("of an older release, which counts no lives")
    assert superseded("restored from a backup")


def test_a_registration_is_answered_with_what_the_ledger_has_of_the_host(conductor: Conductor) -> None:
    """An agent that was away compares its first inventory with it; a host that is new has nothing."""
    new = {"binary": "fleet-compute", "topic": "compute", "incarnation": "b"}
    answer = conductor.agents.register_services([{**new, "host": "h1"}, {**new, "host": "h9"}])
    (node,) = answer[0]["nodes"]
    (shown,) = conductor.operator.show_host("h1")["nodes"]
    assert {"node": "h1", **{size: shown[size] for size in ("vcpus", "memory_mb", "local_gb")}} == node
    assert [] == answer[1]["nodes"]


def test_a_registration_is_answered_with_the_ledgers_identity(database: Database) -> None:
    """The agent stores it. The conductor reads it with each of its heartbeats: the database may be replaced."""
    conductor = Conductor(database)
    new = {"binary": "fleet-compute", "topic": "compute", "incarnation": "b", "host": "h9"}
    database.write(identity.adopt, "one ledger")
    conductor.agents.learn_ledger()
    assert "one ledger" == conductor.agents.register_services([new])[0]["ledger"]
    database.write(identity.adopt, "another")
    conductor.agents.learn_ledger()
    assert "another" == conductor.agents.register_services([new])[0]["ledger"]


def test_an_agent_that_leaves_is_down_at_once(conductor: Conductor) -> None:
    """It need not be missed first, and another machine may take its host over."""
    conductor.agents.leave("fleet-compute", ["h1"], INCARNATION)
    conductor.agents.leave("fleet-compute", ["h2"], "an earlier life")
    states = {service["host"]: service["state"] for service in conductor.operator.list_services()}
    assert ("down", "up") == (states["h1"], states["h2"])
    conductor.add_host("h1")
    assert "up" == conductor.operator.show_host("h1")["nodes"][0]["state"]


def test_an_agent_that_stops_gets_no_builds_and_is_up_until_it_is_idle(conductor: Conductor) -> None:
    """It ends its builds. A former life cannot change the row; the next report enables the host."""
    conductor.agents.leave("fleet-compute", ["h2"], "an earlier life", idle=False)
    conductor.agents.leave("fleet-compute", ["h1"], INCARNATION, idle=False)
    assert [("disabled", "AUTO: its agent is stopping"), ("enabled", None)] == [
        seen(conductor, "h1"),
        seen(conductor, "h2"),
    ]
    assert "up" == conductor.operator.show_host("h1")["nodes"][0]["state"]
    conductor.agents.report_hosts([], {"h1": ["h1"]}, {"h1": ""})
    assert ("enabled", None) == seen(conductor, "h1")


def test_a_host_with_an_alarm_is_disabled_until_it_is_over(
    conductor: Conductor, caplog: pytest.LogCaptureFixture
) -> None:
    """Operators see the reason. The alarm is stored once, and its end enables the host."""
    caplog.set_level(logging.INFO)
    told = []
    for alarm in ("memory_mb is -5", "memory_mb is -5", "", ""):
        conductor.agents.report_hosts([], {"h1": ["h1"]}, {"h1": alarm})
        told.append(seen(conductor, "h1"))
    off = ("disabled", "AUTO: memory_mb is -5")
    assert [off, off, ("enabled", None), ("enabled", None)] == told
    assert 2 == len([record for record in caplog.records if "Host h1 is" in record.getMessage()])


def test_an_operators_word_outlasts_an_alarm(conductor: Conductor) -> None:
    """What a person has disabled neither an alarm nor its end changes; nor does good news enable a new host."""
    conductor.operator.update_service("h1", True, "fleet-compute", "broken fan")
    for alarm in ("memory_mb is -5", ""):
        conductor.agents.report_hosts([], {"h1": ["h1"]}, {"h1": alarm})
        assert ("disabled", "broken fan") == seen(conductor, "h1")


def test_a_refused_report_is_an_alarm(conductor: Conductor) -> None:
    """Also the conductor may find the fault."""
    report = {"host": "h1", "node": "h1", "vcpus": 8, "memory_mb": 0, "local_gb": 100}
    (answer,) = conductor.agents.report_hosts([report], {"h1": ["h1"]}, {"h1": ""})
    assert not answer["accepted"]
    assert ("disabled", f"AUTO: {answer['reason']}") == seen(conductor, "h1")


NONSENSE: list[tuple[dict[str, object], str]] = [
    ({"stats": {"failed_builds": "x"}}, "report.stats.failed_builds"),
    ({"stats": {"failed_builds": 2**40}}, "report.stats.failed_builds"),
    ({"stats": {"failed_builds": [1]}}, "report.stats.failed_builds"),
    ({"disk_available_least": 2**40}, "report.disk_available_least"),
    ({"disk_available_least": -(2**40)}, "report.disk_available_least"),
    ({"host": ["h1"]}, "report.host"),
    ({"host": None}, "report.host"),
    ({"stats": {"x": math.nan}}, "report.stats.x"),
    ({"stats": {"x": 10**300}}, "report.stats.x"),
    ({"stats": {"a\0": "b"}}, "report.stats"),
    ({"metrics": [{"name": "a", "value": math.inf}]}, "report.metrics"),
    ({"numa_topology": {"cells": [{"id": 0, "cpuset": [0], "memory": 1, "x": 10**300}]}}, "report.numa_topology"),
]


@pytest.mark.every_database
@pytest.mark.parametrize(("wrong", "field"), NONSENSE)
def test_nonsense_in_a_report_is_refused_by_name(conductor: Conductor, wrong: dict[str, object], field: str) -> None:
    """The reports beside it are stored."""
    report = {"host": "h1", "node": "h1", "vcpus": 8, "memory_mb": 8000, "local_gb": 100}
    refused, stored = conductor.agents.report_hosts([{**report, **wrong}, {**report, "host": "h2", "node": "h2"}], {})
    assert (False, True) == (refused["accepted"], stored["accepted"])
    assert field in refused["reason"]


@pytest.mark.every_database
def test_what_is_used_is_at_most_what_a_column_holds(conductor: Conductor) -> None:
    """Each of three numbers is valid. The report beside it is stored."""
    most = fields.INT32_MAX
    wrong = {"memory_mb": most, "reserved_memory_mb": most, "orphaned_memory_mb": most}
    report = {"host": "h1", "node": "h1", "vcpus": 8, "memory_mb": 8000, "local_gb": 100}
    conductor.agents.report_hosts([{**report, **wrong}, {**report, "host": "h2", "node": "h2"}], {})
    assert {"h1": most, "h2": 0} == {each["host"]: each["memory_mb_used"] for each in conductor.operator.list_hosts()}


def test_the_ledger_tells_what_differs(conductor: Conductor) -> None:
    """What only one of the two has, and what is being spawned; never what belongs to another host."""
    there, lost, elsewhere = (conductor.place(host) for host in ("h1", "h1", "h2"))
    for uuid in (there, lost):
        conductor.claim(uuid, "h1")
        conductor.finish(uuid, "h1")
    conductor.claim(elsewhere, "h2")
    unknown = str(uuid_module.UUID(int=7))
    held = {"h1": [there, unknown], "h2": [elsewhere], "h3": []}
    assert {"h1": sorted([lost, unknown]), "h2": [elsewhere]} == conductor.agents.compare_instances(held)
    assert [lost] == [each.uuid for each in conductor.agents.host_instances("h1", [lost, elsewhere])]


def seen(conductor: Conductor, host: str) -> tuple[str, str | None]:
    (service,) = [each for each in conductor.operator.list_services() if each["host"] == host]
    return service["status"], service["disabled_reason"]


def test_a_heartbeat_is_told_of_an_alarm(conductor: Conductor) -> None:
    """The answer to a heartbeat shows the alarm until it is over, so that the agent reports its inventory."""
    beat = Heartbeat("fleet-compute", ["h1"], INCARNATION)
    assert () == tuple(conductor.agents.report_state(beat).alarmed)
    conductor.agents.report_hosts([{"host": "h1", "node": "h1"}], {})
    assert ["h1"] == list(conductor.agents.report_state(beat).alarmed)
    conductor.agents.report_hosts([], {}, {"h1": ""})
    assert [] == list(conductor.agents.report_state(beat).alarmed)


def test_services_name_the_driver_of_their_host(conductor: Conductor) -> None:
    """The driver is the one that the nodes report, so a simulated host is recognisable."""
    report = {"host": "h1", "node": "h1", "vcpus": 8, "memory_mb": 8000, "local_gb": 100, "hypervisor_type": "fake"}
    conductor.agents.report_hosts([report], {"h1": ["h1"]})
    drivers = {service["host"]: service["driver"] for service in conductor.operator.list_services()}
    assert ("fake", None) == (drivers["h1"], drivers["h2"])


def test_live_schedulers_are_found_by_their_records(conductor: Conductor) -> None:
    """Those whose heartbeat is younger than service_down_time, of one program and topic, that are not forced down."""
    volumes_only = {"host": "s4", "binary": "fleet-scheduler", "topic": "volume_scheduler"}
    conductor.agents.register_services([volumes_only])
    for host in ("s1", "s2", "s3"):
        conductor.agents.register_services([{"host": host, "binary": "fleet-scheduler", "topic": "scheduler"}])
    conductor.clock.advance(50)
    conductor.agents.report_state(Heartbeat("fleet-scheduler", ["s1", "s2", "s4"], ""))
    conductor.clock.advance(20)
    conductor.operator.force_down("s2", True, "fleet-scheduler")
    now = conductor.clock()
    assert ["s1"] == conductor.database.read(services.live, "fleet-scheduler", now, 60, "scheduler")
