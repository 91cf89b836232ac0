# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ node."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
from collections.abc import Iterator, Mapping

from fleet.rpc.rabbit import broker
from fleet.trial.private_servers.process import Certificate, Place, PrivateServer, find, free_ports, place


class RabbitMQ(PrivateServer):
    """``url`` is its transport URL."""

    def __init__(self, place: Place, program: str, environment: Mapping[str, str], port: int, password: str) -> None:
        super().__init__(place, [program], environment, lambda: broker.answers(port, password))
        self.port = port
        self.tls_port = 0
        self.password = password
        self.url = f"rabbit://guest:{password}@127.0.0.1:{port}/"

    def vhost(self, name: str) -> str:
        """Create a virtual host and return its transport URL."""
        self.ctl("add_vhost", name)
        self.ctl("set_permissions", "-p", name, "guest", ".*", ".*", ".*")
        return f"{self.url}{name}"

    def add_user(self, name: str, vhost: str) -> str:
        """Create a user without permissions, whose password is its name; return its transport URL."""
        self.ctl("add_user", name, name)
        return f"rabbit://{name}:{name}@127.0.0.1:{self.port}/{vhost}"

    def ctl(self, *arguments: str) -> str:
        """Run rabbitmqctl; return its output. :raises ServerFailed:"""
        program = find("rabbitmqctl", ["/usr/lib/rabbitmq/bin"], package="rabbitmq-server")
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
    program = find("rabbitmq-server", ["/usr/lib/rabbitmq/bin"], package="rabbitmq-server")
    port, dist_port, epmd_port, tls_port = free_ports(4)
    password = secrets.token_hex(16)
    with place("rabbitmq", user=None) as here:
        config = f"default_pass = {password}\n"
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
            "RABBITMQ_NODENAME": f"fleet-{port}@localhost",
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
            # port of Erlang's distribution is open to the network, and gives anybody with the cookie a shell.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}"
            ),
        }
        node = RabbitMQ(here, program, environment, port, password)
        node.tls_port = tls_port
        try:
            with node.running():
                yield node
        finally:
            # The node's port mapper is a daemon that would remain.
            subprocess.run(["epmd", "-port", str(epmd_port), "-kill"], capture_output=True, check=False)
