# SPDX-License-Identifier: Apache-2.0
"""The hosts as one request sees them: the table, and on top of it the picks of this request so far.

Every filter and weigher over columns receives them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy

from fleet.objects import Aggregate
from scheduler.engine.hosts.claim_limits import ClaimLimits
from scheduler.engine.hosts.consumption import Consumption
from scheduler.engine.hosts.domain import Domain
from scheduler.engine.hosts.inventory import Inventory
from scheduler.engine.hosts.overlay import Overlay
from scheduler.engine.hosts.table import OWN, PRESENT, Grouping, Key
from scheduler.engine.names import Judge, Request, Wire


class Candidates:
    """Rows of the inventory for a filter or weigher to judge; ``now`` is the decision's time in epoch seconds.

    Arrays have one element per row considered: all rows of the table, free rows too, or those of :meth:`subset`. A free
    row is not present, so what a mask says of it does not matter. Rows are in the order of their keys.
    """

    def __init__(
        self, inventory: Inventory, now: float, rows: numpy.ndarray | None = None, overlay: Overlay | None = None
    ) -> None:
        self._inventory = inventory
        self._table = inventory.table
        self._overlay = overlay or Overlay()
        self._rows = rows
        self.now = now

    def __len__(self) -> int:
        return self._table.size if self._rows is None else len(self._rows)

    def subset(self, rows: numpy.ndarray) -> Candidates:
        """Return the same request's view of these rows of the table only."""
        return Candidates(self._inventory, self.now, rows, self._overlay)

    def with_one_more(self, rows: numpy.ndarray, growing: numpy.ndarray, consumption: Consumption) -> Candidates:
        """Return these rows of the table as they would be with one more instance on the ``growing`` rows."""
        overlay = self._overlay.with_one_more(self._table, growing, consumption)
        return Candidates(self._inventory, self.now, rows, overlay)

    def whole(self) -> Candidates:
        """Return the same request's view of all rows of the table."""
        return Candidates(self._inventory, self.now, None, self._overlay)

    @property
    def domain(self) -> Domain:
        return self._inventory.domain

    @property
    def demand(self) -> Any:
        """Return the demand of the request; None if it is not known."""
        return self._inventory.demand

    @property
    def version(self) -> int:
        """The version of the table: it grows with every change of a row."""
        return self._table.version

    @property
    def epoch(self) -> int:
        """A number that grows when something changes that may concern every row, such as an aggregate's metadata."""
        return self._inventory.epoch

    def changed_rows(self, version: int) -> numpy.ndarray:
        """Return the rows of the table that changed after that version of it, each once, in their order."""
        return self._table.changed_rows(version)

    @property
    def rows(self) -> numpy.ndarray:
        """The table's row number of each element."""
        return numpy.arange(self._table.size) if self._rows is None else self._rows

    # -- for filters and weighers: all hosts at once ----------------------------------------------------------------

    def column(self, name: str) -> numpy.ndarray:
        """Return one number of every candidate. The array cannot be written to."""
        column = self._overlay.columns.get(name)
        if column is None:
            column = self._table.column(name)
        return column if self._rows is None else column[self._rows]

    def uniform(self, name: str) -> float | None:
        """Return the number that every host has in this column; None if there may be several. No host is read."""
        return None if name in self._overlay.columns else self._table.uniform(name)

    def present(self) -> numpy.ndarray:
        return self.column(PRESENT)

    def own(self) -> numpy.ndarray | None:
        """Return the mask of this scheduler's own share of the hosts; None if it need not share them."""
        return self.column(OWN) if self._inventory.divided else None

    def remembered(self, key: Hashable, compute: Callable[[Candidates], numpy.ndarray]) -> numpy.ndarray:
        """Return one number of every candidate, computed again only for rows that changed. Do not write to the array.

        :param key: names the number; the same key must stand for the same ``compute``
        :param compute: returns the number of some candidates, from their rows only
        """

        def of_rows(rows: numpy.ndarray | None) -> numpy.ndarray:
            return compute(Candidates(self._inventory, self.now, rows))

        found = self._inventory.remembered.of(key, self._table, of_rows)
        found = found if self._rows is None else found[self._rows]
        if not self._overlay.changed:
            return found
        changed = numpy.isin(self.rows, list(self._overlay.changed))
        if changed.any():
            found = found.copy()
            found[changed] = compute(self.subset(self.rows[changed]))
        return found

    def by_aggregates(self, judge: Callable[[Sequence[Aggregate]], Any], dtype: type = bool) -> numpy.ndarray:
        """Call ``judge`` once per distinct set of aggregates, and return its answer for each candidate."""
        sets = self._table.interned["aggregates"].values
        return self._spread([judge(self._inventory.aggregates_of(ids)) for ids in sets], "aggregates", dtype)

    def all_aggregates(self) -> list[Aggregate]:
        """Return all aggregates, in the order of their ids."""
        known = self._inventory.aggregates
        return [known[number] for number in sorted(known)]

    def by_shared(self, name: str, judge: Judge, dtype: type = bool) -> numpy.ndarray:
        """Call ``judge`` once per distinct value of a shared column, and return its answer for each candidate."""
        unknown = self.domain.layout.shared[name]
        values = self._table.interned[name].values
        return self._spread([judge(value or unknown) for value in values], name, dtype)

    def of_table(self, values: numpy.ndarray) -> numpy.ndarray:
        """Return the elements for these candidates. :param values: one for each row of the table"""
        return values if self._rows is None else values[self._rows]

    def grouped(self, name: str, key: Hashable, name_of: Callable[[Any], str]) -> Grouping:
        """Return the names of groups of hosts by a shared value, and for each candidate the position of its name.

        The name of hosts without a value is the first one.

        :param key: stands for ``name_of``, which gets each distinct value once in the life of the table
        """
        unknown = self.domain.layout.shared[name]
        found = self._table.interned[name].grouping(key, lambda value: name_of(value or unknown))
        return Grouping(found.names, found.numbers[self.column(name)])

    def _spread(self, answers: Sequence[object], name: str, dtype: type) -> numpy.ndarray:
        """Return for each candidate the answer for its value of a shared column."""
        spread: numpy.ndarray = numpy.array(answers, dtype=dtype)[self.column(name)]
        return spread

    def by_capabilities(self, judge: Judge, dtype: type = bool) -> numpy.ndarray:
        """Call ``judge`` once per distinct kind of host, and return its answer for each candidate."""
        return self.by_shared("capabilities", judge, dtype)

    def by_number(self, name: str, judge: Judge, dtype: type = bool) -> numpy.ndarray:
        """Call ``judge`` once per distinct number of a column, and return its answer for each candidate."""
        values, places = numpy.unique(self.column(name), return_inverse=True)
        kind = self._table.kinds[name]
        answers: numpy.ndarray = numpy.array([judge(kind(value)) for value in values], dtype=dtype)
        return answers[places]

    def by_rare(self, name: str, judge: Judge, dtype: type = bool) -> numpy.ndarray:
        """Call ``judge`` for every host that has a rare value, and once with the empty value for all others."""
        known = self._rare(name)
        empty = judge(self.domain.layout.empty.get(name, type(None))())
        answers = [judge(known[row]) if row in known else empty for row in self.rows.tolist()]
        return numpy.array(answers, dtype=dtype)

    def narrowed(self, mask: numpy.ndarray, name: str, judge: Callable[[Any], bool]) -> numpy.ndarray:
        """Return ``mask`` without the hosts that have no rare value of this name, or one that ``judge`` refuses.

        Only hosts in ``mask`` are read. Hosts that share one value are judged once.
        """
        known = self._rare(name)
        verdicts: dict[int, bool] = {}
        passed = numpy.zeros(len(self), dtype=bool)
        positions = numpy.flatnonzero(mask)
        for position, row in zip(positions.tolist(), self.rows[positions].tolist(), strict=True):
            value = known.get(row)
            if value is None:
                continue
            verdict = verdicts.get(id(value))
            if verdict is None:
                verdict = verdicts[id(value)] = judge(value)
            passed[position] = verdict
        return passed

    def by_host(self, judge: Judge, dtype: type = bool) -> numpy.ndarray:
        """Call ``judge`` for every host state. This is slow: use it where nothing cheaper can answer."""
        answers: numpy.ndarray = numpy.zeros(len(self), dtype=dtype)
        for position in numpy.flatnonzero(self.present()).tolist():
            answers[position] = judge(self.state(int(self.rows[position])))
        return answers

    def storage(self, name: str) -> str | None:
        """Return how an attribute of the hosts is stored: ``number``, ``shared``, ``rare`` or ``host``.

        None means that a host state has no such attribute.
        """
        domain = self.domain
        if name in domain.layout.views:
            return "host"
        if name in domain.layout.columns:
            return "number"
        if name in domain.layout.empty:
            return "rare"
        return "host" if name in domain.layout.attributes else None

    def in_aggregates(self, key: str) -> bool:
        """Return True if the metadata of any aggregate has this key."""
        return key in self._inventory.metadata_keys()

    def instances_by_host(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the instances on these hosts that the database and the bookings show, without the picks of this request."""
        known = self._inventory.instances.by_host()
        if self._rows is None:
            return known
        keys = (self._table.keys[row] for row in self._rows.tolist())
        return {key[0]: known[key[0]] for key in keys if key is not None and key[0] in known}

    def only(self, rows: Iterable[int]) -> numpy.ndarray:
        """Return a mask of just these rows of the table."""
        if self._rows is None:
            mask = numpy.zeros(self._table.size, dtype=bool)
            mask[list(rows)] = True
            return mask
        wanted = set(rows)
        return numpy.fromiter((row in wanted for row in self._rows.tolist()), dtype=bool, count=len(self._rows))

    def counted(self, amounts: Mapping[str, float]) -> numpy.ndarray:
        """Return the amount given for each candidate's host, 0 for hosts that are not in ``amounts``."""
        spread = numpy.zeros(self._table.size)
        for host, amount in amounts.items():
            spread[list(self._table.rows_of_host(host))] = amount
        return spread if self._rows is None else spread[self._rows]

    def rows_of_hosts(self, hosts: Iterable[str]) -> list[int]:
        return [row for host in hosts for row in self._table.rows_of_host(host)]

    def restricted(
        self, ignore_hosts: Sequence[str], force_hosts: Sequence[str], force_nodes: Sequence[str]
    ) -> numpy.ndarray:
        """Return the mask of hosts left when some are excluded or forced by name.

        Host names are compared without case where no host is spelled so. An empty list of forced names forces nothing.
        """
        left = numpy.ones(self._table.size, dtype=bool)
        left[self.rows_named(ignore_hosts)] = False
        for forced, rows in (
            (force_hosts, self.rows_named(force_hosts)),
            (force_nodes, self.rows_of_nodes(force_nodes)),
        ):
            if forced:
                among = numpy.zeros(self._table.size, dtype=bool)
                among[rows] = True
                left &= among
        mask: numpy.ndarray = self.present() & self.of_table(left)
        return mask

    def rows_named(self, hosts: Iterable[str]) -> list[int]:
        """Return the rows of these hosts, without regard to case where none is spelled so."""
        return [row for host in hosts for row in self._table.rows_named(host)]

    def rows_of_nodes(self, nodes: Iterable[str]) -> list[int]:
        """Return the rows of these nodes. Reads every node's name."""
        wanted = set(nodes)
        if not wanted:
            return []
        return [row for row, key in enumerate(self._table.keys) if key and key[1] in wanted]

    def rows_of_keys(self, keys: Iterable[tuple[str, str]]) -> list[int]:
        """Return the rows of these hosts and nodes; those that have gone have none."""
        return [row for key in keys if (row := self._table.row_of(key)) is not None]

    def row_of(self, key: tuple[str, str | None]) -> int | None:
        return self._table.row_of(key)  # type: ignore[arg-type]  # no row has a node that is None

    def host_of(self, instance_uuid: str) -> str | None:
        """Return where an instance is: picked in this request, booked, or as the database shows."""
        for pick in self._overlay.picks:
            if pick.uuid == instance_uuid:
                return str(pick.host)
        return self._inventory.instances.host_of(instance_uuid)

    def placed(self, uuid: str) -> Any | None:
        """Return the index entry of a thing that the database or a booking shows on a host."""
        return self._inventory.instances.get(uuid)

    def hosts_of(self, instance_uuids: Iterable[str]) -> list[str]:
        """Return the host of each of these instances that is on one, and of every pick of this request."""
        picked = {pick.uuid for pick in self._overlay.picks}
        host_of = self._inventory.instances.host_of
        known = [host_of(uuid) for uuid in instance_uuids if uuid not in picked]
        return [host for host in known if host is not None] + [pick.host for pick in self._overlay.picks]

    def places_of(self, instance_uuids: Iterable[str]) -> set[tuple[str, str]]:
        """Return (uuid, host) of each of these instances, and of every pick of this request.

        An instance that is booked for a move is on the host that it leaves, and on the one that it goes to.
        """
        picked = {(pick.uuid, pick.host) for pick in self._overlay.picks}
        left = set(instance_uuids).difference(uuid for uuid, _host in picked)
        there = ((uuid, self._inventory.instances.host_of(uuid)) for uuid in left)
        arriving = self._inventory.arriving
        coming = {(uuid, arriving[uuid]) for uuid in left if uuid in arriving}
        return picked | coming | {(uuid, host) for uuid, host in there if host is not None}

    # -- for views and plugins: one host ----------------------------------------------------------------------------

    def keys(self) -> Sequence[Key | None]:
        """Return the key of each row of the table; None for a free row. Do not write to the list, which changes."""
        return self._table.keys

    def key(self, row: int) -> Key:
        key = self._table.keys[row]
        assert key is not None
        return key

    def state(self, row: int) -> Any:
        """Return the row as a host state of the domain; the same object each time within a request."""
        state = self._overlay.states.get(row)
        if state is None:
            state = self._overlay.states[row] = self.domain.layout.host_state(self, row)
        return state

    def value(self, row: int, name: str) -> Any:
        """Return one number of one host, in its declared type."""
        column = self._overlay.columns.get(name)
        value = (self._table.column(name) if column is None else column)[row]
        return self._table.kinds[name](value)

    def rare(self, row: int, name: str) -> Any:
        """Return a rare value of one host; None if it has none."""
        return self._rare(name).get(row)

    def shared(self, row: int, name: str) -> Any:
        """Return a shared value of one host."""
        value = self._table.interned[name].values[self._table.column(name)[row]]
        return self.domain.layout.shared[name] if value is None else value

    def sharing(self, name: str, row: int) -> numpy.ndarray | None:
        """Return a mask of the rows of the table with this row's shared value; None if all have it."""
        numbers = self._table.column(name)
        mask: numpy.ndarray = numbers == numbers[row]
        return None if mask.all() else mask

    def object(self, row: int, name: str) -> Any:
        """Return the value of an object column of one host."""
        return self._table.column(name)[row]

    def aggregates(self, row: int) -> list[Aggregate]:
        return self._inventory.aggregates_of(self.shared(row, "aggregates"))

    def instances(self, row: int) -> Wire:
        """Return the instances on one host by uuid, with the picks of this request."""
        host = self.key(row)[0]
        picked = {pick.uuid: pick for pick in self._overlay.picks if pick.host == host}
        return {**self._inventory.instances.on_host(host), **picked}

    def disabled_reason(self, row: int) -> str | None:
        return self._inventory.disabled_reasons.get(self.key(row)[0])

    @property
    def limits(self) -> ClaimLimits:
        """The claim limits of these hosts that filters of one host at a time have set."""
        return self._overlay.limits

    def attribute(self, row: int, name: str) -> Any:
        """Return the attribute of this name of a host state. :raises AttributeError: it has none"""
        domain = self.domain
        if name in domain.layout.views:
            return domain.layout.views[name](self, row)
        if name in domain.layout.columns:
            return self.value(row, name)
        if name in domain.layout.empty:
            # A copy: what a plugin writes must not be there for the next request.
            return domain.layout.empty[name](self._table.rare.get(name, {}).get(row, ()))
        if name in domain.layout.attributes:
            return self._table.rare.get(name, {}).get(row)
        raise AttributeError(f"The state of a {domain.words.place} has no attribute {name!r}")

    # -- for the decision -------------------------------------------------------------------------------------------

    def pick(self, row: int, instance_uuid: str, consumption: Consumption, request: Request) -> None:
        """Count an instance on this row for the rest of the request."""
        host, node = self.key(row)
        self._overlay.picks.append(self.domain.requests.placed(instance_uuid, host, node, request))
        self._overlay.take(self._table, row, consumption)

    def _rare(self, name: str) -> Mapping[int, Any]:
        """Return a rare value by row, with this request's picks counted."""
        changed = self._overlay.rare.get(name)
        return self._table.rare.get(name, {}) if changed is None else changed
