# SPDX-License-Identifier: Apache-2.0
"""The lean driver on a RabbitMQ cluster of three nodes, of which one dies."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest

from fleet.rpc.rabbit.conf import LEAN
from fleet.trial import private_servers
from tests import leftovers
from tests.functional.test_lean_driver import (
    UNDELIVERABLE,
    client_of,
    eventually,
    opened,
    serving,
)

#: Quorum queues hold the requests; all else is of one process.
QUORUM = "?rabbit_quorum_queue=true"


class Nodes:
    """A test may start a node of the cluster anew."""

    def __init__(self, cluster: private_servers.RabbitMQCluster) -> None:
        self._cluster = cluster

    def keeps_thread(self, thread: threading.Thread) -> bool:
        return False

    def keeps_process(self, pid: int) -> bool:
        return pid in [node.pid for node in self._cluster.nodes]


@pytest.fixture(scope="module")
def cluster() -> Iterator[private_servers.RabbitMQCluster]:
    with private_servers.rabbitmq_cluster() as made:
        keeper = Nodes(made)
        leftovers.KEEPERS.append(keeper)
        yield made
        leftovers.KEEPERS.remove(keeper)


@contextlib.contextmanager
def dead(node: private_servers.RabbitMQ) -> Iterator[None]:
    """The node dies at once, and comes back at the end."""
    node.kill()
    try:
        yield
    finally:
        node.start()


def answered(calls: Any, value: object, timeout_s: float = 60) -> None:
    """Call until a call is answered, as those who are told that a reply is lost do."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            assert value == calls.prepare(timeout=10).call({}, "echo", value=value)
            return
        except (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure):
            assert time.monotonic() < deadline


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_node_dies(cluster: private_servers.RabbitMQCluster, number: int) -> None:
    """Calls, messages to all servers and orders to a host go on while it is dead, wherever their queues were."""
    topic, heard = f"topic-{number}", list[Any]()
    with (
        serving(cluster.url_from(0) + QUORUM, LEAN, topic) as one,
        serving(cluster.url_from(1) + QUORUM, LEAN, topic, "s2") as two,
        opened(cluster.url_from(number) + QUORUM, LEAN) as bus,
    ):
        calls = client_of(bus, topic)
        queues = bus._driver.shared_queues(topic, f"{topic}_hosts")
        queues.serve("h1", lambda incoming: heard.extend(each.message["args"]["value"] for each in incoming))
        orders = oslo_messaging.get_rpc_client(bus, oslo_messaging.Target(exchange=f"{topic}_hosts", topic=topic))
        to_host = orders.prepare(server="h1", transport_options=UNDELIVERABLE)
        answered(calls, "before")
        to_host.cast({}, "order", value="before")
        eventually(lambda: "before" in heard)
        with dead(cluster.nodes[number]):
            answered(calls, "dead")

            def to_all_and_to_the_host() -> bool:
                calls.prepare(fanout=True).cast({}, "echo", value="all")
                with contextlib.suppress(oslo_messaging.MessageUndeliverable):
                    to_host.cast({}, "order", value="dead")
                return "all" in one.heard and "all" in two.heard and "dead" in heard

            eventually(to_all_and_to_the_host, timeout_s=60)
        answered(calls, "after")
        queues.leave("h1")
