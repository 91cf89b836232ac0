# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL server. Tests start it, and the trial fleet with ``DB=postgresql``."""

from __future__ import annotations

import contextlib
import glob
import signal
import types
from collections.abc import Iterator, Mapping, Sequence

from fleet.db.engine import statements
from fleet_trial.private_servers.process import Certificate, Place, PrivateServer, find, free_ports, place


class PostgreSQL(PrivateServer):
    """``socket`` is where it listens; ``url`` is that of a database in it."""

    def __init__(self, place: Place, command: Sequence[str], port: int) -> None:
        self.port = port
        # SIGTERM would wait for its clients.
        super().__init__(place, command, {}, lambda: statements.answers(self.url("postgres")), signal.SIGINT)
        self.socket = place.path(f".s.PGSQL.{port}")

    def url(self, database: str = "fleet") -> str:
        return f"postgresql+psycopg2://fleet@/{database}?host={self.place.directory}&port={self.port}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run one statement outside any transaction."""
        statements.execute(self.url(database), statement)


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """Run a PostgreSQL server; yield the URL of an empty database."""
    with postgresql_server() as server:
        yield server.url()


@contextlib.contextmanager
def postgresql_server(
    certificate: Certificate | None = None, settings: Mapping[str, str] = types.MappingProxyType({})
) -> Iterator[PostgreSQL]:
    """Run a PostgreSQL server that can be stopped, killed and restarted, with an empty database ``fleet``.

    :param certificate: also listen on ``port`` of the loopback with TLS and this certificate; a user's name is its
    password
    :param settings: of the server, by name; they override those of a server that nobody else uses
    """
    directories = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    initdb = find("initdb", directories, package="postgresql")
    program = find("postgres", directories, package="postgresql")
    with place("postgresql", user="postgres") as here:
        data = here.path("data")
        here.run(
            [initdb, "-D", data, "-U", "fleet", "--auth-local", "trust", "--auth-host", "scram-sha-256"]
            + ["--pwfile", here.write("password", "fleet\n"), "--no-sync", "-E", "UTF8", "--locale", "C"]
        )
        # The socket is in a directory that only this user may enter, hence "trust".
        options = {"listen_addresses": "", "unix_socket_directories": here.directory, "max_connections": "300"}
        (port,) = free_ports(1) if certificate else (5432,)
        options |= {"port": str(port)}
        options |= {"fsync": "off", "full_page_writes": "off"}  # nothing in it outlives us
        if certificate:
            chain, key = certificate.files(here)
            options |= {"listen_addresses": "127.0.0.1", "ssl": "on", "ssl_cert_file": chain, "ssl_key_file": key}
        options |= settings
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        server = PostgreSQL(here, [program, "-D", data, *arguments], port)
        with server.running():
            server.execute("CREATE DATABASE fleet")
            yield server
