# SPDX-License-Identifier: Apache-2.0
"""The aggregates as the feed and casts show them, and which hosts are in which.

:mod:`scheduler.state.host_cache` has one.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable

from fleet.db.feed.feed import ChangedAggregate
from fleet.objects import Aggregate
from scheduler.engine.hosts.inventory import Inventory
from scheduler.state.hints import AggregateHint


class Memberships:
    """Plain state without a lock."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._table = inventory.table
        self._ids_of_host: dict[str, tuple[int, ...]] = {}
        #: Aggregates that the feed has shown, deleted ones too.
        self._shown: set[int] = set()

    def apply(self, aggregates: Iterable[ChangedAggregate | AggregateHint]) -> None:
        """Apply the changes of the feed."""
        self._take_over(aggregates)
        self._shown.update(each.id for each in aggregates)

    def hint(self, aggregates: Iterable[AggregateHint], generation: int, feed_is_newer: bool) -> None:
        """Apply a cast; see :meth:`scheduler.state.host_cache.HostCache.hint_aggregates`. ``generation`` is the feed's."""

        def counts(hint: AggregateHint) -> bool:
            if hint.generation is None:
                return not (feed_is_newer and hint.id in self._shown)
            return hint.generation > generation

        self._take_over([each for each in aggregates if counts(each)])

    def drop_missing(self, numbers: Collection[int]) -> None:
        """Drop all other aggregates."""
        self._inventory.aggregates_changed()
        for number in [number for number in self._inventory.aggregates if number not in numbers]:
            self._drop(number)

    def show(self, row: int, host: str) -> None:
        """Write the aggregates of a host into the row of one of its nodes."""
        self._table.share(row, "aggregates", self._ids_of_host.get(host))

    def _take_over(self, aggregates: Iterable[ChangedAggregate | AggregateHint]) -> None:
        if aggregates:
            self._inventory.aggregates_changed()
        for changed in aggregates:
            if changed.deleted:
                self._drop(changed.id)
                continue
            former = self._inventory.aggregates.get(changed.id)
            # Read-only: what a plugin wrote here would be there for every later request.
            metadata = types.MappingProxyType(dict(changed.metadata))
            now = Aggregate(changed.id, changed.name, list(changed.hosts), metadata, changed.uuid)  # type: ignore[arg-type]
            self._inventory.aggregates[changed.id] = now
            self._regroup(changed.id, set(former.hosts if former else ()), set(now.hosts))

    def _drop(self, number: int) -> None:
        former = self._inventory.aggregates.pop(number, None)
        if former is not None:
            self._regroup(number, set(former.hosts), set())

    def _regroup(self, number: int, before: set[str], after: set[str]) -> None:
        for host in before ^ after:
            ids = set(self._ids_of_host.get(host, ()))
            ids.symmetric_difference_update({number})
            if ids:
                self._ids_of_host[host] = tuple(sorted(ids))
            else:
                self._ids_of_host.pop(host, None)
            for row in self._table.rows_of_host(host):
                self.show(row, host)
