# SPDX-License-Identifier: Apache-2.0
"""The base of commands that open the database, and of their failures as one line.

Commands of ``fleet-manage`` inherit from it, and commands of ``fleet`` that plan on a copy of the database.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

from cliff import command
from oslo_config import cfg

from fleet import errors
from fleet.checks import required
from fleet.client import connection
from fleet.db.engine import failures
from fleet.db.engine.database import Database


class DatabaseCommand(command.Command):
    """Opens the database that the configuration names."""

    app: Any

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        with opened(self.app.conf) as database:
            return self.act(database, parsed_args) or 0

    def act(self, database: Database, parsed_args: argparse.Namespace) -> int | None:
        """Return the exit status; None is 0."""
        raise NotImplementedError

    def say(self, line: str) -> None:
        print(line, file=self.app.stdout, flush=True)


@contextlib.contextmanager
def opened(conf: cfg.ConfigOpts) -> Iterator[Database]:
    """Open the configured database. :raises connection.CommandFailed: none is configured, or it cannot be used"""
    with plain_failures():
        required.database(conf)
        # A migration, an archive or an audit may take longer than a daemon waits.
        conf.set_default("statement_timeout", 0, "database")
        with Database(conf).disposed() as database:
            yield database


@contextlib.contextmanager
def plain_failures() -> Iterator[None]:
    """Turn refusals, and errors of the database, into one line for the user."""
    try:
        yield
    except errors.FleetError as refusal:
        raise connection.CommandFailed(refusal.message) from None
    except failures.RAISED as unusable:
        # Raised by a migration, which uses the engine without ``Database.write``.
        raise connection.CommandFailed(failures.typed(unusable).message) from None
