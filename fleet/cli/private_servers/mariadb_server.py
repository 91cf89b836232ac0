# SPDX-License-Identifier: Apache-2.0
"""A MariaDB server of one's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fleet.cli.private_servers.process import Server, database_answers, execute, find, place


@contextlib.contextmanager
def mariadb() -> Iterator[str]:
    """A MariaDB server; yields the URL of an empty database in it."""
    install = find("mariadb-install-db", [], package="mariadb-server")
    program = find("mariadbd", ["/usr/sbin"], package="mariadb-server")
    with place("mariadb", user="mysql") as here:
        data, unix_socket = here.path("data"), here.path("socket")
        here.run(
            [
                install,
                "--no-defaults",
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]
        )
        base = f"mysql+pymysql://root@localhost/{{}}?unix_socket={unix_socket}&charset=utf8mb4"
        command = [
            program,
            "--no-defaults",
            f"--datadir={data}",
            f"--socket={unix_socket}",
            "--skip-networking",
            "--character-set-server=utf8mb4",
            "--max-connections=300",
            "--innodb-flush-log-at-trx-commit=0",  # nothing in it outlives us
        ]
        server = Server(here, command, {}, lambda: database_answers(base.format("mysql")))
        with server.running():
            execute(base.format("mysql"), "CREATE DATABASE fleet")
            yield base.format("fleet")
