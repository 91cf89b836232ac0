# SPDX-License-Identifier: Apache-2.0
"""``set`` and ``unset`` of ``fleet server`` and ``fleet volume``: name, description, metadata; tags of an instance.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fleet.client import connection
from fleet_cli.base import command
from fleet_cli.volumes import volumes

_NEW = (
    command.argument("--name", help="The new name."),
    command.argument("--description", type=str, help="The new description; '' removes it."),
    command.pairs(
        "--property", dest="metadata", help="A key of the metadata and its new value; repeat for several. Others stay."
    ),
)
_OLD = (
    command.repeated(
        "--property", dest="keys", metavar="KEY", help="A key of the metadata to remove; repeat for several."
    ),
)


class _Change(command.Command):
    """A command on one instance or volume. :cvar method: of the conductor"""

    method: str

    def change(self, changed: str, **changes: object) -> None:
        """:param changes: what is None or empty stays, but for a description"""
        wanted = {field: given for field, given in changes.items() if given or (field == "description" and given == "")}
        if not wanted:
            raise connection.CommandFailed(f"nothing to change; 'fleet help {self.cmd_name}' lists the options")
        self.conductor.operator.call(self.method, name=changed, changes=wanted)


class _ChangeServer(_Change):
    method = "update_instance"
    arguments: Sequence[command.Argument] = (command.SERVER,)


class _ChangeVolume(_Change):
    method = "update_volume"
    arguments: Sequence[command.Argument] = (volumes.VOLUME,)


class SetServer(_ChangeServer):
    """Change the name, the description, the host name, metadata or tags of an instance."""

    arguments = (
        *_NEW,
        command.repeated("--tag", help="A tag to add; repeat for several."),
        command.argument("--hostname", help="The host name of the guest, which gets it with its next rebuild."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.change(parsed_args.server, **_new(parsed_args), add_tags=parsed_args.tag, hostname=parsed_args.hostname)


class UnsetServer(_ChangeServer):
    """Remove metadata or tags of an instance."""

    arguments = (
        *_OLD,
        command.repeated("--tag", help="A tag to remove; repeat for several."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.change(parsed_args.server, metadata=dict.fromkeys(parsed_args.keys), remove_tags=parsed_args.tag)


class SetVolume(_ChangeVolume):
    """Change the name, the description or metadata of a volume."""

    arguments = _NEW

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.change(parsed_args.volume, **_new(parsed_args))


class UnsetVolume(_ChangeVolume):
    """Remove metadata of a volume."""

    arguments = _OLD

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.change(parsed_args.volume, metadata=dict.fromkeys(parsed_args.keys))


def _new(parsed_args: argparse.Namespace) -> dict[str, object]:
    given = {name: getattr(parsed_args, name) for name in ("name", "description")}
    return {**given, "metadata": dict(parsed_args.metadata)}
