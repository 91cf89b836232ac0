# SPDX-License-Identifier: Apache-2.0
"""A private MariaDB server. Tests start it, and the trial fleet with ``DB=mariadb``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fleet.db.engine import statements
from fleet_trial.private_servers.process import Certificate, PrivateServer, find, free_ports, place


@contextlib.contextmanager
def mariadb(certificate: Certificate | None = None) -> Iterator[str]:
    """Run a MariaDB server; yield the URL of an empty database.

    :param certificate: also listen on the loopback with TLS and this certificate, and yield the URL there (user and
    password fleet), without TLS arguments
    """
    install = find("mariadb-install-db", [], package="mariadb-server")
    program = find("mariadbd", ["/usr/sbin"], package="mariadb-server")
    with place("mariadb", user="mysql") as here:
        data, unix_socket = here.path("data"), here.path("socket")
        here.run(
            [
                install,
                "--no-defaults",
                f"--datadir={data}",
                f"--tmpdir={here.directory}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]
        )
        base = f"mysql+pymysql://root@localhost/{{}}?unix_socket={unix_socket}&charset=utf8mb4"
        command = [
            program,
            "--no-defaults",
            f"--datadir={data}",
            f"--tmpdir={here.directory}",
            f"--socket={unix_socket}",
            "--skip-networking",
            "--character-set-server=utf8mb4",
            "--max-connections=300",
            "--innodb-flush-log-at-trx-commit=0",  # nothing in it outlives us
        ]
        (port,) = free_ports(1)
        if certificate:
            chain, key = certificate.files(here)
            command.remove("--skip-networking")
            command += ["--bind-address=127.0.0.1", f"--port={port}", f"--ssl-cert={chain}", f"--ssl-key={key}"]
        server = PrivateServer(here, command, {}, lambda: statements.answers(base.format("mysql")))
        with server.running():
            statements.execute(base.format("mysql"), "CREATE DATABASE fleet")
            if certificate:
                statements.execute(
                    base.format("mysql"), "GRANT ALL ON fleet.* TO fleet@'%' IDENTIFIED BY 'fleet' REQUIRE SSL"
                )
                yield f"mysql+pymysql://fleet:fleet@localhost:{port}/fleet?charset=utf8mb4"
            else:
                yield base.format("fleet")
