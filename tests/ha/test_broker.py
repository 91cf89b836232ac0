# SPDX-License-Identifier: Apache-2.0
"""Real daemons on a RabbitMQ cluster, each node of which is killed once under builds; a part of ``make long``."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import oslo_messaging
import pytest

from fleet_trial import private_servers
from tests import clusters
from tests.amqp.daemons import Trio, eventually, running
from tests.conftest import started
from tests.ha.keeper import kept
from tests.invariants.ledger import Ledger, open_engine

pytestmark = pytest.mark.long

#: Limits that a slow machine does not meet: what is tested is that nothing is lost.
_PATIENT = """\
compute_driver = unruly_driver.UnrulyDriver
instance_build_timeout = 240
service_down_time = 60
"""


@pytest.fixture
def cluster() -> Iterator[clusters.RabbitMQCluster]:
    for made in started(clusters.rabbitmq_cluster):
        with kept(made.nodes):
            yield made


@pytest.fixture
def database_url() -> Iterator[str]:
    """The ledger is read as a whole: no other test has instances in it."""
    yield from started(private_servers.postgresql)


def test_each_node_is_killed_once(cluster: clusters.RabbitMQCluster, database_url: str, tmp_path: pathlib.Path) -> None:
    """Builds that are being spawned at that moment, and builds that are requested while the node is dead, end ACTIVE."""
    with running(Trio(tmp_path, f"{cluster.url}?rabbit_quorum_queue=true", database_url, default=_PATIENT)) as trio:
        trio.manage("db", "sync")
        trio.start("conductor", "fleet-conductor")
        trio.start("scheduler", "fleet-scheduler")
        trio.start("agent", "fleet-compute", "--hosts", "a[1-3]")
        trio.wait_for_hosts(3)
        trio.wait_for_service("fleet-scheduler")
        for node in cluster.nodes:
            lose(node, trio)
            if node is not cluster.nodes[-1]:
                node.start()
        ledger = Ledger.read(open_engine(database_url))
    assert {"active"} == {row["vm_state"] for row in ledger.live}


def lose(node: private_servers.RabbitMQ, trio: Trio) -> None:
    """Kill the node while builds are being spawned, and request others while it is dead."""
    hold(trio, True)
    promised = boot(trio, "before")
    eventually(lambda: spawning(trio, promised))
    node.kill()
    hold(trio, False)
    promised += boot(trio, "dead")
    states = eventually(lambda: trio.wait_for(promised, "active", "error"), retry_on=oslo_messaging.MessagingException)
    assert dict.fromkeys(promised, "active") == states


def boot(trio: Trio, name: str) -> list[str]:
    """As a client that asks again if its call is not answered."""
    return eventually(lambda: trio.boot(name=name, count=3), retry_on=oslo_messaging.MessagingException)


def hold(trio: Trio, held: bool) -> None:
    """Let the drivers wait in each spawn, or go on."""
    trio.instances_path.mkdir(parents=True, exist_ok=True)
    beside = trio.instances_path / "unruly.new"
    beside.write_text(json.dumps([{"host": "*", "do": "hold"}] if held else []))
    beside.replace(trio.instances_path / "unruly.json")


def spawning(trio: Trio, uuids: list[str]) -> bool:
    return {"spawning"} == {trio.show(uuid)["instance"]["task_state"] for uuid in uuids}
