# SPDX-License-Identifier: Apache-2.0
"""What ``fleet doctor`` makes of the answers it gets."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable
from typing import Any

import oslo_messaging
import pytest

from fleet import errors
from fleet.checks.findings import Finding, Level
from fleet.clock import as_text
from fleet.doctor import examination
from fleet.rpc.rabbit.broker import BrokerAway, Depth, Node
from tests.operator_calls import Asked

NOW = datetime.datetime(2026, 1, 1, 12)


def answer_of_conductor(**changed: Any) -> dict[str, Any]:
    database = {"engine": "postgresql", "took_s": 0.001, "version": "7", "expected": "7", **changed.pop("database", {})}
    return {
        "host": "c1",
        "now": NOW.isoformat(),
        "database": database,
        "orphans": [],
        "overdue": 0,
        "ahead": [],
        **changed,
    }


def a_service(host: str = "h1", state: str = "up", reason: str | None = None, driver: str = "local") -> dict[str, Any]:
    return {"host": host, "binary": "fleet-compute", "state": state, "disabled_reason": reason, "driver": driver}


def a_maintenance(**hosts: int) -> dict[str, Any]:
    return {"uuid": "kernel", "name": "kernel 6", "ended_at": None, "hosts": hosts}


def a_recovery(status: str = "moving", minutes: int = 10, **changed: Any) -> dict[str, Any]:
    begun = NOW - datetime.timedelta(minutes=minutes)
    row = {"host": "h1", "status": status, "paused": False, "problem": None, "ended_at": None, "guests": {}}
    return {**row, "created_at": as_text(begun), **changed}


def recovered(*rows: dict[str, Any], paused: bool = False, stopped: tuple[str, ...] = ()) -> dict[str, Any]:
    """The list of recoveries. :param stopped: domains in which three of four hosts are silent"""
    names = {"": "" in stopped, "rack 1": "rack 1" in stopped}
    domains = [{"name": name, "hosts": 4, "silent": 3, "stopped": value} for name, value in names.items()]
    return {"recoveries": list(rows), "domains": domains, "paused": paused}


def a_backend(**changed: Any) -> dict[str, Any]:
    return {**a_service("m1@b"), "binary": "fleet-volume", "status": "enabled", **changed}


def a_pool(name: str = "m1@b#p", **changed: Any) -> dict[str, Any]:
    """100 GiB, of which volumes have 60."""
    space = {"total_capacity_gb": 100.0, "free_capacity_gb": 40.0, "provisioned_capacity_gb": 60.0}
    rule = {"reserved_percentage": 10, "over_subscription": 1.0, "max_over_subscription_ratio": "1"}
    reported = {"capabilities": {"free_capacity_gb": changed.get("free_capacity_gb", 40.0)}}
    return {"name": name, "total_volumes": 6, "thin_provisioning_support": True, **space, **rule, **reported, **changed}


@dataclasses.dataclass
class HealthyFleet(Asked):
    """A fleet in good condition, with one agent; with the calls of ``Connection``. An exception is raised, not given."""

    examine: Any = dataclasses.field(default_factory=answer_of_conductor)
    services: Any = dataclasses.field(default_factory=lambda: [a_service()])
    agent: Any = dataclasses.field(default_factory=lambda: {"now": NOW.isoformat()})
    pools: Any = dataclasses.field(default_factory=lambda: [a_pool()])
    silent: tuple[str, ...] = ()
    queues: Any = dataclasses.field(default_factory=dict)
    broker_nodes: list[Node] = dataclasses.field(default_factory=list)
    maintenances: Any = dataclasses.field(default_factory=list)
    #: The statuses of the hosts of a maintenance.
    maintained: dict[str, str] = dataclasses.field(default_factory=dict)
    filters: Any = dataclasses.field(default_factory=lambda: {"left_out": []})
    recoveries: Any = dataclasses.field(default_factory=recovered)

    def ping(self, topic: str) -> None:
        if topic in self.silent:
            raise oslo_messaging.MessagingTimeout("…")

    def ask(self, method: str, **_part: object) -> Any:
        shown = {"hosts": [{"host": host, "status": status} for host, status in self.maintained.items()]}
        named = {"list_services": self.services, "list_pools": self.pools, "list_maintenances": self.maintenances}
        named["show_maintenance"] = shown
        return _given({"examine": self.examine, "list_recoveries": self.recoveries, **named}[method])

    def describe_host(self, host: str) -> Any:
        return _given(self.agent)

    def describe_filters(self) -> Any:
        return _given(self.filters)

    def nodes(self) -> list[Node]:
        return self.broker_nodes

    def depths(self, queues: Iterable[str]) -> dict[str, Depth | None]:
        return {name: self.queues.get(name, Depth(0, 1)) for name in queues} if _given(self.queues) is not None else {}


def _given(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def of_daemons(fleet: HealthyFleet) -> list[Finding]:
    return examination.daemons(fleet, list, clock=lambda: NOW)  # type: ignore[arg-type]


def test_a_fleet_in_good_condition() -> None:
    """Every line is good."""
    found = examination.broker(HealthyFleet()) + of_daemons(HealthyFleet())  # type: ignore[arg-type]
    assert {Level.OK} == {each.level for each in found}
    checks = {
        "broker",
        "queues",
        "conductor",
        "scheduler",
        "filters",
        "database",
        "schema",
        "builds",
        "orphans",
        "services",
        "guests",
    }
    assert checks | {"agents", "clocks"} == {each.check for each in found}


BAD = [
    ("no conductor", HealthyFleet(silent=("conductor",)), Level.FAIL, "conductor", "no answer: the call timed out"),
    ("no scheduler", HealthyFleet(silent=("scheduler",)), Level.FAIL, "scheduler", "no answer: the call timed out"),
    (
        "a database that is away",
        HealthyFleet(examine=oslo_messaging.RemoteError("DBError", "gone\nmore")),
        Level.FAIL,
        "database",
        "the conductor cannot examine it: DBError: gone",
    ),
    (
        "a conductor of another fleet",
        HealthyFleet(examine=errors.ForeignExchange(theirs="other", ours="fleet", service="conductor")),
        Level.FAIL,
        "conductor",
        "Exchange other is foreign here: this conductor serves exchange fleet. Give each fleet a virtual host of its own.",
    ),
    (
        "services that are not listed in time",
        HealthyFleet(services=oslo_messaging.MessagingTimeout("…")),
        Level.FAIL,
        "services",
        "the conductor does not list them: the call timed out",
    ),
    (
        "pools that are not listed in time",
        HealthyFleet(services=[a_backend()], pools=oslo_messaging.MessagingTimeout("…")),
        Level.FAIL,
        "pools",
        "the conductor does not list them: the call timed out",
    ),
    (
        "a slow database",
        HealthyFleet(examine=answer_of_conductor(database={"took_s": 0.5})),
        Level.WARN,
        "database",
        "postgresql answers the conductor on c1 after 500.0 ms",
    ),
    (
        "an old schema",
        HealthyFleet(examine=answer_of_conductor(database={"version": "6"})),
        Level.FAIL,
        "schema",
        "the database is at 6, the conductor needs 7",
    ),
    (
        "nobody sweeps",
        HealthyFleet(examine=answer_of_conductor(overdue=3)),
        Level.FAIL,
        "builds",
        "3 steps are overdue, and no conductor has acted on them",
    ),
    (
        "builds that have waited for room too long",
        HealthyFleet(examine=answer_of_conductor(queued={"number": 12, "oldest_s": 7500.0})),
        Level.WARN,
        "queue",
        "12 builds wait for room, the oldest for 2 h 5 min",
    ),
    (
        "orphans",
        HealthyFleet(examine=answer_of_conductor(orphans=[{"host": "h1", "node": "n", "memory_mb": 64}])),
        Level.WARN,
        "orphans",
        "guests that are not in the ledger run on h1:n (64 MB)",
    ),
    (
        "guests that do not run",
        HealthyFleet(examine=answer_of_conductor(down=[{"uuid": "u", "name": "web", "host": "h1", "power_state": 6}])),
        Level.FAIL,
        "guests",
        "1 instances have no running guest: web on h1 (crashed)",
    ),
    (
        "more guests than are named",
        HealthyFleet(
            examine=answer_of_conductor(
                down=[{"uuid": "u", "name": "web", "host": "h1", "power_state": 6}] * 6, numbers={"down": 100_000}
            )
        ),
        Level.FAIL,
        "guests",
        "100000 instances have no running guest: web on h1 (crashed), web on h1 (crashed), web on h1 (crashed), "
        "web on h1 (crashed), web on h1 (crashed) and 99995 more",
    ),
    (
        "a conductor's clock",
        HealthyFleet(services=[a_service(), {**a_service(), "binary": "fleet-conductor", "clock_skew_s": 3600.0}]),
        Level.FAIL,
        "clocks",
        "off the database's clock: fleet-conductor on h1 by +3600 s",
    ),
    (
        "two conductors' clocks",
        HealthyFleet(examine=answer_of_conductor(ahead=["fleet-compute on h1"])),
        Level.FAIL,
        "clocks",
        "by the clock of c1 the heartbeats of these lie in the future: fleet-compute on h1",
    ),
    (
        "hosts that are down",
        HealthyFleet(services=[a_service(f"h{number}", "down") for number in range(7)]),
        Level.WARN,
        "services",
        "7 of 7 are down: " + ", ".join(f"fleet-compute on h{number}" for number in range(5)) + " and 2 more",
    ),
    (
        "a host that takes no builds",
        HealthyFleet(services=[a_service(reason="AUTO: no disk")]),
        Level.WARN,
        "services",
        "hosts that take no builds: h1 (AUTO: no disk)",
    ),
    (
        "a maintenance whose hosts have failed",
        HealthyFleet(maintenances=[a_maintenance(failed=2, waiting=1), a_maintenance(done=1)]),
        Level.WARN,
        "maintenance",
        "kernel 6: 2 hosts have failed, in the hook or without coming back",
    ),
    (
        "a recovery that is held",
        HealthyFleet(recoveries=recovered(a_recovery("held", problem="the fence has failed 3 times"))),
        Level.FAIL,
        "recovery",
        "host h1 is held: the fence has failed 3 times",
    ),
    (
        "a recovery that is paused",
        HealthyFleet(recoveries=recovered(a_recovery(paused=True))),
        Level.WARN,
        "recovery",
        "host h1 is paused",
    ),
    (
        "a recovery whose guests find no host",
        HealthyFleet(recoveries=recovered(a_recovery(minutes=61, guests={"waiting": 2, "moving": 1, "moved": 4}))),
        Level.WARN,
        "recovery",
        "host h1: 3 guests are not elsewhere after 1 h 1 min",
    ),
    (
        "recoveries that are all paused",
        HealthyFleet(recoveries=recovered(paused=True)),
        Level.WARN,
        "recovery",
        "all recoveries are paused, also those to come",
    ),
    (
        "recoveries that are stopped",
        HealthyFleet(recoveries=recovered(stopped=("rack 1",))),
        Level.FAIL,
        "recovery",
        "stopped in rack 1: 3 of 4 hosts are silent at once",
    ),
    (
        "recoveries that are stopped everywhere",
        HealthyFleet(recoveries=recovered(stopped=("",))),
        Level.FAIL,
        "recovery",
        "stopped in the fleet: 3 of 4 hosts are silent at once",
    ),
    (
        "hosts that are invented",
        HealthyFleet(services=[a_service(), a_service("h2", driver="fake")]),
        Level.WARN,
        "driver",
        "1 hosts are simulated, and their instances do not really run: h2",
    ),
    (
        "an agent's clock",
        HealthyFleet(agent={"now": (NOW - datetime.timedelta(seconds=90)).isoformat()}),
        Level.WARN,
        "clocks",
        "clocks differ from the database's: h1 by -90.0 s",
    ),
    (
        "an agent without a queue",
        HealthyFleet(agent=oslo_messaging.MessageUndeliverable(None, None, None, None)),
        Level.FAIL,
        "agents",
        "no answer from h1 (it has no queue on the broker)",
    ),
    (
        "volumes that no scheduler places",
        HealthyFleet(services=[a_service(), a_backend()], silent=("volume_scheduler",)),
        Level.FAIL,
        "volume_scheduler",
        "no answer: the call timed out",
    ),
    (
        "volumes that no conductor places",
        HealthyFleet(services=[a_service(), a_backend()], silent=("volume_conductor",)),
        Level.FAIL,
        "volume_conductor",
        "no answer: the call timed out",
    ),
    (
        "a backend without pools",
        HealthyFleet(services=[a_backend(), a_backend(host="m2@c")]),
        Level.FAIL,
        "backends",
        "these report no pools: m2@c",
    ),
    (
        "a backend that an operator has disabled",
        HealthyFleet(services=[a_backend(status="disabled", disabled_reason="new disks")]),
        Level.WARN,
        "backends",
        "these are disabled and get no volumes: m1@b (new disks)",
    ),
    (
        "a backend that is silent",
        HealthyFleet(services=[a_backend(state="down")]),
        Level.WARN,
        "services",
        "1 of 1 are down: fleet-volume on m1@b",
    ),
    (
        "a pool that has shrunk",
        HealthyFleet(services=[a_backend()], pools=[a_pool(total_capacity_gb=50.0)]),
        Level.WARN,
        "pools",
        "more is promised than allowed: m1@b#p (60 GiB of 50, reserved 10 %, over-subscription 1)",
    ),
    (
        "a pool without free space",
        HealthyFleet(services=[a_backend()], pools=[a_pool(free_capacity_gb=0.0)]),
        Level.FAIL,
        "pools",
        "no free space is left on m1@b#p",
    ),
    (
        "volumes that nobody sweeps",
        HealthyFleet(services=[a_backend()], examine=answer_of_conductor(volumes={"overdue": 2, "stuck": []})),
        Level.FAIL,
        "volumes",
        "2 steps are overdue, and no conductor has acted on them",
    ),
    (
        "volumes that are stuck",
        HealthyFleet(
            services=[a_backend()],
            examine=answer_of_conductor(
                volumes={"overdue": 0, "stuck": [{"name": "v", "status": "error_deleting", "host": "m1@b"}]}
            ),
        ),
        Level.WARN,
        "volumes",
        "their backends have not done their part: v on m1@b (error_deleting)",
    ),
]


def test_a_maintenance_that_goes_well() -> None:
    """A host that reboots is not lost, and one that comes back is not sick: it waits for a report of its agent."""
    back = a_service(reason="AUTO: maintenance kernel 6 waits for a report of its agent")
    away = a_service("h2", "down", "maintenance kernel 6")
    over = {**a_maintenance(failed=1), "name": "firmware", "ended_at": NOW.isoformat()}
    fleet = HealthyFleet(
        services=[back, away, a_service("h3")],
        maintenances=[a_maintenance(returning=1), over],
        maintained={"h2": "returning"},
    )
    found = of_daemons(fleet)
    assert {Level.OK} == {each.level for each in found}
    assert "all 3 are up, or in a maintenance: h1, h2" in [each.found for each in found]


@pytest.mark.parametrize("status", ["waiting", "draining", "failed"])
def test_a_host_that_is_down_before_or_after_the_work(status: str) -> None:
    """Its guests may be there."""
    fleet = HealthyFleet(
        services=[a_service("h2", "down", "maintenance kernel 6")],
        maintenances=[a_maintenance(draining=1)],
        maintained={"h2": status},
    )
    (found,) = [each for each in of_daemons(fleet) if each.level]
    assert (found.check, "1 of 1 are down: fleet-compute on h2") == ("services", found.found)


def test_recoveries_that_need_no_decision() -> None:
    """One is under way, one has ended that was paused before; and conductors of an earlier release have none."""
    over = a_recovery("done", minutes=90, paused=True, ended_at=NOW.isoformat())
    for recoveries in (
        recovered(a_recovery(guests={"waiting": 2}), over),
        errors.VersionPinned(method="list_recoveries", topic="conductor", needs="9", pin="8", cap="8"),
    ):
        assert {Level.OK} == {each.level for each in of_daemons(HealthyFleet(recoveries=recoveries))}


@pytest.mark.parametrize(("service", "advised"), [(a_service("h1", "down"), True), (a_backend(state="down"), False)])
def test_instances_of_a_host_that_is_down_for_good_are_moved(service: dict[str, Any], advised: bool) -> None:
    """The advice is to evacuate them, and not to delete them. A backend has none."""
    (fix,) = [each.fix for each in of_daemons(HealthyFleet(services=[service])) if each.check == "services"]
    assert "Start them" in fix
    assert "delete" not in fix
    assert advised == ("fleet server evacuate --host HOST" in fix and "fleet recovery start HOST" in fix)


def test_a_host_that_a_maintenance_of_the_past_has_left() -> None:
    """It was disabled with the same words, and nothing works on it."""
    over = {**a_maintenance(done=1), "ended_at": NOW.isoformat()}
    fleet = HealthyFleet(services=[a_service(), a_service("h2", "down", "maintenance kernel 6")], maintenances=[over])
    (found,) = [each for each in of_daemons(fleet) if each.level]
    assert (found.check, "1 of 2 are down: fleet-compute on h2") == ("services", found.found)


def test_filters_of_the_default_list_that_are_left_out() -> None:
    """The finding names them, what has no effect then, and the option to use."""
    left_out = [
        {"filter": "RetryFilter", "unjudged": []},
        {"filter": "AvailabilityZoneFilter", "unjudged": ["availability_zone"]},
        {"filter": "ServerGroupAffinityFilter", "unjudged": ["group/affinity"]},
    ]
    (found,) = [each for each in of_daemons(HealthyFleet(filters={"left_out": left_out})) if each.level]
    text = (
        "scheduler_default_filters leaves out RetryFilter, AvailabilityZoneFilter, ServerGroupAffinityFilter; "
        "these parts of requests have no effect: availability_zone, group affinity"
    )
    assert (Level.WARN, "filters", text) == (found.level, found.check, found.found)
    assert "scheduler_additional_filters" in found.fix


def test_a_scheduler_that_cannot_describe_its_filters() -> None:
    """An earlier release, or a driver of a user: nothing is said."""
    for failure in (errors.NotSupported(what="x", driver="Mine"), oslo_messaging.MessagingTimeout("late")):
        assert [] == [
            each for each in of_daemons(HealthyFleet(filters=failure)) if each.level or each.check == "filters"
        ]


def test_a_fleet_of_volumes_needs_no_scheduler_for_machines() -> None:
    """A fleet without hosts and without backends needs one: it is about to get hosts."""
    volumes_only = HealthyFleet(services=[a_backend()], silent=("scheduler",))
    assert {Level.OK} == {each.level for each in of_daemons(volumes_only)}
    (found,) = [each for each in of_daemons(HealthyFleet(services=[], silent=("scheduler",))) if each.level]
    assert "scheduler" == found.check


def test_thin_volumes_take_no_free_space_by_being_claimed() -> None:
    """What is free is judged by the last report, which does not have the claims since then."""
    promised = a_pool(free_capacity_gb=-20.0, capabilities={"free_capacity_gb": 40.0})
    assert [] == [each for each in of_daemons(HealthyFleet(services=[a_backend()], pools=[promised])) if each.level]


@pytest.mark.parametrize(("what", "fleet", "level", "check", "text"), BAD, ids=[case[0] for case in BAD])
def test_what_is_wrong(what: str, fleet: HealthyFleet, level: Level, check: str, text: str) -> None:
    """Only one line is not OK, and it has the remedy."""
    (found,) = [each for each in of_daemons(fleet) if each.level]
    assert (level, check, text) == (found.level, found.check, found.found)
    assert found.fix


QUEUES = [
    ("no broker", HealthyFleet(queues=BrokerAway("h:1 (refused)")), Level.FAIL, "h:1 (refused)"),
    ("nobody listens", HealthyFleet(queues={"scheduler": None}), Level.WARN, "scheduler: no daemon serves this queue"),
    (
        "nobody listens, and messages wait",
        HealthyFleet(queues={"conductor": Depth(9, 0)}),
        Level.WARN,
        "conductor: 9 messages wait, and no daemon serves this queue",
    ),
    (
        "too few",
        HealthyFleet(queues={"conductor": Depth(900, 2)}),
        Level.WARN,
        "conductor: 900 messages wait, 2 consumers",
    ),
]


@pytest.mark.parametrize(("what", "fleet", "level", "text"), QUEUES, ids=[case[0] for case in QUEUES])
def test_the_broker(what: str, fleet: HealthyFleet, level: Level, text: str) -> None:
    """A broker that refuses the login is a failure. Growing queues, or queues without consumers, are a warning."""
    (found,) = [each for each in examination.broker(fleet) if each.level]  # type: ignore[arg-type]
    assert (level, text) == (found.level, found.found)
    assert found.fix


def test_a_clock_is_compared_with_the_conductors_not_with_ours() -> None:
    """Where the command runs, the clock may be wrong."""
    theirs = (NOW + datetime.timedelta(hours=1)).isoformat()
    fleet = HealthyFleet(examine=answer_of_conductor(now=theirs), agent={"now": theirs})
    assert {Level.OK} == {each.level for each in of_daemons(fleet)}


def a_standby(
    name: str = "db2", state: str = "streaming", sync_state: str = "quorum", lag_s: float = 0.1
) -> dict[str, Any]:
    return {"name": name, "state": state, "sync_state": sync_state, "lag_s": lag_s}


def a_galera(**changed: Any) -> dict[str, Any]:
    return {"size": 3, "status": "Primary", "state": "Synced", "paused": 0.0, **changed}


REPLICATIONS: list[tuple[str, dict[str, Any] | None, list[tuple[Level, str]]]] = [
    ("no standby", None, []),
    (
        "one of two standbys confirms",
        {"required": 1, "standbys": [a_standby(), a_standby("db3")]},
        [(Level.OK, "2 standbys: 1 of 2 confirm each commit")],
    ),
    (
        "standbys that no commit waits for",
        {"required": 0, "standbys": [a_standby(sync_state="async")]},
        [(Level.OK, "1 standbys: no commit waits for them")],
    ),
    (
        "a single synchronous standby",
        {"required": 1, "standbys": [a_standby()]},
        [(Level.WARN, "1 standbys are connected, and 1 must confirm each commit")],
    ),
    (
        "no synchronous standby is there",
        {"required": 1, "standbys": []},
        [(Level.FAIL, "1 standbys must confirm each commit, and 0 are connected: every commit waits")],
    ),
    (
        "a standby that lags",
        {"required": 1, "standbys": [a_standby(), a_standby("db3", lag_s=75.0)]},
        [(Level.WARN, "standbys lag: db3 (streaming, 75 s behind)")],
    ),
    (
        "a standby that fetches a backup",
        {"required": 0, "standbys": [a_standby(state="backup", sync_state="async")]},
        [(Level.WARN, "standbys lag: db2 (backup, 0 s behind)")],
    ),
    (
        "a user who may not see them",
        {"required": 1, "standbys": [a_standby(state=None, sync_state=None)]},  # type: ignore[arg-type]
        [(Level.OK, "1 standbys, of which this user may not see the state")],
    ),
    ("three nodes of Galera", a_galera(), [(Level.OK, "3 nodes of Galera, this one is Synced")]),
    ("two nodes of Galera", a_galera(size=2), [(Level.WARN, "2 nodes of Galera")]),
    ("a node of Galera in a minority", a_galera(size=1, status="non-Primary"), [(Level.FAIL, "that is non-Primary")]),
    ("a node of Galera that joins", a_galera(state="Joined"), [(Level.WARN, "this one is Joined")]),
    ("a slow node of Galera", a_galera(paused=0.4), [(Level.WARN, "waits for its slowest node 40% of the time")]),
]


@pytest.mark.parametrize(
    ("replication", "expected"), [case[1:] for case in REPLICATIONS], ids=[case[0] for case in REPLICATIONS]
)
def test_copies_of_the_database(replication: dict[str, Any] | None, expected: list[tuple[Level, str]]) -> None:
    """Standbys that are missing or late, and nodes of Galera that are too few or out of step, are named."""
    found = of_daemons(HealthyFleet(examine=answer_of_conductor(replication=replication)))
    copies = [each for each in found if each.check == "replication"]
    assert [level for level, _text in expected] == [each.level for each in copies]
    assert [] == [text for (_level, text), each in zip(expected, copies, strict=True) if text not in each.found]
    assert all(each.fix for each in copies if each.level)


NODES: list[tuple[str, list[Node], list[tuple[Level, str]]]] = [
    ("one", [Node("mq1:5672", "east")], []),
    (
        "all are there",
        [Node("mq1:5672", "east"), Node("mq2:5672", "east")],
        [(Level.OK, "all 2 nodes accept connections")],
    ),
    (
        "one is away",
        [Node("mq1:5672", "east"), Node("mq2:5672", problem="Connection refused")],
        [(Level.WARN, "1 of 2 nodes accept no connection: mq2:5672 (Connection refused)")],
    ),
    (
        "they were never joined",
        [Node("mq1:5672", "east"), Node("mq2:5672", "west")],
        [(Level.OK, "all 2"), (Level.FAIL, "the nodes of transport_url are of different clusters: east, west")],
    ),
]


@pytest.mark.parametrize(("nodes", "expected"), [case[1:] for case in NODES], ids=[case[0] for case in NODES])
def test_nodes_of_the_broker(nodes: list[Node], expected: list[tuple[Level, str]]) -> None:
    """Each node of ``transport_url`` is tried: a daemon may be connected to any of them."""
    found = examination.broker(HealthyFleet(broker_nodes=nodes))  # type: ignore[arg-type]
    about = [each for each in found if each.check == "broker"][1:]
    assert [level for level, _text in expected] == [each.level for each in about]
    assert [] == [text for (_level, text), each in zip(expected, about, strict=True) if text not in each.found]
