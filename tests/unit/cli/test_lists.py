# SPDX-License-Identifier: Apache-2.0
"""What lists show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet_cli.base import listing
from tests.unit.cli import fakes


def a_host(name: str, driver: str = "local") -> dict[str, Any]:
    return {"host": name, "node": name, "state": "up", "status": "enabled", "hypervisor_type": driver}


def a_service(host: str, driver: str = "local") -> dict[str, Any]:
    return {"host": host, "binary": "fleet-compute", "state": "up", "status": "enabled", "driver": driver}


@pytest.mark.parametrize(
    ("argv", "method", "records"),
    [
        pytest.param(["host", "list"], "list_hosts", [a_host("h1"), a_host("h2", "fake")], id="hosts"),
        pytest.param(["service", "list"], "list_services", [a_service("h1"), a_service("h2", "fake")], id="services"),
    ],
)
def test_invented_hosts_are_named(run, argv: list[str], method: str, records: list[dict[str, Any]]) -> None:
    """The driver is in the table, and a remark beside it says what that means."""
    conductor = fakes.Conductor()
    conductor.answers[method] = records
    status, printed, remarks = run(conductor, *argv)
    assert 0 == status
    assert "fake" in next(line for line in printed.splitlines() if "h2" in line)
    assert "1 of 2 hosts are SIMULATED (driver fake): no instance really runs there." in remarks
    conductor.answers[method] = records[:1]
    assert "" == run(conductor, *argv)[2]


UUIDS = ("f6f3a5f1-b666-423b-8fb6-e9ee72b07272", "f6f3a5f1-1522-4bb5-be7b-1947efb5245d", "0d5a0314" + "-a" * 14)
WHEN = "2026-11-22T07:54:44.099Z"


def an_instance(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "uuid": UUIDS[number],
        "name": f"web-frontend-{number}",
        "vm_state": "active",
        "task_state": "resize_prep",
        "host": "compute-017",
        "node": "compute-017",
        "flavor": {"name": "m1.xlarge"},
        "attempt": 1,
        "created_at": WHEN,
        **changed,
    }


def full_host(number: int) -> dict[str, Any]:
    sizes = {"vcpus": 128, "vcpus_used": 100, "memory_mb": 524288, "memory_mb_used": 400000}
    disk = {"local_gb": 4000, "local_gb_used": 3999, "running_vms": 120}
    return {**a_host(f"compute-{number:03}"), "status": "disabled", "zone": "east-1", **sizes, **disk}


def a_daemon(number: int, **changed: Any) -> dict[str, Any]:
    state = {
        "state": "down",
        "status": "disabled",
        "disabled_reason": "AUTO: 10 builds have failed one after the other",
    }
    return {**a_service(f"compute-{number:03}"), **state, "last_seen_up": WHEN, "pid": 77, **changed}


def a_move(number: int) -> dict[str, Any]:
    hosts = {"source_compute": "compute-017", "dest_compute": "compute-018"}
    failure = {"message": "No valid host was found. There are not enough hosts available."}
    return {
        "uuid": UUIDS[number],
        "instance_uuid": UUIDS[2],
        "migration_type": "evacuation",
        "status": "post-migrating",
        **hosts,
        "created_at": WHEN,
        "failure": failure,
    }


LISTS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "server list": ("list_instances", [an_instance(0), an_instance(1)]),
    "host list": ("list_hosts", [full_host(1), full_host(2)]),
    "service list": ("list_services", [a_daemon(1), a_daemon(2)]),
    "flavor list": (
        "list_flavors",
        [{"name": "m1.xlarge", "vcpus": 16, "memory_mb": 65536, "root_gb": 160, "ephemeral_gb": 0, "swap": 0,
          "extra_specs": {"hw:cpu_policy": "dedicated"}}],
    ),
    "aggregate list": (
        "list_aggregates",
        [{"name": "racks", "uuid": UUIDS[0], "hosts": [f"compute-{n:03}" for n in range(40)],
          "metadata": {"availability_zone": "east-1", "ssd": "true"}}],
    ),
    "group list": (
        "list_groups",
        [{"name": "web", "uuid": UUIDS[0], "policy": "anti-affinity", "max_server_per_host": 1, "members": list(UUIDS),
          "project_id": None, "hosts": ["compute-001", "compute-002"]}],
    ),
    "migration list": ("list_migrations", [a_move(0), a_move(1)]),
}  # fmt: skip


def test_amounts_of_large_hosts_and_fleets_have_all_their_digits(run) -> None:
    """Of hosts on shared storage, and of their sum."""
    conductor = fakes.Conductor()
    large = {**full_host(1), "local_gb": 200_001, "local_gb_used": 123_457, "labels": {"room": "x"}}
    conductor.answers["list_hosts"] = [large, {**large, "host": "compute-002", "node": "compute-002"}]
    assert "123457/200001" in run(conductor, "host", "list", "--max-width", "120")[1]
    assert "246914/400002" in run(conductor, "host", "list", "--tree", "room", "--max-width", "120")[1]


def test_programs_may_ask_for_the_columns_that_people_see(run) -> None:
    conductor = fakes.Conductor()
    conductor.answers["list_hosts"] = [{**full_host(1), "local_gb": 400, "local_gb_used": 50}]
    _status, printed, _said = run(
        conductor, "host", "list", *("-f", "value"), *("-c", "host"), *("-c", "vms"), *("-c", "local_gb_used")
    )
    assert ["compute-001", "50", "120"] == printed.split()


def a_waiter(place: int) -> dict[str, Any]:
    times = {"queued_at": "2026-11-22T10:00:00.000Z", "wait_until": "2026-11-23T12:00:00.000Z"}
    lacks = "12 vcpus, 49152 MB of memory, 400 GB of disk"
    known = {"name": "database-primary", "project_id": "accounting", "flavor": "m1.xlarge", "reason": "HOSTS_DOWN"}
    message = "There are not enough hosts available: 40 of 40 hosts that the request allows are disabled or down."
    return {
        "place": place,
        "uuid": UUIDS[place],
        **known,
        "lacks": lacks,
        "message": message,
        **times,
        "kept_host": None,
    }


def test_the_queue_fits_80_columns(run) -> None:
    """As a table, with durations; for programs everything is there."""
    conductor = fakes.Conductor()
    conductor.answers["list_queue"] = {"now": "2026-11-22T12:05:00.000Z", "builds": [a_waiter(0), a_waiter(1)]}
    status, printed, _ = run(conductor, "queue", "list")
    assert (0, []) == (status, wide(printed))
    assert "2 h 5 min" in printed
    whole = json.loads(run(conductor, "queue", "list", "--project", "accounting", "--limit", "5", "-f", "json")[1])
    assert a_waiter(0) == whole[0]
    assert ("list_queue", {"project_id": "accounting", "limit": 5}) == conductor.calls[-1]


def test_an_empty_queue(run) -> None:
    conductor = fakes.Conductor()
    conductor.answers["list_queue"] = {"now": "2026-11-22T12:05:00.000Z", "builds": []}
    assert (
        "There are no builds that wait for room of project p.\n" == run(conductor, "queue", "list", "--project", "p")[1]
    )


def wide(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if len(line) > 80]


@pytest.mark.parametrize("line", LISTS)
def test_a_list_fits_80_columns(run, line: str) -> None:
    """As a table; with --long and for programs everything is there."""
    conductor = fakes.Conductor()
    method, records = LISTS[line]
    conductor.answers[method] = records
    status, printed, _ = run(conductor, *line.split())
    assert (0, []) == (status, wide(printed))
    assert records[0].get("uuid", records[0].get("host", records[0].get("name")))[:8] in printed
    whole = json.loads(run(conductor, *line.split(), "-f", "json")[1])
    assert records[0].get("uuid") == whole[0].get("uuid")
    if "uuid" in records[0]:
        assert records[0]["uuid"] in run(conductor, *line.split(), "--long", "--max-width", "500")[1]


@pytest.mark.parametrize("line", LISTS)
def test_a_long_list_keeps_uuids_whole(run, line: str) -> None:
    """At any width: the table is rather too wide than a uuid in two lines."""
    conductor = fakes.Conductor()
    method, records = LISTS[line]
    conductor.answers[method] = records
    printed = run(conductor, *line.split(), "--long")[1]
    uuids = {each for each in UUIDS if each in json.dumps(LISTS[line][1])}
    assert uuids == {each for each in uuids if each in printed}


def test_instances_of_which_there_are_none(run) -> None:
    """The line names what was asked for: there may be others."""
    conductor = fakes.Conductor()
    argv = ["--status", "error", "--host", "h1", "--name", "web"]
    expected = "There are no instances with status ERROR on host h1 named web.\n"
    assert expected == run(conductor, "server", "list", *argv)[1]
    assert "There are no instances with status ERROR.\n" == run(conductor, "server", "list", *argv[:2])[1]


@pytest.mark.parametrize("line", LISTS)
def test_an_empty_list_says_so(run, line: str) -> None:
    """To people; to programs it is an empty list."""
    conductor = fakes.Conductor()
    conductor.answers[LISTS[line][0]] = []
    assert run(conductor, *line.split())[1].startswith("There are no ")
    assert [] == json.loads(run(conductor, *line.split(), "-f", "json")[1])


def test_short_uuids_differ(run) -> None:
    """They are as long as it takes to tell them apart."""
    conductor = fakes.Conductor()
    conductor.answers["list_instances"] = [an_instance(number) for number in range(3)]
    printed = run(conductor, "server", "list")[1]
    assert all(f"| {uuid[:10]} |" in printed for uuid in UUIDS)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        pytest.param({"state": "up"}, "up", id="up"),
        pytest.param({"state": "down"}, "silent", id="not heard of"),
        pytest.param({"state": "down", "last_seen_up": None}, "stopped", id="stopped"),
        pytest.param({"state": "down", "forced_down": True}, "forced down", id="forced down"),
    ],
)
def test_why_a_service_is_down(run, service: dict[str, Any], expected: str) -> None:
    """Silent, stopped and forced down are different states; whether the service is disabled is a column of its own."""
    conductor = fakes.Conductor()
    conductor.answers["list_services"] = [a_daemon(1, **service)]
    (shown,) = json.loads(run(conductor, "service", "list", "-f", "json")[1])
    assert (expected, "disabled") == (shown["state"], shown["status"])
    printed = run(conductor, "service", "list")[1]
    assert expected in printed
    assert ("since 2026" in printed) == (expected == "silent")


def test_one_time_format(run) -> None:
    """In all tables; programs are given times as they travel."""
    conductor = fakes.Conductor()
    conductor.answers["list_instances"] = [an_instance(0)]
    assert "2026-11-22 07:54:44 " in run(conductor, "server", "list", "-c", "created_at")[1]
    assert WHEN == run(conductor, "server", "list", "-c", "created_at", "-f", "value")[1].strip()


def test_the_instances_of_a_project(run) -> None:
    """Those that its quota counts; the project is a column of the long list."""
    conductor = fakes.Conductor()
    conductor.answers["list_instances"] = [an_instance(0, project_id="shop")]
    _, printed, _ = run(conductor, "server", "list", "--project", "shop", "-f", "json")
    assert [{"project_id": "shop"}] == [call["filters"] for call in conductor.sent("list_instances")]
    assert ["shop"] == [row["project_id"] for row in json.loads(printed)]
    conductor.answers["list_instances"] = []
    assert "There are no instances of project shop.\n" == run(conductor, "server", "list", "--project", "shop")[1]


def test_statuses_are_a_closed_set(run, capsys: pytest.CaptureFixture) -> None:
    """In any case of letters; what is not one of them is refused with the list."""
    conductor = fakes.Conductor()
    conductor.answers["list_instances"] = [an_instance(0), an_instance(1)]
    status, printed, _ = run(conductor, "server", "list", "--status", "active", "--limit", "1", "-f", "json")
    assert ("list_instances", {"filters": {"vm_state": "active"}, "limit": 1}) == conductor.calls[-1]
    assert (0, 1) == (status, len(json.loads(printed)))
    for line in ("server list --status GONE", "migration list --status gone"):
        with pytest.raises(SystemExit):
            run(conductor, *line.split())
        assert "invalid choice" in capsys.readouterr().err


def test_migrations_of_a_server_by_its_name(run) -> None:
    """The record is named by the uuid."""
    conductor = fakes.Conductor()
    conductor.answers.update(list_migrations=[a_move(0), a_move(1)], show_instance={"instance": {"uuid": UUIDS[2]}})
    _, printed, _ = run(conductor, "migration", "list", "--server", "web", "--limit", "1", "-f", "json")
    assert ("list_migrations", {"filters": {"instance_uuid": UUIDS[2]}, "limit": 1}) == conductor.calls[-1]
    assert [UUIDS[0]] == [each["uuid"] for each in json.loads(printed)]


def test_watch(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is shown anew until Ctrl-C, which is no failure."""
    pauses = iter([None, KeyboardInterrupt])

    def sleep(seconds: float) -> None:
        assert 5 == seconds
        if ends := next(pauses):
            raise ends

    monkeypatch.setattr(listing.List, "sleep", staticmethod(sleep))
    conductor = fakes.Conductor()
    conductor.answers["list_hosts"] = [full_host(1)]
    status, printed, _ = run(conductor, "host", "list", "--watch", "5")
    assert (0, 2) == (status, printed.count("compute-001"))


