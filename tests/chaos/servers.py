# SPDX-License-Identifier: Apache-2.0
"""The servers of a world: one broker and one database behind proxies, or a cluster of one of them.

A scenario names the kind that it needs (``Scenario.servers``). ``make chaos`` opens a world on this kind before the first
scenario that needs it, and closes the world after the last one. A new kind is a context manager in ``KINDS``.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from typing import Any

import sqlalchemy as sa

from fleet_trial import private_servers
from tests import clusters
from tests.chaos import proxy
from tests.clusters.rabbitmq import is_apart

#: One RabbitMQ node and one PostgreSQL server, each behind a proxy.
SINGLE = "single"
RABBITMQ_CLUSTER = "rabbitmq-cluster"


@dataclasses.dataclass
class Servers:
    """Running servers, and the addresses at which daemons and the world reach them.

    Daemons may be led through a proxy. The world's own clients, its checker, its figures and its wire are not: their
    addresses stay usable while a scenario hurts a server, as long as one member of its cluster serves.

    :param cluster: the nodes of the broker; a single broker is a cluster of one node
    :param database: what a scenario hurts; only scenarios of this kind of servers use it
    :param daemons_transport_url: ``transport_url`` of the daemons
    :param direct_transport_url: ``transport_url`` of the world's own clients; all nodes of the broker
    :param daemons_database_url: takes a password that no log may show; returns ``[database] connection`` of the daemons
    :param database_url: SQLAlchemy URL of the checker and of the world's own statements. It leads to a server that accepts
        writes, whichever this is now: the world opens connections anew, and never caches the server behind it
    :param heal: undoes every fault of these servers (starts what is dead, continues what is stopped, joins what is cut
        off) and returns when all members serve; called at the end of every scenario, also when there was no fault
    :param to_broker, to_database: the proxies, in the kind ``single`` only
    """

    cluster: clusters.RabbitMQCluster
    database: Any
    daemons_transport_url: str
    direct_transport_url: str
    daemons_database_url: Callable[[str], str]
    database_url: str
    heal: Callable[[], object] = lambda: None
    to_broker: proxy.Proxy | None = None
    to_database: proxy.Proxy | None = None


@contextlib.contextmanager
def single() -> Iterator[Servers]:
    """One broker and one PostgreSQL, which daemons reach through proxies."""
    with (
        private_servers.rabbitmq_node() as broker,
        private_servers.postgresql_server() as database,
        proxied(proxy.to_port(broker.port)) as to_broker,
        proxied(proxy.to_socket(database.socket)) as to_database,
    ):

        def heal() -> None:
            to_broker.heal()
            to_database.heal()

        yield Servers(
            clusters.RabbitMQCluster([broker]),
            database,
            f"rabbit://guest:{broker.password}@127.0.0.1:{to_broker.port}/",
            broker.url,
            lambda password: f"postgresql+psycopg2://fleet:{password}@127.0.0.1:{to_database.port}/fleet",
            database.url(),
            heal,
            to_broker,
            to_database,
        )


@contextlib.contextmanager
def rabbitmq_cluster() -> Iterator[Servers]:
    """Three brokers, which daemons reach by a URL that names them all, and one PostgreSQL."""
    with clusters.rabbitmq_cluster() as cluster, private_servers.postgresql_server() as database:
        yield Servers(
            cluster,
            database,
            f"{cluster.url}?rabbit_quorum_queue=true",
            f"{cluster.url}?rabbit_quorum_queue=true",
            lambda password: _with_password(database.url(), password),
            database.url(),
            lambda: _all_serve(cluster),
        )


def _all_serve(cluster: clusters.RabbitMQCluster) -> None:
    """Continue the nodes that are stopped, start those that are dead, and wait until all of them are one cluster.

    A node that stood still for long is restarted, as its operator must do.
    """
    dead = [node for node in cluster.nodes if not node.is_running]
    for node in cluster.nodes:
        node.resume()
    with futures.ThreadPoolExecutor(len(cluster.nodes)) as together:  # nodes may wait for each other
        list(together.map(lambda node: node.start(), dead))
    for node in cluster.nodes:
        if is_apart(node):
            node.stop()
            node.start()
    cluster.wait_until_formed()


def _with_password(url: str, password: str) -> str:
    return sa.make_url(url).set(password=password).render_as_string(hide_password=False)


KINDS: Mapping[str, Callable[[], contextlib.AbstractContextManager[Servers]]] = {
    SINGLE: single,
    RABBITMQ_CLUSTER: rabbitmq_cluster,
}


@contextlib.contextmanager
def proxied(upstream: proxy.Upstream) -> Iterator[proxy.Proxy]:
    made = proxy.Proxy(upstream)
    made.start()
    try:
        yield made
    finally:
        made.stop()
