# SPDX-License-Identifier: Apache-2.0
"""``fleet maintenance list``, ``show``, ``pause``, ``resume``, ``skip`` and ``cancel``: maintenances that have begun.

Called by :mod:`fleet_cli.planning.maintenance`.
"""

from __future__ import annotations

import argparse
import datetime
import math
import shlex
import time
from collections.abc import Callable, Iterable

import oslo_messaging
from cliff import columns

from fleet import maintenance_states
from fleet.client import argument_types, connection, patience
from fleet.client.calls import Calls, Unreachable
from fleet.client.connection import Record
from fleet.objects.answers.maintenances import GuestsLeft, MaintenanceHostView, ShownMaintenance
from fleet_cli.base import command, listing
from fleet_cli.base.output import moments

_NAME = command.argument("name", metavar="NAME", help="Of the maintenance, or its uuid.")
_HOST_COLUMNS = ("wave", "host", "status", "guests", "problem", "began_at", "emptied_at", "ended_at")
_SHOWN = ("uuid", "name", "status", "paused", "wave", "hosts", "hook", "wanted_release", "cold", "moves_at_a_time")
_PAUSE_S = 2.0


class ListMaintenances(listing.List):
    """List maintenances: those that have not ended, then the others, each the newest first."""

    things = "maintenances"
    brief = ("name", "status", "wave", "hosts", "created_at")
    whole = (*brief, "uuid", "paused", "hook", "wanted_release", "cold", "moves_at_a_time", "ended_at")
    arguments = (
        command.argument(
            "--limit", type=argument_types.entries, default=100, metavar="N", help="At most. Default: %(default)s."
        ),
    )

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        found = self.conductor.operator.list_maintenances(limit=parsed_args.limit)
        return [{**each, "status": _status(each), "wave": _wave(each)} for each in found]

    def shortened(self, record: Record) -> Record:
        return {**record, "hosts": _counts(record["hosts"]), "created_at": moments.shown(record["created_at"])}


