# SPDX-License-Identifier: Apache-2.0
"""The scores of all rows of the table for one request, kept up to date as rows change.

A host's score depends on the other hosts only through the bounds of each weigher's raw weights. So, when rows change,
their own scores are computed again. A weigher is asked about all hosts again only if a bound may have moved: a changed
row has a raw weight beyond the bounds, or was the last one on a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy

from scheduler.engine import normalise, weighers
from scheduler.engine.candidates import Candidates
from scheduler.engine.domain import Normalisation
from scheduler.engine.normalise import Bounds
from scheduler.engine.plugins import BaseHostWeigher, follows_picks
from scheduler.engine.prepared_request import PreparedRequest
from scheduler.engine.weighers import Weights

#: The score of a row that is not to be chosen.
OUT = -math.inf


class Scale:
    """How one weigher's raw weights become contributions to the scores.

    :ivar counts: False if the weigher cannot tell one host from another
    :ivar volatile: True if any change of a host may change the contribution of every other host
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

    @property
    def single_multiplier(self) -> float | None:
        """The multiplier, if it is one number that no change of a host changes."""
        return None if self.volatile or isinstance(self.multiplier, numpy.ndarray) else self.multiplier

    def contributions(self, raw: numpy.ndarray, observed: Bounds) -> numpy.ndarray:
        """Return what hosts with these raw weights get; ``observed`` are the bounds of ``raw``."""
        if observed[0] < self.low or observed[1] > self.high:
            raw = normalise.clamped(raw, self.low, self.high, self.policy)
        found: numpy.ndarray = normalise.contribution(raw, self.low, self.high, self.multiplier)
        return found


class _Steady(NamedTuple):
    """The scales that are not volatile, as arrays with one row a scale, to follow changes of all of them at once.

    :param numbers: positions of these scales among all; ``least`` and ``most`` are their observed bounds
    :param counting: positions among ``numbers`` of the scales that count; the arrays after it are of these
    :param lines: the rows of the counting scales in the matrix of contributions
    :param bounds: the contributions of hosts with the lowest, and with the highest observed raw weight
    :param on_bounds: how many alive hosts have them
    :param volatile: positions of the other scales
    """

    numbers: numpy.ndarray
    least: numpy.ndarray
    most: numpy.ndarray
    counting: numpy.ndarray
    lines: numpy.ndarray
    low: numpy.ndarray
    high: numpy.ndarray
    multiplier: numpy.ndarray
    bounds: numpy.ndarray
    on_bounds: numpy.ndarray
    volatile: list[int]


