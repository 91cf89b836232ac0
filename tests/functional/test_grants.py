# SPDX-License-Identifier: Apache-2.0
"""One database role per service: the scheduler's reads, the conductor's changes rows, and neither changes tables."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exception

from fleet.db.engine.database import Database
from fleet.db.feed.feed import ChangeFeed
from fleet.db.schema import schema
from tests.configuration import of_database
from tests.functional.manage import Manage
from tests.worlds.conductor import Conductor

#: SQLite has no roles.
pytestmark = [
    pytest.mark.every_database,
    pytest.mark.parametrize("opened_database", ["postgresql", "mariadb"], indirect=True),
]


@pytest.fixture
def roles(database: Database, tmp_path: pathlib.Path) -> Iterator[dict[str, Database]]:
    """The ledger as each service sees it, once the statements that ``fleet-manage`` prints have been run."""
    engine = database.engine
    maria = engine.dialect.name == "mysql"
    names = {service: f"fleet_{service}" for service in ("conductor", "scheduler")}
    accounts = {name: f"'{name}'@'localhost'" if maria else name for name in names.values()}
    arguments = [f"--{service}={name}{'@localhost' if maria else ''}" for service, name in names.items()]
    arguments += [f"--engine={'mariadb' if maria else 'postgresql'}", f"--database={engine.url.database}"]
    status, printed = Manage(database, tmp_path)("db", "grants", *arguments)
    assert 0 == status, printed
    administrator = engine.execution_options(isolation_level="AUTOCOMMIT")
    with administrator.connect() as connection:
        for account in accounts.values():
            connection.execute(sa.text(f"CREATE USER {account}"))
        for statement in printed:
            connection.exec_driver_sql(statement)
    try:
        with (
            opened(engine.url.set(username=names["conductor"])).disposed() as conductor,
            opened(engine.url.set(username=names["scheduler"])).disposed() as scheduler,
        ):
            yield {"conductor": conductor, "scheduler": scheduler}
    finally:
        with administrator.connect() as connection:
            for account in accounts.values():
                if not maria:
                    connection.execute(sa.text(f"DROP OWNED BY {account}"))
                connection.execute(sa.text(f"DROP USER {account}"))


def opened(url: sa.URL) -> Database:
    conf = of_database(url.render_as_string(hide_password=False))
    conf.set_override("db_max_retries", 0, "database")
    return Database(conf)


def attempt(database: Database, statement: str) -> str:
    """Run a statement and return the database's answer, in a read-write transaction where that is not the default."""
    postgresql = database.engine.dialect.name == "postgresql"
    try:
        with database.engine.begin() as connection:
            if postgresql:
                connection.execute(sa.text("SET TRANSACTION READ WRITE"))
            connection.execute(sa.text(statement))
    except (db_exception.DBError, sa.exc.SQLAlchemyError) as refused:
        return str(refused).splitlines()[0]
    return "done"


WRITES = [
    "INSERT INTO generations (id, value) VALUES (2, 2)",
    "UPDATE instances SET host = 'h1'",
    "UPDATE services SET disabled = NULL",
    "DELETE FROM compute_nodes",
    "UPDATE alembic_version SET version_num = '1'",
]
TABLES = ["CREATE TABLE mine (id INTEGER)", "DROP TABLE instances", "ALTER TABLE services ADD COLUMN more INTEGER"]
UNSEEN = ["SELECT * FROM instance_faults", "SELECT * FROM flavors"]


def denied(said: str) -> bool:
    return any(word in said for word in ("permission denied", "must be owner", "denied to user"))


def test_the_scheduler_reads_what_it_decides_by(database: Database, roles: dict[str, Database]) -> None:
    """The whole feed, as the owner reads it, images included; and nothing else, and it changes nothing."""
    conductor = Conductor(database)
    conductor.add_host("h1")
    conductor.claim(conductor.place("h1"), "h1")
    scheduler = roles["scheduler"]
    schema.check(scheduler)
    mine, owners = (ChangeFeed(each, with_images=True).read(0) for each in (scheduler, database))
    assert (1, 1, 1) == (len(mine.nodes), len(mine.services), len(mine.instances))
    assert owners == mine
    allowed = [each for each in WRITES + TABLES + UNSEEN if not denied(attempt(scheduler, each))]
    assert [] == allowed


def test_the_conductor_changes_rows_and_no_table(database: Database, roles: dict[str, Database]) -> None:
    """A build from its acceptance to ACTIVE; tables, and the version of the schema, are the owner's."""
    schema.check(roles["conductor"])
    conductor = Conductor(roles["conductor"])
    conductor.add_host("h1")
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    conductor.operator.create_aggregate("racks", {})
    conductor.operator.add_aggregate_host("racks", "h1")
    conductor.operator.remove_aggregate_host("racks", "h1")
    assert "active" == conductor.state(uuid)[0]
    assert [] == [each for each in [*TABLES, WRITES[-1]] if not denied(attempt(roles["conductor"], each))]
