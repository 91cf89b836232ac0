# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices in the ledger: requested, claimed, read by schedulers, released."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from compute_agent.node.resource_tracker import ResourceTracker
from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.feed.feed import ChangeFeed
from fleet.db.tables import models
from fleet.hardware.aliases import parse_aliases
from fleet.objects import Claim, HostLimits, HostReport, Instance, pci
from scheduler.compute import filters
from scheduler.compute.domain.virtual_machines import VIRTUAL_MACHINES
from scheduler.state.host_cache import HostCache
from tests import factories
from tests.unit.hardware import builders
from tests.worlds.conductor import INCARNATION, Conductor, context

DEVICES = [{"address": f"0000:00:00.{slot}", "vendor_id": "8086", "numa_node": 1} for slot in range(2)]
REPORT = {
    "host": "h1",
    "node": "h1",
    "vcpus": 8,
    "memory_mb": 8192,
    "local_gb": 100,
    "numa_topology": builders.two_cells().to_wire(),
    "pci_device_pools": [{"vendor_id": "8086", "numa_node": 1, "count": 2}],
}
SPECS = {"hw:cpu_policy": "dedicated", "pci_passthrough:alias": "nic:1"}
FLAVOR = {"vcpus": 2, "memory_mb": 1024, "extra_specs": SPECS}


@pytest.fixture
def conductor(database: Database) -> Conductor:
    conductor = Conductor(database, aliases=parse_aliases(['{"name": "nic", "vendor_id": "8086"}']))
    conductor.add_host("h1")
    report(conductor)
    return conductor


def report(conductor: Conductor) -> None:
    (answer,) = conductor.agents.report_hosts([REPORT], {"h1": ["h1"]})
    assert (True, "") == (answer["accepted"], answer["reason"])


def tracker() -> ResourceTracker:
    made = ResourceTracker("h1", "h1")
    made.set_report(HostReport.from_wire(REPORT), pci.devices_from_wire(DEVICES))
    return made


def claim(conductor: Conductor, agent: ResourceTracker) -> str:
    """Claim one instance by h1's agent, with the data of its order."""
    uuid = conductor.place("h1", flavor=FLAVOR)
    _host, build = conductor.compute.builds[-1]
    claimed = agent.instance_claim(Instance.from_wire(build["instance"]), HostLimits()).claimed()
    conductor.agents.take(context(), Claim(uuid, 1, "h1", "h1", INCARNATION, claimed))
    return uuid


def node_row(conductor: Conductor) -> dict[str, Any]:
    (node,) = ChangeFeed(conductor.database).read(0).nodes
    cells = json.loads(node.numa_topology)["cells"]
    return {
        "pinned": [cell["pinned_cpus"] for cell in cells],
        "memory": [cell["memory_usage"] for cell in cells],
        "free": [pool["count"] for pool in json.loads(node.pci_stats)],
    }


EMPTY = {"pinned": [[], []], "memory": [0, 0], "free": [2]}
ONE = {"pinned": [[], [4, 5]], "memory": [0, 1024], "free": [1]}
TWO = {"pinned": [[], [4, 5, 6, 7]], "memory": [0, 2048], "free": []}


def test_what_a_flavor_asks_for_reaches_scheduler_and_host(conductor: Conductor) -> None:
    """Topology and devices are in the request to the scheduler, and in the order to the host."""
    conductor.place("h1", flavor=FLAVOR)
    ((spec, _properties),) = conductor.scheduler.requests
    properties = spec["instance_properties"]
    assert [[0, 1]] == [cell["pcpuset"] for cell in properties["numa_topology"]["cells"]]
    assert ["nic"] == [each["alias_name"] for each in properties["pci_requests"]]
    ((_host, build),) = conductor.compute.builds
    assert properties["numa_topology"] == build["instance"]["numa_topology"]
    assert properties["pci_requests"] == build["instance"]["pci_requests"]


def test_contradictions_are_refused_before_anything_is_written(conductor: Conductor) -> None:
    """The error names the extra spec, and there is no instance."""
    with pytest.raises(errors.InvalidInput) as invalid:
        conductor.create(flavor={**FLAVOR, "extra_specs": {"hw:numa_nodes": "3"}})
    assert "request.flavor.extra_specs.hw:numa_nodes" == invalid.value.field
    assert [] == conductor.operator.list_instances({})


