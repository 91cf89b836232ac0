# SPDX-License-Identifier: Apache-2.0
"""The servers of a run. Each is started once, when the first test asks for it, and stops with the run.

Of a run of several processes, the one that starts the others keeps the servers: a node of RabbitMQ alone costs 11 s of
processor time. Each process has a virtual host and databases of its own there; the fixtures are in :mod:`tests.conftest`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import pytest
import sqlalchemy as sa

from fleet.db.engine import statements
from fleet_trial import private_servers

#: How each server is started: a node of RabbitMQ, or the URL of a database.
_STARTS: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "rabbitmq": private_servers.rabbitmq_node,
    "postgresql": private_servers.postgresql,
    "mariadb": private_servers.mariadb,
}
#: The name of this process in a run of several; otherwise empty.
PROCESS = os.environ.get("PYTEST_XDIST_WORKER", "")
#: The entry of ``workerinput`` with the address and the key of the servers.
_INPUT = "fleet_servers"


class Servers:
    """Those that this process keeps. :ivar processes: names of the others that use them"""

    def __init__(self) -> None:
        self.processes: list[str] = []
        self._held = contextlib.ExitStack()
        self._locks = {name: threading.Lock() for name in _STARTS}
        self._running: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """Return a server. The first thread that asks for it starts it. :raises ServerMissing: it is not installed"""
        with self._locks[name]:
            if name not in self._running:
                self._running[name] = self._held.enter_context(_STARTS[name]())
                if name == "rabbitmq" and self.processes:
                    self._running[name].vhosts(*self.processes)
            return self._running[name]

    def stop(self) -> None:
        """Stop them for good. One that a thread is just starting is waited for."""
        for lock in self._locks.values():
            lock.acquire()
        self._held.close()


class ServersOfRun(Servers):
    """Servers that the processes of a run ask for through a socket."""

    def __init__(self) -> None:
        super().__init__()
        self._key = os.urandom(16)
        self._listener = Listener(family="AF_UNIX", authkey=self._key)
        threading.Thread(target=self._accept, daemon=True).start()

    def pytest_configure_node(self, node: Any) -> None:
        self.processes.append(node.gateway.id)
        node.workerinput[_INPUT] = (self._listener.address, self._key.hex())

    def _accept(self) -> None:
        while True:
            threading.Thread(target=self._answer, args=(self._listener.accept(),), daemon=True).start()

    def _answer(self, caller: Connection) -> None:
        # A process that has ended meanwhile needs no answer.
        with caller, contextlib.suppress(EOFError, OSError):
            try:
                caller.send(self.get(caller.recv()))
            except (private_servers.ServerMissing, private_servers.ServerFailed) as error:
                caller.send(error)


class ServersElsewhere:
    """Servers that another process of the run keeps."""

    def __init__(self, address: str, key: str) -> None:
        self._address, self._key = address, bytes.fromhex(key)

    def get(self, name: str) -> Any:
        """:raises ServerMissing: it is not installed"""
        with Client(self._address, authkey=self._key) as asked:
            asked.send(name)
            answer = asked.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        """They stop with the run."""


def of(config: pytest.Config) -> Servers | ServersElsewhere:
    """Return the servers of this process."""
    given = getattr(config, "workerinput", {}).get(_INPUT)
    if given:
        return ServersElsewhere(*given)
    return ServersOfRun() if config.getoption("numprocesses", None) else Servers()


def create_database(server: str | sa.URL, name: str, clause: str = "") -> str:
    """Create a database of this process without a schema on a server, which keeps it; return its URL.

    :param server: URL of any database there
    :param name: without that of the process
    :param clause: ends the statement that creates it
    """
    own = f"{name}_{PROCESS}" if PROCESS else name
    statements.execute(server, f"CREATE DATABASE {own} {clause}")
    return sa.make_url(server).set(database=own).render_as_string(hide_password=False)


def drop_database(url: str, server: str | sa.URL) -> None:
    """:param server: URL of another database there"""
    statements.execute(server, f"DROP DATABASE {sa.make_url(url).database}")
