# SPDX-License-Identifier: Apache-2.0
"""``fleet volume``: creates, lists and deletes volumes.

Registered in :mod:`fleet_cli.command_list`. ``volume_changes``, ``existing_volumes``, ``snapshots``, ``volume_types``
and ``pools`` have the rest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from fleet import volume_states
from fleet.client import argument_types, following, pages
from fleet.client.calls import Calls
from fleet.client.connection import Record
from fleet.rpc.clients.operator.volumes import Deletion
from fleet_cli.base import build_arguments, command, listing, several
from fleet_cli.base.output import moments

COLUMNS = (
    *(
        "uuid",
        "name",
        "size_gb",
        "status",
        "step",
        "host",
        "volume_type",
        "availability_zone",
        "source",
        "snapshot",
        "image",
    ),
    *(
        "servers",
        "attempt",
        "project_id",
        "user_id",
        "metadata",
        "scheduler_hints",
        "created_at",
        "updated_at",
        "failure",
    ),
)
VOLUME = command.argument("volume", help="Name, uuid, or the beginning of one.")
TIMEOUT = command.argument(
    "--timeout",
    type=argument_types.positive,
    default=600,
    metavar="SECONDS",
    help="With --wait: how long. Default: 600.",
)


class VolumesToBe(listing.Fitted, command.Lister):
    """Shows volumes that were asked for. With ``--wait`` the exit status is 1 unless all are available."""

    #: Of the table.
    shown: Sequence[str] = ("uuid", "name", "status", "host", "failure")

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._failed = False
        return super().run(parsed_args) or int(self._failed)

    def outcome(self, parsed_args: argparse.Namespace, accepted: Record) -> tuple:
        """:param accepted: the conductor's answer"""
        for warning in accepted["warnings"]:
            print(f"Warning: {warning}", file=sys.stderr)
        uuids = [each["uuid"] for each in accepted["volumes"]]
        timeout_s = parsed_args.timeout if parsed_args.wait else 0
        found = following.volumes(self.conductor, uuids, timeout_s, is_made)
        if parsed_args.wait:
            self._failed = any(each["status"] != volume_states.AVAILABLE for each in found)
        return command.table(telling(self.shown, found), [{**each, "failure": why(each)} for each in found])


