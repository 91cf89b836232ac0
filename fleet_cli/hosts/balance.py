# SPDX-License-Identifier: Apache-2.0
"""``fleet balance``: hot hosts of aggregates, the moves that conductors suggest or make, and their gain.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from fleet import balance_states
from fleet.client import argument_types
from fleet.client.connection import Record
from fleet.objects.answers.balances import BalanceMove, BalanceRound, BalanceView
from fleet_cli.base import command, listing
from fleet_cli.base.output import moments

_AGGREGATE = command.argument("aggregate", metavar="AGGREGATE", help="Its name.")
_MOVE_COLUMNS = ("instance", "from", "to", "memory_mb", "disk_gb", "gain", "status", "why")


class ShowBalance(listing.List):
    """List the aggregates with their modes, the hosts that are hot, and the newest round.

    The mode is the metadata 'balance' of the aggregate: suggest, confirm, auto; without it the aggregate is off. What
    the last look saw is shown if the newest round has it; earlier ones are in 'fleet balance history'.
    """

    things = "aggregates"
    brief = ("aggregate", "mode", "hot", "above_mean", "last", "why")
    whole = (*brief, "paused", "looked_at", "hot_since", "round")

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return [_aggregate(each) for each in self.conductor.operator.list_balances()]

    def shortened(self, record: Record) -> Record:
        return {**record, "hot": ", ".join(record["hot"])}


class SuggestBalance(command.Lister):
    """Print the moves that would relieve the hosts of an aggregate that are hot now. Nothing is changed.

    The time for which hosts must be hot does not count here; all other conditions do.
    """

    arguments = (_AGGREGATE,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.conductor.operator.suggest_balance(aggregate=parsed_args.aggregate)
        _tell(found)
        return _moves(found)


class RunBalance(command.Lister):
    """Begin the moves of the newest suggestion of an aggregate. Its mode must be confirm.

    Filters and claims judge each move once more.
    """

    arguments = (
        _AGGREGATE,
        command.argument(
            "--round",
            type=argument_types.uuid,
            metavar="UUID",
            help="Only if it is this suggestion: 'fleet balance history --long'.",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.conductor.operator.run_balance(aggregate=parsed_args.aggregate, uuid=parsed_args.round)
        _tell(found)
        return _moves(found)


class PauseBalance(command.Command):
    """Begin no more moves in an aggregate. Those that are under way come to their ends."""

    arguments = (_AGGREGATE,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.pause_balance(aggregate=parsed_args.aggregate, paused=True)


class ResumeBalance(command.Command):
    """Look at an aggregate again. Hosts must be hot for the whole time anew."""

    arguments = (_AGGREGATE,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.pause_balance(aggregate=parsed_args.aggregate, paused=False)


class BalanceHistory(listing.List):
    """List rounds, the newest first: what was seen, what was done and what it brought, and what was not done and why.

    'before' is how far the most loaded host was above the mean, in points; 'expected' is what the moves should make of it,
    and 'after' what it was some minutes after their end. The table has them in this order.
    """

    things = "rounds"
    brief = ("round", "moves", "why")
    whole = (
        *("created_at", "aggregate", "status", "before", "expected", "after", "moves", "why"),
        *("uuid", "mode", "mean", "hosts", "measured", "loads", "seen_at", "ended_at"),
    )
    arguments = (
        command.argument("--aggregate", metavar="AGGREGATE", help="Only its rounds."),
        command.argument(
            "--limit", type=argument_types.entries, default=20, metavar="N", help="At most. Default: %(default)s."
        ),
    )

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        found = self.conductor.operator.list_balance_rounds(aggregate=parsed_args.aggregate, limit=parsed_args.limit)
        return [_round(each) for each in found]

    def shortened(self, record: Record) -> Record:
        began = moments.shown(record["created_at"])
        points = " > ".join(f"{record[name]:g}" for name in ("before", "expected", "after") if record[name] is not None)
        return {
            **record,
            "created_at": began,
            "round": f"{began}\n{record['aggregate']}\n{record['status']}\n{points} points",
            "moves": _told(record["moves"]),
            "why": record["why"].replace("; ", "\n"),
        }


def _aggregate(found: BalanceView) -> dict[str, object]:
    last = found["last"]
    mode = found["mode"]
    # What an earlier look saw is in the history.
    seen = last if last is not None and last["seen_at"] == found["looked_at"] else None
    since = {host: f"hot since {moments.shown(at)}" for host, at in found["hot_since"].items()}
    return {
        "aggregate": found["aggregate"],
        "mode": f"{mode} (paused)" if found["paused"] and mode != balance_states.OFF else mode,
        "hot": sorted(found["hot_since"]),
        "above_mean": seen["seen"]["before"] if seen else None,
        "last": last["status"] if last else None,
        "why": _why({**since, **(seen["not_done"] if seen else {})}),
        "paused": found["paused"],
        "looked_at": found["looked_at"],
        "hot_since": found["hot_since"],
        "round": last["uuid"] if last else None,
    }


def _round(found: BalanceRound) -> dict[str, object]:
    seen = found["seen"]
    return {
        **{name: found[name] for name in ("created_at", "aggregate", "status", "after", "uuid", "mode")},
        **{name: seen[name] for name in ("before", "expected", "mean", "hosts", "measured", "loads")},
        "moves": found["moves"],
        "why": _why(found["not_done"]),
        "seen_at": found["seen_at"],
        "ended_at": found["ended_at"],
    }


def _why(not_done: Mapping[str, str]) -> str:
    return "; ".join(f"{host}: {why}" for host, why in sorted(not_done.items()))


def _told(moves: Sequence[BalanceMove]) -> str:
    return "\n".join(
        f"{each['name']} {each['source']} > {each['destination']} {each['status']}"
        + (f" ({each['why']})" if each["why"] else "")
        for each in moves
    )


def _tell(found: BalanceRound) -> None:
    seen = found["seen"]
    expected = f"; {seen['expected']:g} are expected after the moves" if found["moves"] else ""
    loads = f"The most loaded of {seen['hosts']} hosts is {seen['before']:g} points above the mean of {seen['mean']:g}"
    listing.remark(f"{loads}{expected}" if seen["hosts"] else "No host of the aggregate may take guests")
    for host, why in sorted(found["not_done"].items()):
        listing.remark(f"  {host}: {why}")


def _moves(found: BalanceRound) -> tuple:
    rows = [
        {**each, "instance": each["name"], "from": each["source"], "to": each["destination"]} for each in found["moves"]
    ]
    return command.table(_MOVE_COLUMNS, rows)
