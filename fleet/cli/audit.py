# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage audit``: whether the ledger agrees with itself, and putting right what follows from the rest."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from fleet.cli import database_command, listing
from fleet.clock import Clock
from fleet.db import audit, schema
from fleet.db import clock as ledger_clock
from fleet.db.audit import Inconsistency
from fleet.db.engine import Database

CLEAN, HEALED, LEFT = 0, 3, 4
COLUMNS = ("kind", "name", "found", "state", "fix")


class Audit(listing.Fitted):
    """Compare each node's usage with what instances hold, instances with their hosts, and look for lost faults and steps.

    Exit status: 0 all agrees; 1 it failed; 2 wrong arguments; 3 all that did not agree is healed; 4 something is left.
    """

    app: Any
    things = "inconsistencies"
    #: The database's, unless a test brings its own.
    clock: Clock | None = None
    _status = CLEAN

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--heal", action="store_true", help="Put right what needs no decision; without, only look.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        with database_command.opened(self.app.conf) as database:
            schema.check(database)
            clock = self.clock or ledger_clock.of(database)
            found = database.read(audit.find, clock())
            left = self._heal(database, found, clock) if parsed_args.heal else found
        self._status = LEFT if left else HEALED if found else CLEAN
        still = {(each.kind, each.name) for each in left}
        return COLUMNS, [_row(each, (each.kind, each.name) in still) for each in found]

    def run(self, parsed_args: argparse.Namespace) -> int:
        super().run(parsed_args)
        return self._status

    def _heal(self, database: Database, found: Sequence[Inconsistency], clock: Clock) -> list[Inconsistency]:
        """What another look finds of it, each having been healed in a transaction of its own."""
        for each in found:
            if each.heal is not None:
                database.write(each.heal, clock())
        known = {(each.kind, each.name) for each in found}
        return [each for each in database.read(audit.find, clock()) if (each.kind, each.name) in known]


def _row(each: Inconsistency, left: bool) -> tuple[str, ...]:
    if not left:
        return each.kind, each.name, each.found, "healed", ""
    fix = f"with --heal {each.fix}" if each.heal else each.fix
    return each.kind, each.name, each.found, "left", fix
