# SPDX-License-Identifier: Apache-2.0
"""``fleet quota``: the limits of projects, and their use.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from fleet.client import argument_types, connection
from fleet.client.connection import Record
from fleet.objects.quota import RESOURCES
from fleet_cli.base import command, listing

_PROJECT = command.argument("project", help="Id of the project. It need not exist anywhere else.")
_UNITS = {"ram": " MiB", "gigabytes": " GiB", "local_gb": " GiB"}


def _option(resource: str) -> str:
    return f"--{resource.replace('_', '-')}"


class _OfProject(listing.List):
    """One line for each resource of a project."""

    things = "resources"
    brief = whole = ("resource", "quota", "used", "set_for")

    def lines(self, shown: Record) -> Iterable[Record]:
        return [
            {
                "resource": name,
                "quota": shown["limits"][name],
                "used": shown["used"][name],
                "set_for": "project" if name in shown["own"] else "all",
            }
            for name in RESOURCES
            # A conductor of an earlier release limits fewer.
            if name in shown["limits"]
        ]


class ShowQuota(_OfProject):
    """Show what a project may have and has. -1 is unlimited; ram is in MiB."""

    arguments = (
        command.argument(
            "project", nargs="?", help="Id of the project; with --url by default that of the user who signs in."
        ),
    )

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        if parsed_args.project is None and self.conductor.uses_broker:
            raise connection.CommandFailed("project is required: fleet quota show PROJECT")
        return self.lines(self.conductor.operator.show_quota(parsed_args.project))


class SetQuota(_OfProject):
    """Change what a project may have. What it has above a limit stays, and it gets no more."""

    arguments = (
        _PROJECT,
        *(
            command.argument(
                _option(name), type=argument_types.limit, metavar="N", help=f"At most N{_UNITS.get(name, '')}; -1: any."
            )
            for name in RESOURCES
        ),
    )

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        limits = {name: limit for name in RESOURCES if (limit := getattr(parsed_args, name)) is not None}
        if not limits:
            raise connection.CommandFailed(f"nothing to change: use {', '.join(map(_option, RESOURCES))}")
        return self.lines(self.conductor.operator.set_quota(project_id=parsed_args.project, limits=limits))


class ListQuotas(listing.List):
    """List the projects that have limits of their own. -1 is unlimited."""

    things = "projects with limits of their own"
    brief = whole = ("project_id", *RESOURCES)

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        found = self.conductor.operator.list_quotas()
        return [{"project_id": each["project_id"], **each["limits"]} for each in found]


class DeleteQuota(command.Command):
    """Return a project to the limits of all projects ([quota] in the conductors' configuration)."""

    arguments = (_PROJECT,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.delete_quota(project_id=parsed_args.project)
