# SPDX-License-Identifier: Apache-2.0
"""``fleet maintenance``: what it shows, what it decides, and how it follows one."""

from __future__ import annotations

import json
from typing import Any

import oslo_messaging
import pytest

from fleet.client import connection
from fleet.objects.rebalance import Move
from fleet.objects.waves import Wave, WavesPlan
from fleet_cli.hosts import maintenance
from fleet_cli.planning import maintenance as planned
from fleet_cli.planning import planning
from tests.clock import Time
from tests.factories import PlacedInstance, changes, node, uuid
from tests.operator_calls import Asked
from tests.unit.cli import fakes

PLAN: dict[str, Any] = {
    "uuid": "6f1c1f0e-0000-4000-8000-000000000001",
    "name": "kernel",
    "status": "running",
    "paused": True,
    "hook": "reboot",
    "wanted_release": None,
    "cold": False,
    "moves_at_a_time": 4,
    "hosts": {"done": 1, "draining": 1, "waiting": 1},
    "wave": 2,
    "waves": 3,
    "created_at": "2026-01-01T00:00:00.000Z",
    "ended_at": None,
}
GOING = {**PLAN, "paused": False}


def host(name: str, wave: int, status: str, began: str | None, ended: str | None, problem: str | None = None) -> dict:
    times = {"began_at": began, "emptied_at": None, "worked_at": None, "ended_at": ended}
    return {"host": name, "wave": wave, "status": status, "attempt": 0, "problem": problem, **times}


HOSTS = [
    host("h1", 1, "done", "2026-01-01T00:00:00.000Z", "2026-01-01T00:10:00.000Z"),
    host("h2", 2, "draining", "2026-01-01T00:10:00.000Z", None, "web has 1 volume: data"),
    host("h3", 3, "waiting", None, None),
]


def test_a_list(run: Any) -> None:
    conductor = fakes.Conductor()
    conductor.answers["list_maintenances"] = [PLAN]
    status, printed, _said = run(
        conductor, "maintenance", "list", "-c", "name", "-c", "status", "-c", "wave", "-c", "hosts"
    )
    assert 0 == status
    assert "| kernel | running (paused) | 2 of 3 |" in printed


def test_one(run: Any) -> None:
    """It says what is waited for, the guests that are left, and how long the waves that are left may take."""
    conductor = fakes.Conductor()
    left_out = host("h4", 0, "skipped", None, "2026-01-01T00:00:00.000Z", "it is down")
    drained = {**HOSTS[1], "guests": {"left": 9, "total": 13, "moving": 4}}
    conductor.answers["show_maintenance"] = {"maintenance": GOING, "hosts": [left_out, HOSTS[0], drained, HOSTS[2]]}
    _status, printed, _said = run(conductor, "maintenance", "show", "kernel")
    assert "h2 draining (9 of 13 guests still there, 4 moving): web has 1 volume: data" in printed
    assert "h4: it is down" in printed
    shown = "maintenance", "hosts", "kernel", "-c", "host", "-c", "guests"
    _status, printed, _said = run(conductor, *shown)
    assert "| h2   | 9 of 13 guests still there, 4 moving |" in printed
    _status, printed, _said = run(conductor, *shown, "-f", "json")
    assert [None, None, {"left": 9, "total": 13, "moving": 4}, None] == [each["guests"] for each in json.loads(printed)]


def test_guests_of_which_none_has_left() -> None:
    """Nor does an older conductor count them."""
    counted: Any = [{"guests": {"left": number, "total": number, "moving": 0}} for number in (9, 1)]
    assert ["9 guests still there, 0 moving", "1 guest still there, 0 moving", ""] == [
        maintenance.guests_left(each) for each in (*counted, HOSTS[1])
    ]


@pytest.mark.parametrize(
    ("estimate", "left"),
    [
        pytest.param((1200, 600, 0), "about 0:20:00", id="two waves of ten minutes"),
        pytest.param(
            (600, 600, 700), "the wave takes longer than expected (0:10:00); those after it about 0:10:00", id="late"
        ),
        pytest.param((0, 600, 700), "the wave takes longer than expected (0:10:00)", id="late, and the last one"),
        pytest.param(None, "", id="not known"),
    ],
)
def test_the_time_that_is_left(run: Any, estimate: tuple[int, int, int] | None, left: str) -> None:
    """As the conductor estimates it."""
    conductor = fakes.Conductor()
    known = dict(zip(("left_s", "wave_s", "wave_gone_s"), estimate, strict=True)) if estimate else None
    conductor.answers["show_maintenance"] = {"maintenance": GOING, "hosts": HOSTS, "estimate": known}
    _status, printed, _said = run(conductor, "maintenance", "show", "kernel", "-f", "value", "-c", "left")
    assert f"{left}\n" == printed
    del conductor.answers["show_maintenance"]["estimate"]
    assert "\n" == run(conductor, "maintenance", "show", "kernel", "-f", "value", "-c", "left")[1]


