# SPDX-License-Identifier: Apache-2.0
"""The calls that commands make to the conductor, and the output that they print."""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from fleet import errors, states
from fleet.client import connection, faults, following
from fleet.client.calls import Unreachable
from fleet_cli.base import build_arguments
from fleet_cli.planning import explain
from fleet_cli.servers import servers
from tests.clock import Time
from tests.unit.cli import fakes


def test_drain_disables_the_host_with_the_reason(run) -> None:
    """And says how many instances stay."""
    conductor = fakes.Conductor()
    conductor.create({"name": "web"})
    conductor.answers["list_migrations"] = []
    status, printed, _ = run(conductor, "host", "drain", "host1", "--reason", "new fan")
    assert 0 == status
    expected = {"host": "host1", "binary": "fleet-compute", "disabled": True, "reason": "new fan"}
    assert ("update_service", expected) == conductor.calls[0]
    undo = "To let it take builds again: fleet host enable host1"
    assert ["host1 is disabled: new fan", "host1 is idle; 1 instances stay on it", undo] == printed.splitlines()


@pytest.mark.parametrize("option", [["--cold"], ["--at-a-time", "2"]], ids="".join)
def test_an_option_of_moves_without_move(run, option: list[str]) -> None:
    """The host is not disabled: nothing would move."""
    conductor = fakes.Conductor()
    status, _, complaint = run(conductor, "host", "drain", "host1", *option)
    assert (1, f"{option[0]} needs --move\n", []) == (status, complaint, conductor.calls)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [pytest.param(states.ACTIVE, 0, id="all active"), pytest.param(states.ERROR, 1, id="refused")],
)
def test_boot_wait(run, outcome: str, status: int) -> None:
    """With --wait the exit status says whether every build became active."""
    conductor = fakes.Conductor(lambda request: outcome)
    found, printed, _ = run(conductor, "boot", "web", "--flavor", "small", "--count", "2", "--wait", "-f", "json")
    rows = json.loads(printed)
    assert status == found
    assert [outcome.upper()] * 2 == [row["status"] for row in rows]
    assert [None if outcome == states.ACTIVE else fakes.FAULT["message"]] * 2 == [row["fault"] for row in rows]


def test_boot_request(run) -> None:
    """Every option of boot arrives in its field of the request."""
    conductor = fakes.Conductor()
    run(conductor, "boot", "web", "--flavor", "vcpus=2,memory_mb=512", "--hint", "same_host=a", "--hint", "same_host=b",
        "--hint", "k=v=w", "--availability-zone", "z:h", "--group", "g", "--image-property", "p=q")  # fmt: skip
    assert [
        {
            "name": "web",
            "flavor": {"vcpus": 2, "memory_mb": 512},
            "count": 1,
            "availability_zone": "z:h",
            "scheduler_hints": {"same_host": ["a", "b"], "k": "v=w"},
            "group": "g",
            "image": {"properties": {"p": "q"}},
            "networks": "auto",
        }
    ] == conductor.requests


def test_boot_says_all_that_the_call_takes(run) -> None:
    """Image, ignored hosts, metadata, one attempt, and for whom the instances are."""
    conductor = fakes.Conductor()
    conductor.answers["list_hosts"] = [{"host": "h1"}, {"host": "h2"}]
    run(conductor, "boot", "web", "--flavor", "small", "--image", "id=cirros,min_disk=1,size=100", "--ignore-host", "h1",
        "--ignore-host", "h2", "--metadata", "owner=me", "--no-retry", "--max-count", "3", "--min-count", "2",
        "--project", "p1", "--user", "u1", "--wait-for-capacity", "2h")  # fmt: skip
    (asked,) = conductor.requests
    assert 7200 == asked["wait_for_capacity_s"]
    assert {"id": "cirros", "min_disk": 1, "size": 100, "properties": {}} == asked["image"]
    assert (["h1", "h2"], {"owner": "me"}, 1) == (asked["ignore_hosts"], asked["metadata"], asked["max_attempts"])
    assert (3, 2) == (asked["count"], asked["min_count"])
    assert ("p1", "u1") == conductor.acts_for


