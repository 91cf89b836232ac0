# SPDX-License-Identifier: Apache-2.0
"""The schema has a version, and a program refuses a version that does not fit."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.schema import migration, schema
from fleet.db.upkeep import acts
from tests.configuration import of_database
from tests.factories import NOW

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
    assert migration.differences(database) == []


def test_sync_twice_is_the_same_as_once(database: Database) -> None:
    """A database at the newest version is not changed."""
    assert migration.sync(database) == schema.latest()
    assert schema.version(database) == schema.latest()


def test_the_newest_revision_is_told_without_alembic() -> None:
    """The newest file name has the revision that the migrations define as head."""
    assert migration.head() == schema.latest()


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


def test_tables_keep_any_text_whatever_the_server_prefers(mariadb_url: str) -> None:
    """A MariaDB server may make databases of latin1, which has no Cyrillic letters and no emoji."""
    server = sa.make_url(mariadb_url)
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text("CREATE DATABASE latin CHARACTER SET latin1"))
    try:
        url = server.set(database="latin").render_as_string(hide_password=False)
        with Database(of_database(url)).disposed() as database:
            migration.sync(database)
            database.write(acts.record, "key", "test", "\N{CYRILLIC CAPITAL LETTER ZE} \N{GRINNING FACE}", {}, {}, NOW)
            assert "\N{CYRILLIC CAPITAL LETTER ZE} \N{GRINNING FACE}" == database.read(acts.newest, 1)[0].subject
    finally:
        with engine.connect() as connection:
            connection.execute(sa.text("DROP DATABASE latin"))
