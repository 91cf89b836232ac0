# SPDX-License-Identifier: Apache-2.0
"""``fleet recovery``: the recoveries of hosts that are down, and the switches of automatic recovery.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

from fleet.client import argument_types
from fleet.client.connection import Record
from fleet_cli.base import command, listing
from fleet_cli.base.output import moments

COLUMNS = ("host", "status", "guests", "attempt", "created_at", "ended_at", "problem")
LONG = ("uuid", "paused", "asked", "silent_since", "fenced_at")
_SHOWN = ("uuid", "host", "status", "paused", "asked", "attempt", "problem", *LONG[-2:], "created_at", "ended_at")
_NAME = command.argument("name", metavar="HOST", help="A host: its newest recovery; or the uuid of a recovery.")
_NAME_OR_ALL = command.argument(
    "name", nargs="?", metavar="HOST", help="A host, or the uuid of a recovery. Default: all, also those still to come."
)


class ListRecoveries(listing.List):
    """List recoveries of hosts: those that have not ended first, then the newest.

    A recovery is fencing, moving (its guests), held (an operator must look), done, or returned (its host is back).
    """

    things = "recoveries"
    brief = COLUMNS[:5]
    whole = (*COLUMNS, *LONG)
    arguments = (
        command.argument(
            "--limit", type=argument_types.entries, default=100, metavar="N", help="At most. Default: %(default)s."
        ),
    )

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        answer = self.conductor.operator.list_recoveries(limit=parsed_args.limit)
        if answer["paused"]:
            listing.remark("All recoveries are paused: 'fleet recovery resume' goes on")
        for each in answer["domains"]:
            if each["stopped"]:
                where = each["name"] or "the fleet"
                listing.remark(f"Stopped in {where}: {each['silent']} of {each['hosts']} hosts are silent at once")
        return [{**each, "status": _status(each)} for each in answer["recoveries"]]

    def shortened(self, record: Record) -> Record:
        counts = ", ".join(f"{number} {what}" for what, number in sorted(record["guests"].items()))
        return {**record, "guests": counts, "created_at": moments.shown(record["created_at"])}


class ShowRecovery(command.ShowOne):
    """Show a recovery with its guests, in the order of their moves, and its steps."""

    arguments = (_NAME,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.conductor.operator.show_recovery(name=parsed_args.name)
        steps = [f"{moments.shown(each['created_at'])} {each['step']}: {each['message']}" for each in found["steps"]]
        guests = [_guest(each) for each in found["guests"]]
        fields = (*_SHOWN, "steps", "guests")
        shown = {**found, "steps": command.Listed(steps), "guests": command.Listed(guests)}
        return command.one(fields, shown)


class PauseRecovery(command.Command):
    """Begin no fence and no move of a recovery, or of all. What is under way comes to its end."""

    arguments = (_NAME_OR_ALL,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.pause_recovery(paused=True, name=parsed_args.name)


class ResumeRecovery(command.Command):
    """Go on with a recovery, or with all. One that is held is fenced anew."""

    arguments = (_NAME_OR_ALL,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.pause_recovery(paused=False, name=parsed_args.name)


class StartRecovery(command.Command):
    """Recover a host that is down now, also if recoveries are off, or stopped because many hosts are silent.

    The host is fenced first, as [recovery] says.
    """

    arguments = (command.HOST,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.start_recovery(host=parsed_args.host)


def _status(recovery: Mapping[str, object]) -> str:
    return f"{recovery['status']} (paused)" if recovery["paused"] else str(recovery["status"])


def _guest(each: Mapping[str, object]) -> str:
    problem = f": {each['problem']}" if each["problem"] else ""
    return f"{each['instance_uuid']} {each['status']}{problem}"
