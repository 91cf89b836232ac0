# SPDX-License-Identifier: Apache-2.0
"""Reads one cell: all of it, then what has changed.

Called by :mod:`scheduler.nova.feed` and :mod:`scheduler.nova.service`.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

from oslo_log import log as logging

from fleet import errors
from fleet.clock import seconds
from fleet.db.engine.reader import Reader
from fleet.db.nova import cell_queries as queries
from fleet.db.nova.api_queries import Cell
from fleet.db.nova.cell_rows import CellNode
from fleet.db.nova.database import Connection, NovaDatabase
from scheduler.nova import rows
from scheduler.nova.rows import InstanceRow, NodeRow, Reserved, ServiceRow

LOG = logging.getLogger(__name__)
Answer = TypeVar("Answer")
#: A cell that is down is tried again after so many seconds. An attempt may last as long as a connection takes to fail.
RETRY_S = 10.0
#: While its hosts are still served: they are, until the cell has been silent for ``Pace.patience_s``.
RETRY_SOON_S = 2.0


@dataclasses.dataclass(frozen=True)
class Pace:
    """Periods in seconds. ``layout_s`` is that of cells, host mappings and aggregates, which casts announce as well.

    ``patience_s`` is how long a cell may be silent before its hosts are left out.
    """

    overlap_s: float = 15.0
    layout_s: float = 5.0
    heartbeat_s: float = 5.0
    patience_s: float = 60.0


@dataclasses.dataclass(frozen=True)
class Found:
    """The result of one reading of a cell."""

    nodes: Sequence[NodeRow] = ()
    services: Sequence[ServiceRow] = ()
    instances: Sequence[InstanceRow] = ()
    heartbeats: Sequence[tuple[str, datetime.datetime]] = ()


class Shown:
    """Rows that were shown lately: row → its content, and the generation of the reading that showed it."""

    def __init__(self) -> None:
        self._of: dict[Hashable, tuple[Hashable, int]] = {}

    def is_known(self, key: Hashable, content: Hashable, since: int) -> bool:
        """Return True if a reading until generation ``since`` has shown this content."""
        found = self._of.get(key)
        return found is not None and found[0] == content and found[1] <= since

    def note(self, key: Hashable, content: Hashable, generation: int) -> None:
        self._of[key] = (content, generation)

    def keep_only(self, keys: set[Hashable]) -> None:
        """Forget rows that are not within the overlap any more: they will not be read again unchanged."""
        if len(self._of) > 2 * len(keys) + 1000:
            self._of = {key: value for key, value in self._of.items() if key in keys}


class CellFeed:
    """Not for use by several threads at once. :param monotonic: seconds; a step of the wall clock changes no pace"""

    def __init__(
        self,
        cell: Cell,
        open_cell: Callable[[Cell], NovaDatabase],
        reserved: Reserved,
        pace: Pace,
        monotonic: Callable[[], float],
    ) -> None:
        self._cell = cell
        self._open_cell = open_cell
        self._database: NovaDatabase | None = None
        self._reader: Reader | None = None
        self._reserved = reserved
        self._pace = pace
        self._monotonic = monotonic
        self._nodes, self._instances = Shown(), Shown()
        #: id of a node → its host and name as they were read last.
        self._keys: dict[int, tuple[str, str]] = {}
        self._hosts: set[str] = set()
        #: Services that are disabled or forced down.
        self._flagged: set[str] = set()
        self._heartbeats_read = float("-inf")
        #: False until all of the cell was read, and after it was down.
        self._is_loaded = False
        self._is_away = False
        #: When it failed first since it answered last; None while it answers.
        self._failing_since: float | None = None
        self._retry_at = float("-inf")
        self._again: set[str] = set()

    def read(self, since: int, generation: int, watermark: datetime.datetime) -> Found | None:
        """Return the rows that have changed after generation ``since``, or all; None while a cell that is down must rest.

        :param watermark: ``updated_at`` of these changes, if the clocks agree
        :raises errors.DatabaseError: :raises errors.ConfigError: the URL of the cell's database is wrong
        """
        if since and self._failing_since is not None and self._monotonic() < self._retry_at:
            return None
        full = not since or not self._is_loaded
        found = self._ask(self._all) if full else self._ask(self._changes, since, generation, watermark)
        self._is_loaded = True
        if self._failing_since is not None:
            LOG.info("Cell %s can be read again", self._cell.name)
            self._is_away, self._failing_since = False, None
        return found

    def is_tolerated(self, away: errors.FleetError) -> bool:
        """Note that the cell cannot be read. Return whether its hosts are still served as they were known."""
        now = self._monotonic()
        if self._failing_since is None:
            self._failing_since = now
            LOG.warning("Cell %s cannot be read; its hosts stay as they were known: %s", self._cell.name, away.message)
        # What changed meanwhile is older than the next reading asks for.
        self._is_loaded = False
        self._retry_at = now + RETRY_SOON_S
        return bool(self._hosts) and now - self._failing_since < self._pace.patience_s

    def down(self, away: errors.FleetError) -> Found | None:
        """Return the hosts of the cell as forced down, once its silence is tolerated no longer."""
        self._retry_at = self._monotonic() + RETRY_S
        if self._is_away:
            return None
        self._is_away = True
        LOG.error(
            "Cell %s cannot be read, its %d hosts are left out: %s", self._cell.name, len(self._hosts), away.message
        )
        reason = f"the database of cell {self._cell.name} cannot be read"
        return Found(services=[ServiceRow(host, True, reason, True) for host in sorted(self._hosts)])

    def read_host(self, host: str) -> Found:
        """:raises errors.DatabaseError:"""
        nodes, services, instances = self._ask(queries.of_host, host)
        return Found(
            [self._node(each) for each in nodes],
            [rows.service(each) for each in services],
            [rows.instance(each) for each in instances],
        )

    def read_nodes(self, uuids: Collection[str]) -> list[NodeRow]:
        """Return these nodes, as far as they are in this cell. :raises errors.DatabaseError:"""
        return [self._node(each) for each in self._ask(queries.nodes_by_uuid, uuids)]

    @property
    def is_served(self) -> bool:
        """True if the newest reading of the cell has succeeded."""
        return self._is_loaded and self._failing_since is None

    def follow(self, cell: Cell) -> None:
        """Take over a mapping that may have changed. If so, the next reading shows the whole cell."""
        if cell == self._cell:
            return
        if cell.url != self._cell.url:
            self.close()
        self._cell = cell
        self.load_again()

    def load_again(self) -> None:
        """Show the whole cell at the next reading."""
        self._is_loaded = False

    def read_again(self, host: str) -> None:
        """Show this host in whole at the next reading."""
        self._again.add(host)

    def close(self) -> None:
        """Close the connections of this feed to the cell."""
        if self._reader is not None:
            self._reader.close()
        if self._database is not None:
            self._database.dispose()
        self._reader = self._database = None

    def _ask(self, work: Callable[..., Answer], *args: object) -> Answer:
        if self._reader is None:
            self._database = self._open_cell(self._cell)
            self._reader = self._database.reader()
        return self._reader.read(work, *args)

    def _node(self, row: CellNode) -> NodeRow:
        return rows.node(row, self._cell, self._reserved)

    def _followed(self, nodes: Sequence[NodeRow]) -> list[NodeRow]:
        """Return the nodes after those that are deleted. A node that has another host now is deleted from the former one.

        A node of bare metal moves so between compute services, and a node may be made anew under its former name.
        """
        found = list(nodes)
        for each in nodes:
            key = each.host, each.hypervisor_hostname
            former, self._keys[each.id] = self._keys.get(each.id, key), key
            if former != key:
                found.append(dataclasses.replace(each, host=former[0], hypervisor_hostname=former[1], deleted=True))
            if each.deleted:
                del self._keys[each.id]
        return sorted(found, key=lambda each: not each.deleted)

    def _all(self, connection: Connection) -> Found:
        services = [rows.service(each) for each in queries.services(connection)]
        # Instances before nodes: an instance that is shown on its host is counted there.
        instances = [rows.instance(each) for each in queries.instances(connection)]
        nodes = self._followed([self._node(each) for each in queries.nodes(connection)])
        self._again.clear()
        self._hosts = {each.host for each in services}
        self._flagged = {each.host for each in services if each.disabled or each.forced_down}
        return Found(nodes, services, instances)

    def _changes(self, connection: Connection, since: int, generation: int, watermark: datetime.datetime) -> Found:
        after = watermark - seconds(self._pace.overlap_s)
        again = [self._read_again(connection, host) for host in self._again]
        services, flagged = self._changed_services(connection, after)
        instances = self._changed_instances(connection, after, since, generation)
        nodes = self._changed_nodes(connection, after, since, generation)
        heartbeats = self._heartbeats(connection)
        # After the last statement: if the connection is lost before, all of them run again.
        self._again.clear()
        self._flagged = flagged
        return Found(
            self._followed([*(each for one in again for each in one.nodes), *nodes]),
            [*(each for one in again for each in one.services), *services],
            [*(each for one in again for each in one.instances), *instances],
            heartbeats,
        )

    def _read_again(self, connection: Connection, host: str) -> Found:
        nodes, services, instances = queries.of_host(connection, host)
        self._hosts.add(host)
        return Found(
            [self._node(each) for each in nodes],
            [rows.service(each) for each in services],
            [rows.instance(each) for each in instances],
        )

    def _changed_services(self, connection: Connection, after: datetime.datetime) -> tuple[list[ServiceRow], set[str]]:
        """Return the services that have changed, and the hosts of those that are disabled or forced down now."""
        found = [rows.service(each) for each in queries.services(connection, after)]
        flagged = {each.host for each in found if each.disabled or each.forced_down}
        released = self._flagged - flagged
        found += [rows.service(each) for each in queries.service_rows(connection, released)] if released else []
        self._hosts.update(each.host for each in found)
        return found, flagged

    def _changed_instances(
        self, connection: Connection, after: datetime.datetime, since: int, generation: int
    ) -> list[InstanceRow]:
        found = [rows.instance(each) for each in queries.changed_instances(connection, after)]
        news = [each for each in found if not self._instances.is_known(each.uuid, each, since)]
        for each in news:
            self._instances.note(each.uuid, each, generation)
        self._instances.keep_only({each.uuid for each in found})
        return news

    def _changed_nodes(
        self, connection: Connection, after: datetime.datetime, since: int, generation: int
    ) -> list[NodeRow]:
        found = queries.changed_nodes(connection, after)
        news = [each for each in found if not self._nodes.is_known(each[0], each, since)]
        for each in news:
            self._nodes.note(each[0], each, generation)
        self._nodes.keep_only({each[0] for each in found})
        whole = queries.node_rows(connection, [each[0] for each in news]) if news else []
        return [self._node(each) for each in whole]

    def _heartbeats(self, connection: Connection) -> Sequence[tuple[str, datetime.datetime]]:
        now = self._monotonic()
        if now - self._heartbeats_read < self._pace.heartbeat_s:
            return ()
        found = queries.heartbeats(connection)
        self._heartbeats_read = now
        return found
