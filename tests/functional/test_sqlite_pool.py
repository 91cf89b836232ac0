# SPDX-License-Identifier: Apache-2.0
"""Connections to a SQLite file stay open between transactions, and there are as many as threads need."""

from __future__ import annotations

import contextlib
import os
import pathlib
import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from fleet.db.connection import sqlite_pool
from fleet.db.engine.database import Database
from tests.functional import databases


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[Database]:
    with databases.open_database(f"sqlite:///{tmp_path}/fleet.db").disposed() as made:
        yield made


@contextlib.contextmanager
def opened(ledger: Database) -> Iterator[list[object]]:
    """The connections that are opened meanwhile."""
    found: list[object] = []

    def note(connection: object, _record: object) -> None:
        found.append(connection)

    sa.event.listen(ledger.engine, "connect", note)
    yield found
    sa.event.remove(ledger.engine, "connect", note)


def one(connection: sa.Connection) -> int:
    return connection.execute(sa.text("SELECT 1")).scalar_one()


def test_a_transaction_uses_the_connection_of_the_last_one(ledger: Database) -> None:
    """Opening one takes longer than the transaction."""
    with opened(ledger) as new:
        assert [1] * 5 == [ledger.read(one) for _each in range(5)]
    assert [] == new


def test_no_thread_waits_for_a_connection(ledger: Database) -> None:
    """More threads than connections are kept: all have one at the same time, and the rest is closed afterwards."""
    threads, ended = 2 * sqlite_pool.KEPT, []
    together = threading.Barrier(threads, timeout=120)

    def read(connection: sa.Connection) -> None:
        together.wait()
        ended.append(one(connection))

    work = [threading.Thread(target=ledger.read, args=(read,)) for _each in range(threads)]
    for each in work:
        each.start()
    for each in work:
        each.join()
    assert [1] * threads == ended
    pool = ledger.engine.pool
    assert isinstance(pool, sa.QueuePool)
    assert (0, sqlite_pool.KEPT) == (pool.checkedout(), pool.checkedin())


def test_a_child_has_connections_of_its_own(ledger: Database) -> None:
    """A connection of SQLite must not be used in two processes."""
    ledger.read(one)
    child = os.fork()
    if child == 0:
        with opened(ledger) as new:
            good = ledger.read(one) == 1 and len(new) == 1
        os._exit(0 if good else 1)
    assert (child, 0) == os.waitpid(child, 0)


def test_a_ledger_in_memory_has_one_connection() -> None:
    """Each connection would have a ledger of its own."""
    with databases.open_database("sqlite://").disposed() as ledger:
        assert isinstance(ledger.engine.pool, sa.StaticPool)


def test_the_url_is_as_it_was(ledger: Database, tmp_path: pathlib.Path) -> None:
    """It is shown in messages, and handed to programs."""
    assert f"sqlite:///{tmp_path}/fleet.db" == str(ledger.engine.url)
