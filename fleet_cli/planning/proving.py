# SPDX-License-Identifier: Apache-2.0
"""Proofs of what becomes of the guests of lost hosts, for the commands that show them.

Called by :mod:`fleet_cli.planning.capacity`, :mod:`fleet_cli.survival.drill` and :mod:`fleet_cli.survival.tolerance`.
The commands beside it are ``capacity``, ``drill`` and ``tolerance``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from fleet import errors
from fleet.client import argument_types, offers, pages
from fleet.db.feed.feed import Changes
from fleet.objects.survival import ENTRY_POINTS, REMAINING, REPORT, Loss, Remaining, Report
from fleet.objects.whatif import Demand
from fleet_cli.base import command
from fleet_cli.base.output import progress

#: Lines of progress if standard error is no terminal.
LINES = 10
LIMIT = command.argument(
    "--limit",
    type=argument_types.positive,
    default=10,
    metavar="SECONDS",
    help="Search for so long for one loss, before it is 'not proved'. Default: 10.",
)


def prove(shown_by: Any, state: Changes, losses: Sequence[Loss], limit_s: float) -> Report:
    """:param shown_by: the command. :param limit_s: seconds for one loss"""
    report: Report = _run(shown_by, REPORT, state, losses, (), limit_s)
    return report


def remaining(
    shown_by: object, state: Changes, losses: Sequence[Loss], asked: Demand, limit_s: float
) -> Sequence[Remaining]:
    """Return how many instances of ``asked`` fit after each loss."""
    found: Sequence[Remaining] = _run(shown_by, REMAINING, state, losses, (asked,), limit_s)
    return found


def _run(
    shown_by: Any, name: str, state: Changes, losses: Sequence[Loss], more: Sequence[Demand], limit_s: float
) -> Any:
    done = itertools.count(1)
    verbose = shown_by.app.options.verbose_level

    def requests_of(uuids: Sequence[str]) -> Mapping[str, Demand | errors.FleetError]:
        found: dict[str, Demand | errors.FleetError] = {}
        with progress.shown(len(uuids), "guests read", verbose, LINES) as shown:
            for part in pages.requests(shown_by.conductor.operator, uuids):
                found.update((each["uuid"], Demand.of_instance(each)) for each in part)
                shown.show(len(found), "")
        return found

    with progress.shown(len(losses), "losses", verbose, LINES) as shown:
        return offers.load(ENTRY_POINTS, name)(
            *(shown_by.app.conf, state, losses, requests_of, *more),
            lambda name: shown.show(next(done), name),
            limit_s,
        )