@pytest.mark.parametrize("command", ["boot web", "explain", "capacity"])
def test_a_host_to_ignore_must_exist(run, command: str) -> None:
    """A misspelt name would be ignored without a word, and the instances could go to the host that was meant."""
    conductor = fakes.Conductor()
    conductor.answers["list_hosts"] = [{"host": "h1"}]
    argv = [*command.split(), "--flavor", "small", "--ignore-host", "h1", "--ignore-host", "nope"]
    status, _, complaint = run(conductor, *argv)
    assert (1, "--ignore-host nope: no such host; 'fleet host list' names the hosts\n") == (status, complaint)
    assert [] == conductor.requests


def test_a_fault_of_many_instances_is_told_once(run) -> None:
    """With the number of instances; programs get it with each of them."""
    conductor = fakes.Conductor(lambda request: states.ERROR)
    argv = ["boot", "web", "--flavor", "small", "--count", "41", "--wait"]
    printed = run(conductor, *argv)[1]
    assert 1 == printed.count("No valid host was found. Full.")
    assert "\n(1) 41 instances: No valid host was found. Full.\n" in printed
    assert 41 == printed.count("| (1)")
    assert ["No valid host was found. Full."] * 41 == [
        each["fault"] for each in json.loads(run(conductor, *argv, "-f", "json")[1])
    ]
    assert "(1)" not in run(conductor, "boot", "web", "--flavor", "small", "--wait")[1]


def test_a_long_fault_stands_below_the_table(run) -> None:
    """A failure that several attempts had is told once, with their hosts; programs get the message as it is."""
    conductor = fakes.Conductor(lambda request: states.ERROR)
    tried = [
        {"host": f"h{number}", "step": "spawn", "reason": f"The guest on h{number} did not start"} for number in (2, 1)
    ]
    tried.append({"host": "h3", "step": "claim", "reason": "Insufficient compute resources: h3 is full."})
    message = "Exceeded maximum number of retries. " + "; ".join(each["reason"] for each in tried)
    conductor.fault = {**fakes.FAULT, "message": message, "details": {"attempts": tried}}
    argv = ["boot", "web", "--flavor", "small", "--wait"]
    printed = run(conductor, *argv)[1]
    assert max(map(len, printed.splitlines())) <= 80
    told = (
        "(1) 3 attempts failed. h1, h2 in step spawn: The guest on HOST did not start; h3 in step claim: Insufficient "
        "compute resources: h3 is full."
    )
    assert told == " ".join(printed[printed.index("\n(1)") :].split())
    (row,) = json.loads(run(conductor, *argv, "-f", "json")[1])
    assert message == row["fault"]


@pytest.mark.parametrize(
    "argv", [["create", "a=b", "--vcpus", "1", "--memory-mb", "512"], ["set", "small", "--name", "a=b"]]
)
def test_the_name_of_a_flavor_has_no_equals_sign(run, capsys: pytest.CaptureFixture, argv: list[str]) -> None:
    """``--flavor a=b`` would be read as sizes."""
    conductor = fakes.Conductor()
    with pytest.raises(SystemExit):
        run(conductor, "flavor", *argv)
    assert "must not have '=', got 'a=b'" in capsys.readouterr().err
    assert [] == conductor.calls


def test_what_an_image_has_not_is_refused() -> None:
    """The message names what it has."""
    with pytest.raises(argparse.ArgumentTypeError, match="disk: an image has only id, name"):
        build_arguments.image("disk=1")