def test_decisions(run: Any) -> None:
    conductor = fakes.Conductor()
    for line in ("pause kernel", "resume kernel", "skip kernel h2", "cancel kernel"):
        assert 0 == run(conductor, "maintenance", *line.split())[0]
    assert [
        ("pause_maintenance", {"name": "kernel", "paused": True}),
        ("pause_maintenance", {"name": "kernel", "paused": False}),
        ("skip_maintenance_host", {"name": "kernel", "host": "h2"}),
        ("cancel_maintenance", {"name": "kernel"}),
    ] == conductor.calls[-4:]


class Following(Asked):
    """Each look finds the next state."""

    def __init__(self, *states: dict[str, Any] | Exception) -> None:
        self.left = list(states)

    def ask(self, method: str, **arguments: Any) -> Any:
        found = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(found, Exception):
            raise found
        return found


def test_it_is_followed_to_its_end() -> None:
    """And no longer than asked; it goes on without the command."""
    going, over = (
        {"maintenance": PLAN, "hosts": HOSTS},
        {**PLAN, "status": "ended", "ended_at": "2026-01-01T01:00:00.000Z"},
    )
    told: list[tuple[int, int, str]] = []
    time = Time()
    left_out = host("h4", 0, "skipped", None, "2026-01-01T00:00:00.000Z", "it is down")
    going["hosts"] = [left_out, *HOSTS]
    ended = {"maintenance": over, "hosts": HOSTS}
    conductor = Following(going, going, ended)
    assert ended == maintenance.follow(conductor, "kernel", 60, lambda *now: told.append(now), time, time.sleep)  # type: ignore[arg-type]
    assert (1, 3, "h2 draining: web has 1 volume: data") == told[0]
    with pytest.raises(connection.CommandFailed, match="it goes on"):
        maintenance.follow(Following(going), "kernel", 60, lambda *now: None, time, time.sleep)  # type: ignore[arg-type]


def test_it_is_followed_without_end_over_reboots_of_conductors() -> None:
    """But the first question is not asked again: most likely there is no fleet."""
    lost = oslo_messaging.MessagingTimeout()
    going = {"maintenance": PLAN, "hosts": HOSTS}
    ended = {"maintenance": {**PLAN, "ended_at": "2026-01-01T01:00:00.000Z"}, "hosts": HOSTS}
    time, told = Time(), list[str]()
    looks = Following(*[going] * 1000, lost, ended)
    assert ended == maintenance.follow(looks, "kernel", None, lambda *now: told.append(now[2]), time, time.sleep)  # type: ignore[arg-type]
    assert (1002, "no conductor answers") == (len(told), told[1000])
    with pytest.raises(oslo_messaging.MessagingTimeout):
        maintenance.follow(Following(lost), "kernel", None, lambda *now: None, time, time.sleep)  # type: ignore[arg-type]


def test_it_is_not_followed_where_it_does_not_go_on() -> None:
    """Only hosts are left that have failed: an operator decides."""
    stuck = host("h2", 2, "failed", "2026-01-01T00:10:00.000Z", None, "the hook failed: exit status 3")
    left = {"maintenance": PLAN, "hosts": [HOSTS[0], stuck, HOSTS[2]]}
    said = "h2 failed: the hook failed: exit status 3. 'fleet maintenance resume \"my kernel\"'".replace('"', "'")
    with pytest.raises(connection.CommandFailed, match=said):
        maintenance.follow(Following(left), "my kernel", 60, lambda *now: None, Time(), Time().sleep)  # type: ignore[arg-type]


KNOWN: Any = [{"host": name, "labels": {"rack": name[-1]}} for name in ("h1", "h2", "h3")]
AGGREGATES: Any = [
    {"name": "web", "uuid": "u-web", "hosts": ["h2", "gone"]},
    {"name": "a=b", "uuid": "u-equal", "hosts": ["h3"]},
    {"name": "h1", "uuid": "u-host", "hosts": ["h3"]},
    {"name": "empty", "uuid": "u-empty", "hosts": []},
]


@pytest.mark.parametrize(
    ("wanted", "hosts"),
    [
        (["web"], ["h2"]),
        (["a=b"], ["h3"]),
        (["rack=3", "web"], ["h3", "h2"]),
        (["h3, h2 ", "h2"], ["h3", "h2"]),
        (["h1,"], ["h1"]),
        (["u-host"], ["h3"]),
    ],
    ids=str,
)
def test_hosts_are_named(wanted: list[str], hosts: list[str]) -> None:
    """By an aggregate, also one whose name looks like a label, by a label, and by their names."""
    assert hosts == planned.hosts_named(wanted, KNOWN, AGGREGATES)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("h1", "h1 is a host and an aggregate: 'h1,' is the host, its uuid is the aggregate"),
        ("empty", "no host is in the aggregate empty"),
        ("rack=9", "there is no host, aggregate or label rack=9"),
        ("h2,nobody", "there is no host, aggregate or label nobody"),
        (",", "there is no host, aggregate or label ,"),
    ],
)
def test_a_wrong_name_of_hosts(wanted: str, why: str) -> None:
    with pytest.raises(connection.CommandFailed) as refused:
        planned.hosts_named([wanted], KNOWN, AGGREGATES)
    assert f"--hosts: {why}" == str(refused.value)


