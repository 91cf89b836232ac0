# SPDX-License-Identifier: Apache-2.0
"""``fleet group``: server groups, whose instances should share a host, or should not."""

from __future__ import annotations

import argparse
import typing
from collections.abc import Iterable

from fleet.client import argument_types, connection
from fleet.client.connection import Record
from fleet.objects import instance_group
from fleet_cli.base import command, listing

COLUMNS = ("name", "uuid", "policy", "max_server_per_host", "project_id", "members")
_GROUP = command.argument("group", help="Name or uuid.")


class ListGroups(listing.List):
    """List the server groups with their members."""

    things = "server groups"
    brief = ("name", "uuid", "policy", "per_host", "members", "hosts")
    whole = COLUMNS

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return self.conductor.operator.list_groups()

    def shortened(self, record: Record) -> Record:
        counted = {"per_host": record["max_server_per_host"], "members": len(record["members"])}
        return {**record, **counted, "hosts": listing.some(record.get("hosts") or ())}


class CreateGroup(command.ShowOne):
    """Create a server group; boot into it with 'fleet boot --group'."""

    arguments = (
        command.argument("name"),
        command.argument("--policy", required=True, choices=typing.get_args(instance_group.Policy)),
        command.argument(
            "--max-server-per-host",
            type=argument_types.positive,
            default=1,
            metavar="N",
            help="With anti-affinity: how many members one host may have. Default: %(default)s.",
        ),
        command.argument(
            "--project", metavar="ID", help="Project that the group belongs to. Default: none; only operators see it."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        self.conductor.act_for(parsed_args.project, None)
        created = self.conductor.operator.create_group(
            name=parsed_args.name,
            policy=parsed_args.policy,
            max_server_per_host=parsed_args.max_server_per_host,
        )
        return command.one(COLUMNS, created)


class ShowGroup(command.ShowOne):
    """Show a server group with its members and their hosts."""

    arguments = (_GROUP,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return command.one((*COLUMNS, "hosts"), self.conductor.operator.show_group(name=parsed_args.group))


class SetGroup(command.ShowOne):
    """Change a server group; its policy only while it has no members."""

    arguments = (
        _GROUP,
        command.argument("--name", help="A new name."),
        command.argument("--policy", choices=typing.get_args(instance_group.Policy)),
        command.argument(
            "--max-server-per-host", type=argument_types.positive, metavar="N", help="Members that one host may have."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        wanted = {
            "new_name": parsed_args.name,
            "policy": parsed_args.policy,
            "max_server_per_host": parsed_args.max_server_per_host,
        }
        if all(value is None for value in wanted.values()):
            raise connection.CommandFailed("nothing to change: use --name, --policy or --max-server-per-host")
        return command.one(COLUMNS, self.conductor.operator.update_group(name=parsed_args.group, **wanted))


class DeleteGroup(command.Command):
    """Delete a server group; refused while it has members."""

    arguments = (_GROUP,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.delete_group(name=parsed_args.group)