class ShowMaintenance(command.ShowOne):
    """Show a maintenance, how long it may still take, what its hosts wait for, and which are left out."""

    arguments = (_NAME,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.conductor.operator.show_maintenance(name=parsed_args.name)
        plan = found["maintenance"]
        record: dict[str, object] = {
            **plan,
            "status": _status(plan),
            "wave": _wave(plan),
            "left": time_left(found),
            "waiting_for": command.Listed(waiting_for(found, guests_left)),
            "skipped": command.Listed(
                [
                    _with_problem(each, each["host"])
                    for each in found["hosts"]
                    if each["status"] == maintenance_states.SKIPPED
                ]
            ),
        }
        return command.one((*_SHOWN, "created_at", "ended_at", "left", "waiting_for", "skipped"), record)


class _Guests(columns.FormattableColumn):
    """The guests that are left on a host: text for people, numbers for programs."""

    def human_readable(self) -> str:
        return guests_left(self._value)

    def machine_readable(self) -> GuestsLeft | None:
        found: GuestsLeft | None = self._value.get("guests")
        return found


class ListMaintenanceHosts(command.Lister):
    """List the hosts of a maintenance by wave, with what each of them waits for."""

    arguments = (_NAME,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.conductor.operator.show_maintenance(name=parsed_args.name)
        return command.table(_HOST_COLUMNS, [{**each, "guests": _Guests(each)} for each in found["hosts"]])


class PauseMaintenance(command.Command):
    """Begin nothing more. Moves and hooks that are under way come to their ends."""

    arguments = (_NAME,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.pause_maintenance(name=parsed_args.name, paused=True)


class ResumeMaintenance(command.Command):
    """Go on; hosts that have failed are tried again: the hook runs again, or their return is waited for anew."""

    arguments = (_NAME,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.pause_maintenance(name=parsed_args.name, paused=False)


class SkipMaintenanceHost(command.Command):
    """Leave a host out of its maintenance. It takes builds again, unless it was disabled before."""

    arguments = (_NAME, command.HOST)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.skip_maintenance_host(name=parsed_args.name, host=parsed_args.host)


class CancelMaintenance(command.Command):
    """End a maintenance. Its hosts take builds again; guests that have moved stay where they are."""

    arguments = (_NAME,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.cancel_maintenance(name=parsed_args.name)


def follow(
    conductor: Calls,
    name: str,
    timeout_s: float | None,
    on_look: Callable[[int, int, str], object],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> ShownMaintenance:
    """Wait until a maintenance has ended. A conductor that does not answer may reboot: it is asked again.

    :param timeout_s: None: without end
    :param on_look: called with ended hosts, all hosts, and what is waited for
    :raises connection.CommandFailed: it has not ended after ``timeout_s``, or no host of the wave goes on
    """
    until = math.inf if timeout_s is None else clock() + timeout_s
    found: ShownMaintenance | None = None
    while True:
        why = ""
        try:
            found = conductor.operator.show_maintenance(name=name)
        except (oslo_messaging.MessagingException, Unreachable):
            if found is None:
                raise
            why = patience.SILENCE
        of_waves = [each for each in found["hosts"] if each["wave"]]
        ended = sum(each["ended_at"] is not None for each in of_waves)
        on_look(ended, len(of_waves), why or "; ".join(waiting_for(found)[:3]))
        if found["maintenance"]["ended_at"] is not None:
            return found
        if failed := _all_failed(found):
            quoted = shlex.quote(name)
            raise connection.CommandFailed(
                f"it does not go on by itself: {failed}. 'fleet maintenance resume {quoted}' tries again, "
                f"'fleet maintenance skip {quoted} HOST' leaves a host out"
            )
        if clock() >= until:
            raise connection.CommandFailed(
                f"not ended within {timeout_s} s; it goes on: 'fleet maintenance show {shlex.quote(name)}'"
            )
        sleep(_PAUSE_S)


def _all_failed(found: ShownMaintenance) -> str:
    """Return what the hosts of the present wave say that have not ended, if all have failed; else ""."""
    wave = found["maintenance"]["wave"]
    left = [each for each in found["hosts"] if each["wave"] == wave and each["ended_at"] is None]
    failed = left and all(each["status"] == maintenance_states.FAILED for each in left)
    return "; ".join(waiting_for(found)[:3]) if failed else ""


def waiting_for(found: ShownMaintenance, counted: Callable[[MaintenanceHostView], str] = lambda host: "") -> list[str]:
    """Return the hosts of the present wave that have not ended, each with its status, its numbers and its problem.

    :param counted: says the numbers; left out where each change is a line
    """
    wave = found["maintenance"]["wave"]
    return [
        _with_problem(each, f"{each['host']} {each['status']}" + (f" ({said})" if (said := counted(each)) else ""))
        for each in found["hosts"]
        if each["wave"] == wave and each["ended_at"] is None
    ]


def _with_problem(host: MaintenanceHostView, said: str) -> str:
    return f"{said}: {host['problem']}" if host["problem"] else said


def time_left(found: ShownMaintenance) -> str:
    """Say how long the waves that are left may take; "" if the conductor does not know it yet, or is older than that."""
    known = found.get("estimate")
    if not known:
        return ""
    if known["wave_gone_s"] <= known["wave_s"]:
        return f"about {_duration(known['left_s'])}"
    others = f"; those after it about {_duration(known['left_s'])}" if known["left_s"] else ""
    return f"the wave takes longer than expected ({_duration(known['wave_s'])}){others}"


def guests_left(host: MaintenanceHostView) -> str:
    """Say how many guests are still on a host that is drained; "" for others."""
    found = host.get("guests")
    if not found:
        return ""
    of_all = f" of {found['total']}" if found["left"] < found["total"] else ""
    guests = "guest" if found["left"] == 1 and not of_all else "guests"
    return f"{found['left']}{of_all} {guests} still there, {found['moving']} moving"


def _duration(length_s: float) -> str:
    return str(datetime.timedelta(seconds=round(length_s)))


def _status(record: Record) -> str:
    return f"{record['status']} (paused)" if record["paused"] and record["ended_at"] is None else str(record["status"])


def _wave(record: Record) -> str:
    return f"{record['wave']} of {record['waves']}" if record["wave"] else ""


def _counts(hosts: Record) -> str:
    return ", ".join(f"{number} {status}" for status, number in sorted(hosts.items()))
