# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ node. Tests start it, and the trial fleet with ``BROKER=rabbit``."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleet.rpc.rabbit import broker
from fleet_trial.private_servers.process import Certificate, Place, PrivateServer, find, free_ports, place


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
        port_mapper() as epmd_port,
        made_node(port, password, epmd_port, certificate=certificate) as node,
        node.running(),
    ):
        yield node


def node_name(port: int) -> str:
    return f"fleet-{port}@localhost"


@contextlib.contextmanager
def port_mapper() -> Iterator[int]:
    """Yield a port for Erlang's port mapper. Nodes start it; it is a daemon that would remain."""
    (port,) = free_ports(1)
    try:
        yield port
    finally:
        subprocess.run(["epmd", "-port", str(port), "-kill"], capture_output=True, check=False)


@contextlib.contextmanager
def made_node(
    port: int, password: str, epmd_port: int, config: str = "", cookie: str = "", certificate: Certificate | None = None
) -> Iterator[RabbitMQ]:
    """Make a node that is not started. :param config: settings of a cluster, whose nodes have one ``cookie``"""
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
            "RABBITMQ_NODENAME": node_name(port),
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
