# SPDX-License-Identifier: Apache-2.0
"""Proofs of what becomes of the guests of lost hosts, for the commands that show them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from fleet import errors
from fleet.db.feed.feed import Changes
from fleet.objects.survival import ENTRY_POINTS, Loss, Report
from fleet.objects.whatif import Demand
from fleet_cli.base import progress
from fleet_cli.planning import planning

#: Lines of progress if standard error is no terminal.
LINES = 10


def prove(shown_by: Any, state: Changes, losses: Sequence[Loss], limit_s: float) -> Report:
    """:param shown_by: the command. :param limit_s: seconds for one loss"""
    (entry,) = metadata.entry_points(group=ENTRY_POINTS)
    done = itertools.count(1)
    verbose = shown_by.app.options.verbose_level

    def requests_of(uuids: Sequence[str]) -> Mapping[str, Demand | errors.FleetError]:
        return planning.of_instances(shown_by.conductor, uuids, verbose, LINES)

    with progress.shown(len(losses), "losses", verbose, LINES) as shown:
        report: Report = entry.load()(
            *(shown_by.app.conf, state, losses, requests_of), lambda name: shown.show(next(done), name), limit_s
        )
    return report