class Scores:
    """``total`` has one score per row of the table, :data:`OUT` for rows that are not alive."""

    def __init__(self) -> None:
        self.total = numpy.empty(0)
        self._scales: list[Scale] = []
        #: False while there is one host or none: then no weigher was asked.
        self._weighed = False
        #: Contributions as they were computed, per counting scale, and the rows they belong to (None: all rows).
        self._fresh: tuple[Sequence[numpy.ndarray], numpy.ndarray | None] | None = None
        #: The same with one element per row of the table, 0 where a host is not alive.
        self._matrix = numpy.empty((0, 0))
        self._steady: _Steady | None = None

    @property
    def nbytes(self) -> int:
        return self.total.nbytes * (1 + len(self._counting()))

    def grow(self, size: int) -> None:
        """Add rows that are not alive."""
        more = size - len(self.total)
        self._matrix = numpy.pad(self._contributions(), ((0, 0), (0, more)))
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
        self._scales = []
        values: list[numpy.ndarray] = []
        for each, multiplier in asked:
            weights = weighers.weigh(prepared, each, hosts, multiplier)
            if weights is None:
                continue
            scale = Scale(each, weights, prepared.normalisation)
            self._scales.append(scale)
            if scale.counts:
                assert weights.raw is not None
                values.append(scale.contributions(weights.raw, weights.observed))
        self._fresh = values, None if len(hosts) == size else hosts.rows
        self._steady = None
        self._set_total(normalise.total(values, len(hosts)), self._fresh[1], size)

    def raw(self, prepared: PreparedRequest, hosts: Candidates) -> numpy.ndarray | None:
        """Return raw weights of a few hosts, a row per scale; None if a weigher is left out, or none was asked."""
        if not self._weighed:
            return None
        raw = numpy.empty((len(self._scales), len(hosts)))
        for number, scale in enumerate(self._scales):
            needless = scale.volatile or scale.single_multiplier == 0
            answer = scale.observed[0] if needless else weighers.raw(prepared, scale.weigher, hosts)
            if answer is None:
                return None
            raw[number] = answer
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
        matrix, steady, every = self._contributions(), self._steadily(), bool(stay.all())
        known = raw[steady.numbers]
        outside = (known < steady.least) | ~(known <= steady.most)  # also if it is NaN
        moved = (outside if every else outside & stay).any(axis=1)
        before = matrix[steady.lines[:, None], rows]
        kept = normalise.clamped(known[steady.counting], steady.low, steady.high, prepared.normalisation)
        after = normalise.contribution(kept, steady.low, steady.high, steady.multiplier)
        if not every:
            after = numpy.where(stay, after, 0.0)
        # Per scale and bound: how many of the rows have come onto the bound, less how many have left it.
        come = (after[:, None] == steady.bounds) & stay
        left = (before[:, None] == steady.bounds) & were
        steady.on_bounds[...] += come.sum(axis=2) - left.sum(axis=2)
        moved[steady.counting] |= steady.on_bounds.min(axis=1, initial=1) <= 0
        matrix[steady.lines[:, None], rows] = after
        # Added one after the other, as everywhere: numpy's sum may add in pairs.
        sums = numpy.add.accumulate(after, axis=0)[-1] if len(after) else numpy.zeros(len(rows))
        self.total[rows] = sums if every else numpy.where(stay, sums, OUT)
        suspects = steady.numbers[moved].tolist() if moved.any() else []
        suspects += steady.volatile
        return self._weigh_again(prepared, sorted(suspects), alive()) if suspects else True

    def _contributions(self) -> numpy.ndarray:
        """Return the matrix of contributions: a row per counting scale, a column per row of the table.

        It is built at the first change that is followed. Most decisions about few hosts are over before.
        """
        if self._fresh is not None:
            values, rows = self._fresh
            self._fresh = None
            self._matrix = numpy.zeros((len(values), len(self.total)))
            for line, each in enumerate(values):
                self._matrix[line, slice(None) if rows is None else rows] = each
        return self._matrix

    def _steadily(self) -> _Steady:
        if self._steady is None:
            self._steady = self._lay_out()
        return self._steady

    def _lay_out(self) -> _Steady:
        line_of = {number: line for line, number in enumerate(self._counting())}
        numbers = [number for number, scale in enumerate(self._scales) if not scale.volatile]
        counting = [position for position, number in enumerate(numbers) if number in line_of]
        scales = [self._scales[numbers[position]] for position in counting]
        lines = [line_of[numbers[position]] for position in counting]
        low, high, multiplier = (
            _column([getattr(scale, name) for scale in scales]) for name in ("low", "high", "multiplier")
        )
        observed = numpy.array([scale.observed for scale in scales]).reshape(-1, 2)
        policy: Normalisation = scales[0].policy if scales else "clamp"
        bounds = normalise.contribution(normalise.clamped(observed, low, high, policy), low, high, multiplier)
        on_bounds = numpy.array(
            [self._on_bounds(line, ends) for line, ends in zip(lines, bounds, strict=True)], dtype=numpy.intp
        ).reshape(-1, 2)
        return _Steady(
            numpy.array(numbers, dtype=numpy.intp),
            _column([self._scales[number].observed[0] for number in numbers]),
            _column([self._scales[number].observed[1] for number in numbers]),
            numpy.array(counting, dtype=numpy.intp),
            numpy.array(lines, dtype=numpy.intp),
            low,
            high,
            multiplier,
            bounds[:, :, None],
            on_bounds,
            [number for number, scale in enumerate(self._scales) if scale.volatile],
        )

    def _lay_out_again(self, number: int, scale: Scale, lines: Mapping[int, int]) -> None:
        """Write one scale, whose bounds have moved, into the layout."""
        steady = self._steady
        if steady is None:
            return
        position = int(numpy.searchsorted(steady.numbers, number))
        steady.least[position], steady.most[position] = scale.observed
        if not scale.counts:
            return
        line = lines[number]
        row = int(numpy.searchsorted(steady.lines, line))
        steady.low[row], steady.high[row], steady.multiplier[row] = scale.low, scale.high, scale.multiplier
        ends = normalise.clamped(numpy.array(scale.observed), scale.low, scale.high, scale.policy)
        steady.bounds[row, :, 0] = normalise.contribution(ends, scale.low, scale.high, scale.multiplier)
        steady.on_bounds[row] = self._on_bounds(line, steady.bounds[row, :, 0])

    def _on_bounds(self, line: int, ends: numpy.ndarray) -> list[int]:
        """Count the alive hosts with the lowest, and with the highest observed raw weight, by their contributions."""
        there = self._matrix[line]
        # 0 is also what hosts have that are not alive.
        return [
            int(numpy.count_nonzero(there == end if end else (there == 0) & (self.total != OUT)))
            for end in ends.tolist()
        ]

    def _counting(self) -> list[int]:
        return [number for number, scale in enumerate(self._scales) if scale.counts]

    def _weigh_again(self, prepared: PreparedRequest, suspects: Sequence[int], hosts: Candidates) -> bool:
        """Ask these weighers about all hosts. Return False if one counts that did not, or must be left out."""
        changed = False
        lines = {number: line for line, number in enumerate(self._counting())}
        for number in suspects:
            former = self._scales[number]
            weights = weighers.weigh(prepared, former.weigher, hosts)
            if weights is None:
                return False
            scale = Scale(former.weigher, weights, former.policy)
            if scale.observed == former.observed and not former.volatile:
                self._lay_out_again(number, former, lines)  # another host is on the bound, too: count again
                continue
            if scale.counts != former.counts:
                return False
            same = (scale.low, scale.high) == (former.low, former.high) and not former.volatile
            self._scales[number] = scale
            if scale.counts and not same:
                assert weights.raw is not None
                where = slice(None) if len(hosts) == len(self.total) else hosts.rows
                self._matrix[lines[number], where] = scale.contributions(weights.raw, weights.observed)
                changed = True
            if not scale.volatile:
                self._lay_out_again(number, scale, lines)
        if changed:
            size = len(self.total)
            rows = None if len(hosts) == size else hosts.rows
            scores = normalise.total(self._matrix, size)
            self._set_total(scores if rows is None else scores[rows], rows, size)
        return True

    def _set_total(self, scores: numpy.ndarray, rows: numpy.ndarray | None, size: int) -> None:
        """:param rows: the rows that have these scores; None for all rows"""
        if rows is None:
            self.total = scores
        else:
            self.total = numpy.full(size, OUT)
            self.total[rows] = scores

    def table(self, prepared: PreparedRequest, hosts: Candidates, rows: Sequence[int]) -> list[list[dict[str, Any]]]:
        """Return for each of ``rows``, which are among ``hosts``, one line per weigher that was asked."""
        positions = numpy.searchsorted(hosts.rows, rows)
        lines = [_lines(prepared, scale, hosts, positions) for scale in self._scales]
        return [[of_scale[number] for of_scale in lines if of_scale] for number in range(len(rows))]


def _lines(
    prepared: PreparedRequest, scale: Scale, hosts: Candidates, positions: numpy.ndarray
) -> list[dict[str, Any]]:
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
    name = {"name": type(scale.weigher).__name__}
    return [name | {key: float(values[place]) for key, values in columns.items()} for place in positions.tolist()]


def _column(numbers: Sequence[Any]) -> numpy.ndarray:
    return numpy.array(numbers, dtype=float).reshape(-1, 1)
