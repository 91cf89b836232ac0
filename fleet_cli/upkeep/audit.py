# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage audit``: checks whether the ledger is consistent, and repairs what can be derived from other rows.

Called by :mod:`fleet_cli.manage`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from fleet.clock import Clock
from fleet.db.engine.database import Database
from fleet.db.schema import schema
from fleet.db.upkeep import audit
from fleet.db.upkeep import clock as ledger_clock
from fleet.db.upkeep.audit import Inconsistency
from fleet_cli.base import database_command, listing

CLEAN, HEALED, LEFT = 0, 3, 4
COLUMNS = ("kind", "name", "found", "state", "fix")


class Audit(listing.Fitted):
    """Compare each node's usage with what instances hold, and instances with their hosts; find lost faults and steps.

    Exit status: 0 consistent; 1 the audit failed; 2 wrong arguments; 3 all inconsistencies were repaired; 4 some are
    left.
    """

    app: Any
    things = "inconsistencies"
    #: The database's clock, unless a test sets another.
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
        """Repair each inconsistency in a transaction of its own, and return what a second audit still finds."""
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
