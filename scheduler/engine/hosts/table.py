# SPDX-License-Identifier: Apache-2.0
"""Host states as columns: one numpy array per number, interned shared values, Python objects only for rare values.

The table knows the names and types of its columns, and not what they mean; a domain declares them
(:mod:`scheduler.engine.hosts.domain`). A row has a key, ``(host, node)``.

Every answer reads the rows in the order of their keys, so the order in which hosts arrived decides nothing. A host that
arrives out of order is put at the end; :meth:`HostTable.sort` then moves the rows. Between two calls of it a row keeps its
number. The table is not thread-safe: the host manager (``scheduler.state``) owns it and the lock.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy

Key = tuple[str, str]
#: A row that holds a host which may be considered; False for free rows and for nodes without a service.
PRESENT = "present"
#: A row of the scheduler's own share of the hosts (:mod:`scheduler.engine.share`).
OWN = "own"
#: The version of the table at which the row last changed.
CHANGED_AT = "changed_at"
_FIRST_CAPACITY = 64
#: So many of the newest changes are remembered by row, at least.
_REMEMBERED = 1024


class Grouping(NamedTuple):
    """Distinct values, grouped by a name. :param numbers: by the number of a value, the position of its name in ``names``"""

    names: list[str]
    numbers: numpy.ndarray


class Interned:
    """A column of shared values: each distinct value once, and its number for each row."""

    def __init__(self) -> None:
        self.values: list[Any] = [None]
        self._number_of: dict[Hashable, int] = {None: 0}
        self._groupings: dict[Hashable, Grouping] = {}

    def grouping(self, key: Hashable, name_of: Callable[[Any], str]) -> Grouping:
        """Return the values grouped by their names. Each value is asked for its name once.

        :param key: stands for ``name_of``: the same key must stand for the same function
        """
        known = self._groupings.get(key) or Grouping([], numpy.empty(0, dtype=numpy.int32))
        fresh = self.values[len(known.numbers) :]
        if fresh:
            positions = {name: position for position, name in enumerate(known.names)}
            added = [positions.setdefault(name_of(value), len(positions)) for value in fresh]
            known = Grouping([*positions], numpy.append(known.numbers, numpy.array(added, dtype=numpy.int32)))
            self._groupings[key] = known
        return known

    def number(self, value: Hashable) -> int:
        number = self._number_of.get(value)
        if number is None:
            number = self._number_of[value] = len(self.values)
            self.values.append(value)
        return number


class HostTable:
    """``numbers`` maps column names to ``int``, ``float`` or ``bool``; ``shared`` and ``objects`` name the others.

    Whole numbers are kept as floats too (exact below 2**53): mixing types costs a conversion at every pass.
    ``often_uniform`` names numbers that are the same on all hosts of most fleets. ``changed_at`` holds, per row, the
    table's ``version`` at its last change.
    """

    def __init__(
        self,
        numbers: Mapping[str, type],
        shared: Iterable[str] = (),
        objects: Iterable[str] = (),
        often_uniform: Iterable[str] = (),
    ) -> None:
        self.kinds = {PRESENT: bool, OWN: bool, **numbers}
        self.size = 0
        self.version = 0
        self.keys: list[Key | None] = []
        self.interned = {name: Interned() for name in shared}
        self.rare: dict[str, dict[int, Any]] = {}
        self._row_of: dict[Key, int] = {}
        self._rows_of_host: dict[str, tuple[int, ...]] = {}
        #: By name in lower case, the names of hosts; None until it is asked for, and after a host has come.
        self._spellings: dict[str, list[str]] | None = None
        #: The rows of removed keys. A key that comes back gets its row again, which keeps the order.
        self._free: dict[Key, int] = {}
        #: False if a row may have a smaller key than a row before it.
        self.is_sorted = True
        #: The key that was added at the end last, even if it was removed since.
        self._last: Key | None = None
        self._arrays: dict[str, numpy.ndarray] = {
            name: numpy.zeros(_FIRST_CAPACITY, dtype=bool if kind is bool else float)
            for name, kind in self.kinds.items()
        }
        self._arrays.update({name: numpy.zeros(_FIRST_CAPACITY, dtype=numpy.int32) for name in self.interned})
        self._arrays.update({name: numpy.empty(_FIRST_CAPACITY, dtype=object) for name in objects})
        self._arrays[CHANGED_AT] = numpy.zeros(_FIRST_CAPACITY, dtype=numpy.int64)
        #: The row that each of the newest versions has changed, oldest first.
        self._changed: list[int] = []
        #: The used part of an array, by name: made when it is asked for, void when the table grows.
        self._views: dict[str, numpy.ndarray] = {}
        self._often_uniform = tuple(often_uniform)
        #: The number that all rows written so far have in a column; none once there were two.
        self._uniform: dict[str, float | None] = {}

    def copy(self) -> HostTable:
        """Return an independent table with the same rows. Immutable values are shared."""
        other = copy.copy(self)
        other.keys, other._free, other._changed = list(self.keys), dict(self._free), list(self._changed)
        other.interned = dict(self.interned)
        other.rare = {name: dict(values) for name, values in self.rare.items()}
        other._row_of, other._rows_of_host = dict(self._row_of), dict(self._rows_of_host)
        other._arrays = {name: array[: self.size].copy() for name, array in self._arrays.items()}
        other._uniform, other._views = dict(self._uniform), {}
        return other

    def __len__(self) -> int:
        """Return the number of rows that hold a node, present or not."""
        return len(self._row_of)

    def __contains__(self, key: Key) -> bool:
        return key in self._row_of

    def column(self, name: str) -> numpy.ndarray:
        """Return a view of all rows of a column. A plugin that writes to it fails, and changes no host."""
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._arrays[name][: self.size]
            view.flags.writeable = False
        return view

    def uniform(self, name: str) -> float | None:
        """Return the one number that all nodes have in this column; None if there may be several.

        Watched of the columns named ``often_uniform`` only; one that was not uniform is looked at again by
        :meth:`compact`.
        """
        return self._uniform.get(name)

    def changed_rows(self, version: int) -> numpy.ndarray:
        """Return the rows that changed after that version, each once, in their order."""
        newer = self.version - version
        if newer > len(self._changed):
            return numpy.flatnonzero(self.column(CHANGED_AT) > version)
        return numpy.array(sorted(set(self._changed[len(self._changed) - newer :])), dtype=numpy.intp)

    def row_of(self, key: Key) -> int | None:
        return self._row_of.get(key)

    def rows_of_host(self, host: str) -> tuple[int, ...]:
        return self._rows_of_host.get(host, ())

    def rows_named(self, host: str) -> list[int]:
        """Return the rows of a host as :meth:`rows_of_host` does, without regard to case if none is spelled so."""
        if host in self._rows_of_host:
            return list(self.rows_of_host(host))
        if self._spellings is None:
            self._spellings = {}
            for name in self._rows_of_host:
                self._spellings.setdefault(name.lower(), []).append(name)
        return [row for name in self._spellings.get(host.lower(), ()) for row in self.rows_of_host(name)]

    def hosts(self) -> Iterable[str]:
        return self._rows_of_host

    def add(self, key: Key) -> int:
        """Return the row of ``key``; add one if it has none."""
        row = self._row_of.get(key)
        if row is not None:
            return row
        row = self._free.pop(key, None)
        if row is not None:
            self.keys[row] = key
        else:
            row = self._append(key)
        self._row_of[key] = row
        if key[0] not in self._rows_of_host:
            self._spellings = None
        self._rows_of_host[key[0]] = tuple(sorted((*self.rows_of_host(key[0]), row)))
        return row

    def _append(self, key: Key) -> int:
        row = self.size
        self._reserve(row + 1)
        self.size = row + 1
        self._views = {}
        self.keys.append(key)
        self.is_sorted = self.is_sorted and (self._last is None or self._last < key)
        self._last = key
        return row

    def remove(self, key: Key) -> None:
        row = self._row_of.pop(key)
        self.keys[row] = None
        left = tuple(other for other in self._rows_of_host[key[0]] if other != row)
        if left:
            self._rows_of_host[key[0]] = left
        else:
            del self._rows_of_host[key[0]]
        for array in self._arrays.values():
            array[row] = None if array.dtype == object else 0
        for values in self.rare.values():
            values.pop(row, None)
        self._free[key] = row
        self._touch(row)

    def sort(self) -> numpy.ndarray:
        """Put the rows in the order of their keys, without free rows between them. Return the former number of each row.

        All rows count as changed.
        """
        keys = sorted(self._row_of)
        former = numpy.fromiter(map(self._row_of.__getitem__, keys), dtype=numpy.intp, count=len(keys))
        self._row_of = dict(zip(keys, range(len(keys)), strict=True))
        self._rows_of_host = {host: (row,) for row, (host, _node) in enumerate(keys)}
        if len(self._rows_of_host) < len(keys):  # a host with several nodes
            self._rows_of_host = {host: tuple(each) for host, each in _by_host(keys).items()}
        for name in list(self._arrays):  # one at a time: two of each would be a peak of memory
            self._arrays[name] = self._arrays[name][former]
        moved_to = numpy.zeros(self.size, dtype=numpy.intp)
        moved_to[former] = numpy.arange(len(keys))
        self.rare = {name: {int(moved_to[row]): each for row, each in rare.items()} for name, rare in self.rare.items()}
        self.keys, self._free, self._views, self.size = [*keys], {}, {}, len(keys)
        self._last, self.is_sorted = keys[-1] if keys else None, True
        self.touch(numpy.arange(self.size))
        return former

    def compact(self) -> None:
        """Drop what no row has any more: shared values, and free rows at the next :meth:`sort`.

        Check again which columns are uniform.
        """
        self.is_sorted = self.is_sorted and not self._free
        for name, interned in self.interned.items():
            used = numpy.unique(self.column(name))
            if len(used) < len(interned.values):
                kept = self.interned[name] = Interned()
                numbers = numpy.zeros(len(interned.values), dtype=numpy.int32)
                numbers[used] = [kept.number(interned.values[number]) for number in used.tolist()]
                self._arrays[name] = numbers[self._arrays[name]]
        self._views = {}
        held = numpy.array(list(self._row_of.values()), dtype=numpy.intp)
        for name in self._often_uniform:
            values = self.column(name)[held]
            if len(values):
                self._uniform[name] = float(values[0]) if (values == values[0]).all() else None

    def write(self, row: int, values: Mapping[str, Any]) -> None:
        arrays = self._arrays
        for name, value in values.items():
            arrays[name][row] = value
        for name in self._often_uniform:
            if name in values and self._uniform.setdefault(name, values[name]) != values[name]:
                self._uniform[name] = None
        self._touch(row)

    def note(self, row: int, name: str, value: float) -> None:
        """Write a number without marking the row as changed. Its readers read it for every request."""
        self._arrays[name][row] = value

    def increase(self, row: int, amounts: Mapping[str, float]) -> None:
        for name, amount in amounts.items():
            self._arrays[name][row] += amount
            if name in self._uniform:
                self._uniform[name] = None
        self._touch(row)

    def share(self, row: int, name: str, value: Hashable) -> None:
        interned, numbers = self.interned[name], self._arrays[name]
        if interned.values[numbers[row]] is value:  # most hosts have an empty one, as before
            return
        number = interned.number(value)
        if numbers[row] != number:
            numbers[row] = number
            self._touch(row)

    def write_object(self, row: int, name: str, value: object) -> None:
        values = self._arrays[name]
        if values[row] != value:
            values[row] = value
            self._touch(row)

    def write_rare(self, row: int, name: str, value: object) -> None:
        """Store a rare value of one row. An empty value takes no memory."""
        values = self.rare.setdefault(name, {})
        if value:
            values[row] = value
        elif values.pop(row, None) is None:
            return  # there was none before
        self._touch(row)

    def note_all(self, name: str, values: numpy.ndarray) -> None:
        """Write a column without marking rows as changed."""
        self._arrays[name][: self.size] = values

    def touch_row(self, row: int) -> None:
        """Mark one row as changed, though its columns are the same."""
        self._touch(row)

    def touch(self, rows: numpy.ndarray) -> None:
        """Mark many rows as changed, though their columns are the same."""
        self.version += 1
        self._arrays[CHANGED_AT][rows] = self.version
        self._changed.clear()

    def _touch(self, row: int) -> None:
        self.version += 1
        self._arrays[CHANGED_AT][row] = self.version
        self._changed.append(row)
        if len(self._changed) > 2 * _REMEMBERED:
            del self._changed[:_REMEMBERED]

    def _reserve(self, rows: int) -> None:
        capacity = len(self._arrays[PRESENT])
        if rows <= capacity:
            return
        # A half more, not twice: at 100,000 hosts the unused part is what the memory goes to.
        grown = max(rows, capacity + capacity // 2, _FIRST_CAPACITY)
        for name, array in self._arrays.items():
            larger = numpy.empty(grown, dtype=object) if array.dtype == object else numpy.zeros(grown, array.dtype)
            larger[:capacity] = array
            self._arrays[name] = larger


def _by_host(keys: Iterable[Key]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, (host, _node) in enumerate(keys):
        rows.setdefault(host, []).append(row)
    return rows
