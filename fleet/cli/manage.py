# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage``: brings the database to the schema of this release, and says where it stands."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from cliff import app, command, commandmanager
from oslo_config import cfg
from oslo_db import exception as db_exception

from fleet import errors
from fleet.cli import application, connection
from fleet.db import migration
from fleet.db.engine import Database


class _DatabaseCommand(command.Command):
    """Opens the database that the configuration names, and tells its failures in a line."""

    app: Any

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        try:
            with Database(self.app.conf).disposed() as database:
                self.act(database)
        except errors.FleetError as refusal:
            raise connection.CommandFailed(refusal.message) from None
        except (db_exception.DBError, sa.exc.SQLAlchemyError) as unusable:
            first_line = str(unusable).strip().splitlines()[0]
            raise connection.CommandFailed(f"the database cannot be used: {first_line}") from None

    def act(self, database: Database) -> None:
        raise NotImplementedError

    def say(self, line: str) -> None:
        print(line, file=self.app.stdout)


class Sync(_DatabaseCommand):
    """Create the tables, or upgrade them to this release."""

    def act(self, database: Database) -> None:
        self.say(f"The database is at version {migration.sync(database)}.")


class Version(_DatabaseCommand):
    """Print the version that the database is at."""

    def act(self, database: Database) -> None:
        self.say(migration.version(database) or "none")


class Check(_DatabaseCommand):
    """Exit with status 1, saying what to do, unless the database is at the version that this release needs."""

    def act(self, database: Database) -> None:
        migration.check(database)
        self.say(f"The database is at version {migration.latest()}, as this release needs.")


COMMANDS: tuple[tuple[str, Callable], ...] = (("db sync", Sync), ("db version", Version), ("db check", Check))


class ManageApp(app.App):
    """As ``fleet``, for the database."""

    NAME = "fleet-manage"
    LOG = logging.getLogger("fleet-manage")

    def __init__(self, conf: cfg.ConfigOpts = cfg.CONF) -> None:
        manager = commandmanager.CommandManager("fleet.cli.manage")
        for name, factory in COMMANDS:
            manager.add_command(name, factory)
        super().__init__(
            "Manage the fleet's database.", importlib.metadata.version("fleet"), manager, deferred_help=True
        )
        self.conf = conf

    def build_option_parser(self, description, version, argparse_kwargs=None):
        return application.add_config_file(super().build_option_parser(description, version, argparse_kwargs))

    def configure_logging(self) -> None:
        super().configure_logging()
        application.quieten(self.options.verbose_level)

    def initialize_app(self, argv: list[str]) -> None:
        application.load(self.options.config_file, self.NAME, self.conf)


def main(argv: Sequence[str] | None = None) -> int:
    return ManageApp().run(list(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
