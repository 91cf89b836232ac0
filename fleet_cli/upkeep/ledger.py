# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage ledger``: the identity of the database, by which daemons recognise their ledger.

Called by :mod:`fleet_cli.manage`.
"""

from __future__ import annotations

import argparse
import uuid as uuid_module

from oslo_utils import uuidutils

from fleet.db.engine.database import Database
from fleet.db.schema import identity, schema
from fleet_cli.base.database_command import DatabaseCommand


class Show(DatabaseCommand):
    """Print the uuid of the database's ledger."""

    def act(self, database: Database, parsed_args: argparse.Namespace) -> None:
        _require_tables(database)
        self.say(database.read(identity.read) or "none")


class Adopt(DatabaseCommand):
    """Give the database the identity UUID. A database that replaces another on purpose takes its identity, and agents
    accept it.

    Stop conductors and schedulers before. Guests that this database does not have are destroyed by their agents.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("uuid", metavar="UUID", type=_uuid, help="As 'ledger show' printed it, or an agent's log.")
        return parser

    def act(self, database: Database, parsed_args: argparse.Namespace) -> None:
        _require_tables(database)
        database.write(identity.adopt, parsed_args.uuid)
        self.say(f"The database is ledger {parsed_args.uuid}. Start its conductors and schedulers again.")


class Renew(DatabaseCommand):
    """Give a copy of a database an identity of its own. Daemons of the original refuse it then."""

    def act(self, database: Database, parsed_args: argparse.Namespace) -> None:
        _require_tables(database)
        new = uuidutils.generate_uuid()
        database.write(identity.adopt, new)
        self.say(f"The database is ledger {new}. Start its conductors and schedulers again.")


def _require_tables(database: Database) -> None:
    """:raises errors.SchemaMismatch: the database is empty, or too old to have an identity"""
    found = schema.version(database)
    if found is None or found < identity.SINCE:
        schema.check(database)


def _uuid(text: str) -> str:
    try:
        return str(uuid_module.UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a uuid") from None
