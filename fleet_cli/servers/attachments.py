# SPDX-License-Identifier: Apache-2.0
"""``fleet server volume``: lists, attaches and detaches volumes of instances.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from fleet import volume_states
from fleet.client import connection, following
from fleet.client.connection import Record
from fleet_cli.base import command, listing
from fleet_cli.volumes import volumes


class _Change(command.Command):
    done: str
    method: str

    arguments: Sequence[command.Argument] = (command.SERVER, volumes.VOLUME, *command.WAIT)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        device = {"device": parsed_args.device} if getattr(parsed_args, "device", None) else {}
        asked = self.conductor.operator.call(self.method, name=parsed_args.server, volume=parsed_args.volume, **device)
        if not parsed_args.wait:
            return
        (found,) = following.volumes(self.conductor, [asked["volume"]], parsed_args.timeout, _is_over)
        if found["status"] != self.done:
            reason = volumes.why(found) or f"that has not ended after {parsed_args.timeout} s"
            raise connection.CommandFailed(f"volume {parsed_args.volume} is {found['status']}: {reason}")


class AttachVolume(_Change):
    """Give an instance a volume; its guest may run meanwhile."""

    done = volume_states.IN_USE
    method = "attach_volume"

    arguments = (
        command.argument("--device", metavar="NAME", help="/dev/vdb to /dev/vdy. Default: the first that is free."),
    )


class DetachVolume(_Change):
    """Take a volume from an instance. Unmount it in the guest first."""

    done = volume_states.AVAILABLE
    method = "detach_volume"


class ListAttachments(listing.List):
    """List the volumes of an instance."""

    things = "volumes of the instance"
    brief = ("volume_name", "volume", "size_gb", "device", "status")
    whole = (*brief, "created_at")

    arguments = (command.SERVER,)

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return self.conductor.operator.show_instance(name=parsed_args.server).get("volumes", [])


def _is_over(volume: Record) -> bool:
    return volume["status"] not in volume_states.WITH_A_HOST
