# SPDX-License-Identifier: Apache-2.0
"""The schema has a version, and a program refuses a version that does not fit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from fleet import errors
from fleet.db.catalog import quotas
from fleet.db.engine.database import Database
from fleet.db.schema import migration, schema
from fleet.db.upkeep import acts
from tests.configuration import of_database, of_migration
from tests.factories import NOW
from tests.functional import databases

pytestmark = pytest.mark.every_database


@pytest.fixture
def version_row(database: Database):
    """Lets a test pretend another version, and puts the real one back."""
    yield lambda value: _set_version(database, value)
    _set_version(database, schema.latest())


def _set_version(database: Database, value: str) -> None:
    with database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :value"), {"value": value})


def test_migrations_make_what_the_models_say(database: Database) -> None:
    """Nothing that the models declare is missing after a sync, and nothing is too much."""
    assert databases.differences(database) == []


def test_sync_twice_is_the_same_as_once(database: Database) -> None:
    """A database at the newest version is not changed."""
    assert migration.sync(database) == schema.latest()
    assert schema.version(database) == schema.latest()


def test_the_newest_revision_is_told_without_alembic() -> None:
    """The newest file name has the revision that the migrations define as head."""
    assert ScriptDirectory(str(schema.MIGRATIONS)).get_current_head() == schema.latest()


def test_each_revision_has_a_number_of_its_own() -> None:
    """The files are numbered without gaps, so two changes that were made at the same time cannot both count."""
    assert [f"{number:04}" for number in range(1, len(schema.revisions()) + 1)] == schema.revisions()


def test_a_newer_schema_is_refused(database: Database, version_row) -> None:
    """A program older than the schema refuses to run and to sync; the message says to upgrade it."""
    version_row("9999")
    with pytest.raises(errors.SchemaMismatch, match="upgrade this program"):
        schema.check(database)
    with pytest.raises(errors.SchemaMismatch, match="upgrade this program"):
        migration.sync(database)


def test_an_empty_database_asks_for_a_sync(tmp_path) -> None:
    """Before the first sync the advice is to sync."""

    conf = of_database(f"sqlite:///{tmp_path}/empty.db")
    with Database(conf).disposed() as database, pytest.raises(errors.SchemaMismatch, match="fleet-manage db sync"):
        schema.check(database)


@pytest.fixture
def latin(mariadb_url: str) -> Iterator[Database]:
    """A MariaDB database as some servers make it: of latin1, which has no Cyrillic letters, no emoji and no case."""
    with (
        databases.beside(mariadb_url, "CHARACTER SET latin1") as url,
        Database(of_migration(url)).disposed() as database,
    ):
        yield database


def _inexact(connection: sa.Connection) -> list[tuple[str, str]]:
    """Columns of which the database takes different texts for the same; the version's own table does not matter."""
    where = "table_schema = DATABASE() AND collation_name NOT LIKE '%bin' AND table_name <> 'alembic_version'"
    query = f"SELECT table_name, column_name FROM information_schema.columns WHERE {where}"
    return [tuple(row) for row in connection.execute(sa.text(query))]


def _as_earlier_releases(connection: sa.Connection) -> None:
    """Give all tables a collation that servers have by default."""
    found = sa.inspect(connection)
    keys = {table: found.get_foreign_keys(table) for table in found.get_table_names()}
    for table, of_table in keys.items():
        for key in of_table:
            connection.execute(sa.text(f"ALTER TABLE {table} DROP FOREIGN KEY {key['name']}"))
    for table in keys:
        connection.execute(sa.text(f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"))
    for table, of_table in keys.items():
        for key in of_table:
            of, to = key["constrained_columns"][0], f"{key['referred_table']} ({key['referred_columns'][0]})"
            change = f"ADD CONSTRAINT {key['name']} FOREIGN KEY ({of}) REFERENCES {to}"
            connection.execute(sa.text(f"ALTER TABLE {table} {change}"))
    connection.execute(sa.text("ALTER DATABASE CHARACTER SET latin1"))
    connection.execute(sa.text("INSERT INTO quotas (project_id, instances) VALUES ('web', 3)"))
    connection.commit()


def test_tables_keep_any_text_whatever_the_server_prefers(latin: Database) -> None:
    """Letters of any language."""
    migration.sync(latin)
    latin.write(acts.record, "key", "test", "\N{CYRILLIC CAPITAL LETTER ZE} \N{GRINNING FACE}", {}, {}, NOW)
    assert "\N{CYRILLIC CAPITAL LETTER ZE} \N{GRINNING FACE}" == latin.read(acts.newest, 1)[0].subject


@pytest.mark.long
def test_tables_of_earlier_releases_compare_text_exactly_after_a_sync(latin: Database) -> None:
    """Projects whose names differ in case are two, and what was stored stays."""
    migration.sync(latin, "0044")
    with latin.engine.connect() as connection:
        _as_earlier_releases(connection)
        assert _inexact(connection)

    assert schema.latest() == migration.sync(latin)

    for project in ("Web", "w\u00e9b", "web "):
        latin.write(quotas.change, project, {"instances": 1})
    assert {"instances": 3} == latin.read(quotas.own, "web")
    with latin.engine.connect() as connection:
        assert [] == _inexact(connection)
    assert [] == databases.differences(latin)