def test_boot_prints_warnings(run) -> None:
    """What the conductor ignores is told on standard error, and the rest goes on."""
    conductor = fakes.Conductor()
    conductor.warnings = ["request.config_drive is ignored: fleet makes no config drive"]
    status, _printed, complaint = run(conductor, "boot", "web", "--flavor", "small")
    assert 0 == status
    assert "Warning: request.config_drive is ignored" in complaint


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("cpus=2", "cpus: a flavor has only", id="no such size"),
        pytest.param("vcpus=1,vcpus=2", "names a size twice", id="twice"),
        pytest.param("vcpus=two", "must be a whole number from 0, got 'two'", id="not a number"),
    ],
)
def test_bad_inline_flavor(text: str, complaint: str) -> None:
    """A wrong size is named."""
    with pytest.raises(argparse.ArgumentTypeError, match=complaint):
        build_arguments.flavor(text)


def test_show_explains_a_failed_build(run) -> None:
    """The fault is shown with the hosts that every filter saw and kept."""
    conductor = fakes.Conductor(lambda request: states.ERROR)
    uuid = conductor.create({"name": "huge"})["instances"][0]["uuid"]
    _, printed, _ = run(conductor, "server", "show", uuid)
    assert "No valid host was found. Full." in printed
    assert "RetryFilter  5 -> 5" in printed
    assert "RamFilter    5 -> 0" in printed
    assert "CAPACITY: No valid host was found. Full. (NoValidHost, code 500)" in printed
    assert "h1 lacks 10 MB of RAM: limit 100, used 90, asked 20" in printed
    assert "STALE: the database could not be read; state of the hosts: 12.0 s old, generation 7" in printed


def test_show_says_for_what_a_build_waits() -> None:
    """For its silent host, or for room; a build that goes on has no such field."""
    queued = {"reason": "CAPACITY", "message": "full", "queued_at": "2026-01-01T00:00:00", "lacks": None}
    shown = {"waits_for": "CAPACITY: full", "waits_since": "2026-01-01T00:00:00"}
    assert [{"waits_for": "host h1"}, shown, {}] == [
        servers.waiting(None, "host h1"),
        servers.waiting(queued),
        servers.waiting(None),
    ]


@pytest.mark.parametrize(
    ("argv", "asked_by"),
    [
        pytest.param(["web"], "request_of", id="an instance"),
        pytest.param(["--flavor", "small", "--hint", "same_host=a"], "request_for", id="a request"),
    ],
)
def test_explain(run, argv: list[str], asked_by: str) -> None:
    """The conductor builds the request, the scheduler explains it, and tables show the answer."""
    conductor = fakes.Conductor()
    status, printed, _ = run(conductor, "explain", *argv, "--best", "3")
    assert 0 == status
    assert [asked_by, "explain"] == [method for method, _arguments in conductor.calls]
    assert ("explain", {"asked": {"request_spec": {"asked by": asked_by}, "filter_properties": {}}, "best": 3}) == (
        conductor.calls[1]
    )
    for line in (
        "RamFilter  2 -> 1",
        "h1:n1  weight 1.500",
        "RAMWeigher            raw 4194303  normalised 0.750  x 2  = 1.500",
        "4 vcpus, 1024 MB: 2 -> 1 fit, 25.0% of what is asked for",
        "0 of the scheduler's own 3 hosts passed; 1 instance(s) would go past them",
    ):
        assert line in printed


def test_explain_a_volume(run) -> None:
    """The request has cinder's form, with the volume type that the name stands for."""
    conductor = fakes.Conductor()
    conductor.answers["list_volume_types"] = [{"name": "fast", "extra_specs": {"ssd": "<is> True"}}]
    told = ["--volume", "10", "--volume-type", "fast", "--hint", "same_host=a", "--project", "p"]
    status, printed, _ = run(conductor, "explain", *told)
    assert 0 == status
    assert "RAMWeigher" in printed
    method, arguments = conductor.calls[-1]
    spec = arguments["asked"]["request_spec"]
    assert ("explain_volume", 10, "p") == (
        method,
        spec["volume_properties"]["size"],
        spec["volume_properties"]["project_id"],
    )
    assert {"ssd": "<is> True"} == spec["volume_type"]["extra_specs"]
    assert {"scheduler_hints": {"same_host": "a"}} == arguments["asked"]["filter_properties"]
    for wrong, expected in ((["web", *told], "use --volume"), ([*told, "--volume-type", "slow"], "no volume type")):
        status, _, complaint = run(conductor, "explain", *wrong)
        assert 1 == status
        assert expected in complaint


