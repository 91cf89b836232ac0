# SPDX-License-Identifier: Apache-2.0
"""A private database server for a measurement, with its own counters of statements and commits."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence

import sqlalchemy as sa

from fleet.db.engine.database import Database
from fleet_trial import private_servers
from tests import clusters
from tests.functional import databases

#: Prefix of this program's own queries, which are not counted.
OURS = "/* bench */"
_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "EXECUTE")
_COMMITS = sa.text("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")


@dataclasses.dataclass
class Server:
    """``pid`` is that of the server; ``private`` is a PostgreSQL server, or None.

    ``others`` are URLs of further nodes that accept writes: each conductor but the first uses one of them, in turn.
    """

    kind: str
    url: str
    pid: int
    database: Database
    private: private_servers.PostgreSQL | None = None
    others: Sequence[str] = ()

    def commits(self) -> int:
        """Transactions that were committed so far. Those that only read are rolled back, and not counted."""
        if self.private is None:
            return self._status()["Com_commit"]
        with self.database.engine.connect() as connection:
            # Without it, a session would see the counters as they were at its first look.
            connection.execute(sa.text("SELECT pg_stat_clear_snapshot()"))
            return connection.execute(_COMMITS).scalar_one()

    @contextlib.contextmanager
    def counting(self) -> Iterator[Callable[[], int]]:
        """Yield a function that returns the number of statements so far. Do not take times meanwhile."""
        if self.private is None:
            yield self._statements_of_mariadb
            return
        private = self.private
        private.execute("ALTER SYSTEM SET log_statement = 'all'")
        private.execute("SELECT pg_reload_conf()")
        try:
            yield lambda: _logged(pathlib.Path(private.place.path("server.log")).read_text(errors="replace"))
        finally:
            private.execute("ALTER SYSTEM RESET log_statement")
            private.execute("SELECT pg_reload_conf()")

    def _statements_of_mariadb(self) -> int:
        status = self._status()
        return sum(status[f"Com_{verb}"] for verb in ("select", "insert", "update", "delete"))

    def _status(self) -> Mapping[str, int]:
        with self.database.engine.connect() as connection:
            rows = connection.execute(sa.text("SHOW GLOBAL STATUS LIKE 'Com\\_%'")).all()
        return {name: int(value) for name, value in rows}


def _logged(log: str) -> int:
    begin = [f"LOG:  statement: {verb}" for verb in _VERBS]
    return sum(any(each in line for each in begin) and OURS not in line for line in log.splitlines())


@contextlib.contextmanager
def postgresql(settings: Mapping[str, str] = types.MappingProxyType({})) -> Iterator[Server]:
    """:param settings: of the server, by name"""
    with private_servers.postgresql_server(settings=settings) as private, _opened(private.url()) as database:
        yield Server("postgresql", private.url(), private.pid, database, private)


@contextlib.contextmanager
def mariadb() -> Iterator[Server]:
    with private_servers.mariadb() as url, _opened(url) as database:
        with database.engine.connect() as connection:
            path = connection.execute(sa.text("SELECT @@pid_file")).scalar_one()
        yield Server("mariadb", url, int(pathlib.Path(path).read_text()), database)


@contextlib.contextmanager
def synchronous() -> Iterator[Server]:
    """A PostgreSQL primary, whose commits wait for one of two standbys."""
    with clusters.postgresql_cluster() as cluster:
        primary = cluster.primary
        with _opened(primary.url()) as database:
            yield Server("postgresql", primary.url(), primary.pid, database, primary)


@contextlib.contextmanager
def galera() -> Iterator[Server]:
    """The first of three Galera nodes; all of them accept writes."""
    with clusters.galera_cluster() as cluster:
        node, *others = cluster.nodes
        with _opened(node.url()) as database:
            yield Server("mariadb", node.url(), node.pid, database, others=[each.url() for each in others])


SERVERS: Mapping[str, Callable[[], contextlib.AbstractContextManager[Server]]] = {
    "postgresql": postgresql,
    "mariadb": mariadb,
}


def _opened(url: str) -> contextlib.AbstractContextManager[Database]:
    return databases.open_database(url).disposed()
