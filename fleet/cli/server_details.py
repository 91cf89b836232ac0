# SPDX-License-Identifier: Apache-2.0
"""``fleet server set`` and ``unset``: name, description, metadata and tags of an instance."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from fleet.cli import command
from fleet.client import argument_types, connection


class _Change(command.Command):
    """A command on one instance."""

    arguments: Sequence[command.Argument] = (command.SERVER,)

    def change(self, server: str, changes: dict[str, Any]) -> None:
        if not changes:
            raise connection.CommandFailed(f"nothing to change; 'fleet help {self.cmd_name}' lists the options")
        self.conductor.operator("update_instance", name=server, changes=changes)


class SetServer(_Change):
    """Change the name, the description, metadata or tags of an instance."""

    arguments = (
        command.argument("--name", help="The new name."),
        command.argument("--description", help="The new description; '' removes it."),
        command.argument(
            "--property",
            dest="metadata",
            type=argument_types.pair,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="A key of the metadata and its new value; repeat for several. Others stay.",
        ),
        command.argument("--tag", action="append", default=[], help="A tag to add; repeat for several."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        changes: dict[str, Any] = {"metadata": dict(parsed_args.metadata), "add_tags": parsed_args.tag}
        changes = {name: given for name, given in changes.items() if given}
        for name in ("name", "description"):
            if getattr(parsed_args, name) is not None:
                changes[name] = getattr(parsed_args, name)
        self.change(parsed_args.server, changes)


class UnsetServer(_Change):
    """Remove metadata or tags of an instance."""

    arguments = (
        command.argument(
            "--property",
            dest="keys",
            action="append",
            default=[],
            metavar="KEY",
            help="A key of the metadata to remove; repeat for several.",
        ),
        command.argument("--tag", action="append", default=[], help="A tag to remove; repeat for several."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        changes = {"metadata": dict.fromkeys(parsed_args.keys), "remove_tags": parsed_args.tag}
        self.change(parsed_args.server, {name: given for name, given in changes.items() if given})
