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

#: Requests that one call asks for.
_AT_ONCE = 500
#: Lines of progress if standard error is no terminal.
LINES = 10


def prove(shown_by: Any, state: Changes, losses: Sequence[Loss], limit_s: float) -> Report:
    """:param shown_by: the command. :param limit_s: seconds for one loss"""
    (entry,) = metadata.entry_points(group=ENTRY_POINTS)
    done = itertools.count(1)
    verbose = shown_by.app.options.verbose_level

    def requests_of(uuids: Sequence[str]) -> Mapping[str, Demand | errors.FleetError]:
        found: dict[str, Demand | errors.FleetError] = {}
        with progress.shown(len(uuids), "guests read", verbose, LINES) as shown:
            for start in range(0, len(uuids), _AT_ONCE):
                some = list(uuids[start : start + _AT_ONCE])
                for each in shown_by.conductor.operator.requests_of(uuids=some):
                    name = each["uuid"]
                    found[name] = Demand(each["request_spec"], each["filter_properties"], [None], name=name)
                shown.show(len(found), "")
        return found

    with progress.shown(len(losses), "losses", verbose, LINES) as shown:
        report: Report = entry.load()(
            *(shown_by.app.conf, state, losses, requests_of), lambda name: shown.show(next(done), name), limit_s
        )
    return report
