# SPDX-License-Identifier: Apache-2.0
"""A name of a server group is its project's own: it tells nobody which names others have chosen."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exception

from conductor_stub.builds import acceptance, intake
from fleet import errors
from fleet.clock import utcnow
from fleet.db.engine.database import Database, Transaction
from fleet.db.schema import migration, schema
from fleet.db.tables import models
from fleet.db.upkeep import removal
from tests.configuration import of_migration
from tests.functional import databases
from tests.worlds.conductor import Conductor

pytestmark = pytest.mark.every_database

GROUPS = models.instance_groups
#: Before projects had names of their own.
BEFORE = "0027"


def a_row(name: str, project: str | None) -> dict[str, Any]:
    about = {"policy": "affinity", "max_server_per_host": 1, "created_at": utcnow()}
    return {"uuid": str(uuid.uuid4()), "name": name, "project_id": project, **about}


@pytest.fixture
def older(database: Database, tmp_path: Any) -> Iterator[Database]:
    """Another database of the same engine, at the schema BEFORE."""
    server, name = databases.url_of(database), f"groups_{uuid.uuid4().hex}"
    is_file = server.get_backend_name() == "sqlite"
    url = server.set(database=str(tmp_path / "older.db") if is_file else name)

    def on_server(statement: str) -> None:
        if not is_file:
            with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(sa.text(statement))

    on_server(f"CREATE DATABASE {name}")
    with Database(of_migration(url.render_as_string(hide_password=False))).disposed() as made:
        migration.sync(made, BEFORE)
        yield made
    on_server(f"DROP DATABASE {name}")


def test_groups_stay_and_may_share_names(older: Database) -> None:
    """On each engine; groups without a project, which the index does not compare, stay as well."""
    stored = [a_row("one", "web"), a_row("two", "shop"), a_row("three", None)]
    with older.engine.begin() as connection:
        connection.execute(GROUPS.insert(), stored)
    with pytest.raises(db_exception.DBDuplicateEntry), older.engine.begin() as connection:
        connection.execute(GROUPS.insert(), [a_row("one", "shop")])
    assert schema.latest() == migration.sync(older)
    more = [a_row("one", "shop"), a_row("three", None), a_row("one", "web")]
    with older.engine.begin() as connection:
        connection.execute(GROUPS.insert(), more)
    with older.engine.connect() as connection:
        found = connection.execute(sa.select(GROUPS.c.uuid).order_by(GROUPS.c.uuid)).scalars().all()
    assert sorted(each["uuid"] for each in (*stored, *more)) == found


def test_an_administrator_gets_the_uuids_of_a_name_of_two_projects(conductor: Conductor) -> None:
    """Each project finds its own; the administrator has to choose."""
    made = [
        conductor.operator.under(project, is_admin=False).create_group("one", "affinity")["uuid"]
        for project in ("web", "shop")
    ]
    with pytest.raises(errors.Conflict, match="use a uuid") as several:
        conductor.operator.show_group("one")
    assert all(each in several.value.message for each in made)
    assert made == [conductor.operator.show_group(each)["uuid"] for each in made]
    for project, mine in zip(("web", "shop"), made, strict=True):
        assert mine == conductor.operator.under(project, is_admin=False).show_group("one")["uuid"]


def test_groups_of_a_project_may_share_a_name(conductor: Conductor) -> None:
    """They are told apart by their uuids."""
    web = conductor.operator.under("web", is_admin=False)
    made = sorted(web.create_group("one", "affinity")["uuid"] for _ in range(2))
    with pytest.raises(errors.Conflict, match="use a uuid") as several:
        web.show_group("one")
    assert all(each in several.value.message for each in made)
    web.delete_group(made[0])
    assert made[1] == web.show_group("one")["uuid"]


CREATIONS = [
    ("Aggregate", lambda operator: operator.create_aggregate("new", {})),
    ("Flavor", lambda operator: operator.create_flavor({"name": "new", "vcpus": 1, "memory_mb": 64})),
    ("Image", lambda operator: operator.create_image({"name": "new", "location": "/image"})),
    ("Volume type", lambda operator: operator.create_volume_type({"name": "new"})),
]


@pytest.mark.parametrize(("kind", "create"), CREATIONS, ids=[each[0] for each in CREATIONS])
def test_a_name_that_another_transaction_took_is_taken(
    conductor: Conductor, kind: str, create: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For everything with a name that is only one's: the database refuses the row, and the caller learns why."""

    def refused(*_arguments: object) -> None:
        raise db_exception.DBDuplicateEntry

    monkeypatch.setattr(Transaction, "insert", refused)
    with pytest.raises(errors.Conflict, match=f"{kind} new exists already"):
        create(conductor.operator)


def test_a_group_that_goes_while_a_build_into_it_is_accepted(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build is refused as one into a group that never was, and leaves nothing."""
    group = conductor.operator.create_group("one", "affinity")["uuid"]
    accept = acceptance.insert_all

    def later(*args: Any) -> Any:
        removal.group(args[0], group)
        return accept(*args)

    monkeypatch.setattr(intake, "insert_all", later)
    with pytest.raises(errors.NotFound, match=f"Server group {group}"):
        conductor.create(group=group)
    assert [] == conductor.operator.list_instances()
