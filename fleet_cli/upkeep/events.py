# SPDX-License-Identifier: Apache-2.0
"""``fleet event list``: what administrators have changed."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from fleet.client import argument_types
from fleet.client.connection import Record
from fleet_cli.base import command, listing

COLUMNS = ("created_at", "act", "subject", "changes", "user_id", "project_id", "request_id")


class ListEvents(listing.List):
    """List what administrators have changed and which builds were accepted, the newest first: who, what, from and to.

    Without --admin: what happens to one server is in 'fleet trace SERVER'.
    """

    arguments = (
        command.argument("--admin", action="store_true", required=True, help="Administrative acts."),
        command.argument(
            "--limit", type=argument_types.positive, default=50, help="At most so many, 1000 at most. Default: 50."
        ),
    )
    things = "administrative acts"
    brief = ("created_at", "act", "changes")
    whole = COLUMNS

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return self.conductor.operator.list_acts(limit=parsed_args.limit)

    def shortened(self, record: Record) -> Record:
        what = f"{record['act']}\n{record['subject']}\nby {record['user_id'] or '-'}"
        return {**record, "act": what, "changes": told(record["changes"])}


def told(changes: Mapping[str, list[Any]]) -> str:
    """A line for each change: ``disabled: no -> yes``."""
    return "\n".join(f"{name}: {_shown(before)} -> {_shown(after)}" for name, (before, after) in changes.items())


def _shown(value: Any) -> str:
    if value in (None, ""):
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
