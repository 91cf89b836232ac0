# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ node. Tests start it, and the trial fleet with ``BROKER=rabbit``."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleet.rpc.rabbit import broker
from fleet_trial.private_servers.process import Certificate, Place, PrivateServer, ServerFailed, find, free_ports, place

#: Seconds for the nodes of a cluster to find each other.
_FORMED_S = 120.0


class RabbitMQ(PrivateServer):
    """``url`` is its transport URL."""

    def __init__(self, place: Place, program: str, environment: Mapping[str, str], port: int, password: str) -> None:
        super().__init__(place, [program], environment, lambda: broker.answers(port, password))
        self._made_of = (place, program, environment, port, password)
        self.port = port
        self.tls_port = 0
        self.password = password
        self.url = f"rabbit://guest:{password}@127.0.0.1:{port}/"

    def __reduce__(self) -> tuple[Any, ...]:
        """Let another process have a copy. With it, it can run commands of the node, but neither start nor stop it."""
        return RabbitMQ, self._made_of

    def vhost(self, name: str) -> str:
        """Create a virtual host and return its transport URL."""
        return self.vhosts(name)[name]

    def vhosts(self, *names: str) -> dict[str, str]:
        """Create virtual hosts and return their transport URLs."""
        everything = {"user": "guest", "configure": ".*", "write": ".*", "read": ".*"}
        self.define(
            vhosts=[{"name": name} for name in names], permissions=[{**everything, "vhost": name} for name in names]
        )
        return {name: f"{self.url}{name}" for name in names}

    def add_users(self, vhost: str, *names: str) -> dict[str, str]:
        """Create users without permissions, whose passwords are their names; return their transport URLs."""
        self.define(users=[{"name": name, "password": name, "tags": ""} for name in names])
        return {name: f"rabbit://{name}:{name}@127.0.0.1:{self.port}/{vhost}" for name in names}

    def define(self, **definitions: Sequence[Mapping[str, str]]) -> None:
        """Create many things at once, in the form of ``rabbitmqctl export_definitions``.

        Each run of rabbitmqctl takes about a second of a processor.
        """
        name = f"definitions-{secrets.token_hex(8)}"  # another process may write some at the same time
        self.ctl("import_definitions", self.place.write(name, json.dumps(definitions)))

    def ctl(self, *arguments: str) -> str:
        """Run rabbitmqctl; return its output. :raises ServerFailed:"""
        return self.tool("rabbitmqctl", *arguments)

    def tool(self, name: str, *arguments: str) -> str:
        """Run one of RabbitMQ's commands, such as rabbitmq-upgrade; return its output. :raises ServerFailed:"""
        program = find(name, ["/usr/lib/rabbitmq/bin"], package="rabbitmq-server")
        return self.place.run([program, "-q", *arguments], self._environment)


@contextlib.contextmanager
def rabbitmq() -> Iterator[str]:
    """Run a RabbitMQ node; yield its transport URL."""
    with rabbitmq_node() as node:
        yield node.url


@contextlib.contextmanager
def rabbitmq_node(certificate: Certificate | None = None) -> Iterator[RabbitMQ]:
    """Run a RabbitMQ node that can be stopped, killed and restarted.

    :param certificate: also listen on ``tls_port`` with TLS and this certificate
    """
    (port,) = free_ports(1)
    password = secrets.token_hex(16)
    with (
        _port_mapper() as epmd_port,
        _node(port, password, epmd_port, certificate=certificate) as node,
        node.running(),
    ):
        yield node


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
        config += f"cluster_formation.classic_config.nodes.{number} = {_name(port)}\n"
    with contextlib.ExitStack() as held:
        epmd_port = held.enter_context(_port_mapper())
        nodes = [held.enter_context(_node(port, password, epmd_port, config, cookie)) for port in ports]
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


def _name(port: int) -> str:
    return f"fleet-{port}@localhost"


@contextlib.contextmanager
def _port_mapper() -> Iterator[int]:
    """Yield a port for Erlang's port mapper. Nodes start it; it is a daemon that would remain."""
    (port,) = free_ports(1)
    try:
        yield port
    finally:
        subprocess.run(["epmd", "-port", str(port), "-kill"], capture_output=True, check=False)


@contextlib.contextmanager
def _node(
    port: int, password: str, epmd_port: int, config: str = "", cookie: str = "", certificate: Certificate | None = None
) -> Iterator[RabbitMQ]:
    """Make a node that is not started."""
    program = find("rabbitmq-server", ["/usr/lib/rabbitmq/bin"], package="rabbitmq-server")
    dist_port, tls_port = free_ports(2)
    with place("rabbitmq", user=None) as here:
        config = f"default_pass = {password}\n{config}"
        if certificate:
            chain, key = certificate.files(here)
            config += (
                f"listeners.ssl.default = 127.0.0.1:{tls_port}\n"
                f"ssl_options.certfile = {chain}\n"
                f"ssl_options.keyfile = {key}\n"
                "ssl_options.verify = verify_none\n"
            )
        environment = {
            "HOME": here.directory,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(epmd_port),
            "RABBITMQ_NODENAME": _name(port),
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(dist_port),
            "RABBITMQ_MNESIA_BASE": here.path("mnesia"),
            "RABBITMQ_LOG_BASE": here.path("log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": here.path("pid"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": here.write("rabbitmq.conf", config),
            "RABBITMQ_ENABLED_PLUGINS_FILE": here.write("enabled_plugins", "[].\n"),
            # A test node needs no more. Busy-waiting schedulers would take CPU time from the tests. By default the
            # port of Erlang's distribution is open to the network, and gives anybody with the cookie a shell. Nodes
            # of a cluster wait for a silent one for about net_ticktime, 60 s by default.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
                " -kernel inet_dist_use_interface {127,0,0,1} net_ticktime 10"
            ),
        }
        if cookie:
            here.write_secret(".erlang.cookie", cookie)
            os.chmod(here.path(".erlang.cookie"), 0o400)
        node = RabbitMQ(here, program, environment, port, password)
        node.tls_port = tls_port
        yield node
