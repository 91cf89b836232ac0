# SPDX-License-Identifier: Apache-2.0
"""``fleet capacity``: how many more instances or volumes fit, what runs out first, and what remains unusable.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import functools
import math

from cliff import columns

from fleet.capacity import shown
from fleet.client import connection
from fleet.client.connection import Record
from fleet.objects.survival import Remaining
from fleet_cli.base import build_arguments, command, database_command
from fleet_cli.planning import explain, lost, planning, proving

#: Seconds of the search for one loss.
_LIMIT_S = 10.0
#: The fields of the answer in the order of the output; ``-f json`` has all of them (docs/explain.md).
FIELDS = (
    "fits",
    "binds_first",
    "binding",
    "largest",
    "stranded",
    "hosts_with_room",
    "hosts",
    "considered",
    "filters",
    "groups",
    "remarks",
    "state",
)


class Capacity(command.ShowOne):
    """Show how many more instances of a flavor, or volumes of a size, would fit now, and what limits them."""

    arguments = (
        functools.partial(build_arguments.add_flavor, required=False),
        explain.add_volume,
        build_arguments.add_conditions,
        command.argument(
            "--group-by", choices=("zone", "aggregate"), help="Count for each of these, too. Volumes: zone."
        ),
        command.argument(
            "--after-loss-of",
            metavar="any|HOST|KEY=VALUE",
            help="Count what would still fit when this is lost and its guests are elsewhere, as 'fleet drill' plans it. "
            "'any': after the worst loss of one host; with --by KEY, of all hosts of one value.",
        ),
        command.argument("--by", metavar="KEY", help="With '--after-loss-of any': lose all hosts of one value of KEY."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        if parsed_args.after_loss_of:
            return self._after_loss(parsed_args)
        if parsed_args.by:
            raise connection.CommandFailed("--by goes with --after-loss-of any")
        if parsed_args.volume:
            wanted = explain.volume_asked(self.conductor, parsed_args)
            answer = self.conductor.volume_capacity(wanted, parsed_args.group_by)
        elif not parsed_args.flavor:
            raise connection.CommandFailed("use --flavor, or --volume")
        else:
            answer = self.conductor.capacity(explain.asked(self.conductor, parsed_args), parsed_args.group_by)
        return FIELDS, explain.shown({**answer, "fits": _Fits(answer["fits"])}, FIELDS, _COLUMNS)

    def _after_loss(self, parsed_args: argparse.Namespace) -> tuple:
        if not parsed_args.flavor or parsed_args.group_by:
            raise connection.CommandFailed("--after-loss-of goes with --flavor, and without --group-by")
        request = explain.asked(self.conductor, parsed_args)
        (asked,) = planning.one_by_one(request, 1)
        with database_command.plain_failures():
            state = planning.state(self.app.conf, "capacity")
            losses = lost.losses([parsed_args.after_loss_of], parsed_args.by, state)
            found = proving.remaining(self, state, losses, asked, _LIMIT_S)
        if not found:
            raise connection.CommandFailed("no host has guests: fleet capacity counts what fits")
        worst = min(found, key=_how_much)
        shown = {
            "fits": _Fits(worst.fits),
            "after_loss_of": worst.lost,
            "verdict": worst.verdict,
            "why": worst.why,
            "losses": len(found),
        }
        return command.one(tuple(shown), shown)


def _how_much(each: Remaining) -> tuple[float, str]:
    return math.inf if each.fits is None else each.fits, each.lost


class _Fits(columns.FormattableColumn):
    """The number; null if nothing limits it."""

    def human_readable(self) -> str:
        return _count(self._value)


class _Largest(columns.FormattableColumn):
    """The host of the largest possible instance, and its size."""

    def human_readable(self) -> str:
        return _largest(self._value)


class _Stranded(columns.FormattableColumn):
    """Free resources that this flavor cannot use."""

    def human_readable(self) -> str:
        return "\n".join(_stranded_line(name, each) for name, each in self._value.items())


class _Groups(columns.FormattableColumn):
    """The figures of each zone or aggregate."""

    def human_readable(self) -> str:
        return "\n".join(
            f"{group['name']}: {_count(group['fits'])} on {group['hosts_with_room']} of {group['hosts']} hosts, "
            f"{group['binds_first'] or 'nothing'} binds first"
            for group in self._value
        )


def _largest(largest: Record) -> str:
    what = "volume" if explain.is_pool(largest) else "flavor"
    room = ", ".join(f"{name} {_count(amount)}" for name, amount in largest["room"].items())
    return (
        f"{explain.place(largest)} takes one of {_count(largest['times'])} times the {what}, "
        f"or {_count(largest['fits'])} of it ({room})"
    )


def _stranded_line(name: str, each: Record) -> str:
    if each["usable"] is None:
        return f"{name}: unlimited"
    share = 100 * each["stranded"] / each["usable"] if each["usable"] else 0.0
    unit = f" {each['unit']}" if each["unit"] else ""
    return f"{name}: {shown(each['stranded'])} of {shown(each['usable'])}{unit} usable ({share:.0f} %)"


def _count(number: float | None) -> str:
    return "unlimited" if number is None else shown(number)


_COLUMNS: dict[str, type[columns.FormattableColumn]] = {
    "binding": explain.Counts,
    "largest": _Largest,
    "stranded": _Stranded,
    "filters": explain.Filters,
    "groups": _Groups,
    "remarks": explain.Lines,
    "state": explain.State,
}
