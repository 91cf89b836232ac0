# SPDX-License-Identifier: Apache-2.0
"""``fleet server resize``, ``migrate``, ``migration abort`` and ``evacuate``, and ``fleet migration list``.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterable, Sequence

from fleet import move_states, states
from fleet.client import argument_types, connection, following, pages
from fleet.client.connection import Record
from fleet.json_codec import JSONObject
from fleet.objects.answers.instances import BriefInstance
from fleet_cli.base import build_arguments, command, listing, several

COLUMNS = (
    "uuid",
    "instance_uuid",
    "migration_type",
    "status",
    "copied_percent",
    "source_compute",
    "dest_compute",
    "old_flavor",
    "new_flavor",
    "attempt",
    "created_at",
    "failure",
)


class _Move(command.Command):
    """Options of all moves, and the wait for their end."""

    arguments = command.WAIT
    failed: Sequence[str] = (move_states.ERROR, move_states.CANCELLED)

    def follow(self, parsed_args: argparse.Namespace, accepted: Sequence[Record]) -> None:
        """Print what was accepted, and with --wait the results. :raises connection.CommandFailed: a move did not succeed"""
        failures = self.failures(parsed_args, accepted)
        if failures:
            raise connection.CommandFailed("; ".join(failures))

    def failures(self, parsed_args: argparse.Namespace, accepted: Sequence[Record]) -> list[str]:
        """Print what was accepted, and with --wait the results; return what did not succeed."""
        if not parsed_args.wait:
            for each in accepted:
                self._say(f"{each['instance_uuid']}: {kind(each)} is {each['status']}")
            return []
        if not accepted:
            return []
        ended, late = following.moves(self.conductor, [each["uuid"] for each in accepted], parsed_args.timeout)
        for each in ended:
            self._say(outcome(each))
        failures = []
        if late:
            failures.append(f"not ended within {parsed_args.timeout} s: {len(late)} of {len(accepted)}")
        bad = [each for each in ended if each["status"] in self.failed]
        if bad:
            failures.append(f"{len(bad)} of {len(ended)} moves failed")
        return failures

    def _say(self, line: str) -> None:
        print(line, file=self.app.stdout)


class ResizeServer(_Move):
    """Give an instance another flavor, on another host; then 'fleet server resize confirm' or 'revert' it."""

    arguments = (command.SERVER, functools.partial(build_arguments.add_flavor, required=True))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        asked = {"name": parsed_args.server, "flavor": parsed_args.flavor}
        self.follow(parsed_args, [self.conductor.operator.resize_instance(**asked)])


def _destination_argument(*names: str) -> command.Argument:
    about = "The only host to consider; it must pass the filters. Default: the best one."
    return command.argument("--to", *names, dest="to", metavar="HOST", help=about)


class MigrateServer(_Move):
    """Move an instance to another host; then, unless --live, 'fleet server resize confirm' or 'revert' it."""

    arguments = (
        command.SERVER,
        _destination_argument("--host"),
        command.argument(
            "--live", "--live-migration", action="store_true", help="While its guest runs. Nothing is left to confirm."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        method = "live_migrate_instance" if parsed_args.live else "migrate_instance"
        asked = {"name": parsed_args.server, **_destination(parsed_args)}
        self.follow(parsed_args, [self.conductor.operator.call(method, **asked)])


class AbortMigration(_Move):
    """End the live migration of an instance; the guest stays on its host."""

    arguments = (command.SERVER,)
    failed = (move_states.ERROR, move_states.COMPLETED)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.follow(parsed_args, [self.conductor.operator.abort_live_migration(name=parsed_args.server)])


class ConfirmResize(_Move):
    """Keep a resized instance as it is; its former host releases what it has kept."""

    method = "confirm_resize"

    arguments = (command.SERVER,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.follow(parsed_args, [self.conductor.operator.call(self.method, name=parsed_args.server)])


class RevertResize(ConfirmResize):
    """Return a resized instance to its former host and flavor."""

    method = "revert_resize"


class EvacuateServer(_Move):
    """Build an instance, or all of a host, again elsewhere: for hosts that are down."""

    arguments = (
        command.argument("server", nargs="?", help="Name, uuid, or the beginning of one."),
        command.argument("--host", help="All the instances that are ACTIVE, STOPPED or SUSPENDED on this host."),
        _destination_argument(),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if bool(parsed_args.server) == bool(parsed_args.host):
            raise connection.CommandFailed("name the instance to evacuate, or use --host HOST")
        operator, where = self.conductor.operator, _destination(parsed_args)
        if parsed_args.server:
            self.follow(parsed_args, [operator.evacuate_instance(name=parsed_args.server, **where)])
            return
        meant = self._on(parsed_args.host)
        accepted, refused = several.ask(meant, lambda uuid: operator.evacuate_instance(name=uuid, **where))
        several.conclude(meant, refused, *self.failures(parsed_args, accepted))

    def _on(self, host: str) -> list[BriefInstance]:
        """Return the instances of a host. :raises errors.NotFound: there is no such host"""
        there = pages.brief_instances(self.conductor.operator, {"host": host})
        # One that is resized must leave, too: the conductor refuses it, and says how.
        may = (states.ACTIVE, states.ERROR, states.RESIZED, *states.AT_REST)
        left = [each for each in there if each["vm_state"] not in may or each["task_state"] is not None]
        for each in left:
            self._say(f"{each['uuid']}: left alone, it is {each['vm_state']} ({each['task_state'] or 'no task'})")
        return [each for each in there if each not in left]


def _destination(parsed_args: argparse.Namespace) -> dict[str, str]:
    return {"host": parsed_args.to} if parsed_args.to else {}


class ListMigrations(listing.List):
    """List resizes, migrations and evacuations, the newest first."""

    things = "migrations"
    brief = ("uuid", "instance_uuid", "type", "status", "hosts", "failure")
    whole = COLUMNS

    arguments = (
        command.argument("--host", help="Only those to or from this host."),
        command.argument("--server", help="Only those of this instance: its name, uuid, or the beginning of one."),
        command.argument(
            "--status",
            type=str.lower,
            choices=move_states.ALL,
            metavar="STATUS",
            help=f"Only those with this status: {', '.join(move_states.ALL)}.",
        ),  # fmt: skip
        command.argument("--limit", type=argument_types.positive, metavar="N", help="Only the newest N."),
    )

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        server = parsed_args.server
        if server:
            server = self.conductor.operator.show_instance(name=server)["instance"]["uuid"]
        wanted = {"host": parsed_args.host, "instance_uuid": server, "status": parsed_args.status}
        filters = {key: value for key, value in wanted.items() if value}
        found = pages.migrations(self.conductor.operator, filters, parsed_args.limit)
        return [{**each, "migration_type": kind(each), "failure": why(each)} for each in found]

    def shortened(self, record: Record) -> Record:
        hosts = f"{record.get('source_compute')} → {record.get('dest_compute') or '-'}"
        return {**record, "type": record.get("migration_type"), "status": progress(record), "hosts": hosts}


def kind(migration: Record) -> str:
    """Return the type of a move. A conductor of an earlier release does not say whether the flavor changes."""
    return move_states.shown_type(migration["migration_type"], migration.get("resized", True))


def why(migration: Record) -> str:
    """Return the reason of a failure in a sentence; "" for none."""
    return (migration.get("failure") or {}).get("message") or ""


def progress(migration: Record) -> str:
    """Return the status, with how much is copied while that is known."""
    percent = migration.get("copied_percent")
    return str(migration.get("status")) + (f", {percent} % copied" if percent is not None else "")


def outcome(migration: Record) -> str:
    """Return the result of a move in a line."""
    where = f"{migration['source_compute']} → {migration['dest_compute'] or '-'}"
    said = f"{migration['instance_uuid']}: {kind(migration)} {where} is {progress(migration)}"
    return f"{said}: {why(migration)}" if why(migration) else said


def shown(migration: Record | None) -> JSONObject:
    """Return the fields of an instance's last move; empty if it was never moved."""
    return {} if migration is None else {"migration": outcome(migration).partition(": ")[2]}
