# SPDX-License-Identifier: Apache-2.0
"""All that is known of the hosts, and what one request changes of it for itself."""

from __future__ import annotations

from typing import Any

import numpy

from fleet.objects import Aggregate
from scheduler.compute.host_state import RowState
from scheduler.engine.claim_limits import ClaimLimits
from scheduler.engine.consumption import Consumption
from scheduler.engine.host_table import HostTable
from scheduler.engine.instance_index import InstanceIndex, TrackedInstance


class Inventory:
    """The table, the instances on the hosts, their aggregates, and why services are disabled."""

    def __init__(self, table: HostTable) -> None:
        self.table = table
        self.instances = InstanceIndex()
        self.aggregates: dict[int, Aggregate] = {}
        self.disabled_reasons: dict[str, str] = {}
        #: Grows when something has changed that no row of the table shows, such as an aggregate's metadata.
        self.epoch = 0
        self._metadata_keys: frozenset[str] | None = None

    def copy(self) -> Inventory:
        """Return an inventory that later changes of this one do not reach."""
        other = Inventory(self.table.copy())
        other.instances = self.instances.copy()
        other.aggregates, other.disabled_reasons = dict(self.aggregates), dict(self.disabled_reasons)
        other.epoch = self.epoch
        return other

    def aggregates_changed(self) -> None:
        """To be called when ``aggregates`` has changed: what was made of it before is void."""
        self.epoch += 1
        self._metadata_keys = None

    def metadata_keys(self) -> frozenset[str]:
        """All keys of all aggregates' metadata."""
        if self._metadata_keys is None:
            self._metadata_keys = frozenset(key for each in self.aggregates.values() for key in each.metadata)
        return self._metadata_keys


class Work:
    """What this request changes: copies of the columns that picks consume from, and the picks."""

    def __init__(self) -> None:
        self.columns: dict[str, numpy.ndarray] = {}
        self.rare: dict[str, dict[int, Any]] = {}
        self.states: dict[int, RowState] = {}
        self.picks: list[TrackedInstance] = []
        self.limits = ClaimLimits()

    def take(self, table: HostTable, rows: int | numpy.ndarray, consumption: Consumption) -> None:
        """Count one instance more on this row, or each of these, which are distinct."""
        for name, amount in consumption.numbers.items():
            if name not in self.columns:
                self.columns[name] = table.column(name).copy()
            self.columns[name][rows] += amount
        for name, taking in consumption.rare.items():
            known = self.rare.setdefault(name, dict(table.rare.get(name, {})))
            for row in numpy.atleast_1d(rows).tolist():
                if row in known:
                    known[row] = taking.taken_from(known[row])

    def with_one_more(self, table: HostTable, rows: numpy.ndarray, consumption: Consumption) -> Work:
        work = Work()
        work.columns = {name: column.copy() for name, column in self.columns.items()}
        work.rare = {name: dict(known) for name, known in self.rare.items()}
        work.picks, work.limits = self.picks, self.limits
        work.take(table, rows, consumption)
        return work
