# SPDX-License-Identifier: Apache-2.0
"""Worlds on a PostgreSQL primary with two synchronous standbys, and on a Galera cluster of three nodes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fleet_trial import private_servers
from tests import clusters
from tests.chaos.proxy import Proxy, to_socket
from tests.chaos.servers import Servers, proxied

POSTGRESQL_CLUSTER = "postgresql-cluster"
GALERA_CLUSTER = "galera-cluster"


class PostgreSQLDatabase:
    """Daemons name all nodes, each behind a proxy; libpq looks for the one that takes writes."""

    def __init__(self, cluster: clusters.PostgreSQLCluster, held: contextlib.ExitStack) -> None:
        self.cluster = cluster
        self.to_nodes = {node.name: held.enter_context(proxied(to_socket(node.socket))) for node in cluster.nodes}
        #: The checker's.
        self.to_primary: Proxy = held.enter_context(proxied(self._primary))

    def _primary(self) -> Any:
        return asyncio.open_unix_connection(self.cluster.primary.socket)

    def daemons_url(self, password: str) -> str:
        hosts = "&".join(f"host=127.0.0.1:{each.port}" for each in self.to_nodes.values())
        return f"postgresql+psycopg2://fleet:{password}@/fleet?{hosts}&target_session_attrs=read-write"

    @property
    def url(self) -> str:
        return f"postgresql+psycopg2://fleet@127.0.0.1:{self.to_primary.port}/fleet"

    def end(self, node: Any, in_order: bool = False) -> None:
        """Kill a node, or stop it in order; connections to it are refused from then on."""
        node.stop() if in_order else node.kill()
        self.to_nodes[node.name].cut(refuse=True)

    def start(self, node: Any) -> None:
        node.start()
        self.to_nodes[node.name].heal()
        self.to_primary.cut()

    def fail_over(self) -> None:
        self.cluster.fail_over()
        self.to_primary.cut()

    def heal(self) -> None:
        """A primary that was lost without a successor goes on. A node that follows no primary becomes a standby."""
        primary = self.cluster.primary
        primary.resume()
        if not primary.is_running:
            primary.start()
            self.to_primary.cut()
        for node in self.cluster.standbys:
            if not node.may_answer or not self.cluster.follows(node):
                self.cluster.rejoin(node)
        self.cluster.wait_for_followers()
        for each in self.to_nodes.values():
            each.heal()


class GaleraDatabase:
    """Daemons have one address, which leads to the node that ``follow`` names."""

    def __init__(self, cluster: clusters.GaleraCluster, held: contextlib.ExitStack) -> None:
        self.cluster = cluster
        self.node = cluster.nodes[0]
        self.address: Proxy = held.enter_context(proxied(self._followed))
        #: The checker's.
        self.to_living: Proxy = held.enter_context(proxied(self._followed))

    def _followed(self) -> Any:
        return asyncio.open_unix_connection(self.node.socket)

    def daemons_url(self, password: str) -> str:
        self.node.execute(f"GRANT ALL ON fleet.* TO fleet@localhost IDENTIFIED BY '{password}'")
        return f"mysql+pymysql://fleet:{password}@127.0.0.1:{self.address.port}/fleet?charset=utf8mb4"

    @property
    def url(self) -> str:
        quotes = "init_command=SET%20SESSION%20sql_mode%3D'ANSI_QUOTES'"
        return f"mysql+pymysql://root@127.0.0.1:{self.to_living.port}/fleet?charset=utf8mb4&{quotes}"

    @property
    def others(self) -> list[clusters.GaleraNode]:
        return [node for node in self.cluster.nodes if node is not self.node]

    def follow(self, node: clusters.GaleraNode, cut: bool = True) -> None:
        """Let the address lead to ``node``. :param cut: end the sessions to the other one"""
        self.node = node
        self.to_living.cut()
        if cut:
            self.address.cut()

    def heal(self) -> None:
        self.address.heal()
        for node in self.cluster.nodes:
            node.resume()
            if node.is_running:
                node.bring_back()
        for node in self.cluster.nodes:
            if not node.is_running:
                node.start()
        self.cluster.wait_for_members()


@contextlib.contextmanager
def postgresql_cluster() -> Iterator[Servers]:
    """One broker, and a primary with two synchronous standbys."""
    with contextlib.ExitStack() as held:
        broker = held.enter_context(private_servers.rabbitmq_node())
        cluster = held.enter_context(clusters.postgresql_cluster())
        yield _servers(broker, PostgreSQLDatabase(cluster, held))


@contextlib.contextmanager
def galera_cluster() -> Iterator[Servers]:
    """One broker, and three nodes behind one address."""
    with contextlib.ExitStack() as held:
        broker = held.enter_context(private_servers.rabbitmq_node())
        cluster = held.enter_context(clusters.galera_cluster())
        yield _servers(broker, GaleraDatabase(cluster, held))


def _servers(broker: private_servers.RabbitMQ, database: PostgreSQLDatabase | GaleraDatabase) -> Servers:
    brokers = clusters.RabbitMQCluster([broker])
    return Servers(brokers, database, broker.url, broker.url, database.daemons_url, database.url, database.heal)


KINDS: Mapping[str, Callable[[], contextlib.AbstractContextManager[Servers]]] = {
    POSTGRESQL_CLUSTER: postgresql_cluster,
    GALERA_CLUSTER: galera_cluster,
}
