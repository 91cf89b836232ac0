# SPDX-License-Identifier: Apache-2.0
"""``fleet queue list``: builds that wait for room.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable

from fleet.client import argument_types
from fleet.client.connection import Record
from fleet.clock import durations
from fleet_cli.base import command, listing


class ListQueue(listing.List):
    """List the builds that wait for room, in the order in which they are woken."""

    things = "builds that wait for room"
    brief = ("place", "uuid", "project", "reason", "lacks", "waits", "left")
    whole = (
        *("place", "uuid", "name", "project_id", "flavor", "reason", "lacks", "queued_at", "wait_until"),
        *("kept_host", "message"),
    )

    arguments = (
        command.argument("--project", metavar="ID", help="Only those of this project."),
        command.argument("--limit", type=argument_types.positive, metavar="N", help="Only the first N."),
    )

    def nothing(self, parsed_args: argparse.Namespace) -> str:
        of = f" of project {parsed_args.project}" if parsed_args.project else ""
        return f"There are no {self.things}{of}."

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        asked = {"project_id": parsed_args.project, "limit": parsed_args.limit}
        answer = self.conductor.operator.list_queue(**{name: value for name, value in asked.items() if value})
        now = _moment(answer["now"])
        return [
            {
                **each,
                "waits": durations.shown((now - _moment(each["queued_at"])).total_seconds()),
                "left": durations.shown((_moment(each["wait_until"]) - now).total_seconds()),
            }
            for each in answer["builds"]
        ]

    def shortened(self, record: Record) -> Record:
        return {**record, "project": record["project_id"]}


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)
