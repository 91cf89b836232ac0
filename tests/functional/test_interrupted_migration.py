# SPDX-License-Identifier: Apache-2.0
"""A migration that was interrupted goes on."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from fleet.db.engine import failures
from fleet.db.engine.database import Database
from fleet.db.schema import migration, schema
from tests.configuration import of_migration
from tests.functional import databases

pytestmark = pytest.mark.every_database
_CHANGES = ("CREATE", "ALTER", "DROP")
_STOPPED = "stopped by the test"


class Interruption:
    """Stops the program when ``left`` statements have changed a table."""

    def __init__(self, database: Database) -> None:
        self.left = 0
        sa.event.listen(database.engine, "before_cursor_execute", self._look)

    def _look(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.lstrip().startswith(_CHANGES):
            self.left -= 1
            if self.left < 0:
                raise RuntimeError(_STOPPED)


def goes_to_its_end(database: Database, interruption: Interruption, allowed: int) -> bool:
    """Migrate, and stop before the statement after the first ``allowed`` ones that change a table."""
    interruption.left = allowed
    try:
        migration.sync(database)
    except Exception as stopped:
        # oslo.db raises an error of its own in place of ours.
        if _STOPPED not in str(stopped):
            raise
        return False
    return True


def test_a_migration_goes_on_where_it_was_interrupted(bare_url: str) -> None:
    """On MariaDB each statement that changes a table is done for good. The next run does what is missing.

    PostgreSQL and SQLite undo everything, so one interruption in the middle is enough.
    """
    with Database(of_migration(bare_url)).disposed() as database:
        interruption = Interruption(database)
        if database.dialect == "mysql":
            while not goes_to_its_end(database, interruption, 11):
                pass
        else:
            assert not goes_to_its_end(database, interruption, 100)
            interruption.left = 1000
        assert schema.latest() == migration.sync(database)
        assert [] == databases.differences(database)
        assert [(1, 1)] == database.read(_rows, "SELECT id, value FROM generations")


def test_a_table_of_another_program_is_not_taken_over(bare_url: str) -> None:
    """If another program has a table of the same name, every run is refused. Its table stays as it is."""
    with Database(of_migration(bare_url)).disposed() as database:
        with database.engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE instances (uuid VARCHAR(36) PRIMARY KEY, cell VARCHAR(9))"))
        for _ in range(2):
            with pytest.raises(failures.RAISED):
                migration.sync(database)
        columns = sa.inspect(database.engine).get_columns("instances")
        assert ["uuid", "cell"] == [each["name"] for each in columns]


def _rows(connection: sa.Connection, statement: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in connection.execute(sa.text(statement))]
