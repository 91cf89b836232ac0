# SPDX-License-Identifier: Apache-2.0
"""``fleet drill lose``: what would become of the guests of hosts that die.

Registered in :mod:`fleet_cli.command_list`. Nothing is changed.
"""

from __future__ import annotations

import argparse
import collections

from fleet.objects.survival import Loss, Proof, Report
from fleet_cli.base import command, database_command, listing
from fleet_cli.planning import lost, planning, proving

COLUMNS = ("lost", "guests", "verdict", "why", "plan", "lacking")
SAFE = "safe"


class DrillLose(listing.Fitted, command.Lister):
    """Say whether every guest of lost hosts has a place on the others, with a plan, or why not. Nothing is changed.

    HOST names hosts that are lost together. KEY=VALUE stands for the hosts with this label, such as rack=r7, and for those
    of aggregates with this metadata. 'any' tries each host by itself; with --by KEY, all hosts of a value together.

    The command reads the database once. "safe" is proved: the configured filters accept each guest on its new host, beside
    the others. "unsafe" is proved too. Otherwise it is "not proved". Exit status 1 unless all losses are safe.
    """

    things = "hosts with guests"
    arguments = (
        command.argument("target", nargs="+", metavar="any|HOST|KEY=VALUE", help="What is lost together."),
        command.argument("--by", metavar="KEY", help="With 'any': lose all hosts of one value of KEY at a time."),
        command.argument("--plan", action="store_true", help="A line for each guest, with its new host."),
        command.argument("--all", action="store_true", help="Also print the losses that are safe, if there are many."),
        proving.LIMIT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        with database_command.plain_failures():
            state = planning.state(self.app.conf, "drill")
            losses = lost.losses(parsed_args.target, parsed_args.by, state)
            report = proving.prove(self, state, losses, parsed_args.limit)
        listing.remark(_summary(report))
        self._good = all(proof.verdict.value == SAFE for proof in report.proofs)
        self._guests = sum(proof.guests for proof in report.proofs)
        pairs = list(zip(report.losses, report.proofs, strict=True))
        if parsed_args.plan:
            return ("guest", "host", "lost"), [
                (guest, host, loss.name) for loss, proof in pairs for guest, host in proof.plan.items()
            ]
        if not self.is_table(parsed_args) or parsed_args.columns:
            return COLUMNS, [_whole(loss, proof) for loss, proof in pairs]
        shown = [
            pair for pair in pairs if parsed_args.all or len(pairs) <= proving.LINES or pair[1].verdict.value != SAFE
        ]
        return COLUMNS[:4], [_whole(loss, proof)[:4] for loss, proof in shown]

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._good = False
        return super().run(parsed_args) or int(not self._good)

    def nothing(self, parsed_args: argparse.Namespace) -> str:
        if not self._guests:
            return "No guest is on these hosts."
        if parsed_args.plan:
            return "No loss has a plan: the reasons are printed without --plan."
        return "Every loss is safe: --all lists them."


def _summary(report: Report) -> str:
    counts = collections.Counter(proof.verdict.value for proof in report.proofs)
    told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    guests = sum(proof.guests for proof in report.proofs)
    return f"Losses: {told or 'none, as no host has guests'}. Guests on them: {guests}"


def _whole(loss: Loss, proof: Proof) -> tuple[object, ...]:
    name, verdict = loss.name, proof.verdict.value
    return name, proof.guests, verdict, proof.why, command.Pairs(proof.plan), command.Listed(list(proof.lacking))