@pytest.mark.parametrize(
    ("stuck", "status"), [({}, 0), ({"h9": "instance x is paused (no task)"}, 1)], ids=["all", "some"]
)
def test_hosts_that_are_left_out_are_no_good_end(
    run: Any, monkeypatch: pytest.MonkeyPatch, stuck: dict[str, str], status: int
) -> None:
    """Of one that is waited for."""
    plan = WavesPlan([Wave(["h1"], [])], stuck, 0, 1)
    monkeypatch.setattr(planned.RunMaintenance, "planned", lambda *_arguments: (plan, {}))
    conductor = fakes.Conductor()
    ended = {
        **PLAN,
        "status": "ended",
        "hosts": {"done": 1, "skipped": len(stuck)},
        "ended_at": "2026-01-01T01:00:00.000Z",
    }
    conductor.answers.update(create_maintenance=ended, show_maintenance={"maintenance": ended, "hosts": HOSTS[:1]})
    ran, _printed, said = run(conductor, "maintenance", "run", "--hosts", "h1", "--wait", "--name", "kernel 6")
    assert (status, bool(stuck)) == (ran, "kernel 6 is ended; 1 host was left out" in said)
    assert "kernel 6 has begun: 'fleet maintenance show 'kernel 6''" in said
    assert [stuck] == [given["left_out"] for name, given in conductor.calls if name == "create_maintenance"]
    counted = "1 of 2 hosts" if stuck else "1 host"
    assert f"{counted} in 1 wave (no plan for them has fewer than 1); 0 moves" in said


def test_all_hosts_that_are_left_out_are_named(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if no host can be emptied."""
    stuck = {f"h{number}": "is down" for number in range(12)}
    monkeypatch.setattr(planned.PlanMaintenance, "planned", lambda *_arguments: (WavesPlan([], stuck, 0, 0), {}))
    _status, _printed, said = run(fakes.Conductor(), "maintenance", "plan", "--hosts", "h1")
    assert 12 == said.count("is left out: is down")
    assert "0 of 12 hosts in 0 waves; 0 moves" in said


def test_the_moves_of_a_plan(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each guest with its hosts and its way, and whole uuids for programs."""
    moves = [Move(uuid(1), "h1", "h2", 1, 2048, 10, "empty h1"), Move(uuid(2), "h1", "h3", 1, 1024, 0, "empty h1")]
    found = WavesPlan([Wave(["h1"], moves)], {}, 2, 1)
    monkeypatch.setattr(planned.PlanMaintenance, "planned", lambda *_arguments: (found, {uuid(2): "is paused"}))
    _status, printed, _said = run(fakes.Conductor(), "maintenance", "plan", "--hosts", "h1", "--moves", "-f", "json")
    first, second = json.loads(printed)
    shared = {"wave": 1, "from": "h1"}
    assert {**shared, "instance": uuid(1), "to": "h2", "memory_mb": 2048, "disk_gb": 10, "way": "live"} == first
    assert (uuid(2), "h3", "cold") == (second["instance"], second["to"], second["way"])


def test_a_plan_leaves_hosts_of_other_maintenances_out(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """h2 waits in one that has not ended; h1 and h3 have ended there. A guest at rest is not asked whether it can move."""
    resting, running = (PlacedInstance(uuid(n), "h1", vm_state=state) for n, state in ((1, "stopped"), (2, "active")))
    nodes = [node(each["host"], vcpus=8) for each in KNOWN]
    monkeypatch.setattr(planning, "state", lambda *_arguments: changes(nodes, instances=[resting, running]))
    monkeypatch.setattr(planning, "promised", lambda *_arguments: ())
    conductor = fakes.Conductor()
    other = [
        {**each, "host": name, "ended_at": ended}
        for each, name, ended in zip(HOSTS, ("h1", "h2", "h3"), ("x", None, "x"), strict=True)
    ]
    conductor.answers.update(
        list_hosts=KNOWN,
        list_aggregates=[],
        list_maintenances=[PLAN, {**PLAN, "name": "former", "ended_at": "2026-01-01T00:00:00.000Z"}],
        show_maintenance={"maintenance": PLAN, "hosts": other},
        requests_of=[],
        live_obstacles={},
    )
    status, printed, said = run(conductor, "maintenance", "plan", "--hosts", "h2,h3,h1", "-f", "value", "-c", "host")
    assert (0, "h1\nh3\n") == (status, printed), said
    assert "planned" in said
    assert "2 of 3 hosts" in said
    assert "h2 is left out: is in the maintenance kernel" in said
    assert [{"uuids": [running.uuid]}] == [given for name, given in conductor.calls if name == "live_obstacles"]
