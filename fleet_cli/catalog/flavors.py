# SPDX-License-Identifier: Apache-2.0
"""``fleet flavor``: the sizes of instances.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from fleet.client import argument_types, connection
from fleet.client.connection import Record
from fleet_cli.base import command, listing

COLUMNS = ("name", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "extra_specs")
_FLAVOR = command.argument("flavor", help="Name or id.")


def name(text: str) -> str:
    """An argparse type: a name that --flavor of other commands cannot take for sizes."""
    if "=" in text:
        raise argparse.ArgumentTypeError(f"must not have '=', got {text!r}: --flavor would take it for sizes")
    return text


def _sizes(required: bool) -> list[command.Argument]:
    """:param required: False: sizes that are not given stay unchanged"""
    rest = 0 if required else None
    return [
        command.argument("--vcpus", type=argument_types.positive, required=required),
        command.argument("--memory-mb", "--ram", type=argument_types.positive, required=required, metavar="MB"),
        command.argument("--root-gb", "--disk", type=argument_types.natural, default=rest, metavar="GB"),
        command.argument("--ephemeral-gb", "--ephemeral", type=argument_types.natural, default=rest, metavar="GB"),
        command.argument("--swap", type=argument_types.natural, default=rest, metavar="MB"),
        command.pairs("--property", dest="extra_specs", help="Extra spec; repeat for several."),
    ]


class ListFlavors(listing.List):
    """List the flavors. --long also shows how much the fleet is asked for each."""

    things = "flavors"
    brief = COLUMNS
    whole = (*COLUMNS, "share_of_requests", "share_of_core_hours")

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return self.conductor.operator.list_flavors()


class ShowFlavor(command.ShowOne):
    """Show a flavor."""

    arguments = (_FLAVOR,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return command.one(COLUMNS, self.conductor.operator.show_flavor(name=parsed_args.flavor))


class CreateFlavor(command.ShowOne):
    """Create a flavor."""

    arguments = (command.argument("name", type=name, help="Any name without =."), *_sizes(required=True))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        sizes = {each: getattr(parsed_args, each) for each in COLUMNS if each != "extra_specs"}
        flavor = {**sizes, "extra_specs": dict(parsed_args.extra_specs)}
        created = self.conductor.operator.create_flavor(flavor=flavor)
        return command.one(COLUMNS, created or flavor)


class SetFlavor(command.ShowOne):
    """Change a flavor for later requests; existing instances keep their sizes."""

    arguments = (
        _FLAVOR,
        command.argument("--name", type=name, help="A new name, without =."),
        *_sizes(required=False),
        command.repeated(
            "--unset-property", dest="removed", metavar="KEY", help="Extra spec to remove; repeat for several."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        wanted = {each: getattr(parsed_args, each) for each in COLUMNS if each != "extra_specs"}
        changes = {key: value for key, value in wanted.items() if value is not None}
        specs = {**dict(parsed_args.extra_specs), **dict.fromkeys(parsed_args.removed)}
        if not changes and not specs:
            raise connection.CommandFailed("nothing to change: use a size, --name, --property or --unset-property")
        asked = {"name": parsed_args.flavor, "changes": changes, "extra_specs": specs}
        return command.one(COLUMNS, self.conductor.operator.update_flavor(**asked))


class DeleteFlavor(command.Command):
    """Delete a flavor. Instances that have it keep their sizes."""

    arguments = (_FLAVOR,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.delete_flavor(name=parsed_args.flavor)