def test_explain_as_json(run) -> None:
    """Programs are given the answer as it is, what is absent as null."""
    _, printed, _ = run(fakes.Conductor(), "explain", "web", "-f", "json")
    assert fakes.EXPLANATION == json.loads(printed)


@pytest.mark.parametrize("argv", [[], ["web", "--flavor", "small"]])
def test_explain_what(run, argv: list[str]) -> None:
    """A server or a flavor, and not both."""
    status, _, complaint = run(fakes.Conductor(), "explain", *argv)
    assert 1 == status
    assert "name a server, or use --flavor" in complaint


@pytest.mark.parametrize(
    ("argv", "refusal"),
    [
        (["explain", "web", "--count", "3"], "--count needs --flavor"),
        (["explain", "web", "--availability-zone", "east"], "--availability-zone needs --flavor"),
        (["explain", "--flavor", "small", "--volume-type", "fast"], "--volume-type needs --volume"),
        (["explain", "--volume", "10", "--count", "3"], "--count needs --flavor"),
        (["explain", "--volume", "10", "--group", "web"], "--group needs --flavor"),
        (["explain", "--request", "req-1", "--hint", "a=b"], "name a request, or what is to be explained"),
        (["capacity", "--flavor", "small", "--volume-type", "fast"], "--volume-type needs --volume"),
        (["capacity", "--volume", "10", "--ignore-host", "host1"], "--ignore-host needs --flavor"),
    ],
)
def test_an_option_that_would_have_no_effect(run, argv: list[str], refusal: str) -> None:
    """The answer would be about another request than the command line has."""
    conductor = fakes.Conductor()
    status, _, complaint = run(conductor, *argv)
    assert (1, []) == (status, conductor.calls)
    assert complaint.startswith(refusal)


def test_capacity(run) -> None:
    """Numbers for people, with what is unlimited called so."""
    conductor = fakes.Conductor()
    _, printed, _ = run(conductor, "capacity", "--flavor", "small", "--group-by", "zone")
    assert "zone" == conductor.calls[-1][1]["group_by"]
    for line in (
        "h1:n1 takes one of 2.5 times the flavor, or 2 of it (RAM 2500, vcpus unlimited)",
        "RAM: 1000 of 6000 MB usable (17 %)",
        "vcpus: unlimited",
        "east: unlimited on 2 of 3 hosts, nothing binds first",
    ):
        assert line in printed


def test_a_pool_is_named_by_its_location() -> None:
    """As everywhere else, and as it can be given to other commands."""
    assert ("m1@disks#files", "h1:n1") == (
        *(explain.place({"host": host, "nodename": name}) for host, name in (("m1@disks", "files"), ("h1", "n1"))),
    )


def test_capacity_for_volumes(run) -> None:
    """The scheduler for volumes counts them; one kind of thing must be named."""
    conductor = fakes.Conductor()
    status, _, _ = run(conductor, "capacity", "--volume", "30", "--group-by", "zone")
    method, arguments = conductor.calls[-1]
    assert (0, "volume_capacity", "zone") == (status, method, arguments["group_by"])
    assert 30 == arguments["asked"]["request_spec"]["volume_properties"]["size"]
    status, _, complaint = run(conductor, "capacity")
    assert 1 == status
    assert "use --flavor, or --volume" in complaint


