# SPDX-License-Identifier: Apache-2.0
"""The scores of all rows of the table for one request, kept up to date as rows change.

Called by modules of :mod:`scheduler.compute.drivers` and :mod:`scheduler.engine`. A host's score depends on the other
hosts only through the bounds of each weigher's raw weights. So, when rows change, their own scores are computed again.
A weigher is asked about all hosts again only if a bound may have moved: a changed row has a raw weight beyond the
bounds, or was the last one on a bound.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy

from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.domain import Normalisation
from scheduler.engine.names import Wire
from scheduler.engine.plugins import BaseHostWeigher, follows_picks, is_column_weigher
from scheduler.engine.prepared_request import PreparedRequest
from scheduler.engine.weighing import normalise, weighers
from scheduler.engine.weighing.normalise import Bounds
from scheduler.engine.weighing.weighers import Weights

#: The score of a row that is not to be chosen.
OUT = -math.inf
#: Up to this number of changed rows are taken over one by one, which is faster than building arrays of them.
_FEW = 8
#: Bounds of raw weights of which nothing is known.
_ANY: Bounds = (-math.inf, math.inf)


class Scale:
    """Turns the raw weights of one weigher into contributions to the scores.

    :ivar counts: False if the weigher cannot tell one host from another
    :ivar volatile: True if any change of a host may change the contribution of every other host
    :ivar refuses: True if the weigher may refuse the request, so that it is asked even where it does not count
    :ivar on_ends: how many alive hosts have the smallest, and the largest observed raw weight; None if not counted yet
    """

    def __init__(self, weigher: BaseHostWeigher, weights: Weights, policy: Normalisation) -> None:
        self.weigher = weigher
        self.multiplier = weights.multiplier
        self.observed = weights.observed
        self.policy = policy
        self.low, self.high = normalise.bounds(weights.observed, weigher.minval, weigher.maxval, policy)
        per_host = isinstance(weights.multiplier, numpy.ndarray)
        self.counts = self.low != self.high and (per_host or weights.multiplier != 0)
        self.volatile = per_host or follows_picks(weigher)
        self.refuses = is_column_weigher(weigher) and weigher.refuses
        self.on_ends: list[int] | None = None

    @property
    def single_multiplier(self) -> float | None:
        """The multiplier, if it is one number that no change of a host changes."""
        return None if self.volatile or isinstance(self.multiplier, numpy.ndarray) else self.multiplier

    @functools.cached_property
    def ends(self) -> tuple[float, float]:
        """The contributions of hosts with the smallest, and with the largest observed raw weight."""
        return self.contribution(self.observed[0]), self.contribution(self.observed[1])

    def of_all(self, weights: Weights) -> numpy.ndarray | None:
        """Return the contributions of all hosts; None if the weigher does not count."""
        return self.contributions(weights.raw, weights.observed) if self.counts and weights.raw is not None else None

    def contributions(self, raw: numpy.ndarray, observed: Bounds = _ANY) -> numpy.ndarray:
        """Return the contributions of hosts with these raw weights; ``observed`` are the bounds of ``raw``."""
        if observed[0] < self.low or observed[1] > self.high:
            raw = normalise.clamped(raw, self.low, self.high, self.policy)
        found: numpy.ndarray = normalise.contribution(raw, self.low, self.high, self.multiplier)
        return found

    def contribution(self, raw: float) -> float:
        """Return the same for one host, of a scale that is not volatile. Python's numbers are faster here than arrays."""
        if self.policy == "clamp":
            raw = self.low if raw < self.low else self.high if raw > self.high else raw
        found: float = normalise.contribution(raw, self.low, self.high, self.multiplier)
        return found

    def leaves_an_end(self, come: Sequence[int], left: Sequence[int]) -> bool:
        """Count hosts that have come onto the two ends, or left them. Return True if an end has no host any more."""
        assert self.on_ends is not None
        self.on_ends = [there + more - fewer for there, more, fewer in zip(self.on_ends, come, left, strict=True)]
        return min(self.on_ends) <= 0


class _Steady(NamedTuple):
    """A scale that is not volatile, its number among all scales, and its contributions, if it counts."""

    number: int
    scale: Scale
    contributions: numpy.ndarray | None


class _Layout(NamedTuple):
    """The scales, and the numbers of those that are volatile."""

    steady: Sequence[_Steady]
    volatile: Sequence[int]


