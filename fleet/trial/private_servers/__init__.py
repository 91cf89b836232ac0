# SPDX-License-Identifier: Apache-2.0
"""A broker and databases of one's own, for tests and for trying the service: started on request, stopped afterwards.

Nothing of the system's own servers is touched: each has a free port or a socket, a directory and a name of its own. As
root they run as the user that their package made, because they refuse to run as root. ``process`` is what they share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from fleet.trial.private_servers.mariadb_server import mariadb
from fleet.trial.private_servers.postgresql_server import PostgreSQL, postgresql, postgresql_server
from fleet.trial.private_servers.process import Certificate, ServerFailed, ServerMissing
from fleet.trial.private_servers.rabbitmq_server import RabbitMQ, rabbitmq, rabbitmq_node

__all__ = [
    "BROKERS",
    "Certificate",
    "DATABASES",
    "PostgreSQL",
    "RabbitMQ",
    "ServerFailed",
    "ServerMissing",
    "mariadb",
    "postgresql",
    "postgresql_server",
    "rabbitmq",
    "rabbitmq_node",
]

#: By the name that ``make up`` takes.
BROKERS: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {"rabbit": rabbitmq}
DATABASES: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {
    "postgresql": postgresql,
    "mariadb": mariadb,
}
