# SPDX-License-Identifier: Apache-2.0
"""``fleet volume extend``, ``migrate`` and ``retype``: change a volume, and wait until it is changed.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator

from fleet import volume_states
from fleet.client import argument_types, connection, following
from fleet.client.connection import Record
from fleet_cli.base import command
from fleet_cli.base.output import progress
from fleet_cli.volumes.volumes import TIMEOUT, VOLUME, why


class ExtendVolume(command.Command):
    """Make a volume larger. Its pool must have room; otherwise the command says what it lacks."""

    arguments = (
        VOLUME,
        command.argument(
            "--size", type=argument_types.positive, required=True, metavar="GIB", help="The new size in GiB."
        ),
        command.argument("--wait", action="store_true", help="Wait until it has its size; exit status 1 if it failed."),
        TIMEOUT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        asked = self.conductor.operator.extend_volume(name=parsed_args.volume, size=parsed_args.size)
        if not parsed_args.wait:
            return
        (found,) = following.volumes(self.conductor, [asked["uuid"]], parsed_args.timeout, _is_extended)
        if found.get("size_gb") != parsed_args.size:
            reason = why(found) or f"it is {found['status']} after {parsed_args.timeout} s"
            raise connection.CommandFailed(f"volume {parsed_args.volume} has its old size: {reason}")


class MigrateVolume(command.Command):
    """Move a volume to another pool. It is available there once its data are copied."""

    arguments = (
        VOLUME,
        command.argument(
            "--host",
            dest="location",
            metavar="LOCATION",
            help="Pool, machine@backend#pool, or backend. Default: the scheduler chooses.",
        ),
        command.argument("--wait", action="store_true", help="Wait until it is there; exit status 1 if it is not."),
        TIMEOUT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        asked = self.conductor.operator.migrate_volume(name=parsed_args.volume, host=parsed_args.location)
        if not parsed_args.wait:
            return
        with _copies_shown(self.app.options.verbose_level) as show:
            (found,) = following.volumes(
                self.conductor, [asked["uuid"]], parsed_args.timeout, _is_migrated, on_look=show
            )
        if not _is_migrated(found) or found.get("host") == asked["host"]:
            reason = why(found) or f"it is {found['status']} after {parsed_args.timeout} s"
            raise connection.CommandFailed(f"volume {parsed_args.volume} has not migrated: {reason}")


class RetypeVolume(command.Command):
    """Change the type of a volume. It stays on its pool if that suits the type; otherwise it may migrate."""

    arguments = (
        VOLUME,
        command.argument("--type", dest="volume_type", required=True, help="The new type."),
        command.argument(
            "--migration-policy",
            choices=("never", "on-demand"),
            default="never",
            help="Whether the volume may migrate to a pool that suits the type. Default: %(default)s.",
        ),
        command.argument("--wait", action="store_true", help="Wait until it has the type; exit status 1 if it failed."),
        TIMEOUT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        asked = {"volume_type": parsed_args.volume_type, "migration_policy": parsed_args.migration_policy}
        begun = self.conductor.operator.retype_volume(name=parsed_args.volume, **asked)
        if not parsed_args.wait:
            return
        with _copies_shown(self.app.options.verbose_level) as show:
            (found,) = following.volumes(
                self.conductor, [begun["uuid"]], parsed_args.timeout, _is_retyped, on_look=show
            )
        if not _is_retyped(found) or found.get("volume_type") != parsed_args.volume_type or found["failure"]:
            reason = why(found) or f"it is {found['status']} after {parsed_args.timeout} s"
            raise connection.CommandFailed(f"volume {parsed_args.volume} has its old type: {reason}")


@contextlib.contextmanager
def _copies_shown(verbose_level: int) -> Iterator[Callable[[list[Record]], None]]:
    """Show how much of a volume is copied, as far as that is known."""
    with progress.shown(100, "per cent", verbose_level) as shown:

        def show(found: list[Record]) -> None:
            migration = found[0].get("migration") or {}
            if "copied_percent" in migration:
                shown.show(migration["copied_percent"], f"copied to {migration['pool']}")

        yield show


def _is_extended(volume: Record) -> bool:
    return volume["status"] != volume_states.EXTENDING


def _is_migrated(volume: Record) -> bool:
    return volume["status"] != volume_states.MIGRATING


def _is_retyped(volume: Record) -> bool:
    return volume["status"] != volume_states.RETYPING
