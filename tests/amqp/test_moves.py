# SPDX-License-Identifier: Apache-2.0
"""Moves on real daemons: resize and confirm or revert, live migrations, and an evacuation after kill -9 of an agent."""

from __future__ import annotations

import json

import pytest

from tests.amqp.daemons import Trio
from tests.amqp.invariants import come_to_rest

WAIT = ("--wait", "--timeout", "240")


def boot(trio: Trio, **request) -> tuple[str, str]:
    """One active instance: its uuid and its host."""
    (uuid,) = trio.boot(**request)
    assert trio.wait_for([uuid], "active", "error")[uuid] == "active"
    return uuid, trio.show(uuid)["instance"]["host"]


def fleet(trio: Trio, *arguments: str) -> str:
    done = trio.cli(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def settled(trio: Trio) -> None:
    come_to_rest(trio)


@pytest.mark.parametrize(
    ("decision", "memory_mb"),
    [pytest.param("confirm", 1024, id="confirmed"), pytest.param("revert", 512, id="reverted")],
)
def test_resize(trio: Trio, decision: str, memory_mb: int) -> None:
    """From the command line: RESIZED elsewhere, both hosts hold a flavor, and then the one that was decided for."""
    uuid, source = boot(trio)
    fleet(trio, "server", "resize", uuid, "--flavor", "vcpus=1,memory_mb=1024,root_gb=1", *WAIT)
    resized = trio.show(uuid)["instance"]
    assert ("resized", 1024) == (resized["vm_state"], resized["flavor"]["memory_mb"])
    assert source != resized["host"]
    settled(trio)

    fleet(trio, "server", "resize", decision, uuid, *WAIT)

    ended = trio.show(uuid)["instance"]
    expected = resized["host"] if decision == "confirm" else source
    assert ("active", expected, memory_mb) == (ended["vm_state"], ended["host"], ended["flavor"]["memory_mb"])
    settled(trio)


def test_evacuate(trio: Trio) -> None:
    """The agent of a host is killed: its instance is built elsewhere, and destroyed there when the agent is back."""
    uuid, source = boot(trio, scheduler_hints={"requested_host": "a1"})
    refused = trio.cli("server", "evacuate", uuid)
    assert "whose fleet-compute is up" in refused.stderr
    trio.kill("agent-a")
    try:
        fleet(trio, "service", "force-down", source)
        # The hint that named its host would keep it there.
        failed = trio.cli("server", "evacuate", uuid, "--wait", "--timeout", "60")
        assert failed.returncode == 1
        assert ("active", source) == (trio.state(uuid), trio.show(uuid)["instance"]["host"])
        free, _host = boot(trio, ignore_hosts=["a1", "a2", "a3"])
        assert "up" in trio.cli("server", "evacuate", free).stderr
    finally:
        fleet(trio, "service", "force-down", source, "--unset")
        trio.restart("agent-a")
    trio.wait_for_hosts(6)
    settled(trio)


@pytest.mark.parametrize("group", ["", "affinity"], ids=["each", "affinity"])
def test_evacuate_a_host(trio: Trio, group: str) -> None:
    """All that was on the killed host lives on others, a group together; the agent that comes back destroys the rest."""
    if group:
        trio.operator("create_group", name=group, policy=group)
    uuids = trio.boot(count=3, availability_zone="nova:a1", **({"group": group} if group else {}))
    trio.wait_for(uuids, "active")
    trio.kill("agent-a")
    try:
        fleet(trio, "service", "force-down", "a1")
        fleet(trio, "server", "evacuate", "--host", "a1", *WAIT)
        hosts = {trio.show(uuid)["instance"]["host"] for uuid in uuids}
        assert "a1" not in hosts
        assert 1 == len(hosts) or not group
    finally:
        fleet(trio, "service", "force-down", "a1", "--unset")
        trio.restart("agent-a")
    trio.wait_for_hosts(6)
    settled(trio)
    records = trio.operator("list_migrations", filters={"host": "a1", "migration_type": "evacuation"})
    assert {"completed"} == {each["status"] for each in records if each["instance_uuid"] in uuids}


def test_rebalance(trio: Trio) -> None:
    """Six hosts with an instance each: all instances fit on one. The plan changes nothing; the moves free five hosts."""
    fleet(trio, "server", "delete", "--all", "--yes")
    settled(trio)
    hosts = [each["host"] for each in trio.operator("list_hosts")]
    uuids = [uuid for host in hosts for uuid in trio.boot(availability_zone=f"nova:{host}")]
    trio.wait_for(uuids, "active")
    planned = json.loads(fleet(trio, "rebalance", "-f", "json"))
    assert len(hosts) - 1 == len({each["instance"] for each in planned} & set(uuids))
    assert set(hosts) == {trio.show(uuid)["instance"]["host"] for uuid in uuids}

    ran = trio.cli("rebalance", "--apply", "-f", "json")

    assert 0 == ran.returncode, ran.stderr
    assert f"{len(hosts) - 1} of {len(hosts) - 1} moves done" in ran.stderr
    assert 1 == len({trio.show(uuid)["instance"]["host"] for uuid in uuids})
    settled(trio)


def test_a_live_migration(trio: Trio) -> None:
    """The instance is ACTIVE on another host, and nothing is left to confirm. Another one is aborted while it runs."""
    uuid, source = boot(trio, availability_zone="nova:b1")
    fleet(trio, "server", "migrate", uuid, "--live", "--to", "b2", *WAIT)
    moved = trio.show(uuid)
    expected = ("active", None, "b2", "completed")
    here = moved["instance"]
    assert expected == (here["vm_state"], here["task_state"], here["host"], moved["migration"]["status"])
    assert source != here["host"]
    assert "no such live migration" in trio.cli("server", "migration", "abort", uuid).stderr
    settled(trio)
