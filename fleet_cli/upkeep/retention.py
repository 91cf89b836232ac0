# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage db archive`` and ``db purge``: move deleted instances and volumes to a file, or remove them.

Called by :mod:`fleet_cli.manage`.
"""

from __future__ import annotations

import argparse
import datetime
import json

from fleet.client import argument_types
from fleet.clock import Clock, naive_utc
from fleet.db.engine.database import Database
from fleet.db.schema import schema
from fleet.db.upkeep import clock as ledger_clock
from fleet.db.upkeep import retention
from fleet.json_codec import JSONObject
from fleet_cli.base.database_command import DatabaseCommand
from fleet_cli.upkeep import archive_file

#: Exit status: --max-rows was reached, and more old instances are left.
MORE = 3
#: Instances or volumes of one transaction: few enough that builds do not wait for it.
BATCH = 100
_MOST_DAYS = 36500


class Purge(DatabaseCommand):
    """Remove instances, volumes and snapshots that were deleted long ago, with their events, faults and requests.

    Exit status: 0 nothing old enough is left; 1 the command failed; 2 wrong arguments; 3 --max-rows was reached, and
    more are left.
    """

    done = "purged"
    #: The database's clock, unless a test sets another.
    clock: Clock | None = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        age = parser.add_mutually_exclusive_group(required=True)
        age.add_argument(
            "--before", type=moment, metavar="DATE", help="Those deleted before this, UTC: 2026-03-01 [08:00[:00]]."
        )
        age.add_argument("--days", type=days, metavar="N", help="Those deleted more than N days ago.")
        age.add_argument("--all", action="store_true", help="All that were deleted more than an hour ago.")
        parser.add_argument(
            "--max-rows",
            type=argument_types.positive,
            default=1000,
            metavar="N",
            help="Instances to remove at most, and as many volumes and snapshots. Default: 1000.",
        )
        parser.add_argument("--until-complete", action="store_true", help="Go on until nothing old enough is left.")
        parser.add_argument("--dry-run", action="store_true", help="Only say how many there are.")
        return parser

    def act(self, database: Database, parsed_args: argparse.Namespace) -> int:
        schema.check(database)
        now = (self.clock or ledger_clock.of(database))()
        asked = parsed_args.before if parsed_args.days is None else now - parsed_args.days
        before = retention.cutoff(now, asked)
        left = [self._act_on(database, kind, before, parsed_args) for kind in retention.KINDS]
        return MORE if any(left) else 0

    def _act_on(
        self, database: Database, kind: retention.Kind, before: datetime.datetime, parsed_args: argparse.Namespace
    ) -> int:
        """Remove the rows of one kind, and return the number that is left. If there are none, print only the first kind."""
        found = database.read(retention.count, before, kind.table)
        if not found and kind is not retention.KINDS[0]:
            return 0
        self.say(f"{found} {kind.noun} were deleted before {before:%Y-%m-%d %H:%M:%S} UTC.")
        if parsed_args.dry_run:
            return 0
        wanted = found if parsed_args.until_complete else min(found, parsed_args.max_rows)
        gone = self.take(database, kind, before, wanted)
        left = database.read(retention.count, before, kind.table)
        self.say(f"{gone} {kind.noun} {self.done}, {left} left.")
        return left

    def take(self, database: Database, kind: retention.Kind, before: datetime.datetime, wanted: int) -> int:
        """Remove ``wanted`` of a kind in batches; return their number."""
        gone = 0
        while gone < wanted:
            uuids = database.read(retention.find, before, min(BATCH, wanted - gone), kind.table)
            if not uuids:
                break
            self.keep(database, kind, uuids)
            gone += database.write(kind.remove, uuids)
            if gone < wanted:
                self.say(f"{gone} of {wanted} {self.done}")
        return gone

    def keep(self, database: Database, kind: retention.Kind, uuids: list[str]) -> None:
        """Called with each batch before it is removed."""


class Archive(Purge):
    """Do a purge, but write each instance and volume to a file first: one JSON object a line, with its events, faults and
    request.

    Lines are appended, and written to the disk before the rows are removed. After a crash in between, the next run
    writes a line again. Only one 'db archive' at a time can write to a file.
    """

    done = "archived"
    _file: archive_file.ArchiveFile

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("file", metavar="FILE", help="Appended to; made if it is not there.")
        return parser

    def act(self, database: Database, parsed_args: argparse.Namespace) -> int:
        if parsed_args.dry_run:
            return super().act(database, parsed_args)
        with archive_file.opened(parsed_args.file) as self._file:
            return super().act(database, parsed_args)

    def keep(self, database: Database, kind: retention.Kind, uuids: list[str]) -> None:
        self._file.append("".join(map(_line, database.read(kind.read, uuids))))


def _line(record: JSONObject) -> str:
    return json.dumps(record, separators=(",", ":"), sort_keys=True) + "\n"


def days(text: str) -> datetime.timedelta:
    """An argparse type: a number of days, at most a hundred years."""
    number = argument_types.natural(text)
    if number > _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text} days are more than {_MOST_DAYS}")
    return datetime.timedelta(days=number)


def moment(text: str) -> datetime.datetime:
    """An argparse type: a date, or a date and a time, in UTC unless it has another zone."""
    try:
        return naive_utc(datetime.datetime.fromisoformat(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2026-03-01 or 2026-03-01T08:00") from None
