# SPDX-License-Identifier: Apache-2.0
"""Private servers for tests and trials: a broker and databases, started on request and stopped afterwards.

The system's own servers are not touched: each private server has a free port or a socket, a directory and a name of
its own. As root they run as their package's user, because they refuse to run as root. ``process`` has what they
share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from fleet_trial.private_servers.guest_network import GuestNetwork, guest_network
from fleet_trial.private_servers.libvirt_server import Libvirt, libvirt
from fleet_trial.private_servers.mariadb_server import mariadb
from fleet_trial.private_servers.postgresql_server import PostgreSQL, postgresql, postgresql_server
from fleet_trial.private_servers.process import Certificate, ServerFailed, ServerMissing
from fleet_trial.private_servers.rabbitmq_server import RabbitMQ, rabbitmq, rabbitmq_node

__all__ = [
    "BROKERS",
    "Certificate",
    "DATABASES",
    "GuestNetwork",
    "Libvirt",
    "PostgreSQL",
    "RabbitMQ",
    "ServerFailed",
    "ServerMissing",
    "guest_network",
    "libvirt",
    "mariadb",
    "postgresql",
    "postgresql_server",
    "rabbitmq",
    "rabbitmq_node",
]

#: By their names in ``make up``.
BROKERS: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {"rabbit": rabbitmq}
DATABASES: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {
    "postgresql": postgresql,
    "mariadb": mariadb,
}
