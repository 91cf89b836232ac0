# SPDX-License-Identifier: Apache-2.0
"""A ledger whose commits may fail, or succeed and look as if they had failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_db import exception as db_exception
from oslo_db import options

from fleet.db import models
from fleet.db.engine import Database
from tests.functional import databases
from tests.simulation.world import World


class SimulatedDatabase(Database):
    """In memory, shared by all processes of the world."""

    world: World | None = None
    failure = 0.0

    @classmethod
    def open(cls) -> SimulatedDatabase:
        conf = cfg.ConfigOpts()
        options.set_defaults(conf, connection="sqlite://")
        conf([])
        for name in ("db_retry_interval", "db_max_retry_interval"):
            conf.set_override(name, 0, "database")
        database = cls(conf)
        models.METADATA.create_all(database.engine)
        return database

    def begin(self, world: World, failure: float) -> None:
        """Empty, for one seed."""
        databases.empty(self)
        self.world, self.failure = world, failure

    def _write_once(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        assert self.world is not None
        if self.world.happens(self.failure):
            self.world.log("a deadlock in %s", work.__name__)
            raise db_exception.DBDeadlock()
        result = super()._write_once(work, *args, **kwargs)
        if self.world.happens(self.failure):
            self.world.log("the outcome of %s is unknown", work.__name__)
            raise db_exception.DBConnectionError()
        self.world.pause()
        return result
