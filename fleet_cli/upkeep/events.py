# SPDX-License-Identifier: Apache-2.0
"""``fleet event list``: events of instances and volumes, and changes by administrators.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from fleet.client import argument_types, pages
from fleet.client.connection import CommandFailed, Record
from fleet_cli.base import command, listing

ACTS = ("created_at", "act", "subject", "changes", "user_id", "project_id", "request_id")
EVENTS = ("created_at", "kind", "uuid", "name", "event", "host", "result", "message", "duration_s", "request_id")


class ListEvents(listing.List):
    """List what happened to instances and volumes, the newest first.

    With --admin: what administrators have changed and which builds were accepted, by whom, from and to.
    'fleet trace SERVER' shows the way of one server.
    """

    arguments = (
        command.argument("--admin", action="store_true", help="Administrative acts in place of events."),
        command.argument("--host", help="Only events of this host or storage backend."),
        command.argument(
            "--limit", type=argument_types.entries, default=50, help="At most so many, 1000 at most. Default: 50."
        ),
    )
    things = "events"
    brief = ("created_at", "name", "event", "host", "result")
    whole: Sequence[str] = EVENTS

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        self._of_acts = parsed_args.admin
        if parsed_args.admin:
            if parsed_args.host:
                raise CommandFailed("--host is for events: administrative acts have no host of their own")
            return self.conductor.operator.list_acts(limit=parsed_args.limit)
        of_host = {} if parsed_args.host is None else {"host": parsed_args.host}
        found = self.conductor.operator.list_events(last=parsed_args.limit, **of_host)
        if not found["events"] and parsed_args.host is not None:
            self._require(parsed_args.host)
        return reversed(found["events"])

    def _require(self, host: str) -> None:
        """A host that was removed may have events. :raises CommandFailed: this one has neither events nor a service"""
        operator = self.conductor.operator
        backend = host.partition("#")[0]
        if not operator.list_host_states(names=[host]) and all(
            each["host"] != backend for each in pages.services(operator)
        ):
            raise CommandFailed(f"Host {host} could not be found.")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        if parsed_args.admin:
            self.whole = ACTS
        return super().take_action(parsed_args)

    def columns(self, found: Sequence[Record]) -> Sequence[str]:
        return ("created_at", "act", "changes") if self._of_acts else self.brief

    def shortened(self, record: Record) -> Record:
        if not self._of_acts:
            message = record.get("message")
            return {**record, "result": f"{record['result']}: {message}" if message else record["result"]}
        what = f"{record['act']}\n{record['subject']}\nby {record['user_id'] or '-'}"
        return {**record, "act": what, "changes": told(record["changes"])}


def told(changes: Mapping[str, list[object]]) -> str:
    """A line for each change: ``disabled: no -> yes``."""
    return "\n".join(f"{name}: {_shown(before)} -> {_shown(after)}" for name, (before, after) in changes.items())


def _shown(value: object) -> str:
    if value in (None, ""):
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
