# SPDX-License-Identifier: Apache-2.0
"""Values that plugins compute once for each row, and that are computed again only for rows that have changed.

Plugins keep theirs in :mod:`scheduler.engine.hosts.inventory`.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable

import numpy

from scheduler.engine.hosts.table import HostTable

#: Memory limit in bytes. At least ``LEAST`` arrays are kept, however large they are.
MOST_BYTES = 16 * 2**20
LEAST = 4


class Remembered:
    """Arrays over all rows of one table by key, the ones used longest ago first."""

    def __init__(self) -> None:
        self._kept: collections.OrderedDict[Hashable, tuple[int, numpy.ndarray]] = collections.OrderedDict()

    def of(
        self, key: Hashable, table: HostTable, compute: Callable[[numpy.ndarray | None], numpy.ndarray]
    ) -> numpy.ndarray:
        """Return the array with this key, brought up to date. Do not write to it.

        :param compute: returns the values of some rows, or of all rows if it gets None
        """
        version, values = self._kept.pop(key, (-1, numpy.empty(0)))
        if len(values) != table.size:
            values = compute(None)
        elif version != table.version:
            changed = table.changed_rows(version)
            values[changed] = compute(changed)
        self._kept[key] = table.version, values
        most = max(LEAST, MOST_BYTES // max(values.nbytes, 1))
        while len(self._kept) > most:
            self._kept.popitem(last=False)
        return values