def test_a_claim_shows_in_the_node_and_is_given_back_on_delete(conductor: Conductor) -> None:
    """Cells and pools as schedulers see them follow claims, reports in between, and deletions."""
    agent = tracker()
    assert EMPTY == node_row(conductor)
    first, second = claim(conductor, agent), claim(conductor, agent)
    assert TWO == node_row(conductor)
    report(conductor)
    assert TWO == node_row(conductor)

    conductor.termination.terminate(context(), [second])
    conductor.agents.destroyed(context(), second, "h1")
    assert ONE == node_row(conductor)
    conductor.finish(first, "h1")
    conductor.termination.terminate(context(), [first])
    conductor.agents.destroyed(context(), first, "h1")
    assert EMPTY == node_row(conductor)


FULL = {"pinned": [[0, 1, 2, 3], [4, 5, 6, 7]], "memory": [4096, 4096], "free": [1]}


@pytest.mark.parametrize("text", ['{"cells": "all"}', '{"cells": 1%s}' % ("0" * 320)], ids=["malformed", "unreadable"])
@pytest.mark.parametrize(
    ("column", "expected", "refused"),
    [
        ("claimed_numa_topology", FULL, "The requested NUMA topology"),
        ("claimed_pci_devices", {**ONE, "free": []}, "The PCI claim failed"),
    ],
)
def test_a_claim_that_cannot_be_read_may_be_any_of_its_node(
    conductor: Conductor,
    column: str,
    expected: dict[str, Any],
    refused: str,
    text: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Schedulers and the host see nothing of its kind free, until the instance is deleted. The log names it."""
    uuid = claim(conductor, tracker())
    conductor.finish(uuid, "h1")
    break_claim(conductor, uuid, column, text)
    report(conductor)
    assert expected == node_row(conductor)
    assert any(uuid in line and column in line for line in caplog.messages)

    agent = tracker()
    for each in conductor.agents.host_instances("h1"):
        agent.track(each)
    with pytest.raises(errors.ComputeResourcesUnavailable, match=refused):
        claim(conductor, agent)
    conductor.termination.terminate(context(), [uuid])
    conductor.agents.destroyed(context(), uuid, "h1")
    assert EMPTY == node_row(conductor)


def break_claim(conductor: Conductor, uuid: str, column: str, text: str) -> None:
    instances = models.METADATA.tables["instances"]
    with conductor.database.engine.begin() as connection:
        value: sa.ColumnElement[Any] = sa.cast(sa.literal(text), sa.Text)
        if connection.dialect.name == "postgresql":
            value = sa.cast(value, sa.JSON)
        connection.execute(instances.update().where(instances.c.uuid == uuid).values({column: value}))


def test_a_failed_attempt_gives_everything_back(conductor: Conductor) -> None:
    """After a failed spawn the row holds nothing, and neither does the node."""
    uuid = claim(conductor, tracker())
    conductor.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), Failure("spawn", "Boom", "boom"), ())
    assert EMPTY == node_row(conductor)
    assert [] == conductor.agents.host_instances("h1")


def test_an_unchanged_report_is_no_news(conductor: Conductor) -> None:
    """A host with claims that reports the same again does not wake the schedulers."""
    claim(conductor, tracker())
    before = ChangeFeed(conductor.database).read(0).generation
    report(conductor)
    assert before == ChangeFeed(conductor.database).read(0).generation


def test_a_restarted_agent_gets_its_claims_from_the_ledger(conductor: Conductor) -> None:
    """The same CPUs and the same device."""
    agent, again = tracker(), tracker()
    claim(conductor, agent)
    for instance in conductor.agents.host_instances("h1"):
        again.track(instance)
    assert agent.view() == again.view()


def test_a_scheduler_sees_what_is_left(conductor: Conductor) -> None:
    """Two fit beside the devices; with one claimed one more is placed, and a third is not."""
    claim(conductor, tracker())
    cache = HostCache(VIRTUAL_MACHINES)
    cache.apply(ChangeFeed(conductor.database).read(0))
    asked = factories.request(
        {"vcpus": 2},
        {
            "numa_topology": builders.instance(builders.pinned()).to_wire(),
            "pci_requests": [builders.devices().to_wire()],
        },
        count=2,
    )
    pipeline = factories.pipeline([filters.PciPassthroughFilter(), filters.NUMATopologyFilter()])
    made = factories.decision(pipeline, cache.candidates(factories.NOW_S), asked)
    assert ["h1"] == [pick.key[0] for pick in made.picks]
