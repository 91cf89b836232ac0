# SPDX-License-Identifier: Apache-2.0
"""Runs functions in transactions: retries them if the database asks for it, and stamps the rows that they change.

Every daemon with a database opens one. Commit order equals generation order. The last statement of a writing
transaction advances the single row of ``generations`` and holds its lock until the commit. A snapshot with generation
G therefore has every change up to G, and a reader of ``generation > G`` misses none. The row is always locked last,
so it takes part in no deadlock. ``transaction`` shows what is written with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import api as db_api
from oslo_db.sqlalchemy import engines

from fleet import errors, failpoints, json_codec, stored_json
from fleet.db.connection import demotion, driver, idle_ping, limits, primary, silent_peer, sqlite_pool, tls
from fleet.db.connection import options as database_options
from fleet.db.engine import failures
from fleet.db.engine.reader import Reader
from fleet.db.engine.transaction import Connection, Transaction
from fleet.db.tables import models
from fleet.telemetry import metrics

__all__ = ["Connection", "Database", "Transaction"]

P = ParamSpec("P")
Result = TypeVar("Result")

SQLITE_BUSY_TIMEOUT_MS = 30_000
_FOR_WRITERS = "READ COMMITTED"
_GENERATION = models.generations
_QUERY = sa.text("SELECT 1")
_TAKE_THE_WRITE_LOCK = _GENERATION.update().where(_GENERATION.c.id == 1).values(value=_GENERATION.c.value)


class Database:
    """One engine per process. ``connection`` is ``[database] connection``.

    Errors of the database and its driver are raised as ``errors.DatabaseError``; see :mod:`fleet.db.engine.failures`.

    :raises errors.ConfigError: the URL is invalid, the driver is missing, or TLS fails
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        database_options.register_limits(conf)
        options = conf.database
        failures.keep_libraries_quiet()
        driver.require(options.connection or "sqlite://")
        tls.require_trusted(options.connection or "sqlite://")
        self._engine = self._open(options)
        self._primary = primary.Primary(self._engine) if self.dialect == "postgresql" else None
        if self._primary:
            silent_peer.SilentPeer(self._engine, self._primary, options.peer_timeout)
        self._caught = failures.caught(self._engine)
        # Row locks decide between writers. A plain SELECT after a lock must see what the lock waited for.
        self._writer = self._isolated(_FOR_WRITERS)
        self._snapshot = self._isolated("REPEATABLE READ")
        self._single = self._isolated("AUTOCOMMIT")
        self._retry = db_api.wrap_db_retry(
            retry_interval=options.db_retry_interval,
            max_retries=options.db_max_retries,
            inc_retry_interval=options.db_inc_retry_interval,
            max_retry_interval=options.db_max_retry_interval,
            exception_checker=failures.runs_again,
            jitter=True,
        )
        self._write_again, self._connected_again = self._retry(self._write_once), self._retry(self._connected)

    @staticmethod
    def _open(options: cfg.ConfigOpts.GroupAttr) -> sa.Engine:
        engine: sa.Engine = engines.create_engine(
            options.connection or "sqlite://",
            mysql_sql_mode=options.mysql_sql_mode,
            connection_recycle_time=options.connection_recycle_time,
            max_pool_size=options.max_pool_size,
            max_overflow=options.max_overflow,
            pool_timeout=options.pool_timeout,
            # A daemon starts without the database; the first transaction waits for it.
            max_retries=0,
            thread_checkin=False,
            connection_parameters=_connection_parameters(options),
            json_serializer=json_codec.dumps,
            json_deserializer=stored_json.read,
        )
        # oslo.db hands both on for PostgreSQL only. SQLAlchemy's other dialects have them under these names.
        vars(engine.dialect).update(_json_serializer=json_codec.dumps, _json_deserializer=stored_json.read)
        # oslo.db has no option for it. Values of users must not be logged, not even at DEBUG.
        engine.hide_parameters = True
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine, "connect", _tune_sqlite)
        if engine.dialect.name == "postgresql":
            # Not on MariaDB: setting the isolation level at every use would not recognise a lost connection.
            idle_ping.instead_of_every_time(engine)
        demotion.is_loss(engine)
        return engine

    @property
    def engine(self) -> sa.Engine:
        return self._engine

    @property
    def dialect(self) -> str:
        """``postgresql``, ``mysql`` (also MariaDB) or ``sqlite``."""
        return self._engine.dialect.name

    def _isolated(self, level: str) -> sa.Engine:
        """The engine with this isolation level. SQLite has one writer and a snapshot per transaction in any case."""
        if self._engine.dialect.name == "sqlite":
            return self._engine
        return self._engine.execution_options(isolation_level=level)

    def write(
        self, work: Callable[Concatenate[Transaction, P], Result], /, *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Run ``work(transaction, …)`` and commit; on deadlock or a lost connection run it again from the start.

        A commit whose outcome is unknown is run again too: ``work`` must recognise its own earlier success.
        """
        try:
            done: Result = self._write_again(work, *args, **kwargs)
            return done
        except errors.DatabaseError as failure:
            if not failures.is_duplicate(failure):
                raise
        # Another transaction inserted the row between our SELECT and our INSERT. This time we find it.
        found: Result = self._write_again(work, *args, **kwargs)
        return found

    def _write_once(self, work: Callable[..., Result], *args: object, **kwargs: object) -> Result:
        try:
            return self._commit(work, *args, **kwargs)
        except self._caught as failure:
            refused = failures.refused_value(failure)
            typed = failures.typed(failure, self._engine.url) if refused is None else None
        if typed is None:
            raise refused or AssertionError
        metrics.DATABASE_RETRIES.labels(typed.kind).inc()
        # Outside of the except clause: otherwise the original error, with its text, would be the context of this one.
        raise typed

    def _commit(self, work: Callable[..., Result], *args: object, **kwargs: object) -> Result:
        with self._for_writing().begin() as connection:
            self._take_the_write_lock(connection)
            transaction = Transaction(connection)
            result = work(transaction, *args, **kwargs)
            transaction.finish()
            failpoints.before_commit(work)
        failpoints.after_commit(work)
        return result

    def _for_writing(self) -> sa.Engine:
        """Do not set the isolation level at every use if it is the server's default."""
        # It is not known before the first connection.
        is_default = getattr(self._engine.dialect, "default_isolation_level", None) == _FOR_WRITERS
        return self._engine if is_default else self._writer

    def _take_the_write_lock(self, connection: sa.Connection) -> None:
        """Lock a SQLite file before the first read, because it cannot upgrade a stale snapshot. Others lock rows."""
        if connection.dialect.name == "sqlite":
            connection.execute(_TAKE_THE_WRITE_LOCK)

    def read(
        self, work: Callable[Concatenate[sa.Connection, P], Result], /, *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Run ``work(connection, …)`` in one snapshot. It must not write."""
        answer: Result = self._connected_again(self._snapshot, work, *args, **kwargs)
        return answer

    def read_once(
        self, work: Callable[Concatenate[sa.Connection, P], Result], /, *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Read as :meth:`read` does, without retries."""
        return self._connected(self._snapshot, work, *args, **kwargs)

    def _connected(self, engine: sa.Engine, work: Callable[..., Result], *args: object, **kwargs: object) -> Result:
        try:
            with engine.connect() as connection:
                return work(connection, *args, **kwargs)
        except self._caught as failure:
            typed = failures.typed(failure, self._engine.url)
        raise typed

    def ping(self) -> None:
        """Run and commit a trivial query. A Galera node without its cluster answers the query, and refuses the commit.

        :raises errors.DatabaseError: at once, if the database does not answer
        """
        self.read_once(_ping)

    def reader(self, *, in_snapshot: bool) -> Reader:
        """A reader with a connection of its own, without retries.

        :param in_snapshot: whether all statements of a read see one snapshot, or (cheaper) each sees the newest commit
        """
        return Reader(self._snapshot) if in_snapshot else Reader(self._single, in_transaction=False)

    def retried(self, read: Callable[P, Result]) -> Callable[P, Result]:
        """``read`` with retries while the database is away, as [database] configures them."""
        repeated: Callable[P, Result] = self._retry(read)
        return repeated

    @contextmanager
    def disposed(self) -> Iterator[Database]:
        """Close the pool at the end (tests, tools)."""
        try:
            yield self
        finally:
            self._engine.dispose()


def _connection_parameters(options: cfg.ConfigOpts.GroupAttr) -> str | None:
    """Parameters of the driver: limits of its waiting; and on MariaDB, the isolation level of writers as the default of each
    connection, since most transactions write, and setting the level at every use takes two statements. On SQLite, the pool.
    """
    url = sa.make_url(options.connection or "sqlite://")
    found = limits.limits(url, options)
    if url.get_backend_name() == "sqlite":
        found["plugin"] = sqlite_pool.NAME
    if url.get_backend_name() in ("mysql", "mariadb") and "init_command" not in url.query:
        found["init_command"] = f"SET SESSION TRANSACTION ISOLATION LEVEL {_FOR_WRITERS}"
    return limits.encoded(found)


def _tune_sqlite(connection: Any, _record: Any) -> None:
    """Let several threads and processes share the file: readers beside one writer, and waiting instead of failing."""
    connection.execute(f"PRAGMA busy_timeout = {SQLITE_BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _ping(connection: sa.Connection) -> None:
    connection.execute(_QUERY).scalar_one()
    connection.commit()
