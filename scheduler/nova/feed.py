# SPDX-License-Identifier: Apache-2.0
"""The change feed over nova's databases: a second implementation of :class:`scheduler.state.host_manager.Feed`.

Called by :mod:`scheduler.nova.service`. nova's rows have no generation, so the feed polls by time. A generation stands
for the time at which a reading began (:mod:`scheduler.nova.reading_times`). A reading after generation G returns the rows
whose ``updated_at`` is later than this time less ``overlap``. Rows that the cache has already are left out. Polling misses
rows that were deleted without a trace, and changes by clocks that are too far behind. The full comparison of the host
manager finds these.

A cell that cannot be read for ``Pace.patience_s`` is down: its hosts are shown as forced down until it answers, and the rest
is served. Until then its hosts stay as they were known. When it answers again, all of it is read.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from oslo_log import log as logging

from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.db.feed.feed import ChangedAggregate, Changes
from fleet.db.nova import api_queries
from fleet.db.nova.api_queries import Cell, Layout
from fleet.db.nova.database import NovaDatabase
from scheduler.nova import rows
from scheduler.nova.cell_feed import CellFeed, Found, Pace
from scheduler.nova.providers import ProviderFeed
from scheduler.nova.reading_times import ReadingTimes
from scheduler.nova.rows import NodeRow, Reserved, ServiceRow

LOG = logging.getLogger(__name__)


class NovaFeed:
    """Not for use by several threads at once.

    :param open_cell: opens the database of a cell
    :param incomplete: ids of cells that a full reading could not read, shared with the other feed of the same cache. The
        cache has dropped their hosts, so the next reading of changes shows them in whole
    :param clock: what ``updated_at`` is compared with
    :param monotonic: paces the readings
    :param providers: placement's database; None to take capacity from the nodes' own columns
    """

    def __init__(
        self,
        api: NovaDatabase,
        open_cell: Callable[[Cell], NovaDatabase],
        reserved: Reserved | None = None,
        pace: Pace | None = None,
        clock: Clock = utcnow,
        incomplete: set[int] | None = None,
        providers: ProviderFeed | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._incomplete = set() if incomplete is None else incomplete
        self._api = api.reader()
        self._open_cell = open_cell
        self._reserved = reserved or Reserved()
        self._pace = pace or Pace()
        self._monotonic = monotonic
        self._times = ReadingTimes(clock, monotonic)
        self._layout = Layout({}, {}, {})
        self._layout_read_at = float("-inf")
        self._aggregates = _AggregateLog()
        self._cells: dict[int, CellFeed] = {}
        #: (id of the cell, host), each of which is logged once.
        self._unmapped: set[tuple[int, str]] = set()
        self._newest = 0
        self._providers = providers
        #: Provider → generation of the reading that found it changed.
        self._provider_changed: dict[str, int] = {}

    def read(self, since: int) -> Changes:
        """All changes after generation ``since``. 0 reads all. :raises errors.DatabaseError: of the API database"""
        generation = self._times.begin(self._newest)
        changed_hosts = self._read_layout(generation, full=not since)
        read = {number: self._read_cell(number, cell, since, generation) for number, cell in self._cells.items()}
        found = [self._of_cell(number, each) for number, each in read.items() if each is not None]
        # After the cells: an instance that is shown on its host has its allocation already.
        self._read_providers(since, generation)
        self._times.end(generation, full=not since)
        self._newest = generation
        return self._changes(generation, since, found, changed_hosts)

    def read_host(self, host: str) -> Changes:
        """The complete state of one host. :raises errors.DatabaseError:"""
        generation = self._times.begin(self._newest)
        if host in self._layout.cell_of:
            # The cells are read again, because the cache may already have a newer flag ``disabled`` of a cell.
            cells = {cell.id: cell for cell in self._api.read(api_queries.cells)}
            self._layout = dataclasses.replace(self._layout, cells=cells)
            self._follow_cells(set())
        else:
            self._read_layout(generation, full=False)
        number = self._layout.cell_of.get(host)
        if number is None or number not in self._cells:
            return Changes(generation)
        found = self._cells[number].read_host(host)
        self._read_providers(self._newest, generation)
        nodes = self._offered(found.nodes)
        return Changes(generation, nodes=nodes, services=found.services, instances=found.instances)

    def close(self) -> None:
        """Close all connections of this feed."""
        self._api.close()
        for cell in self._cells.values():
            cell.close()
        if self._providers is not None:
            self._providers.close()

    def _changes(self, generation: int, since: int, found: Sequence[Found], remapped: Iterable[str]) -> Changes:
        services = [each for one in found for each in one.services]
        # A host that has lost its cell can be given to no instance: nova's conductor would not find it.
        services += [ServiceRow(host, deleted=True) for host in remapped if host not in self._layout.cell_of]
        nodes = self._offered([each for one in found for each in one.nodes])
        if since:
            nodes += self._nodes_of_changed_providers(since, {each.uuid for each in nodes})
        aggregates = list(self._layout.aggregates.values()) if not since else self._aggregates.after(since)
        return Changes(
            generation,
            full=not since,
            nodes=nodes,
            services=services,
            aggregates=aggregates,
            instances=[each for one in found for each in one.instances],
            heartbeats=[each for one in found for each in one.heartbeats],
        )

    def _read_providers(self, since: int, generation: int) -> None:
        if self._providers is not None:
            self._provider_changed.update(dict.fromkeys(self._providers.read(full=not since), generation))

    def _offered(self, nodes: Sequence[NodeRow]) -> list[NodeRow]:
        """Return the nodes with the columns from placement."""
        known = self._providers
        return list(nodes) if known is None else [rows.offered(each, known.of(each.uuid)) for each in nodes]

    def _nodes_of_changed_providers(self, since: int, shown: Collection[str]) -> list[NodeRow]:
        changed = {uuid for uuid, seen in self._provider_changed.items() if seen > since}.difference(shown)
        if not changed:
            return []
        found: list[NodeRow] = []
        for number, cell in self._cells.items():
            if not cell.is_served:
                continue  # all of it is read when it answers again
            try:
                found += self._of_cell(number, Found(cell.read_nodes(changed))).nodes
            except (errors.DatabaseError, errors.ConfigError) as away:
                cell.is_tolerated(away)
        return self._offered(found)

    def _of_cell(self, number: int, found: Found) -> Found:
        """Return the rows of a cell about hosts that are mapped to it. nova's conductor looks for no others there.

        An instance on another host is shown on none: it has left the host where it was before.
        """

        def is_mapped(host: str) -> bool:
            return self._layout.cell_of.get(host) == number

        self._note_unmapped(number, {each.host: is_mapped(each.host) for each in found.services})
        return Found(
            [each for each in found.nodes if is_mapped(each.host)],
            [each for each in found.services if is_mapped(each.host)],
            [
                each if each.host is None or is_mapped(each.host) else dataclasses.replace(each, host=None, node=None)
                for each in found.instances
            ],
            [(host, seen) for host, seen in found.heartbeats if is_mapped(host)],
        )

    def _note_unmapped(self, number: int, hosts: Mapping[str, bool]) -> None:
        """:param hosts: host → whether it is mapped to this cell"""
        for host, is_mapped in hosts.items():
            if is_mapped:
                self._unmapped.discard((number, host))
            elif (number, host) not in self._unmapped:
                self._unmapped.add((number, host))
                LOG.warning(
                    "Host %s of cell %s is left out: nova-manage cell_v2 discover_hosts has not mapped it to this cell",
                    *(host, self._layout.cells[number].name),
                )

    def _read_layout(self, generation: int, full: bool) -> set[str]:
        """Read cells, mappings and aggregates if that is due; return the hosts whose cell has changed."""
        now_s = self._monotonic()
        if not full and now_s - self._layout_read_at < self._pace.layout_s:
            return set()
        former, self._layout = self._layout, self._api.read(api_queries.layout)
        self._layout_read_at = now_s
        self._aggregates.note(generation, former.aggregates, self._layout.aggregates)
        changed = {host for host, _cell in former.cell_of.items() ^ self._layout.cell_of.items()}
        self._follow_cells(changed)
        return changed

    def _follow_cells(self, changed: set[str]) -> None:
        for number in [number for number in self._cells if number not in self._layout.cells]:
            self._cells.pop(number).close()
        for number, cell in self._layout.cells.items():
            if number in self._cells:
                self._cells[number].follow(cell)
            else:
                self._cells[number] = CellFeed(cell, self._open_cell, self._reserved, self._pace, self._monotonic)
        for host in changed:
            if host in self._layout.cell_of:
                self._cells[self._layout.cell_of[host]].read_again(host)

    def _read_cell(self, number: int, cell: CellFeed, since: int, generation: int) -> Found | None:
        if since and number in self._incomplete:
            cell.load_again()
        try:
            found = cell.read(since, generation, self._times.watermark(since))
        except (errors.DatabaseError, errors.ConfigError) as away:
            if cell.is_tolerated(away):
                if not since:
                    raise  # without these hosts the comparison would remove them
                return None
            if not since:
                self._incomplete.add(number)
            return cell.down(away)
        if since and found is not None:
            self._incomplete.discard(number)
        return found


class _AggregateLog:
    """The newest change of each aggregate with its generation, so that a reading from an earlier one returns it again."""

    def __init__(self) -> None:
        self._changed: dict[int, tuple[int, ChangedAggregate]] = {}

    def note(
        self, generation: int, before: Mapping[int, ChangedAggregate], now: Mapping[int, ChangedAggregate]
    ) -> None:
        for number in before.keys() | now.keys():
            found = now.get(number) or ChangedAggregate(number, "", (), {}, deleted=True)
            if before.get(number) != now.get(number):
                self._changed[number] = (generation, found)

    def after(self, since: int) -> list[ChangedAggregate]:
        return [found for generation, found in self._changed.values() if generation > since]
