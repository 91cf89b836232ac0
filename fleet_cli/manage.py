# SPDX-License-Identifier: Apache-2.0
"""The program ``fleet-manage``: the database's schema, retention and consistency.

The console script of this name calls :func:`main`.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cliff import command, commandmanager
from oslo_config import cfg

from fleet.db.engine.database import Database
from fleet.db.schema import migration, schema
from fleet.db.upkeep import grants
from fleet_cli.base import application
from fleet_cli.base.database_command import DatabaseCommand
from fleet_cli.base.output import plain_output
from fleet_cli.upkeep import audit, broker_permissions, ledger, nova_check, retention, shadow_report, upgrade_check


class Sync(DatabaseCommand):
    """Create the tables, or upgrade them to this release."""

    def act(self, database: Database, parsed_args: argparse.Namespace) -> None:
        self.say(f"The database is at version {migration.sync(database)}.")


class Version(DatabaseCommand):
    """Print the version of the database's schema."""

    def act(self, database: Database, parsed_args: argparse.Namespace) -> None:
        self.say(schema.version(database) or "none")


class Check(DatabaseCommand):
    """Exit with status 1 and advice unless the database has the schema of this release."""

    def act(self, database: Database, parsed_args: argparse.Namespace) -> None:
        schema.check(database)
        self.say(f"The database is at version {schema.latest()}, as this release needs.")


class Grants(command.Command):
    """Print the statements that let conductors change rows, and schedulers only read; run them after 'db sync'."""

    app: Any

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--engine", choices=sorted(grants.BY_ENGINE), default="postgresql", help="%(default)s")
        parser.add_argument("--database", type=_name, default="fleet", help="Its name. Default: %(default)s.")
        for service in ("conductor", "scheduler"):
            about = f"The {service}'s role; for MariaDB USER or USER@HOST. Default: %(default)s."
            parser.add_argument(f"--{service}", type=_name, default=f"fleet_{service}", help=about)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        statements = grants.BY_ENGINE[parsed_args.engine](
            parsed_args.database, parsed_args.conductor, parsed_args.scheduler
        )
        print("".join(f"{each};\n" for each in statements), end="", file=self.app.stdout)


def _name(text: str) -> str:
    """An argparse type: a name that may be quoted in a statement."""
    if not text or any(character in "\"'`;\\" or not character.isprintable() for character in text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name without quotes")
    return text


TOPICS: Mapping[str, Sequence[tuple[str, type[command.Command]]]] = {
    "Database": (
        ("db sync", Sync),
        ("db version", Version),
        ("db check", Check),
        ("db grants", Grants),
        ("db archive", retention.Archive),
        ("db purge", retention.Purge),
    ),
    "Ledger": (
        ("ledger show", ledger.Show),
        ("ledger adopt", ledger.Adopt),
        ("ledger renew", ledger.Renew),
        ("audit", audit.Audit),
    ),
    "Broker and releases": (
        ("rabbitmq permissions", broker_permissions.Permissions),
        ("upgrade check", upgrade_check.UpgradeCheck),
        ("nova check", nova_check.NovaCheck),
        ("shadow report", shadow_report.ShadowReport),
    ),
}
COMMANDS = tuple(each for commands in TOPICS.values() for each in commands)


class ManageApp(application.Application):
    """The program ``fleet-manage``: options and failures as of ``fleet``, for the database."""

    NAME = "fleet-manage"
    LOG = logging.getLogger("fleet-manage")

    def __init__(self, conf: cfg.ConfigOpts = cfg.CONF) -> None:
        manager = commandmanager.CommandManager("fleet_cli.manage")
        for name, factory in COMMANDS:
            manager.add_command(name, factory)
        super().__init__("Manage the fleet's database.", manager, application.names(TOPICS), ("fleet-manage db sync",))
        self.conf = conf

    def initialize_app(self, argv: list[str]) -> None:
        application.load(self.options.config_file, self.NAME, self.conf)


def main(argv: Sequence[str] | None = None) -> int:
    with plain_output.installed():
        return ManageApp().run(list(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
