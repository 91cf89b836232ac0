# SPDX-License-Identifier: Apache-2.0
"""Which connections to a database are open to others on the way."""

from __future__ import annotations

import pytest

from fleet.db.connection import tls

CONNECTIONS = [
    ("a file", "sqlite:////var/lib/fleet.db", None),
    ("a socket in a directory", "postgresql+psycopg2://fleet@/fleet?host=/run/postgresql", None),
    ("this machine", "postgresql://fleet@127.0.0.1/fleet", None),
    ("this machine by its other name", "mysql+pymysql://fleet@[::1]/fleet", None),
    ("PostgreSQL in the clear", "postgresql://fleet@db/fleet", "on db is reached without TLS"),
    ("if it happens to have TLS", "postgresql://fleet@db/fleet?sslmode=prefer", "without TLS"),
    ("PostgreSQL with anybody", "postgresql://fleet@db/fleet?sslmode=require", "sslmode=require, which does not check"),
    ("PostgreSQL with any of ours", "postgresql://fleet@db/fleet?sslmode=verify-ca", "verify-ca, which does not check"),
    ("PostgreSQL as it should be", "postgresql://fleet@db/fleet?sslmode=verify-full&sslrootcert=/ca", None),
    ("one of several hosts", "postgresql://fleet@/fleet?host=localhost,db2", "without TLS"),
    ("MariaDB in the clear", "mysql+pymysql://fleet@db/fleet", "without TLS"),
    ("MariaDB with anybody", "mysql+pymysql://fleet@db/fleet?ssl_ca=/ca&ssl_check_hostname=false", "may be anybody's"),
    (
        "by PyMySQL's own words",
        "mysql+pymysql://fleet@db/fleet?ssl_ca=/ca&ssl_verify_identity=true",
        "forget ssl_ca",
    ),
    ("MariaDB as it should be", "mysql+pymysql://fleet@db/fleet?ssl_ca=/ca", None),
    ("no URL at all", "db", None),
]


@pytest.mark.parametrize(("what", "connection", "found"), CONNECTIONS, ids=[case[0] for case in CONNECTIONS])
def test_what_a_connection_lacks(what: str, connection: str, found: str | None) -> None:
    """A connection on this machine lacks nothing, and neither does an encrypted one that checks the server's certificate."""
    weakness = tls.weakness(connection)
    assert found is None if weakness is None else found is not None and found in weakness[0], weakness


REFUSALS = [
    ("a password", "FATAL:  password authentication failed for user", ""),
    ("nobody there", "connection refused", ""),
    ("another host", 'server certificate for "a" does not match host name "b"', "does not match"),
    ("a server without TLS", "server does not support SSL, but SSL was required", "does not support SSL"),
]


@pytest.mark.parametrize(("what", "said", "found"), REFUSALS, ids=[case[0] for case in REFUSALS])
def test_what_a_refusal_is_about(what: str, said: str, found: str) -> None:
    """Only refusals that are about TLS name TLS as the cause."""
    assert (found in tls.refusal(Exception(said)), bool(found)) == (True, bool(tls.refusal(Exception(said))))
