# SPDX-License-Identifier: Apache-2.0
"""``fleet volume manage`` and ``unmanage``: data on a pool become a volume, or a volume leaves the ledger with its data.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from fleet import volume_states
from fleet.client import connection, following
from fleet.client.connection import Record
from fleet_cli.base import command, listing
from fleet_cli.volumes import volumes


class ManageVolume(volumes.VolumesToBe):
    """Make a volume of a file or a logical volume that lies on a pool. It stays where it is, and grows to whole GiB."""

    shown = ("name", "size_gb", "status", "host", "failure")

    arguments = (
        command.argument(
            "reference", help="What it is called on the pool: the name of a file, or of a logical volume."
        ),
        command.argument(
            "--host",
            "--pool",
            dest="location",
            required=True,
            metavar="LOCATION",
            help="The pool, machine@backend#pool, or a backend with one pool.",
        ),
        command.argument("--name", default="", help="Name of the volume. Default: one made of its uuid."),
        command.argument(
            "--type", dest="volume_type", help="A volume type, which must allow the pool; see 'fleet volume type list'."
        ),
        command.argument("--availability-zone", metavar="ZONE", help="A zone, which the backend must be in."),
        command.pairs("--metadata", help="Metadata of the volume; repeat for several."),
        command.argument("--project", metavar="ID", help="The project that the volume belongs to. Default: none."),
        command.argument("--user", metavar="ID", help="The user that the volume belongs to. Default: none."),
        command.argument(
            "--client-token",
            metavar="TOKEN",
            help="A key of at most 64 characters that makes this command safe to repeat. Default: a new one for each run.",
        ),
        command.argument(
            "--wait", action="store_true", help="Wait until it is a volume; exit status 1 unless it is available."
        ),
        volumes.TIMEOUT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        request = {
            "host": parsed_args.location,
            "reference": parsed_args.reference,
            "name": parsed_args.name,
            "volume_type": parsed_args.volume_type,
            "availability_zone": parsed_args.availability_zone,
            "metadata": dict(parsed_args.metadata),
        }
        self.conductor.act_for(parsed_args.project, parsed_args.user)
        accepted = self.conductor.manage_volume(request, parsed_args.client_token)
        return self.outcome(parsed_args, accepted)


class UnmanageVolume(command.Command):
    """Forget a volume, and keep its data: they stay on the pool as unmanaged-UUID."""

    arguments = (
        volumes.VOLUME,
        command.argument("--wait", action="store_true", help="Wait until it is gone; exit status 1 if it is not."),
        volumes.TIMEOUT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        asked = self.conductor.operator.unmanage_volume(name=parsed_args.volume)
        if not parsed_args.wait:
            return
        (found,) = following.volumes(self.conductor, [asked["uuid"]], parsed_args.timeout, _is_over)
        if not volumes.is_gone(found):
            reason = volumes.why(found) or f"it is {found['status']} after {parsed_args.timeout} s"
            raise connection.CommandFailed(f"volume {parsed_args.volume} is still managed: {reason}")


class ListManageable(listing.List):
    """List what lies on a pool and is no volume, and why it cannot become one."""

    things = "files or logical volumes besides volumes"
    brief = ("reference", "size_gb", "pool", "reason")
    whole = ("reference", "size_gb", "pool", "reason")

    arguments = (
        command.argument(
            "pool", metavar="LOCATION", help="machine@backend#pool, or machine@backend for all its pools."
        ),
    )

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return self.conductor.operator.list_manageable(host=parsed_args.pool)


def _is_over(volume: Record) -> bool:
    return volume["status"] != volume_states.UNMANAGING
