# SPDX-License-Identifier: Apache-2.0
"""What filters said of all hosts before, brought up to date by asking again about those that have changed since.

Four of five real requests are like the one before, and between two requests few hosts change. An answer is kept per
filter and key (:meth:`scheduler.filters.ColumnFilter.recall_key`) with the table's version at which it held.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Hashable

import numpy

from scheduler.host_table import CHANGED_AT, HostTable

#: Answers kept: one filter's say on one kind of request is a byte a host.
MOST = 64
#: With a larger share of the hosts changed, asking about all of them is no dearer.
_MOST_CHANGED = 0.25

#: Judges these rows of the table, or (None) all of it.
Judge = Callable[[numpy.ndarray | None], numpy.ndarray]


@dataclasses.dataclass
class _Answer:
    mask: numpy.ndarray
    version: int


class Recall:
    """Belongs to one table, and is guarded by whoever guards that."""

    def __init__(self) -> None:
        self._answers: collections.OrderedDict[Hashable, _Answer] = collections.OrderedDict()
        #: Version of the table and the rows changed since: several filters ask in one decision.
        self._changed: tuple[int, int, numpy.ndarray] | None = None

    def forget(self) -> None:
        """Something has changed that no row of the table shows, such as an aggregate's metadata."""
        self._answers.clear()

    def mask(self, table: HostTable, key: Hashable, judge: Judge) -> numpy.ndarray:
        """The judgement of every row of ``table``; to be read, not kept: the next call may write in it."""
        answer = self._answers.get(key)
        # Taken before: a user's filter that hangs is left behind while the table goes on, and may answer yet.
        version = table.version
        if answer is None:
            # A copy: it may be a column of the table, and this is written in.
            answer = self._answers[key] = _Answer(judge(None).copy(), version)
            if len(self._answers) > MOST:
                self._answers.popitem(last=False)
            return answer.mask
        self._answers.move_to_end(key)
        if answer.version != table.version:
            self._update(answer, table, judge)
        return answer.mask

    def _update(self, answer: _Answer, table: HostTable, judge: Judge) -> None:
        version = table.version
        rows = self._changed_since(table, answer.version)
        if len(rows) > _MOST_CHANGED * table.size:
            answer.mask = judge(None).copy()
        else:
            if len(answer.mask) < table.size:
                answer.mask = numpy.concatenate((answer.mask, numpy.zeros(table.size - len(answer.mask), dtype=bool)))
            if len(rows):
                answer.mask[rows] = judge(rows)
        answer.version = version

    def _changed_since(self, table: HostTable, version: int) -> numpy.ndarray:
        if self._changed is None or self._changed[:2] != (version, table.version):
            self._changed = version, table.version, numpy.flatnonzero(table.column(CHANGED_AT) > version)
        return self._changed[2]
