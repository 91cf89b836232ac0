# SPDX-License-Identifier: Apache-2.0
"""``fleet volume snapshot``: creates, lists and deletes snapshots of volumes.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from fleet import volume_states
from fleet.client import following, pages
from fleet.client.connection import Record
from fleet_cli.base import command, listing, several
from fleet_cli.volumes import volumes

COLUMNS = (
    *("uuid", "name", "volume", "size_gb", "status", "host", "project_id", "user_id", "metadata"),
    *("created_at", "updated_at", "failure"),
)
_LIST = "list_snapshots"
#: Characters of a volume's uuid in a table.
_SHORT_UUID = 8


class CreateSnapshot(command.ShowOne):
    """Make a snapshot: a copy of a volume's present data, on the same pool, that does not change any more."""

    arguments = (
        command.argument("name", nargs="?", default="", help="Name of the snapshot. Default: one with its uuid."),
        command.argument("--volume", required=True, help="Name, uuid, or the beginning of one."),
        command.argument("--wait", action="store_true", help="Wait until it is made; exit status 1 if it failed."),
        volumes.TIMEOUT,
    )

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._failed = False
        return super().run(parsed_args) or int(self._failed)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        made: Record = self.conductor.operator.create_snapshot(volume=parsed_args.volume, name=parsed_args.name)
        if parsed_args.wait:
            timeout_s = parsed_args.timeout
            (made,) = following.volumes(self.conductor, [made["uuid"]], timeout_s, volumes.is_made, method=_LIST)
            self._failed = made["status"] != volume_states.AVAILABLE
        return command.one(COLUMNS, {**made, "failure": volumes.why(made)})


class ListSnapshots(listing.List):
    """List snapshots, the oldest first."""

    things = "snapshots"
    brief = ("uuid", "name", "size_gb", "status", "volume", "host", "failure")
    whole = COLUMNS

    arguments = (command.argument("--volume", help="Only those of this volume."),)

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        filters = {}
        if parsed_args.volume:
            filters["snapshot_of"] = self.conductor.operator.show_volume(name=parsed_args.volume)["uuid"]
        found = pages.snapshots(self.conductor.operator, filters)
        return [{**each, "failure": volumes.why(each)} for each in found]

    def shortened(self, record: Record) -> Record:
        return {**record, "volume": record["volume"][:_SHORT_UUID]}

    def columns(self, found: Iterable[Record]) -> Sequence[str]:
        return volumes.telling(self.brief, found)


class ShowSnapshot(command.ShowOne):
    """Show a snapshot."""

    arguments = (command.argument("snapshot", help="Name, uuid, or the beginning of one."),)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.conductor.operator.show_snapshot(name=parsed_args.snapshot)
        return command.one(COLUMNS, {**found, "failure": volumes.why(found)})


class DeleteSnapshots(command.Command):
    """Delete snapshots."""

    arguments = (
        command.argument("snapshot", nargs="+", help="Name, uuid, or the beginning of one."),
        command.argument("--wait", action="store_true", help="Wait until they are gone."),
        volumes.TIMEOUT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        operator = self.conductor.operator
        meant = several.resolved(parsed_args.snapshot, lambda name: operator.show_snapshot(name=name))
        deleted, refused = several.ask(meant, lambda uuid: operator.delete_snapshot(name=uuid))
        several.conclude(meant, refused, *volumes.still_there(self.conductor, deleted, parsed_args, method=_LIST))