def test_capacity_as_json(run) -> None:
    """Programs are given the answer as it is."""
    _, printed, _ = run(fakes.Conductor(), "capacity", "--flavor", "small", "-f", "json")
    assert fakes.CAPACITY == json.loads(printed)


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        pytest.param(errors.NotFound(kind="Flavor", name="x"), "Flavor x could not be found.", id="a refusal"),
        pytest.param(
            oslo_messaging.MessagingTimeout(), "the conductor did not answer within 60 s; is it running?", id="nobody"
        ),
        pytest.param(
            oslo_messaging.MessageDeliveryFailure("no fleet is running at /x"), "no fleet is running at /x", id="no hub"
        ),
        pytest.param(
            oslo_messaging.RemoteError("KeyError", "'x'", []),
            "the conductor failed to answer (KeyError: 'x'); its log has the details",
            id="a bug",
        ),
    ],
)
def test_failures_are_one_plain_line(failure: Exception, line: str) -> None:
    """What a user can meet is told in words, without a traceback."""
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.IntOpt("rpc_response_timeout", default=60))
    with pytest.raises(connection.CommandFailed) as failed, connection.Connection(conf).plain_failures():
        raise failure
    assert line == str(failed.value)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param(fakes.FAULT, "NoValidHost: CAPACITY by RamFilter", id="the code and the filter that left no host"),
        pytest.param(
            {"error": "BuildTimeout", "details": {"reason_code": "MESSAGING"}},
            "BuildTimeout: MESSAGING",
            id="the code alone",
        ),
        pytest.param({"error": "MaxRetriesExceeded", "details": {}}, "MaxRetriesExceeded", id="no filter to blame"),
    ],
)
def test_reason(fault: dict, expected: str) -> None:
    """Faults are counted by what caused them."""
    assert expected == faults.reason(fault)


def test_following_gives_up_in_time() -> None:
    """Builds that have not ended at the timeout are returned; the others are reported as they end."""
    conductor = fakes.Conductor(lambda request: states.BUILDING if request["name"] == "slow" else states.ACTIVE)
    slow = conductor.create({"name": "slow"})["instances"][0]["uuid"]
    quick = conductor.create({"name": "quick"})["instances"][0]["uuid"]
    ended: list[str] = []
    late = following.follow(
        conductor,
        [slow, quick],
        timeout_s=5,
        on_end=lambda instance: ended.append(instance["uuid"]),
        clock=fakes.steps(0, 1, 1, 6),
        sleep=lambda seconds: None,
    )
    assert ([slow], [quick]) == (late, ended)


