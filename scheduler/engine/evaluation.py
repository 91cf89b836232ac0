# SPDX-License-Identifier: Apache-2.0
"""The hosts that pass one request, with their scores, kept up to date as hosts change.

Called by the modules beside it. A host changes because an earlier instance of the same request was placed on it, or,
between two requests with the same cache key, because the feed or a booking changed its row, or one of them leaves the
host out. In all cases only the changed rows are judged again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence, Set
from typing import NamedTuple

import numpy

from scheduler.engine import filtering
from scheduler.engine.filtering import ABSENT, PASSED, Drop, Tally
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.names import Wire
from scheduler.engine.plugins import BaseHostFilter, follows_picks, may_revive
from scheduler.engine.prepared_request import PreparedRequest
from scheduler.engine.weighing import weighers
from scheduler.engine.weighing.weighing import Scores

#: Judging a changed row costs as much as judging this many rows together with all others.
_COST_OF_ONE = 30
#: Number of rows that are judged ahead.
_JUDGED_AHEAD = 32
#: Following changes saves nothing below this number of rows.
WORTH_FOLLOWING = 4096


@dataclasses.dataclass(frozen=True)
class Judgement:
    """Results of the plugins for a few rows: which filter dropped each (as in :class:`filtering.Round`), and the raw weights
    of those that passed.
    """

    dropped_by: numpy.ndarray
    raw: numpy.ndarray | None

    def of(self, position: int) -> Judgement:
        one = slice(position, position + 1)
        return Judgement(self.dropped_by[one], None if self.raw is None else self.raw[:, one])


class _Further(NamedTuple):
    """Filters for the instances after the first: not run on the picked row, and run on all rows because of the pick."""

    skipped: frozenset[BaseHostFilter]
    following: frozenset[BaseHostFilter]


class Evaluation:
    """Arrays have one element per row of the table. A new evaluation knows nothing: call :meth:`refresh` first."""

    def __init__(self) -> None:
        #: Epoch and version of the table, and what weighers read of the fleet as a whole.
        self._seen: tuple[int, int, Sequence[Hashable]] = -1, -1, ()
        self.considered = 0
        self.alive_count = 0
        self.dropped_by = numpy.empty(0, dtype=numpy.int16)
        self._dropped: Sequence[int] = ()
        self._scores = Scores()
        #: Filters that let every host pass, whatever an instance is placed on.
        self._silent: frozenset[BaseHostFilter] = frozenset()
        #: The last request left hosts out.
        self._leaves_out = False
        #: Rows to judge again though the table has not changed: picks of a request counted on them.
        self._stale: list[int] = []
        #: The rows that passed, if that was computed.
        self._alive: numpy.ndarray | None = None
        self._for_further: _Further | None = None
        #: Judgements of rows as they will be with one more instance.
        self._ahead: dict[int, Judgement] = {}

    @property
    def scores(self) -> numpy.ndarray:
        """The total scores; minus infinity for rows that are not alive. Do not write."""
        return self._scores.total

    def outranks(self, row: int, other: int) -> bool:
        """See :meth:`scheduler.engine.weighing.weighing.Scores.outranks`."""
        return self._scores.outranks(row, other)

    @property
    def nbytes(self) -> int:
        return self._scores.nbytes + self.dropped_by.nbytes

    def tally(self, filters: Sequence[BaseHostFilter]) -> Tally:
        return Tally(filters, self.considered, self._dropped)

    def drops(self, filters: Sequence[BaseHostFilter]) -> list[Drop]:
        """Return, per filter that dropped any, the rows that it was the first to drop."""
        return [
            Drop(each, numpy.flatnonzero(self.dropped_by == number))
            for number, each in enumerate(filters)
            if self._dropped[number]
        ]

    def alive(self, hosts: Candidates) -> Candidates:
        """Return the hosts that passed, of ``hosts``, which are the whole table."""
        if self.alive_count == len(hosts):
            return hosts
        if self._alive is None:
            self._alive = numpy.flatnonzero(self.dropped_by == PASSED)
        return hosts.subset(self._alive)

    def table(self, prepared: PreparedRequest, hosts: Candidates, rows: Sequence[int]) -> list[list[Wire]]:
        """Return how the scores of these rows are made up: for each row, a line per weigher."""
        return self._scores.table(prepared, self.alive(hosts), rows)

    # -- before the first instance ----------------------------------------------------------------------------------

    def refresh(self, prepared: PreparedRequest, hosts: Candidates, allowed: numpy.ndarray) -> None:
        """Filter and weigh: all hosts, or those that have changed since the last request with the same key.

        :param hosts: the whole table, with no pick of this request
        :param allowed: mask of the hosts that may be considered
        """
        self._for_further, self._ahead = None, {}
        epoch, version, fleet = self._seen
        known, now = epoch == hosts.epoch, weighers.of_fleet(prepared, hosts)
        # A table that has fewer rows than before was sorted, so every row is another one.
        follows = known and fleet == now and len(hosts) >= max(WORTH_FOLLOWING, len(self.dropped_by))
        before, self._leaves_out = self._leaves_out, restriction.is_restricted(prepared.request)
        rows = self._changed(hosts, version, allowed, before or self._leaves_out) if follows else None
        if rows is None or len(hosts) - _COST_OF_ONE * len(rows) < WORTH_FOLLOWING:
            self._judge_all(prepared, hosts, allowed, known)
        elif len(rows):
            self._settle(prepared, hosts, rows, self._judge(prepared, hosts.subset(rows), allowed[rows], self._silent))
        self._stale = []
        self._seen = hosts.epoch, hosts.version, now

    def _judge_all(self, prepared: PreparedRequest, hosts: Candidates, allowed: numpy.ndarray, known: bool) -> None:
        """:param known: True if an equal request was judged before, and no aggregate has changed since"""
        silent: frozenset[BaseHostFilter] = self._silent if known else frozenset()
        idle = [each for each in prepared.filters if not _runs_for(prepared, each, 0)]
        result = filtering.run(prepared, hosts, allowed, silent.union(idle))
        self._silent = silent.union(result.silent)
        self.dropped_by, self.alive_count = result.dropped_by, result.count
        self._dropped, self.considered, self._alive = result.dropped, result.considered, None
        self._scores.weigh(prepared, self.alive(hosts), len(hosts), known)

    def _changed(self, hosts: Candidates, version: int, allowed: numpy.ndarray, leaves_out: bool) -> numpy.ndarray:
        """:param leaves_out: False if this request and the last one leave no host out"""
        if len(hosts) > len(self.dropped_by):
            more = len(hosts) - len(self.dropped_by)
            self.dropped_by = numpy.pad(self.dropped_by, (0, more), constant_values=ABSENT)
            self._scores.grow(len(hosts))
        changed = hosts.changed_rows(version)
        stale = numpy.array(self._stale, dtype=numpy.intp)
        if leaves_out:
            stale = numpy.append(stale, numpy.flatnonzero(allowed != (self.dropped_by != ABSENT)))
        return numpy.union1d(changed, stale) if len(stale) else changed

    # -- between two instances --------------------------------------------------------------------------------------

    @staticmethod
    def worth_judging(prepared: PreparedRequest, wanted: int) -> int:
        """Return how many likely next picks to judge together with a pick, if ``wanted`` instances have no host yet.

        Judging thirty rows costs little more than judging one. But rare values, such as PCI devices, are counted row by row.
        """
        return 0 if prepared.consumption.rare else min(wanted + 1, _JUDGED_AHEAD)

    def follow_pick(
        self, prepared: PreparedRequest, hosts: Candidates, row: int, likely: Callable[[], Sequence[int]]
    ) -> None:
        """Judge the row on which an instance was placed again, and run the filters that follow picks.

        :param hosts: the whole table, with the pick counted
        :param likely: returns the rows that may be picked next; they are judged ahead, with one more instance
        """
        self._stale.append(row)
        if row not in self._ahead:
            self._judge_ahead(
                prepared, hosts, row, [each for each in likely() if each != row and each not in self._ahead]
            )
        judged = self._ahead.pop(row)
        rows, dropped_by, raw = numpy.array([row]), judged.dropped_by, judged.raw
        following = self._further(prepared).following
        if following:
            alive = self.dropped_by == PASSED
            alive[row] = dropped_by[0] == PASSED
            said = filtering.run(prepared, hosts, alive, frozenset(prepared.filters) - following).dropped_by
            dropped = numpy.flatnonzero(alive & (said != PASSED))
            rows = numpy.union1d(rows, dropped)
            dropped_by = numpy.where(numpy.isin(rows, dropped), said[rows], dropped_by[0])
            raw = None if raw is None else numpy.repeat(raw, len(rows), axis=1)
            self._stale += dropped.tolist()
        self._settle(prepared, hosts, rows, Judgement(dropped_by, raw))
        self._revive(prepared, hosts)

    def _revive(self, prepared: PreparedRequest, hosts: Candidates) -> None:
        """Judge the hosts again that a filter has dropped and, after the pick, lets pass: by all filters."""
        numbers = [number for number, each in enumerate(prepared.filters) if may_revive(each) and self._dropped[number]]
        if not numbers:
            return
        rows = numpy.flatnonzero(numpy.isin(self.dropped_by, numbers))
        others = frozenset(prepared.filters).difference(prepared.filters[number] for number in numbers)
        rows = rows[filtering.run(prepared, hosts.subset(rows), numpy.ones(len(rows), dtype=bool), others).alive]
        if len(rows):
            self._stale += rows.tolist()
            allowed = numpy.ones(len(rows), dtype=bool)
            self._settle(prepared, hosts, rows, self._judge(prepared, hosts.subset(rows), allowed, self._silent))

    def _judge_ahead(self, prepared: PreparedRequest, hosts: Candidates, picked: int, others: Sequence[int]) -> None:
        # The picked row has its instance counted already; the others are judged with one more.
        rows = numpy.array([picked, *others])
        few = hosts.with_one_more(rows, rows[1:], prepared.consumption) if others else hosts.subset(rows)
        judged = self._judge(prepared, few, numpy.ones(len(few), dtype=bool), self._further(prepared).skipped)
        self._ahead.update({row: judged.of(number) for number, row in enumerate([picked, *others])})

    def _further(self, prepared: PreparedRequest) -> _Further:
        if self._for_further is None:
            idle = self._silent.union(each for each in prepared.filters if not _runs_for(prepared, each, 1))
            following = frozenset(each for each in prepared.filters if follows_picks(each))
            self._for_further = _Further(idle | following, following - idle)
        return self._for_further

    # -- both -------------------------------------------------------------------------------------------------------

    def _judge(
        self, prepared: PreparedRequest, few: Candidates, allowed: numpy.ndarray, skip: Set[BaseHostFilter]
    ) -> Judgement:
        result = filtering.run(prepared, few, allowed, skip)
        return Judgement(result.dropped_by, self._scores.raw(prepared, few, result.alive))

    def _settle(self, prepared: PreparedRequest, hosts: Candidates, rows: numpy.ndarray, judged: Judgement) -> None:
        before, now = self.dropped_by[rows], judged.dropped_by
        self._recount(rows, before, now, len(prepared.filters))
        if judged.raw is not None and self.alive_count > 1:
            were, stay, alive = before == PASSED, now == PASSED, functools.partial(self.alive, hosts)
            if self._scores.update(prepared, rows, were, stay, judged.raw, alive):
                return
        self._scores.weigh(prepared, self.alive(hosts), len(hosts))

    def _recount(self, rows: numpy.ndarray, before: numpy.ndarray, now: numpy.ndarray, filters: int) -> None:
        if not (before != now).any():
            return
        self.dropped_by[rows] = now
        gone, come = (numpy.bincount(each - ABSENT, minlength=filters - ABSENT) for each in (before, now))
        difference = come - gone
        self._dropped = (self._dropped + difference[-ABSENT:]).tolist()
        self.considered -= int(difference[0])
        self.alive_count += int(difference[1])
        self._alive = None


def _runs_for(prepared: PreparedRequest, each: BaseHostFilter, index: int) -> bool:
    if type(each).run_filter_for_index is BaseHostFilter.run_filter_for_index:
        return index == 0 or not each.run_filter_once_per_request
    return bool(prepared.supervision.ask("Filter", each, each.run_filter_for_index, index))
