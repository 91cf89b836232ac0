# SPDX-License-Identifier: Apache-2.0
"""How every host stands with one request: which filter dropped it, or its score; kept up to date as hosts change.

A host changes because an earlier instance of the same request was placed on it, or, between two requests that ask for
the same, because the feed or a booking has changed its row. Both are the same here: only what has changed is judged
again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import numpy

from fleet.objects import RequestSpec
from scheduler.engine import filtering
from scheduler.engine.candidates import Candidates
from scheduler.engine.filtering import ABSENT, PASSED, Drop, Round, Tally
from scheduler.engine.plugin_watch import Supervision
from scheduler.engine.questions import Questions
from scheduler.engine.weighing import Weighing
from scheduler.filters import BaseHostFilter, ColumnFilter, over_columns, recalls
from scheduler.weights import BaseHostWeigher

#: With a larger share of the hosts changed, judging all of them is no dearer.
_MOST_CHANGED = 0.25
#: Of fewer hosts, all are judged anew sooner than it is found out which have changed.
WORTH_FOLLOWING = 4096
#: So many rows are taken over one by one.
FEW = 8


@dataclasses.dataclass
class Inquiry:
    """Who is asked, about which request. ``request`` and ``properties`` change as picks do."""

    filters: Sequence[BaseHostFilter]
    weighers: Sequence[BaseHostWeigher]
    request: RequestSpec
    properties: dict[str, Any]
    supervision: Supervision

    def questions(self) -> Questions:
        return Questions(self.weighers, self.request, self.properties, self.supervision)


@dataclasses.dataclass(frozen=True)
class Judgement:
    """Of a few hosts: the filter that dropped each (of :class:`Round`'s form), and their raw weights, a row a weigher."""

    dropped_by: numpy.ndarray
    raw: numpy.ndarray | None

    def of(self, position: int) -> Judgement:
        one = slice(position, position + 1)
        return Judgement(self.dropped_by[one], None if self.raw is None else self.raw[:, one])


def asked_anew(each: BaseHostFilter, request: RequestSpec) -> bool:
    """Whether a pick may change its say on hosts other than the picked one."""
    if not (isinstance(each, ColumnFilter) and over_columns(each)):
        return True
    return each.depends_on_picks and not (recalls(each) and each.recall_key(request) is not None)


class _Later(NamedTuple):
    """For the instances after the first: who is not asked about the picked row, and who is asked about all rows."""

    skipped: frozenset[BaseHostFilter]
    again: frozenset[BaseHostFilter]


class Standing:
    """Arrays here have one element per row of the table. Begins with no row judged: :meth:`bring_up` is next."""

    def __init__(self) -> None:
        self._seen = -1, -1
        self.considered = 0
        self.alive_count = 0
        self.dropped_by = numpy.empty(0, dtype=numpy.int16)
        self._dropped: Sequence[int] = ()
        self._weighing = Weighing()
        #: Filters to which the request gives nothing to object to, whatever an instance is placed on.
        self._silent: frozenset[BaseHostFilter] = frozenset()
        #: Rows that are to be judged again, though the table does not tell: picks of a request counted on them.
        self._stale: list[int] = []
        self._alive: Candidates | None = None
        self._later: _Later | None = None

    @property
    def total(self) -> numpy.ndarray:
        """The scores; minus infinity for hosts that are not alive. Do not write."""
        return self._weighing.total

    @property
    def nbytes(self) -> int:
        return self._weighing.nbytes + self.dropped_by.nbytes

    def tally(self, filters: Sequence[BaseHostFilter]) -> Tally:
        return Tally(filters, self.considered, self._dropped)

    def drops(self, filters: Sequence[BaseHostFilter]) -> list[Drop]:
        """Per filter that dropped any, the hosts that it was the first to drop."""
        return [
            Drop(each, numpy.flatnonzero(self.dropped_by == number))
            for number, each in enumerate(filters)
            if self._dropped[number]
        ]

    def alive(self, hosts: Candidates) -> Candidates:
        """Those that have passed; all of ``hosts``, which are the whole table, if all have."""
        if self._alive is None:
            all_pass = self.alive_count == len(hosts)
            self._alive = hosts if all_pass else hosts.subset(numpy.flatnonzero(self.dropped_by == PASSED))
        return self._alive

    def table(self, inquiry: Inquiry, hosts: Candidates, rows: Sequence[int]) -> list[list[dict[str, Any]]]:
        """How the scores of these rows come about: for each, a line per weigher that counted."""
        return self._weighing.table(inquiry.questions(), self.alive(hosts), rows)

    def let_go(self) -> None:
        """The request is over: what it changed of the table for itself is not kept with what lasts."""
        self._alive = self._later = None

    # -- before the first instance ----------------------------------------------------------------------------------

    def bring_up(self, inquiry: Inquiry, hosts: Candidates, allowed: numpy.ndarray) -> None:
        """Judge what is not judged yet, or has changed since.

        :param hosts: the whole table, with no pick of this request
        :param allowed: which of them may be considered
        """
        self._alive = self._later = None
        rows = None
        epoch, version = self._seen
        known = epoch == hosts.epoch
        if known and len(hosts) >= WORTH_FOLLOWING:
            rows = self._changed(hosts, version)
        if rows is None or len(rows) > _MOST_CHANGED * len(hosts):
            self._judge_all(inquiry, hosts, allowed, known)
        elif len(rows):
            self._settle(inquiry, hosts, rows, self.judge(inquiry, hosts.subset(rows), allowed[rows], self._silent))
        self._stale = []
        self._seen = hosts.epoch, hosts.version

    def _judge_all(self, inquiry: Inquiry, hosts: Candidates, allowed: numpy.ndarray, known: bool) -> None:
        """:param known: whether the same was asked before, and no aggregate has changed since"""
        silent: frozenset[BaseHostFilter] = self._silent if known else frozenset()
        idle = [each for each in inquiry.filters if not _runs(inquiry, each, 0)]
        round_ = _run(inquiry, hosts, allowed, silent.union(idle))
        self._silent = silent.union(each for each in round_.silent if not asked_anew(each, inquiry.request))
        self.dropped_by, self.alive_count = round_.dropped_by, round_.count
        self._dropped, self.considered = round_.dropped, round_.considered
        self._weigh_all(inquiry, hosts, known)

    def _changed(self, hosts: Candidates, version: int) -> numpy.ndarray:
        """Rows whose judgement may be another than it was."""
        if len(hosts) > len(self.dropped_by):
            more = len(hosts) - len(self.dropped_by)
            self.dropped_by = numpy.pad(self.dropped_by, (0, more), constant_values=ABSENT)
            self._weighing.grow(len(hosts))
        changed = hosts.changed_rows(version)
        return numpy.union1d(changed, numpy.array(self._stale, dtype=numpy.intp)) if self._stale else changed

    # -- between the instances --------------------------------------------------------------------------------------

    def judge(self, inquiry: Inquiry, few: Candidates, allowed: numpy.ndarray, skip: Set[BaseHostFilter]) -> Judgement:
        """What the filters that are not to be skipped and the weighers say of some hosts; nothing is taken over yet."""
        dropped_by = _run(inquiry, few, allowed, skip).dropped_by
        return Judgement(dropped_by, self._weighing.rough(inquiry.questions(), few))

    def judge_next(self, inquiry: Inquiry, few: Candidates) -> Judgement:
        """As :meth:`judge`, for an instance of the request that is not its first, of hosts that are alive."""
        return self.judge(inquiry, few, numpy.ones(len(few), dtype=bool), self._for_later(inquiry).skipped)

    def _for_later(self, inquiry: Inquiry) -> _Later:
        if self._later is None:
            idle = [each for each in inquiry.filters if not _runs(inquiry, each, 1)]
            anew = frozenset(each for each in inquiry.filters if asked_anew(each, inquiry.request))
            self._later = _Later(self._silent | anew.union(idle), anew.difference(idle))
        return self._later

    def settle_pick(self, inquiry: Inquiry, hosts: Candidates, row: int, judgement: Judgement) -> None:
        """Take over what was said of the row on which an instance was placed, and ask whom that may have changed.

        :param hosts: the whole table, with the pick counted
        :param judgement: of :meth:`judge_next`
        """
        self._stale.append(row)
        rows, dropped_by, raw = numpy.array([row]), judgement.dropped_by, judgement.raw
        again = self._for_later(inquiry).again
        if again:
            alive = self.dropped_by == PASSED
            alive[row] = dropped_by[0] == PASSED
            said = _run(inquiry, hosts, alive, frozenset(inquiry.filters) - again).dropped_by
            others = numpy.flatnonzero(alive & (said != PASSED))
            rows = numpy.union1d(rows, others)
            dropped_by = numpy.where(numpy.isin(rows, others), said[rows], dropped_by[0])
            raw = None if raw is None else numpy.repeat(raw, len(rows), axis=1)
            self._stale += others.tolist()
        self._settle(inquiry, hosts, rows, Judgement(dropped_by, raw))

    def _settle(self, inquiry: Inquiry, hosts: Candidates, rows: numpy.ndarray, judgement: Judgement) -> None:
        before, now, raw = self.dropped_by[rows], judgement.dropped_by, judgement.raw
        self._recount(rows, before, now, len(inquiry.filters))
        questions, alive = inquiry.questions(), functools.partial(self.alive, hosts)
        if raw is None or self.alive_count <= 1:
            taken_over = False
        elif len(rows) <= FEW:
            changed = rows.tolist(), (before == PASSED).tolist(), (now == PASSED).tolist(), raw.tolist()
            taken_over = self._weighing.update_few(questions, *changed, alive)
        else:
            taken_over = self._weighing.update(questions, rows, before == PASSED, now == PASSED, raw, alive)
        if not taken_over:
            self._weigh_all(inquiry, hosts)

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

    def _weigh_all(self, inquiry: Inquiry, hosts: Candidates, known: bool = False) -> None:
        self._weighing.weigh(inquiry.questions(), self.alive(hosts), len(hosts), known)


def _run(inquiry: Inquiry, hosts: Candidates, alive: numpy.ndarray, skip: Set[BaseHostFilter] = frozenset()) -> Round:
    about = inquiry.request, inquiry.properties, inquiry.supervision
    return filtering.run(inquiry.filters, hosts, alive, *about, skip)


def _runs(inquiry: Inquiry, each: BaseHostFilter, index: int) -> bool:
    """Whether it is to be asked for the instance of this number; all but the first are alike."""
    if type(each).run_filter_for_index is BaseHostFilter.run_filter_for_index:
        return index == 0 or not each.run_filter_once_per_request
    return bool(inquiry.supervision.ask("Filter", each, each.run_filter_for_index, index))
