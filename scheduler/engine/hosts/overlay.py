# SPDX-License-Identifier: Apache-2.0
"""Changes that the picks of one request make to the table, kept apart from it: copy-on-write.

Called by :mod:`scheduler.engine.hosts.candidates`.
"""

from __future__ import annotations

from typing import Any

import numpy

from scheduler.engine.hosts.claim_limits import ClaimLimits
from scheduler.engine.hosts.consumption import Consumption
from scheduler.engine.hosts.table import HostTable


class Overlay:
    """Copies of the columns and rare values that picks consume, and the picks.

    ``states`` are the rows in the form of the domain's plugins, made when they are asked for.
    """

    def __init__(self) -> None:
        self.columns: dict[str, numpy.ndarray] = {}
        self.rare: dict[str, dict[int, Any]] = {}
        self.states: dict[int, Any] = {}
        self.picks: list[Any] = []
        #: The rows that picks have changed.
        self.changed: set[int] = set()
        self.limits = ClaimLimits()

    def take(self, table: HostTable, rows: int | numpy.ndarray, consumption: Consumption) -> None:
        """Count one more instance on one row, or on each of several distinct rows."""
        self.changed.update(numpy.atleast_1d(rows).tolist())
        for name, amount in consumption.numbers.items():
            if name not in self.columns:
                self.columns[name] = table.column(name).copy()
            self.columns[name][rows] += amount
        for name, taking in consumption.rare.items():
            known = self.rare.setdefault(name, dict(table.rare.get(name, {})))
            for row in numpy.atleast_1d(rows).tolist():
                if row in known:
                    known[row] = taking.taken_from(known[row])

    def with_one_more(self, table: HostTable, rows: numpy.ndarray, consumption: Consumption) -> Overlay:
        """Return an overlay with one more instance on each of ``rows``; this one stays as it is."""
        other = Overlay()
        other.columns = {name: column.copy() for name, column in self.columns.items()}
        other.rare = {name: dict(known) for name, known in self.rare.items()}
        other.picks, other.limits, other.changed = self.picks, self.limits, set(self.changed)
        other.take(table, rows, consumption)
        return other
