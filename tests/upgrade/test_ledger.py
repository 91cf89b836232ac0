# SPDX-License-Identifier: Apache-2.0
"""The ledger of each release is upgraded on every database: nothing is lost, and every row can be read."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from fleet.db.engine import unreadable
from fleet.db.engine.database import Database
from fleet.db.schema import migration, schema
from tests.configuration import of_migration
from tests.functional import databases
from tests.upgrade import release


@pytest.fixture(scope="session", params=["sqlite", "postgresql", pytest.param("mariadb", marks=pytest.mark.long)])
def server(request: pytest.FixtureRequest) -> sa.URL | None:
    """A server of databases; None for SQLite."""
    return None if request.param == "sqlite" else sa.make_url(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def empty(server: sa.URL | None, tmp_path: pathlib.Path) -> Iterator[Database]:
    """A database of its own, without a schema."""
    if server is None:
        with Database(of_migration(f"sqlite:///{tmp_path}/fleet.db")).disposed() as database:
            yield database
        return
    with databases.beside(server) as url, Database(of_migration(url)).disposed() as database:
        yield database


@pytest.mark.parametrize("version", release.releases())
def test_nothing_is_lost(empty: Database, version: str) -> None:
    """Rows of a release have their values after all later migrations, and the schema is that of the models."""
    kept = release.ledger(version)
    migration.sync(empty, kept.revision)
    with empty.engine.begin() as connection:
        kept.fill(connection)
        before = release.read_rows(connection)
    assert {table: len(rows) for table, rows in kept.rows.items()} == {
        table: len(rows) for table, rows in before.items()
    }
    migration.sync(empty)
    assert schema.latest() == schema.version(empty)
    assert [] == databases.differences(empty)
    with empty.engine.connect() as connection:
        after = release.read_rows(connection)
        assert ([], True) == unreadable.find(connection, 60)
    lost = [
        (table, row)
        for table, rows in before.items()
        for row in rows
        if not any(row.items() <= now.items() for now in after[table])
    ]
    assert [] == lost


def test_a_release_is_kept() -> None:
    """The first release is among them: a path that finds no file would test nothing."""
    assert "1.0.0" == release.releases()[0]
    assert sum(map(len, release.ledger("1.0.0").rows.values())) > 100