class CreateVolume(VolumesToBe):
    """Create one or several volumes."""

    arguments = (
        command.argument("name", help="Name of the volume; several get a number behind it."),
        command.argument(
            "--size",
            type=argument_types.positive,
            metavar="GIB",
            help="Size in GiB. Default: that of what is copied, or what the image needs.",
        ),
        command.argument("--source", metavar="VOLUME", help="Copy this volume; the copy is made on its pool."),
        command.argument("--snapshot", metavar="SNAPSHOT", help="Begin with the data of this snapshot, on its pool."),
        command.argument("--image", metavar="IMAGE", help="Begin with the data of this image; see 'fleet image list'."),
        command.argument("--type", dest="volume_type", help="A volume type; see 'fleet volume type list'."),
        command.argument("--description", default="", help="What it is for."),
        command.argument("--count", type=argument_types.positive, default=1, help="How many. Default: %(default)s."),
        command.argument("--availability-zone", metavar="ZONE", help="A zone of the backend."),
        command.pairs("--hint", help="Scheduler hint; repeat for several, or for several values of one key."),
        command.pairs("--metadata", help="Metadata of the volumes; repeat for several."),
        command.argument("--project", metavar="ID", help="The project that the volumes belong to. Default: none."),
        command.argument(
            "--client-token",
            metavar="TOKEN",
            help="A key of at most 64 characters that makes this command safe to repeat: with a token that was used before, "
            "no volume is made, and those of the first run are shown. Default: a new token for each run, for its own "
            "repetitions.",
        ),
        command.argument("--user", metavar="ID", help="The user that the volumes belong to. Default: none."),
        command.argument(
            "--wait", action="store_true", help="Wait until each is made; exit status 1 unless all are available."
        ),
        TIMEOUT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        request = {
            "name": parsed_args.name,
            **({"size": parsed_args.size} if parsed_args.size else {}),
            **({"source": parsed_args.source} if parsed_args.source else {}),
            **({"snapshot": parsed_args.snapshot} if parsed_args.snapshot else {}),
            **({"image": parsed_args.image} if parsed_args.image else {}),
            **({"description": parsed_args.description} if parsed_args.description else {}),
            "count": parsed_args.count,
            "volume_type": parsed_args.volume_type,
            "availability_zone": parsed_args.availability_zone,
            "scheduler_hints": build_arguments.hints(parsed_args.hint),
            "metadata": dict(parsed_args.metadata),
        }
        self.conductor.act_for(parsed_args.project, parsed_args.user)
        accepted = self.conductor.create_volumes(request, parsed_args.client_token)
        return self.outcome(parsed_args, accepted)


class ListVolumes(listing.List):
    """List volumes, the oldest first."""

    things = "volumes"
    brief = ("uuid", "name", "size_gb", "status", "servers", "volume_type", "host", "failure")
    whole = COLUMNS

    arguments = (
        command.argument("--name", help="Only those of this name."),
        command.argument(
            "--status",
            type=str.lower,
            choices=volume_states.LISTED,
            metavar="STATUS",
            help=f"Only those with this status: {', '.join(volume_states.LISTED)}.",
        ),
        command.argument("--type", dest="volume_type", help="Only those of this type."),
        command.argument(
            "--host",
            "--backend",
            dest="location",
            metavar="LOCATION",
            help="Only those on this backend, machine@backend, or this pool, machine@backend#pool.",
        ),
        command.argument("--project", metavar="ID", help="Only those of this project."),
    )

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        wanted = {
            "name": parsed_args.name,
            "status": parsed_args.status,
            "volume_type": parsed_args.volume_type,
            **_place(parsed_args.location),
            "project_id": parsed_args.project,
        }
        filters = {key: value for key, value in wanted.items() if value}
        found = pages.volumes(self.conductor.operator, filters)
        return [{**each, "failure": why(each), "reason": _word(each), "servers": _servers(each)} for each in found]

    def shortened(self, record: Record) -> Record:
        """The word for a failure; 'fleet volume show' has the sentence."""
        return {**record, "failure": record["reason"]}

    def columns(self, found: Iterable[Record]) -> Sequence[str]:
        return telling(self.brief, found)


class ShowVolume(command.ShowOne):
    """Show a volume: its pool, its step, and why it failed."""

    arguments = (VOLUME,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.conductor.operator.show_volume(name=parsed_args.volume)
        tried = [f"{each['backend']}: {each['reason']}" for each in found["tried"]]
        faults = [
            f"{moments.shown(each['created_at'])} {each['event']} on {each['host'] or 'no pool'}: {each['message']}"
            for each in found.get("faults", ())
        ]
        shown = {**found, "failure": why(found), "servers": _servers(found), "tried": tried, "faults": faults}
        return command.one((*COLUMNS, "reference", "migration", "snapshots", "tried", "faults"), shown)


class DeleteVolumes(command.Command):
    """Delete volumes. Their data cannot be restored."""

    arguments = (
        command.argument("volume", nargs="+", help="Name, uuid, or the beginning of one."),
        command.argument("--with-snapshots", action="store_true", help="Delete their snapshots first."),
        command.argument(
            "--force",
            action="store_true",
            help="Delete those whose backend or pool is down or removed, too. The agent removes the data if it comes back.",
        ),
        command.argument("--wait", action="store_true", help="Wait until they are gone."),
        TIMEOUT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        operator, how = self.conductor.operator, Deletion()
        if parsed_args.with_snapshots:
            how["with_snapshots"] = True
        if parsed_args.force:
            how["force"] = True
        meant = several.resolved(parsed_args.volume, lambda name: operator.show_volume(name=name))
        deleted, refused = several.ask(meant, lambda uuid: operator.delete_volume(name=uuid, **how))
        several.conclude(meant, refused, *still_there(self.conductor, deleted, parsed_args))


def _place(named: str | None) -> dict[str, str]:
    """The filters for a backend or a pool."""
    if not named:
        return {}
    host, _, pool = named.partition("#")
    return {"host": host, "pool": pool}


def still_there(
    conductor: Calls, deleted: Sequence[Record], parsed_args: argparse.Namespace, method: str = "list_volumes"
) -> list[str]:
    """With --wait, wait until these volumes or snapshots are gone. Return a line if some are still there in the end."""
    if not parsed_args.wait:
        return []
    found = following.volumes(conductor, [each["uuid"] for each in deleted], parsed_args.timeout, is_gone, method)
    late = [each for each in found if not is_gone(each)]
    return [f"not deleted within {parsed_args.timeout} s: {len(late)} of {len(found)}"] if late else []


def telling(columns: Sequence[str], found: Iterable[Record]) -> Sequence[str]:
    """Return the columns without those of failures and servers, if there are none."""
    rare = ("failure", "servers")
    return [name for name in columns if name not in rare or any(each.get(name) for each in found)]


def _servers(volume: Record) -> list[str]:
    """Return the names of the instances that have the volume."""
    return [each["instance_name"] for each in volume.get("attachments", ())]


def is_made(volume: Record) -> bool:
    return volume["status"] not in (volume_states.CREATING, volume_states.MANAGING)


def is_gone(volume: Record) -> bool:
    return volume["status"] == volume_states.DELETED


def _word(volume: Record) -> str:
    """Return the reason code of a failure, or the name of its error; "" for none."""
    failure = volume.get("failure") or {}
    return (failure.get("details") or {}).get("reason_code") or failure.get("error") or ""


def why(volume: Record) -> str:
    """Return the reason of a failure in a sentence; "" for none."""
    return (volume.get("failure") or {}).get("message") or ""