class Scores:
    """``total`` has one score per row of the table, :data:`OUT` for rows that are not alive."""

    def __init__(self) -> None:
        self.total = numpy.empty(0)
        self._scales: list[Scale] = []
        #: False while there is one host or none: then no weigher was asked.
        self._weighed = False
        #: Per scale the contributions, 0 where a host is not alive; None where the scale does not count.
        self._contributions: list[numpy.ndarray | None] = []
        #: The rows that the contributions belong to; None for all rows of the table.
        self._rows: numpy.ndarray | None = None
        self._layout: _Layout | None = None

    @property
    def nbytes(self) -> int:
        return self.total.nbytes * (1 + sum(each is not None for each in self._contributions))

    def outranks(self, row: int, other: int) -> bool:
        """Return True if a weigher that goes past the scheduler's share prefers ``row`` to ``other``; both are alive."""
        rows = numpy.array([row, other])
        places = rows if self._rows is None else numpy.searchsorted(self._rows, rows)
        return any(
            scale.weigher.outranks_share and bool(there[places[0]] > there[places[1]])
            for scale, there in zip(self._scales, self._contributions, strict=True)
            if there is not None
        )

    def grow(self, size: int) -> None:
        """Add rows that are not alive."""
        self._spread()
        self._layout = None
        more = size - len(self.total)
        self._contributions = [None if each is None else numpy.pad(each, (0, more)) for each in self._contributions]
        self.total = numpy.concatenate((self.total, numpy.full(more, OUT)))

    def weigh(self, prepared: PreparedRequest, hosts: Candidates, size: int, repeat: bool = False) -> None:
        """Score every row anew.

        :param hosts: those that are alive
        :param size: number of rows of the table
        :param repeat: True if the weighers that apply, and their multipliers, are those of the last time
        :raises errors.PluginFailed: a weigher misbehaved, and the configuration does not skip such weighers
        """
        asked: Iterable[tuple[BaseHostWeigher, float | None]] = ()
        # A single host needs no weighing, and a weigher must not refuse it.
        if len(hosts) > 1 and repeat and self._weighed:
            asked = [(scale.weigher, scale.single_multiplier) for scale in self._scales]
        elif len(hosts) > 1:
            asked = [(each, None) for each in weighers.applying(prepared)]
        self._weighed = len(hosts) > 1
        self._scales, self._contributions, self._layout = [], [], None
        for each, multiplier in asked:
            weights = weighers.weigh(prepared, each, hosts, multiplier)
            if weights is None:
                continue
            scale = Scale(each, weights, prepared.normalisation)
            self._scales.append(scale)
            self._contributions.append(scale.of_all(weights))
        self._rows = None if len(hosts) == size else hosts.rows
        self._set_total(self._sum(len(hosts)), self._rows, size)

    def raw(self, prepared: PreparedRequest, hosts: Candidates, alive: numpy.ndarray) -> numpy.ndarray | None:
        """Return raw weights of a few hosts, a row per scale; None if a weigher is left out, or none was asked.

        :param alive: a mask of ``hosts``. The others have 0: a weigher may refuse a request because of a host
        """
        if not self._weighed:
            return None
        raw = numpy.zeros((len(self._scales), len(hosts)))
        if not alive.any():
            return raw
        few = hosts if alive.all() else hosts.subset(hosts.rows[alive])
        for number, scale in enumerate(self._scales):
            needless = scale.volatile or (scale.single_multiplier == 0 and not scale.refuses)
            answer = scale.observed[0] if needless else weighers.raw(prepared, scale.weigher, few)
            if answer is None:
                return None
            raw[number, alive] = answer
        return raw

    def update(
        self,
        prepared: PreparedRequest,
        rows: numpy.ndarray,
        were: numpy.ndarray,
        stay: numpy.ndarray,
        raw: numpy.ndarray,
        alive: Callable[[], Candidates],
    ) -> bool:
        """Take over changed rows. Return False if all hosts must be weighed anew instead.

        :param were: per row, True if it was alive before
        :param stay: per row, True if it is alive now
        :param raw: from :meth:`raw`, for these rows
        :param alive: returns all hosts that are alive now
        """
        steady, volatile = self._laid_out()
        suspects = set(volatile)
        if len(rows) <= _FEW:
            for changed in zip(rows.tolist(), were.tolist(), stay.tolist(), raw.T.tolist(), strict=True):
                suspects.update(self._update_one(steady, *changed))
        else:
            suspects.update(self._update_many(steady, rows, were, stay, raw))
        return self._weigh_again(prepared, sorted(suspects), alive()) if suspects else True

    def _update_one(
        self, steady: Sequence[_Steady], row: int, was: bool, stays: bool, raw: Sequence[float]
    ) -> list[int]:
        """Take over one row. Return the numbers of the scales whose bounds may have moved."""
        suspects = []
        total = 0.0
        for number, scale, contributions in steady:
            weight = raw[number]
            if stays and not scale.observed[0] <= weight <= scale.observed[1]:  # also if it is NaN
                suspects.append(number)
            if contributions is None:
                continue
            before = contributions.item(row) if was else None
            now = scale.contribution(weight) if stays else None
            contributions[row] = now or 0.0
            total += now or 0.0
            ends = scale.ends
            if before != now and (before in ends or now in ends):
                come, left = ([int(each == end) for end in ends] for each in (now, before))
                if scale.leaves_an_end(come, left):
                    suspects.append(number)
        self.total[row] = total if stays else OUT
        return suspects

    def _update_many(
        self,
        steady: Sequence[_Steady],
        rows: numpy.ndarray,
        were: numpy.ndarray,
        stay: numpy.ndarray,
        raw: numpy.ndarray,
    ) -> Iterator[int]:
        """The same as :meth:`_update_one` for many rows."""
        total = numpy.where(stay, 0.0, OUT)
        for number, scale, contributions in steady:
            inside = (raw[number] >= scale.observed[0]) & (raw[number] <= scale.observed[1])
            if (stay > inside).any():
                yield number
            if contributions is None:
                continue
            before = contributions[rows]
            now = numpy.where(stay, scale.contributions(raw[number]), 0.0)
            contributions[rows] = now
            total += now
            come, left = (
                [int(numpy.count_nonzero(each[alive] == end)) for end in scale.ends]
                for each, alive in ((now, stay), (before, were))
            )
            if scale.leaves_an_end(come, left):
                yield number
        self.total[rows] = total

    def _spread(self) -> None:
        """Give the contributions one element per row of the table.

        That is done at the first change that is followed. Most decisions about few hosts are over before.
        """
        if self._rows is None:
            return
        for number, each in enumerate(self._contributions):
            if each is not None:
                whole = self._contributions[number] = numpy.zeros(len(self.total))
                whole[self._rows] = each
        self._rows = None

    def _laid_out(self) -> _Layout:
        """Return the scales as :meth:`update` needs them, with the hosts on their ends counted."""
        if self._layout is None:
            self._spread()
            numbered = zip(itertools.count(), self._scales, self._contributions)
            steady = [_Steady(*each) for each in numbered if not each[1].volatile]
            for _number, scale, there in steady:
                if there is not None and scale.on_ends is None:
                    # 0 is also what hosts have that are not alive.
                    on_ends = [(there == end) if end else (there == 0) & (self.total != OUT) for end in scale.ends]
                    scale.on_ends = [int(numpy.count_nonzero(each)) for each in on_ends]
            self._layout = _Layout(steady, [number for number, scale in enumerate(self._scales) if scale.volatile])
        return self._layout

    def _weigh_again(self, prepared: PreparedRequest, suspects: Sequence[int], hosts: Candidates) -> bool:
        """Ask these weighers about all hosts. Return False if one counts that did not, or must be left out."""
        changed = False
        for number in suspects:
            former, contributions = self._scales[number], self._contributions[number]
            weights = weighers.weigh(prepared, former.weigher, hosts)
            if weights is None:
                return False
            scale = Scale(former.weigher, weights, former.policy)
            if scale.counts != former.counts:
                return False
            self._scales[number], self._layout = scale, None
            same = (scale.low, scale.high) == (former.low, former.high) and not former.volatile
            if contributions is not None and not same:
                where = slice(None) if len(hosts) == len(self.total) else hosts.rows
                contributions[where] = scale.of_all(weights)
                changed = True
        if changed:
            size = len(self.total)
            rows = None if len(hosts) == size else hosts.rows
            scores = self._sum(size)
            self._set_total(scores if rows is None else scores[rows], rows, size)
        return True

    def _sum(self, size: int) -> numpy.ndarray:
        return normalise.total([each for each in self._contributions if each is not None], size)

    def _set_total(self, scores: numpy.ndarray, rows: numpy.ndarray | None, size: int) -> None:
        """:param rows: the rows that have these scores; None for all rows"""
        if rows is None:
            self.total = scores
        else:
            self.total = numpy.full(size, OUT)
            self.total[rows] = scores

    def table(self, prepared: PreparedRequest, hosts: Candidates, rows: Sequence[int]) -> list[list[Wire]]:
        """Return for each of ``rows``, which are among ``hosts``, one line per weigher that was asked."""
        positions = numpy.searchsorted(hosts.rows, rows)
        lines = [_lines(prepared, scale, hosts, positions) for scale in self._scales]
        return [[of_scale[number] for of_scale in lines if of_scale] for number in range(len(rows))]


def _lines(prepared: PreparedRequest, scale: Scale, hosts: Candidates, positions: numpy.ndarray) -> list[Wire]:
    raw = weighers.finite(prepared, scale.weigher, hosts)
    if raw is None:
        return []
    observed = normalise.observed(raw)
    full = Scale(scale.weigher, Weights(raw, 1.0, observed), scale.policy)
    columns = {
        "raw": raw,
        "normalised": full.contributions(raw, observed) if full.counts else numpy.zeros(len(raw)),
        "multiplier": numpy.broadcast_to(scale.multiplier, len(raw)),
        "contribution": scale.contributions(raw, observed) if scale.counts else numpy.zeros(len(raw)),
    }
    name: Wire = {"name": type(scale.weigher).__name__}
    found = [name | {key: float(values[place]) for key, values in columns.items()} for place in positions.tolist()]
    if scale.counts and is_column_weigher(scale.weigher):
        few = hosts.subset(hosts.rows[positions])
        for line, terms in zip(found, scale.weigher.terms(few, prepared.request), strict=False):
            line["terms"] = terms
    return found
