# SPDX-License-Identifier: Apache-2.0
"""The claim limits of hosts, as filters set them in their order. The last filter that sets a limit wins.

Called by :mod:`scheduler.engine.filtering` and :mod:`scheduler.engine.hosts.candidates`. A filter over columns
computes its limits for all hosts at once. A filter in nova's form writes into ``host_state.limits``, where it finds
what the filters before it have set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy

from scheduler.engine.names import Wire


class Written(NamedTuple):
    """All limits of one host after a filter in nova's form changed them. ``position`` is the filter's place in the order."""

    position: int
    limits: Mapping[str, object]


#: Of a host whose limits no filter in nova's form has changed.
UNWRITTEN = Written(-1, {})


class ColumnLimits(NamedTuple):
    """The limits of a filter over columns, by name: an array with one element per row of the table."""

    position: int
    values: Mapping[str, numpy.ndarray]

    def of(self, row: int) -> Wire:
        """The limits of one row. Not a number, the one value that differs from itself, means no limit."""
        limits = {name: values[row : row + 1].tolist()[0] for name, values in self.values.items()}
        return {name: value for name, value in limits.items() if value == value}


class ClaimLimits:
    """The limits of one request's hosts while its filters run. Rows are those of the table."""

    def __init__(self) -> None:
        self._columns: Sequence[ColumnLimits] = ()
        self._written: dict[int, dict[int, Mapping[str, object]]] = {}
        #: The filter that is asked now, and of each host whose limits it has looked at, what it found and has now.
        self._position = 0
        self._found: dict[int, Wire] = {}
        self._now: dict[int, Wire] = {}

    def begin(self, position: int, columns: Sequence[ColumnLimits]) -> None:
        """Start with the filter at ``position``.

        :param columns: limits of the filters over columns before it, in their order
        """
        self._position, self._columns = position, columns
        self._found, self._now = {}, {}

    def end(self) -> None:
        """Store the limits that the filter has changed."""
        # A filter that was given up may still be at it, in a thread of its own.
        for row, now in list(self._now.items()):
            written = self._written.setdefault(row, {})
            if now != self._found[row]:
                written[self._position] = dict(now)
            else:
                written.pop(self._position, None)
        self._found, self._now = {}, {}

    def of(self, row: int) -> Wire:
        """Return the limits of a host, for the running filter to read and change."""
        if row not in self._now:
            newest = self._newest(row, self._position)
            limits = dict(newest.limits)
            for each in self._columns:
                if each.position > newest.position:
                    limits.update(each.of(row))
            self._found[row], self._now[row] = dict(limits), limits
        return self._now[row]

    def replace(self, row: int, limits: Wire) -> None:
        """Replace the limits: a filter has assigned a new dict to ``host_state.limits``."""
        self.of(row)
        self._now[row] = limits

    def written(self, row: int) -> Written:
        """Return the limits that the last filter in nova's form left on this host."""
        return self._newest(row, None)

    def _newest(self, row: int, before: int | None) -> Written:
        written = self._written.get(row, {})
        position = max((each for each in written if before is None or each < before), default=None)
        return UNWRITTEN if position is None else Written(position, written[position])
