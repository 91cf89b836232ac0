# SPDX-License-Identifier: Apache-2.0
"""``fleet server delete``: asks first, because a deletion cannot be undone, and takes names literally.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse

from fleet.client import argument_types, connection, following, pages
from fleet.client.connection import Record
from fleet_cli.base import command, confirmation

#: Least characters of a uuid's beginning that select an instance to delete.
_LEAST_PREFIX = 4
#: Instances named in the report.
_NAMED = 5


class DeleteServers(command.Command):
    """Delete instances."""

    arguments = (
        command.argument("server", nargs="*", help="Name, uuid, or the beginning of one."),
        command.argument("--all", action="store_true", help="Every instance there is."),
        command.argument("--yes", "-y", action="store_true", help="With --all: do not ask."),
        command.argument("--wait", action="store_true", help="Wait until they are gone."),
        command.argument(
            "--timeout", type=argument_types.positive, default=60, metavar="SECONDS", help="With --wait: how long."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if bool(parsed_args.server) == parsed_args.all:
            raise connection.CommandFailed("name the instances to delete, or use --all")
        if parsed_args.all:
            meant: list[Record] = list(pages.brief_instances(self.conductor.operator, {}))
            if meant and not parsed_args.yes:
                everything = f"all {len(meant)} instances"
                confirmation.ask(f"this would delete {everything}", f"Delete {everything}?", "nothing is deleted")
        else:
            meant = [self._meant(name) for name in parsed_args.server]
        uuids = list(dict.fromkeys(each["uuid"] for each in meant))
        if parsed_args.wait:
            late = following.delete(self.conductor, uuids, parsed_args.timeout)
            if late:
                raise connection.CommandFailed(
                    f"{len(uuids) - len(late)} of {len(uuids)} instances are deleted; "
                    f"not within {parsed_args.timeout} s: {', '.join(late)}"
                )
        else:
            following.ask_to_delete(self.conductor, uuids)
        self._report(meant, "deleted" if parsed_args.wait else "being deleted")

    def _report(self, meant: list[Record], what: str) -> None:
        if not meant:
            print("There are no instances.", file=self.app.stdout)
        elif len(meant) > _NAMED:
            print(f"{len(meant)} instances are {what}.", file=self.app.stdout)
        else:
            for each in meant:
                print(f"{each['name']} ({each['uuid']}) is {what}.", file=self.app.stdout)

    def _meant(self, name: str) -> Record:
        """Return the instance. A misspelt name must not be taken for the beginning of a uuid."""
        found: Record = self.conductor.operator.show_instance(name=name)["instance"]
        if name not in (found["name"], found["uuid"]) and len(name) < _LEAST_PREFIX:
            raise connection.CommandFailed(
                f"no instance has the name {name}; it is the beginning of the uuid of {found['name']}, {found['uuid']}: "
                f"to delete that, give at least {_LEAST_PREFIX} characters"
            )
        return found
