# SPDX-License-Identifier: Apache-2.0
"""``fleet flavor``: the sizes that instances come in."""

from __future__ import annotations

import argparse

from fleet.cli import command

COLUMNS = ("name", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "extra_specs")


class ListFlavors(command.Lister):
    """List the flavors."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return command.table(COLUMNS, self.conductor.operator("list_flavors"))


class CreateFlavor(command.ShowOne):
    """Create a flavor."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name")
        parser.add_argument("--vcpus", type=command.positive, required=True)
        parser.add_argument("--memory-mb", "--ram", type=command.positive, required=True, metavar="MB")
        parser.add_argument("--root-gb", "--disk", type=command.natural, default=0, metavar="GB")
        parser.add_argument("--ephemeral-gb", "--ephemeral", type=command.natural, default=0, metavar="GB")
        parser.add_argument("--swap", type=command.natural, default=0, metavar="MB")
        parser.add_argument(
            "--property",
            dest="extra_specs",
            type=command.pair,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="Extra spec; repeat for several.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        sizes = {name: getattr(parsed_args, name) for name in COLUMNS if name != "extra_specs"}
        flavor = {**sizes, "extra_specs": dict(parsed_args.extra_specs)}
        created = self.conductor.operator("create_flavor", flavor=flavor)
        names, rows = command.table(COLUMNS, [created or flavor])
        return names, rows[0]
