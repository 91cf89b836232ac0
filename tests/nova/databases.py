# SPDX-License-Identifier: Apache-2.0
"""The database server of a cloud: PostgreSQL or MariaDB, each with a role that has the documented grants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import sqlalchemy as sa

from fleet.db.engine import statements
from fleet_trial.private_servers import PostgreSQL, mariadb, postgresql_server
from tests.nova import grants

#: Roles: nova's own, the one that reads, and the one of the scheduler's row in nova's list of services.
OWNER, READER, KEEPER = "fleet", "reader", "keeper"


class Databases:
    """:ivar cell_connection: the option of that name for the role that may only read"""

    cell_connection: str

    def url(self, database: str, role: str = OWNER) -> str:
        raise NotImplementedError

    def execute(self, statement: str, database: str) -> None:
        """Run one statement outside any transaction."""
        statements.execute(self.url(database), statement)

    def create(self, database: str) -> None:
        raise NotImplementedError

    def let_read(self, of: Mapping[str, Sequence[sa.TableClause]], kept: str) -> None:
        """Create the roles with the documented grants.

        :param of: database → the tables that are read
        :param kept: the database with the scheduler's row
        """
        raise NotImplementedError


class _OnPostgreSQL(Databases):
    def __init__(self, server: PostgreSQL) -> None:
        self._server = server
        self.cell_connection = self.url("{path}", READER)

    def url(self, database: str, role: str = OWNER) -> str:
        return self._server.url(database).replace("//fleet@", f"//{role}@")

    def create(self, database: str) -> None:
        self._server.execute(f"CREATE DATABASE {database}")

    def let_read(self, of: Mapping[str, Sequence[sa.TableClause]], kept: str) -> None:
        for role in (READER, KEEPER):
            self._server.execute(f"CREATE ROLE {role} LOGIN")
        for statement in grants.postgresql_row(kept, KEEPER):
            self._server.execute(statement, kept)
        for database, tables in of.items():
            for statement in grants.postgresql(database, READER, tables):
                self._server.execute(statement, database)


class _OnMariaDB(Databases):
    def __init__(self, url: str) -> None:
        self._url = sa.make_url(url)
        # The parts come from the cell's mapping.
        self.cell_connection = f"mysql+pymysql://{READER}@{{hostname}}/{{path}}?{{query}}"

    def url(self, database: str, role: str = OWNER) -> str:
        name = "root" if role == OWNER else role
        return self._url.set(database=database, username=name).render_as_string(hide_password=False)

    def create(self, database: str) -> None:
        self.execute(f"CREATE DATABASE {database}", "mysql")

    def let_read(self, of: Mapping[str, Sequence[sa.TableClause]], kept: str) -> None:
        for role in (READER, KEEPER):
            self.execute(f"CREATE USER '{role}'@'%'", "mysql")
        for statement in grants.mariadb_row(kept, KEEPER):
            self.execute(statement, "mysql")
        for database, tables in of.items():
            for statement in grants.mariadb(database, READER, tables):
                self.execute(statement, "mysql")


@contextlib.contextmanager
def on_postgresql() -> Iterator[Databases]:
    with postgresql_server() as server:
        yield _OnPostgreSQL(server)


@contextlib.contextmanager
def on_mariadb() -> Iterator[Databases]:
    with mariadb() as url:
        yield _OnMariaDB(url)
