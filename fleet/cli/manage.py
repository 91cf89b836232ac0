# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage``: the database's schema, what is kept in it, and whether it agrees with itself."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import sys
from collections.abc import Callable, Sequence

from cliff import app, commandmanager
from oslo_config import cfg

from fleet.cli import application, audit, retention, upgrade_check
from fleet.cli.database_command import DatabaseCommand
from fleet.db import migration
from fleet.db.engine import Database


class Sync(DatabaseCommand):
    """Create the tables, or upgrade them to this release."""

    def act(self, database: Database, parsed_args: argparse.Namespace) -> None:
        self.say(f"The database is at version {migration.sync(database)}.")


class Version(DatabaseCommand):
    """Print the version that the database is at."""

    def act(self, database: Database, parsed_args: argparse.Namespace) -> None:
        self.say(migration.version(database) or "none")


class Check(DatabaseCommand):
    """Exit with status 1, saying what to do, unless the database is at the version that this release needs."""

    def act(self, database: Database, parsed_args: argparse.Namespace) -> None:
        migration.check(database)
        self.say(f"The database is at version {migration.latest()}, as this release needs.")


COMMANDS: tuple[tuple[str, Callable], ...] = (
    ("db sync", Sync),
    ("db version", Version),
    ("db check", Check),
    ("db archive", retention.Archive),
    ("db purge", retention.Purge),
    ("audit", audit.Audit),
    ("upgrade check", upgrade_check.UpgradeCheck),
)


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
