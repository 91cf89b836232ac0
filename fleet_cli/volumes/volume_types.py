# SPDX-License-Identifier: Apache-2.0
"""``fleet volume type``: the properties that volumes of a type request from their pool.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from fleet.client import connection
from fleet.client.connection import Record
from fleet_cli.base import command, listing

COLUMNS = ("name", "description", "extra_specs")
_PROPERTY = command.pairs(
    "--property",
    dest="extra_specs",
    help="Extra spec, such as volume_backend_name=fast or provisioning:type=thick; repeat for several.",
)
_TYPE = command.argument("volume_type", metavar="type", help="Name of the type.")


class ListVolumeTypes(listing.List):
    """List the volume types."""

    things = "volume types"
    brief = whole = COLUMNS

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return self.conductor.operator.list_volume_types()


class CreateVolumeType(command.ShowOne):
    """Create a volume type."""

    arguments = (
        command.argument("name"),
        _PROPERTY,
        command.argument("--description", default=""),
        command.repeated(
            "--project",
            dest="projects",
            metavar="PROJECT",
            help="Offer it to this project only; repeat for several. Without it every project may use the type.",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        wanted = {
            "name": parsed_args.name,
            "extra_specs": dict(parsed_args.extra_specs),
            "description": parsed_args.description,
        }
        if parsed_args.projects:
            wanted["is_public"] = False
        made = self.conductor.operator.create_volume_type(volume_type=wanted)
        for project in dict.fromkeys(parsed_args.projects):
            self.conductor.operator.add_volume_type_access(name=parsed_args.name, project_id=project)
        return command.one(COLUMNS, made)


class SetVolumeType(command.ShowOne):
    """Change a volume type for later requests; existing volumes keep what they were made with."""

    arguments = (
        _TYPE,
        _PROPERTY,
        command.argument("--description", type=str),
        command.repeated(
            "--unset-property", dest="removed", metavar="KEY", help="Extra spec to remove; repeat for several."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        specs = {**dict(parsed_args.extra_specs), **dict.fromkeys(parsed_args.removed)}
        if not specs and parsed_args.description is None:
            raise connection.CommandFailed("nothing to change: use --property, --unset-property or --description")
        asked = {"name": parsed_args.volume_type, "extra_specs": specs, "description": parsed_args.description}
        return command.one(COLUMNS, self.conductor.operator.update_volume_type(**asked))


class DeleteVolumeType(command.Command):
    """Delete a volume type; volumes of it keep what they were made with."""

    arguments = (_TYPE,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.delete_volume_type(name=parsed_args.volume_type)
