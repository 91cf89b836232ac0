# SPDX-License-Identifier: Apache-2.0
"""A ledger whose commits may fail, or succeed and appear to have failed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exception

from fleet.db.engine import failures
from fleet.db.engine.database import Database
from fleet.db.engine.reader import Reader
from fleet.db.tables import models
from tests.configuration import of_database
from tests.simulation.statements import Statements
from tests.simulation.world import SimulatedWorld

#: Builds and moves that have not ended: without one, a sweep finds nothing.
_UNDER_WAY = """
    SELECT EXISTS (SELECT 1 FROM instances WHERE task_state IS NOT NULL OR step_deadline IS NOT NULL)
        OR EXISTS (SELECT 1 FROM migrations WHERE step_deadline IS NOT NULL)
"""
#: The same of volumes.
_VOLUMES_UNDER_WAY = "SELECT EXISTS (SELECT 1 FROM volumes WHERE step_deadline IS NOT NULL)"
_EMPTY = "".join(f"DELETE FROM {table.name};" for table in reversed(models.METADATA.sorted_tables))
_EMPTY += "INSERT INTO generations (id, value) VALUES (1, 1);"


class _Reader(Reader):
    def read(self, work: Callable[..., Any], *args: Any) -> Any:
        with self._engine.connect() as connection:
            return work(connection, *args)


class SimulatedDatabase(Database):
    """In memory, shared by all processes of the world."""

    world: SimulatedWorld | None = None
    failure = 0.0

    @classmethod
    def open(cls) -> SimulatedDatabase:
        conf = of_database("sqlite://")
        for name in ("db_retry_interval", "db_max_retry_interval"):
            conf.set_override(name, 0, "database")
        database = cls(conf)
        models.METADATA.create_all(database.engine)
        database._writer = database._snapshot = Statements(database.engine)  # type: ignore[assignment]
        return database

    @staticmethod
    def _open(options: cfg.ConfigOpts.GroupAttr) -> sa.Engine:
        """One connection, which one coroutine at a time uses from a transaction's beginning to its end: it needs no
        BEGIN before reads, no lock before writes and no look at whether it lives, and remembers what it has prepared.
        """
        once = {"check_same_thread": False, "cached_statements": 1000}
        return sa.create_engine("sqlite://", poolclass=sa.pool.StaticPool, pool_reset_on_return=None, connect_args=once)

    def _take_the_write_lock(self, connection: sa.Connection) -> None:
        """Nobody else writes."""

    def reader(self, *, in_snapshot: bool) -> Reader:
        """The one connection is kept as it is, and no other transaction is under way."""
        return _Reader(self._snapshot)

    def begin(self, world: SimulatedWorld, failure: float) -> None:
        """Empty, for one seed."""
        with contextlib.closing(self.engine.raw_connection()) as connection:
            connection.executescript(_EMPTY)
        self.world, self.failure = world, failure

    def rows(self, query: sa.Select | sa.CompoundSelect, **values: Any) -> Sequence[sa.Row]:
        """A look from outside the world."""
        with self._snapshot.connect() as connection:
            return connection.execute(query, values).all()

    def is_anything_under_way(self) -> bool:
        """Whether any instance has a task or a guest that was left, or any move a step to end."""
        with self._snapshot.connect() as connection:
            return bool(connection.scalar(_UNDER_WAY))

    def is_any_volume_under_way(self) -> bool:
        with self._snapshot.connect() as connection:
            return bool(connection.scalar(_VOLUMES_UNDER_WAY))

    def _write_once(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        assert self.world is not None
        if self.world.happens("deadlock", self.failure):
            self.world.log("a deadlock in %s", work.__name__)
            raise failures.typed(db_exception.DBDeadlock())
        result = super()._write_once(work, *args, **kwargs)
        if self.world.happens("commit unknown", self.failure):
            self.world.log("the outcome of %s is unknown", work.__name__)
            raise failures.typed(db_exception.DBConnectionError())
        self.world.pause()
        return result
