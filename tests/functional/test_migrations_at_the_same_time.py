# SPDX-License-Identifier: Apache-2.0
"""Two migrations that begin at the same time do not meet."""

from __future__ import annotations

import threading
from concurrent import futures

import pytest
import sqlalchemy as sa

from fleet.db.engine.database import Database
from fleet.db.schema import migration, schema
from tests.configuration import of_migration
from tests.functional import databases

pytestmark = pytest.mark.every_database
_CHANGES = ("CREATE", "ALTER", "DROP")


def test_two_migrations_at_the_same_time_are_one(bare_url: str) -> None:
    """The second program waits for the first one, and finds nothing to do."""
    second_begins = threading.Event()
    with (
        Database(of_migration(bare_url)).disposed() as first,
        Database(of_migration(bare_url)).disposed() as second,
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
        assert [] == databases.differences(first)
