# SPDX-License-Identifier: Apache-2.0
"""A build goes once round on real parts."""

from __future__ import annotations

import json

import pytest

from fleet import errors
from fleet.context import new_context
from tests.amqp.daemons import Trio, eventually
from tests.amqp.invariants import come_to_rest


def test_boot(trio: Trio) -> None:
    """Request to ACTIVE, spread over the hosts; the ledger, the agents and the drivers agree.

    A success on each host first: the scheduler avoids hosts on which builds of other tests have failed.
    """
    hosts = [each["host"] for each in trio.operator("list_hosts")]
    first = [uuid for host in hosts for uuid in trio.boot(availability_zone=f"nova:{host}")]
    assert set(trio.wait_for(first, "active", "error").values()) == {"active"}
    trio.terminate(first)
    eventually(lambda: not trio.operator("list_instances"))
    uuids = trio.boot(name="web", count=6)
    assert set(trio.wait_for(uuids, "active", "error").values()) == {"active"}
    assert set(hosts) == {trio.show(uuid)["instance"]["host"] for uuid in uuids}
    come_to_rest(trio)


def test_boot_from_the_command_line(trio: Trio) -> None:
    """``fleet boot --wait`` ends when the instance is ACTIVE, and prints it."""
    trio.operator("create_flavor", flavor={"name": "cli.small", "vcpus": 1, "memory_mb": 256})
    done = trio.cli("boot", "--flavor", "cli.small", "--wait", "-f", "json", "one")
    assert done.returncode == 0, done.stderr
    (booted,) = json.loads(done.stdout)
    assert trio.state(booted["uuid"]) == "active"


def test_a_refused_claim_is_retried_on_the_alternate(trio: Trio) -> None:
    """The chosen hosts refuse; the build lands on one that does not, and the refusals are on record."""
    (uuid,) = trio.boot(scheduler_hints={"refusing": ["a1", "a2"]}, ignore_hosts=["a3", "b1", "b2"])

    assert trio.wait_for([uuid], "active", "error")[uuid] == "active"

    shown = trio.show(uuid)
    assert shown["instance"]["host"] == "b3"
    refused = [each for each in shown["events"] if each["result"] == "ComputeResourcesUnavailable"]
    assert shown["instance"]["attempt"] == 1
    assert {each["event"] for each in refused} <= {"hand-back"}
    assert all("Free CPUs 0.00 VCPUs < requested 1 VCPUs" in each["message"] for each in refused)
    come_to_rest(trio)


def test_every_attempt_is_listed_when_all_hosts_refuse(trio: Trio) -> None:
    """After scheduler_max_attempts hosts the build is in ERROR with each of them."""
    hosts = sorted(host["host"] for host in trio.operator("list_hosts"))
    (uuid,) = trio.boot(scheduler_hints={"refusing": hosts})
    assert trio.wait_for([uuid], "active", "error")[uuid] == "error"
    (fault,) = trio.show(uuid)["faults"]
    assert fault["error"] == "MaxRetriesExceeded"
    assert len({each["host"] for each in fault["details"]["attempts"]}) == 3
    come_to_rest(trio)


def test_no_valid_host(trio: Trio) -> None:
    """An impossible request ends in ERROR; the fault and the command line show how many each filter kept."""
    (uuid,) = trio.boot(flavor={"vcpus": 1, "memory_mb": 10**6}, name="huge")
    assert trio.wait_for([uuid], "active", "error")[uuid] == "error"
    (fault,) = trio.show(uuid)["faults"]
    assert fault["error"] == "NoValidHost"
    assert {"name": "RamFilter", "start": 6, "end": 0} in fault["details"]["filters"]
    shown = trio.cli("server", "show", uuid)
    assert "RamFilter" in shown.stdout


def test_a_users_filter_works_as_it_stands(trio: Trio) -> None:
    """The plugin's hint places the instance; an impossible hint leaves the filter's line with the request id."""
    (there,) = trio.boot(scheduler_hints={"requested_host": "b2"})
    (nowhere,) = trio.boot(scheduler_hints={"requested_host": "nosuch"})
    trio.wait_for([there, nowhere], "active", "error")

    assert trio.show(there)["instance"]["host"] == "b2"
    request_id = trio.show(nowhere)["instance"]["request_id"]
    lines = [
        line for line in trio.log("scheduler").splitlines() if "Filter SpecifiedHostFilter returned 0 hosts" in line
    ]
    assert any(request_id in line for line in lines)
    assert "SpecifiedHostFilter is initialized!" in trio.log("scheduler")


def test_terminate_in_the_middle_of_a_build(trio: Trio) -> None:
    """Whatever step the builds were in, all are gone in the end and nothing is held."""
    uuids = trio.boot(count=12)
    trio.terminate(uuids)
    eventually(lambda: not trio.operator("list_instances"))
    come_to_rest(trio)
    assert {trio.state(uuid) for uuid in uuids} == {"deleted"}


def test_a_bad_request_is_a_typed_error(trio: Trio) -> None:
    """The client gets our error class with the field; the conductor's log has no traceback."""
    with pytest.raises(errors.InvalidInput) as caught:
        trio.boot(flavor={"vcpus": 1, "memory_mb": -5})
    assert caught.value.field == "request.flavor.memory_mb"
    with pytest.raises(errors.InvalidInput) as caught:
        trio.scheduler.select_destinations(new_context(), {"num_instances": "many"}, {})
    assert caught.value.field.startswith("request_spec.")
    assert "Traceback (most" not in trio.log("conductor")
    assert "Traceback (most" not in trio.log("scheduler")


def test_the_rpc_answers_as_nova_asks(trio: Trio) -> None:
    """``select_destinations`` called by hand: one dict per instance with host, nodename, limits and alternates."""
    flavor = {"vcpus": 1, "memory_mb": 128, "root_gb": 0}
    answer = trio.scheduler.select_destinations(new_context(), {"num_instances": 2, "instance_type": flavor}, {})
    assert len(answer) == 2
    for each in answer:
        assert {"host", "nodename", "limits", "alternates", "decision"} <= each.keys()
        assert each["limits"]["memory_mb"] == 32768 * 1.5 - 512 * 0.5
        assert each["alternates"]
    with pytest.raises(errors.NoValidHost) as caught:
        trio.scheduler.select_destinations(
            new_context(), {"num_instances": 1, "instance_type": {**flavor, "memory_mb": 10**7}}, {}
        )
    assert caught.value.details["considered"] == 6