@pytest.mark.parametrize(
    "silence",
    [
        oslo_messaging.MessagingTimeout(),
        oslo_messaging.MessageDeliveryFailure(),
        Unreachable("http://127.0.0.1 cannot be reached"),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize(("timeout_s", "waited_s"), [(600, 120), (30, 30)])
def test_following_goes_on_over_restarts_of_the_conductor(
    silence: Exception, timeout_s: float, waited_s: float
) -> None:
    """A conductor that stays away ends it, after two minutes or when the time is over. A refusal ends it at once."""

    class Away(fakes.Conductor):
        answering = -1

        def ask(self, method: str, **arguments: Any) -> Any:
            self.answering += 1
            if self.answering % 3:
                raise silence
            return [{"uuid": "a", "vm_state": states.BUILDING if self.answering < 9 else states.ACTIVE}]

    class Gone(Away):
        def ask(self, method: str, **arguments: Any) -> Any:
            raise silence

    class Refusing(Away):
        def ask(self, method: str, **arguments: Any) -> Any:
            raise errors.NotFound(kind="Instance", name="a")

    def follow(conductor: fakes.Conductor, time: Time) -> list[str]:
        return following.follow(conductor, ["a"], timeout_s, ended.append, time, time.sleep)

    ended: list[Any] = []
    assert ([], 1) == (follow(Away(), Time()), len(ended))
    time = Time()
    with pytest.raises(type(silence)):
        follow(Gone(), time)
    assert waited_s == pytest.approx(time.now, abs=1)
    time = Time()
    with pytest.raises(errors.FleetError):
        follow(Refusing(), time)
    assert 0 == time.now


def test_an_instance_deleted_meanwhile_has_ended() -> None:
    """Somebody else's delete does not keep the command waiting."""
    ended: list[str] = []
    late = following.follow(fakes.Conductor(), ["gone"], 5, lambda instance: ended.append(instance["vm_state"]))
    assert ([], [states.DELETED]) == (late, ended)


def test_replay(run, tmp_path: pathlib.Path) -> None:
    """Every request is sent once; the summary counts what was placed and refused."""
    (tmp_path / "trace.txt").write_text("0 a,a,|,b,|,\n300 a,|,\n")
    (tmp_path / "flav_map.txt").write_text("1,2 a\n64,512 b\n")
    conductor = fakes.Conductor(lambda request: states.ERROR if request["flavor"]["vcpus"] == 64 else states.ACTIVE)
    status, printed, _ = run(conductor, "-q", "replay", str(tmp_path / "trace.txt"), "-f", "json")
    summary = json.loads(printed)
    assert 0 == status
    assert (3, 4, 3, 1) == tuple(summary[name] for name in ("requests", "instances", "placed", "refused"))
    assert {"NoValidHost: CAPACITY by RamFilter": 1} == summary["refused_by_reason"]
    assert "5 of 10 (50.0 %)" == summary["vcpus_used"]


def test_replay_with_lifetimes_deletes_in_time(run, tmp_path: pathlib.Path) -> None:
    """An instance whose time is over makes room before later requests are sent."""
    (tmp_path / "trace.txt").write_text("0 a,a,|,\n300 a,|,\n")
    (tmp_path / "flav_map.txt").write_text("1,2 a\n")
    (tmp_path / "lives.txt").write_text("0 U0,C0,|,\n300 C0,|,\n")
    (tmp_path / "v1.interval_map.txt").write_text("100 0\n")
    conductor = fakes.Conductor()
    lives = str(tmp_path / "lives.txt")
    status, _, complaint = run(conductor, "-q", "replay", str(tmp_path / "trace.txt"), "--lifetimes", lives)
    assert (0, "") == (status, complaint)
    assert 2 == len(conductor.instances)


def test_an_instance_shows_what_it_holds_of_cells_and_devices() -> None:
    """CPUs, pages and addresses for an operator; nothing for instances without any."""
    cell = {"id": 1, "cpuset": [0, 1], "memory": 512, "cpu_pinning": {"0": 9, "1": 4}, "pagesize": 2048}
    instance = {
        "claimed_numa_topology": {"cells": [cell]},
        "claimed_pci_devices": [{"address": "0000:01:00.0"}, {"address": "0000:01:00.1"}],
    }
    assert servers.hardware(instance) == {
        "numa_cells": "cell 1: 2 vcpus, 512 MB, CPUs 4,9, pages of 2048 KiB",
        "pci_devices": "0000:01:00.0, 0000:01:00.1",
    }
    assert servers.hardware({"claimed_numa_topology": None}) == {}


def test_boot_says_what_its_builds_wait_for(run) -> None:
    """Once, with the reason; then it goes on waiting."""
    conductor = fakes.Conductor()
    looks = iter([states.QUEUED, states.QUEUED, None])

    def listed(method: str, **arguments: Any) -> Any:
        found = fakes.Conductor.ask(conductor, method, **arguments)
        if method == "show_instance":
            queued = {"reason": "CAPACITY", "message": "All full.", "wait_until": "2026-11-22T12:00:00.000Z"}
            return {**found, "queued": queued}
        task = next(looks, None)
        return [{**each, "vm_state": states.BUILDING if task else states.ACTIVE, "task_state": task} for each in found]

    conductor.ask = listed  # type: ignore[method-assign]
    status, _, remarks = run(conductor, "boot", "web", "--flavor", "small", "--wait", "--wait-for-capacity", "1h")
    assert 0 == status
    assert 1 == remarks.count("web waits for room until 2026-11-22 12:00:00: CAPACITY: All full.")
