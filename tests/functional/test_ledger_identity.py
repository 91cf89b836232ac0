# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage ledger``, for an operator who has replaced a database on purpose."""

from __future__ import annotations

import pathlib
import uuid as uuid_module

import pytest

from fleet.db.engine.database import Database
from fleet.db.schema import identity, migration
from fleet.db.tables import models
from tests.configuration import of_migration
from tests.functional.databases import open_database
from tests.functional.manage import Manage

ADOPTED = "5c1d3a34-5f0e-4a5b-9d06-0a3a3c0b8d11"


def test_every_new_database_is_a_ledger_of_its_own(tmp_path: pathlib.Path) -> None:
    """The migration names it, and its second run does not name it again."""
    databases = [open_database(f"sqlite:///{tmp_path / name}") for name in ("one.db", "two.db")]
    names = [each.read(identity.read) for each in databases]
    assert 2 == len({str(uuid_module.UUID(name)) for name in names})
    again = open_database(f"sqlite:///{tmp_path / 'one.db'}")
    assert names[0] == again.read(identity.read)


def test_a_database_adopts_an_identity(database: Database, tmp_path: pathlib.Path) -> None:
    manage = Manage(database, tmp_path)
    assert (0, ["none"]) == manage("ledger", "show")
    assert 0 == manage("ledger", "adopt", ADOPTED.upper())[0]
    assert 0 == manage("ledger", "adopt", ADOPTED)[0]
    assert (0, [ADOPTED]) == manage("ledger", "show")
    status, said = manage("ledger", "adopt", "mine")
    assert (2, True) == (status, "'mine' is not a uuid" in said[-1])
    assert 0 == manage("ledger", "renew")[0]
    assert ADOPTED != str(uuid_module.UUID(manage("ledger", "show")[1][0]))


def test_a_database_without_generations_adopts_nothing(database: Database, tmp_path: pathlib.Path) -> None:
    """It was restored in part: the command must not say that it has the identity."""
    manage = Manage(database, tmp_path)
    database.write(lambda tx: tx.execute(models.generations.delete()))
    for command in (["adopt", ADOPTED], ["renew"]):
        status, (said,) = manage("ledger", *command)
        assert (1, "Table generations has lost its row: restore the whole database") == (status, said.rstrip("."))


@pytest.mark.parametrize("revision", [None, "0008"])
def test_a_database_that_has_no_identity_yet_asks_for_a_sync(revision: str | None, tmp_path: pathlib.Path) -> None:
    """It is empty, or of a release without identities."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    with Database(of_migration(url)).disposed() as database:
        if revision is not None:
            migration.sync(database, revision)
    manage = Manage(url, tmp_path)
    for command in (["show"], ["adopt", ADOPTED], ["renew"]):
        status, (told,) = manage("ledger", *command)
        assert (1, True) == (status, "Run 'fleet-manage db sync'." in told), told


def test_the_identity_of_an_older_schema_is_shown(tmp_path: pathlib.Path) -> None:
    """An operator looks at a backup before it is upgraded."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    with Database(of_migration(url)).disposed() as database:
        migration.sync(database, "0009")
    manage = Manage(url, tmp_path)
    assert 0 == manage("ledger", "adopt", ADOPTED)[0]
    assert (0, [ADOPTED]) == manage("ledger", "show")
