# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server that hangs, or is demoted: nothing waits for it for ever."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import options as database_options

from fleet import errors
from fleet.db.connection import options, silent_peer
from fleet.db.engine.database import Database, Transaction
from fleet.db.nova import api_queries
from fleet.db.nova.database import NovaDatabase
from fleet.db.tables import models
from fleet_trial import private_servers


@pytest.fixture(scope="module")
def server() -> Iterator[private_servers.PostgreSQL]:
    with private_servers.postgresql_server() as made:
        yield made


@pytest.fixture
def ledger(server: private_servers.PostgreSQL) -> Iterator[Database]:
    """Short limits, and no retries: a test sees the first error."""
    yield from _opened(server, connect_timeout=2)


@pytest.fixture
def patient(server: private_servers.PostgreSQL) -> Iterator[Database]:
    """One that waits for a slow server, and looks at a silent one as early as the other."""
    yield from _opened(server, connect_timeout=60)


def _opened(server: private_servers.PostgreSQL, connect_timeout: int) -> Iterator[Database]:
    conf = cfg.ConfigOpts()
    database_options.set_defaults(conf, connection=server.url())
    options.register_limits(conf)
    conf([])
    for name, value in {"connect_timeout": connect_timeout, "peer_timeout": 1, "db_max_retries": 0}.items():
        conf.set_override(name, value, "database")
    with Database(conf).disposed() as database:
        models.METADATA.create_all(database.engine)
        yield database


@contextlib.contextmanager
def hanging(server: private_servers.PostgreSQL) -> Iterator[None]:
    """All processes of the server stand still; the kernel accepts connections in their place."""
    server.hang()
    try:
        yield
    finally:
        server.resume()


def test_a_server_that_hangs(server: private_servers.PostgreSQL, ledger: Database) -> None:
    """A transaction that waits for it fails; when the server goes on, the next one succeeds."""
    entered, go_on = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def ask(connection: sa.Connection) -> None:
        connection.execute(sa.text("SELECT 1"))
        entered.set()
        go_on.wait(60)
        connection.execute(sa.text("SELECT 2"))

    def run() -> None:
        try:
            ledger.read_once(ask)
        except errors.DatabaseError as failure:
            failed.append(failure)

    ledger.ping()
    asking = threading.Thread(target=run)
    asking.start()
    assert entered.wait(60)
    with hanging(server):
        go_on.set()
        asking.join(120)
        assert not asking.is_alive()
    assert [errors.DatabaseUnavailable] == [type(each) for each in failed]
    ledger.ping()


def test_a_reader_of_nova_while_its_server_hangs(server: private_servers.PostgreSQL) -> None:
    """The reading fails, so that the cell can be left alone; when the server goes on, the next one succeeds."""
    nova = NovaDatabase(server.url(), "cell", options.Limits(connect_timeout=2, peer_timeout=1))
    reader = nova.reader()
    try:
        reader.read(api_queries.ping)
        with hanging(server), pytest.raises(errors.DatabaseUnavailable):
            reader.read(api_queries.ping)
        reader.read(api_queries.ping)
    finally:
        reader.close()
        nova.dispose()


def test_a_statement_that_takes_long_is_left_alone(patient: Database) -> None:
    """The server answers others, and is the same: it is not silent."""
    patient.read_once(lambda connection: connection.execute(sa.text("SELECT pg_sleep(4)")).all())


def test_a_session_of_another_server_is_cut(
    server: private_servers.PostgreSQL, ledger: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address leads to another server by now: a session that waits for the old one is in vain."""
    monkeypatch.setattr(silent_peer.SilentPeer, "_ask", lambda self: (None, "another server answers"))
    with pytest.raises(errors.DatabaseUnavailable):
        ledger.read_once(lambda connection: connection.execute(sa.text("SELECT pg_sleep(60)")).all())


def test_a_demoted_server_loses_its_sessions(ledger: Database) -> None:
    """A write that is refused as read only runs again on a new connection, and all old ones are replaced."""
    sessions: list[int] = []

    def write(tx: Transaction) -> None:
        sessions.append(tx.execute(sa.text("SELECT pg_backend_pid()")).scalar_one())
        if len(sessions) == 1:
            tx.execute(sa.text("SET TRANSACTION READ ONLY"))
        tx.execute(sa.text("DELETE FROM images"))

    with pytest.raises(errors.DatabaseUnavailable) as refused:
        ledger._write_once(write)
    assert "DBConnectionError" == refused.value.kind
    ledger._write_once(write)
    assert sessions[0] != sessions[1]
