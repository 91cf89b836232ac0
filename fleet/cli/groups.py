# SPDX-License-Identifier: Apache-2.0
"""``fleet group``: instances that should share a host, or should not."""

from __future__ import annotations

import argparse
import typing

from fleet.cli import command
from fleet.objects import instance_group

COLUMNS = ("name", "uuid", "policy", "max_server_per_host", "members")


class ListGroups(command.Lister):
    """List the server groups with their members."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return command.table(COLUMNS, self.conductor.operator("list_groups"))


class CreateGroup(command.ShowOne):
    """Create a server group; boot into it with 'fleet boot --group'."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name")
        parser.add_argument("--policy", required=True, choices=typing.get_args(instance_group.Policy))
        parser.add_argument(
            "--max-server-per-host",
            type=command.positive,
            default=1,
            metavar="N",
            help="With anti-affinity: how many members one host may have. Default: %(default)s.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        created = self.conductor.operator(
            "create_group",
            name=parsed_args.name,
            policy=parsed_args.policy,
            max_server_per_host=parsed_args.max_server_per_host,
        )
        names, rows = command.table(COLUMNS, [created])
        return names, rows[0]
