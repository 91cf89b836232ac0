# SPDX-License-Identifier: Apache-2.0
"""The lean driver on a RabbitMQ cluster of three nodes, of which one dies."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest

from fleet.rpc.rabbit.conf import LEAN
from fleet.rpc.rabbit.lean.settings import Settings
from fleet_trial import private_servers
from tests import clusters
from tests.functional.test_lean_driver import (
    UNDELIVERABLE,
    client_of,
    eventually,
    opened,
    serving,
)
from tests.ha.keeper import kept

#: Quorum queues hold the requests; all else is of one process.
QUORUM = "?rabbit_quorum_queue=true"
#: Seconds after which a connection looks whether its node is back.
RETURN_S = 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[clusters.RabbitMQCluster]:
    with clusters.rabbitmq_cluster() as made, kept(made.nodes):
        yield made


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
def test_a_node_dies(cluster: clusters.RabbitMQCluster, number: int) -> None:
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


def test_connections_return(cluster: clusters.RabbitMQCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections of a process are spread over the nodes, and again some time after a node is back; no call fails then.

    The rule: the numbers of connections that a process has on two nodes differ by one at most.
    """
    settings_of = Settings.parse
    monkeypatch.setattr(
        Settings,
        "parse",
        classmethod(lambda _cls, *given: dataclasses.replace(settings_of(*given), return_interval_s=RETURN_S)),
    )
    with contextlib.ExitStack() as held:
        url = cluster.url + QUORUM
        for number in range(4):  # each with a connection for sending and one for receiving
            held.enter_context(serving(url, LEAN, "spread", f"s{number}"))
        bus = held.enter_context(opened(url, LEAN))
        calls = client_of(bus, "spread")
        answered(calls, "before")
        eventually(lambda: is_even(connections(cluster)), timeout_s=60)
        for node in cluster.nodes:
            with dead(node):
                answered(calls, "dead")
            wrong, stop = list[BaseException](), threading.Event()
            calling = threading.Thread(target=keep_calling, args=(calls, stop, wrong))
            calling.start()
            eventually(lambda: is_even(connections(cluster)), timeout_s=120)
            stop.set()
            calling.join(60)
            assert [] == wrong


def keep_calling(calls: Any, stop: threading.Event, wrong: list[BaseException]) -> None:
    """Without repeating a call: what is under way when a connection returns is answered."""
    try:
        while not stop.is_set():
            assert 1 == calls.prepare(timeout=60).call({}, "echo", value=1)
    except BaseException as failure:
        wrong.append(failure)


def connections(cluster: clusters.RabbitMQCluster) -> list[int]:
    """The number of AMQP connections of each node."""
    listed = cluster.nodes[0].ctl("list_connections", "pid", "--no-table-headers").split()
    return [sum(f"fleet-{node.port}@" in pid for pid in listed) for node in cluster.nodes]


def is_even(numbers: list[int]) -> bool:
    return sum(numbers) > 0 and max(numbers) - min(numbers) <= 1
