# SPDX-License-Identifier: Apache-2.0
"""Two migrations that begin at the same time do not meet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent import futures

import pytest
import sqlalchemy as sa

from fleet.db.engine.database import Database
from fleet.db.schema import migration, schema
from tests.configuration import of_database

pytestmark = pytest.mark.every_database
_CHANGES = ("CREATE", "ALTER", "DROP")


@pytest.fixture
def url(opened_database: Database, tmp_path) -> Iterator[str]:
    """The URL of a database without a schema."""
    server = opened_database.engine.url
    if opened_database.dialect == "sqlite":
        yield f"sqlite:///{tmp_path}/fleet.db"
        return
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text("CREATE DATABASE interrupted"))
    yield server.set(database="interrupted").render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(sa.text("DROP DATABASE interrupted"))


def test_two_migrations_at_the_same_time_are_one(url: str) -> None:
    """The second program waits for the first one, and finds nothing to do."""
    second_begins = threading.Event()
    with (
        Database(of_database(url)).disposed() as first,
        Database(of_database(url)).disposed() as second,
        futures.ThreadPoolExecutor() as pool,
    ):
        run: list[futures.Future[str]] = []

        def wait_for_the_second(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if statement.lstrip().startswith("CREATE TABLE build_requests"):
                run.append(pool.submit(migration.sync, second))
                assert second_begins.wait(60)

        def begins(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if "lock" in statement or statement.lstrip().startswith(("BEGIN", *_CHANGES)):
                second_begins.set()

        sa.event.listen(first.engine, "before_cursor_execute", wait_for_the_second)
        sa.event.listen(second.engine, "before_cursor_execute", begins)
        assert schema.latest() == migration.sync(first)
        assert schema.latest() == run[0].result(60)
        assert [] == migration.differences(first)
