# SPDX-License-Identifier: Apache-2.0
"""A private cluster of RabbitMQ nodes, each of which can be cut off from the others."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import secrets
import time
from collections.abc import Iterator, Sequence

from fleet.rpc.rabbit import broker
from fleet_trial.private_servers import RabbitMQ, ServerFailed
from fleet_trial.private_servers.process import free_ports
from fleet_trial.private_servers.rabbitmq_server import made_node, node_name, port_mapper

#: Seconds for the nodes to find each other.
_FORMED_S = 120.0


@dataclasses.dataclass(frozen=True)
class RabbitMQCluster:
    """``nodes`` have one set of users and queues; ``url`` is the transport URL that names them all."""

    nodes: Sequence[RabbitMQ]

    @property
    def url(self) -> str:
        hosts = ",".join(f"guest:{each.password}@127.0.0.1:{each.port}" for each in self.nodes)
        return f"rabbit://{hosts}/"

    def url_from(self, first: int) -> str:
        """The same URL, beginning with another node."""
        return RabbitMQCluster([*self.nodes[first:], *self.nodes[:first]]).url

    def serving(self) -> RabbitMQ:
        """Return the first node that accepts a connection. :raises ServerFailed: none does"""
        for node in self.nodes:
            if node.is_running and broker.answers(node.port, node.password):
                return node
        raise ServerFailed("no node of the broker accepts a connection")

    def wait_until_formed(self) -> None:
        """Wait until each node runs and knows that all others do. :raises ServerFailed: not within 120 s"""
        deadline = time.monotonic() + _FORMED_S
        while any(cluster_size(node) != len(self.nodes) for node in self.nodes):
            if time.monotonic() > deadline:
                raise ServerFailed(f"the nodes do not form a cluster:\n{self.nodes[0].place.log_end()}")
            time.sleep(0.5)


@contextlib.contextmanager
def rabbitmq_cluster(size: int = 3) -> Iterator[RabbitMQCluster]:
    """Run a cluster of RabbitMQ nodes. A minority of nodes that is cut off pauses (``pause_minority``)."""
    password, cookie, ports = secrets.token_hex(16), secrets.token_hex(10), free_ports(size)
    config = "cluster_partition_handling = pause_minority\ncluster_formation.peer_discovery_backend = classic_config\n"
    for number, port in enumerate(ports, start=1):
        config += f"cluster_formation.classic_config.nodes.{number} = {node_name(port)}\n"
    with contextlib.ExitStack() as held:
        epmd_port = held.enter_context(port_mapper())
        nodes = [held.enter_context(made_node(port, password, epmd_port, config, cookie)) for port in ports]
        with concurrent.futures.ThreadPoolExecutor(size) as together:  # each waits for the others
            started = [together.submit(held.enter_context, node.running()) for node in nodes]
        for each in started:
            each.result()
        cluster = RabbitMQCluster(nodes)
        cluster.wait_until_formed()
        yield cluster


def cut_off(node: RabbitMQ) -> None:
    """Cut a node off from the others of its cluster; clients still reach it. :func:`join` lets them find each other."""
    node.ctl("eval", "[begin erlang:set_cookie(N, cut), erlang:disconnect_node(N) end || N <- nodes()].")


def join(node: RabbitMQ) -> None:
    """Let a node that was cut off connect to the others again."""
    node.ctl(
        "eval", "[erlang:set_cookie(N, erlang:get_cookie()) || N <- rabbit_mnesia:cluster_nodes(all), N =/= node()]."
    )


def cluster_size(node: RabbitMQ) -> int:
    """Return the number of nodes of the cluster that run, as far as this node knows; 0 while it does not run itself."""
    try:
        return int(node.ctl("eval", "length(rabbit_mnesia:cluster_nodes(running)).").strip())
    except ServerFailed:
        return 0


def is_apart(node: RabbitMQ) -> bool:
    """True if this node has a view of its own of the cluster: it found the others again after they had given it up.

    It must be restarted.
    """
    try:
        return node.ctl("eval", "length(rabbit_node_monitor:partitions()).").strip() == "2"
    except ServerFailed:  # it pauses
        return False