REASON = (
    "No valid host was found. There are not enough hosts available: no host that the request allows could take it even when "
    "empty (dropped by RamFilter 5). Nearest: host1 lacks 5087744 MB of RAM: limit 48896, used 1024, asked 5120000."
)


def an_event(event: str, **values: Any) -> dict[str, Any]:
    return {
        "instance_uuid": UUIDS[0],
        "created_at": WHEN,
        "event": event,
        "request_id": "req-1",
        "result": None,
        **values,
    }


def test_the_trace_of_a_failed_build_fits_a_screen(run) -> None:
    """It has at most 80 columns and 24 lines; a sentence that several lines share is printed once."""
    conductor = fakes.Conductor()
    refused = {"event": "attempt", "step": "claim", "result": "ComputeResourcesUnavailable"}
    conductor.answers["trace"] = {
        "instances": [{"uuid": UUIDS[0], "name": "web", "task_state": None}],
        "events": [
            an_event("create", result="success"),
            *(an_event(**refused, attempt=n, host=f"h{n}", message="Free memory 0 MB. Claim failed.") for n in (1, 2)),
            an_event("schedule", attempt=3, result="NoValidHost", message=REASON),
            an_event("fault", result="MaxRetriesExceeded", message=f"Exceeded maximum number of retries. {REASON}"),
        ],
    }
    _, printed, _ = run(conductor, "trace", "web")
    assert [] == wide(printed)
    assert 24 >= len(printed.splitlines())
    flat = " ".join(printed.split())
    for sentence in (
        "No valid host was found.",
        "dropped by RamFilter 5",
        "Claim failed.",
        "maximum number of retries.",
    ):
        assert 1 == flat.count(sentence), sentence
    assert "began 2026-11-22 07:54:44 UTC" in printed
    told = json.loads(run(conductor, "trace", "web", "-f", "json")[1])
    assert REASON == told[3]["message"]


@pytest.mark.parametrize(("name", "status"), [("f6", 1), ("f6f3", 0), ("web-frontend-0", 0), (UUIDS[0], 0)])
def test_a_short_prefix_deletes_nothing(run, name: str, status: int) -> None:
    """It may be a name that is misspelt."""
    conductor = fakes.Conductor()
    conductor.answers["show_instance"] = {"instance": an_instance(0)}
    conductor.instances[UUIDS[0]] = an_instance(0)
    assert status == run(conductor, "server", "delete", name)[0]
    assert (UUIDS[0] in conductor.instances) == bool(status)
