# SPDX-License-Identifier: Apache-2.0
"""``fleet tolerance``: promises to survive a loss of hosts, and the proofs that the fleet keeps them.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import collections
from typing import Any

from fleet.client import argument_types, connection
from fleet.db.feed import domains
from fleet.db.operations import tolerances
from fleet.json_codec import JSONObject
from fleet.objects import tolerance as tolerance_objects
from fleet.objects.tolerance import Tolerance
from fleet_cli.base import command, database_command, listing
from fleet_cli.planning import planning, proving

COLUMNS = ("scope", "tolerates", "policy", "verdict", "losses", "unsafe", "not_proved", "why")
SAFE, UNSAFE, NOT_PROVED = "safe", "unsafe", "not proved"
_ZONE = command.argument("--zone", metavar="ZONE", help="The promise of a zone. Default: of the fleet.")
_AGGREGATE = command.argument("--aggregate", metavar="AGGREGATE", help="The promise of an aggregate.")


def _scope(parsed_args: argparse.Namespace) -> tuple[str, str]:
    """:raises connection.CommandFailed: a zone and an aggregate"""
    if parsed_args.zone and parsed_args.aggregate:
        raise connection.CommandFailed("use --zone or --aggregate, not both")
    if parsed_args.aggregate:
        return tolerance_objects.AGGREGATE, parsed_args.aggregate
    return (tolerance_objects.ZONE, parsed_args.zone) if parsed_args.zone else (tolerance_objects.FLEET, "")


class SetTolerance(command.ShowOne):
    """Promise that the guests of any lost host, or of any lost rack, have a place on the others.

    A scope has one promise; this one takes its place.
    """

    arguments = (
        _ZONE,
        _AGGREGATE,
        command.argument(
            "--number",
            type=argument_types.positive,
            default=1,
            metavar="N",
            help="Hosts, or racks, that may be lost together. Default: %(default)s.",
        ),
        command.argument(
            "--label", metavar="KEY", help="What is lost together: the hosts of one value of this label, such as rack."
        ),
        command.argument(
            "--policy",
            choices=(tolerance_objects.WARN, tolerance_objects.LAST, tolerance_objects.REFUSE),
            default=tolerance_objects.WARN,
            help="Where a placement would break the promise: place it and warn, place it there only if nothing else is "
            "left, or refuse it. Default: %(default)s.",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        kind, name = _scope(parsed_args)
        more = {each: getattr(parsed_args, each) for each in ("number", "label", "policy")}
        made = Tolerance.from_wire(
            self.conductor.operator.set_tolerance(tolerance={"kind": kind, "name": name, **more})
        )
        return command.one(("scope", "tolerates", "policy"), {**_row(made), "policy": made.policy})


class UnsetTolerance(command.Command):
    """Take a promise back."""

    arguments = (_ZONE, _AGGREGATE)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        kind, name = _scope(parsed_args)
        self.conductor.operator.unset_tolerance(kind=kind, name=name)


class ShowTolerance(listing.Fitted, command.Lister):
    """Say for each promise whether it holds now, by proofs as 'fleet drill' makes them. Nothing is changed.

    "safe": for every loss there is a plan that the filters accept. "unsafe": for some loss there is none. Otherwise "not
    proved". Exit status 1 unless all promises are safe.
    """

    things = "promises"
    arguments = (proving.LIMIT,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        promised = [Tolerance.from_wire(each) for each in self.conductor.operator.list_tolerances()]
        rows = []
        with database_command.plain_failures():
            state = planning.state(self.app.conf, "tolerance") if promised else None
            for each in promised:
                rows.append(self._proved(each, state, parsed_args.limit))
        self._good = all(row["verdict"] == SAFE for row in rows)
        return command.table(COLUMNS, rows)

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._good = False
        return super().run(parsed_args) or int(not self._good)

    def nothing(self, parsed_args: argparse.Namespace) -> str:
        return "Nothing is promised: 'fleet tolerance set' does."

    def _proved(self, each: Tolerance, state: Any, limit_s: float) -> JSONObject:
        known = sorted({node.host for node in state.nodes})
        hosts = tolerances.hosts_of(each, known, state.aggregates, self.app.conf.default_availability_zone)
        values = domains.value_of(state, each.label) if each.label else {}
        found = each.losses(hosts, values)
        row = {**_row(each), "policy": each.policy, "losses": 0, "unsafe": 0, "not_proved": 0, "why": ""}
        if found is None:
            return {**row, "verdict": NOT_PROVED, "why": "more combinations are lost than can be looked at"}
        report = proving.prove(self, state, list(found), limit_s)
        counts = collections.Counter(proof.verdict.value for proof in report.proofs)
        bad = [
            (loss, proof)
            for verdict in (UNSAFE, NOT_PROVED)
            for loss, proof in zip(report.losses, report.proofs, strict=True)
            if proof.verdict.value == verdict
        ]
        why = f"{bad[0][0].name}: {bad[0][1].why}" if bad else ""
        verdict = bad[0][1].verdict.value if bad else SAFE
        numbers = {"losses": len(report.proofs), "unsafe": counts[UNSAFE], "not_proved": counts[NOT_PROVED]}
        return {**row, **numbers, "verdict": verdict, "why": why}


def _row(each: Tolerance) -> JSONObject:
    return {"scope": each.scope, "tolerates": each.what}
