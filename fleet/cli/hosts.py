# SPDX-License-Identifier: Apache-2.0
"""``fleet host``: capacity and use of every host."""

from __future__ import annotations

import argparse

from fleet.cli import command

COLUMNS = (
    "host",
    "node",
    "state",
    "status",
    "zone",
    "vcpus",
    "vcpus_used",
    "memory_mb",
    "memory_mb_used",
    "local_gb",
    "local_gb_used",
    "running_vms",
)


class ListHosts(command.Lister):
    """List the hosts with their capacity and use."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return command.table(COLUMNS, self.conductor.operator("list_hosts"))


class ShowHost(command.Lister):
    """Show one host: a row for each of its nodes."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return command.table(COLUMNS, self.conductor.operator("show_host", name=parsed_args.host)["nodes"])
