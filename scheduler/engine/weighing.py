# SPDX-License-Identifier: Apache-2.0
"""The scores of all rows of the table for one request, and of the rows that have changed since.

A host's score depends on the others through the bounds of each weigher's raw weights only. So, when rows change, their
own scores are found anew, and all of a weigher's only if a bound has moved. The last raw weight that lay on a bound may
have taken it along: then, and only then, that weigher is asked about every host again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy

from scheduler.engine import scores
from scheduler.engine.candidates import Candidates
from scheduler.engine.questions import Questions
from scheduler.engine.scale import Scale
from scheduler.weights import BaseHostWeigher

#: Gives hosts when asked.
Asked = Callable[[], Candidates]
#: The score of a row that is not to be chosen.
OUT = -math.inf
#: A spread of which nothing is known, so that raw weights are brought within the bounds.
_ANY: scores.Bounds = (-math.inf, math.inf)


class _Fresh(NamedTuple):
    """Contributions as they were found: a row for each of these scales, an element for each of ``rows`` of the table.

    All rows, if that is None.
    """

    numbers: Sequence[int]
    values: Sequence[numpy.ndarray]
    rows: numpy.ndarray | None

    def spread_over(self, size: int) -> dict[int, numpy.ndarray]:
        """By number of the scale, for every row of the table: 0 for those that are out."""
        if self.rows is None:
            return dict(zip(self.numbers, self.values, strict=True))
        columns = {number: numpy.zeros(size) for number in self.numbers}
        for one, values in zip(columns.values(), self.values, strict=True):
            one[self.rows] = values
        return columns


class _Line(NamedTuple):
    """A scale laid out, to find the contributions of a few hosts one after the other, exactly as :meth:`Scale.of_one` does.

    The raw weight is kept from ``low`` to ``high``; ``factor`` is what the whole way from one to the other contributes.
    ``contribution`` is none where nothing counts.
    """

    number: int
    scale: Scale
    least: float
    most: float
    contribution: numpy.ndarray | None
    low: float
    high: float
    width: float
    factor: float
    edges: tuple[float, float]

    @classmethod
    def of(cls, number: int, scale: Scale, contribution: numpy.ndarray | None) -> _Line:
        low, high = scale.within
        factor = float(scale.multiplier) if contribution is not None and low != high else 0.0
        return cls(number, scale, *scale.found, contribution, low, high, high - low or 1.0, factor, scale.edges)


class Weighing:
    """``total`` has one score per row of the table, :data:`OUT` for those that are not alive."""

    def __init__(self) -> None:
        self.total = numpy.empty(0)
        self._scales: list[Scale] = []
        #: Whether hosts have been compared at all.
        self._weighed = False
        self._fresh: _Fresh | None = None
        self._spread: dict[int, numpy.ndarray] = {}
        #: Of the scales that are not found anew at each change; made when a change of few hosts is followed.
        self._layout: Sequence[_Line] | None = None

    @property
    def nbytes(self) -> int:
        return self.total.nbytes * (1 + len(self._fresh.numbers if self._fresh else self._spread))

    @property
    def _contributions(self) -> dict[int, numpy.ndarray]:
        """By number of the scale, if it counts: per row of the table, 0 for those that are out.

        Made at the first change that is followed: most decisions about few hosts are over before.
        """
        if self._fresh is not None:
            self._spread, self._fresh = self._fresh.spread_over(len(self.total)), None
        return self._spread

    def grow(self, size: int) -> None:
        """Room for more rows, which are out."""
        more = size - len(self.total)
        self._spread = {number: numpy.pad(each, (0, more)) for number, each in self._contributions.items()}
        self.total = numpy.concatenate((self.total, numpy.full(more, OUT)))
        self._layout = None

    def weigh(self, questions: Questions, hosts: Candidates, size: int, known: bool = False) -> None:
        """Score every row anew.

        :param hosts: those that are alive
        :param size: of the table
        :param known: whether the weighers that count and their multipliers are those of the last time
        :raises errors.PluginFailed: a weigher misbehaved, and is not to be skipped
        """
        # One host needs no weighing, and a weigher must not refuse it.
        asked: Iterable[tuple[BaseHostWeigher, float | None]] = ()
        if len(hosts) > 1 and known and self._weighed:
            asked = [(each.weigher, each.uniform) for each in self._scales]
        elif len(hosts) > 1:
            asked = [(each, None) for each in questions.counting()]
        self._weighed = len(hosts) > 1
        scales: list[Scale] = []
        numbers: list[int] = []
        values: list[numpy.ndarray] = []
        for each, multiplier in asked:
            measured = questions.measure(each, hosts, multiplier)
            if measured is None:
                continue
            if measured.scale.counts:
                numbers.append(len(scales))
                values.append(measured.scale.contribution(measured.raw))
            scales.append(measured.scale)
        self._scales, self._fresh = scales, _Fresh(numbers, values, hosts.rows if len(hosts) < size else None)
        self._take_total(_sum(values, len(hosts)), self._fresh.rows, size)
        self._layout = None

    def rough(self, questions: Questions, hosts: Candidates) -> numpy.ndarray | None:
        """Raw weights of a few hosts, a row per scale; None if a weigher must be left out, or none is needed."""
        if not self._weighed:
            return None
        raw = numpy.empty((len(self._scales), len(hosts)))
        for number, scale in enumerate(self._scales):
            idle = scale.anew or scale.uniform == 0
            answer = scale.found[0] if idle else questions.rough(scale.weigher, hosts)
            if answer is None:
                return None
            raw[number] = answer
        return raw

    def update_few(
        self,
        questions: Questions,
        rows: Sequence[int],
        were: Sequence[bool],
        stay: Sequence[bool],
        raw: Sequence[Sequence[float]],
        hosts: Asked,
    ) -> bool:
        """As :meth:`update`, one after the other: so few are looked at sooner than arrays are made of them."""
        if self._layout is None:
            self._layout = self._laid_out()
        suspects = {number for number, scale in enumerate(self._scales) if scale.anew}
        for place, (row, was, stays) in enumerate(zip(rows, were, stay, strict=True)):
            suspects.update(self._take_over(self._layout, row, was, stays, [of_scale[place] for of_scale in raw]))
        return self._recheck(questions, sorted(suspects), hosts()) if suspects else True

    def _laid_out(self) -> list[_Line]:
        self._count_on_edges()
        known = self._contributions
        return [_Line.of(number, each, known.get(number)) for number, each in enumerate(self._scales) if not each.anew]

    def _take_over(
        self, lines: Sequence[_Line], row: int, was: bool, stays: bool, weights: Sequence[float]
    ) -> list[int]:
        """Numbers of the scales that may now be others."""
        suspects = []
        total = 0.0
        for number, scale, least, most, contribution, low, high, width, factor, edges in lines:
            raw = weights[number]
            # Also if it is not a number.
            beyond = stays and not least <= raw <= most
            if contribution is not None:
                before = contribution.item(row) if was else None
                now = None
                if stays:
                    kept = low if raw < low else high if raw > high else raw
                    now = factor * ((kept - low) / width)
                    total += now
                contribution[row] = now or 0.0
                if before != now and (before in edges or now in edges):
                    beyond |= scale.leaves_an_edge(before, now)
            if beyond:
                suspects.append(number)
        self.total[row] = total if stays else OUT
        return suspects

    def update(
        self,
        questions: Questions,
        rows: numpy.ndarray,
        were: numpy.ndarray,
        stay: numpy.ndarray,
        raw: numpy.ndarray,
        hosts: Asked,
    ) -> bool:
        """Take over changed rows; False if all are to be weighed anew instead. Only for hosts that have been compared.

        :param were: of the rows, which were alive before
        :param stay: which are now
        :param raw: of :meth:`rough`, for all of the rows; what it says of those that do not stay does not matter
        :param hosts: gives all that are alive now
        """
        self._count_on_edges()
        steady = [number for number, scale in enumerate(self._scales) if not scale.anew]
        low, high = (_column([self._scales[number].found[end] for number in steady]) for end in (0, 1))
        inside = ((raw[steady] >= low) & (raw[steady] <= high)) | ~stay
        suspects = {number for number, fine in zip(steady, inside.all(axis=1).tolist(), strict=True) if not fine}
        suspects.update(number for number, scale in enumerate(self._scales) if scale.anew)
        total = numpy.where(stay, 0.0, OUT)
        for number, contribution in self._contributions.items():
            scale = self._scales[number]
            if scale.anew:
                continue
            before = contribution[rows]
            after = numpy.where(stay, scale.contribution(raw[number], _ANY), 0.0)
            if scale.leave_an_edge(before[were], after[stay]):
                suspects.add(number)
            contribution[rows] = after
            total += after
        self.total[rows] = total
        return self._recheck(questions, sorted(suspects), hosts()) if suspects else True

    def _count_on_edges(self) -> None:
        """Of each scale of which it is not known, how many hosts are on its bounds."""
        alive = None
        for number, contribution in self._contributions.items():
            scale = self._scales[number]
            if scale.on_edges is None and not scale.anew:
                alive = self.total != OUT if alive is None else alive
                scale.on_edges = [int(numpy.count_nonzero((contribution == edge) & alive)) for edge in scale.edges]

    def _recheck(self, questions: Questions, suspects: Sequence[int], hosts: Candidates) -> bool:
        """Ask these weighers about all hosts; False if one that did not count does now, or must be left out."""
        moved = False
        for number in suspects:
            former = self._scales[number]
            measured = questions.measure(former.weigher, hosts)
            if measured is None:
                return False
            found = measured.scale
            if found.found == former.found and not former.anew:
                continue  # another host is on the bound, too
            self._scales[number], self._layout = found, None
            contribution = self._contributions.get(number)
            if contribution is None:
                if found.counts:
                    return False
            elif former.anew or found.within != former.within:
                contribution[hosts.rows] = found.contribution(measured.raw) if found.counts else 0.0
                moved = True
        if moved:
            self._add_up(hosts, len(self.total))
        return True

    def _add_up(self, hosts: Candidates, size: int) -> None:
        rows = hosts.rows if len(hosts) < size else None
        total = _sum(list(self._contributions.values()), size)
        self._take_total(total if rows is None else total[rows], rows, size)

    def _take_total(self, total: numpy.ndarray, rows: numpy.ndarray | None, size: int) -> None:
        """:param rows: of which these are the scores; all, if None"""
        if rows is None:
            self.total = total
        else:
            self.total = numpy.full(size, OUT)
            self.total[rows] = total

    def table(self, questions: Questions, hosts: Candidates, rows: Sequence[int]) -> list[list[dict[str, Any]]]:
        """How the scores of these rows, of ``hosts``, come about: for each of them, a line per weigher that counted."""
        positions = numpy.searchsorted(hosts.rows, rows)
        lines = [self._lines(questions, each, hosts, positions) for each in self._scales]
        return [[of_scale[number] for of_scale in lines if of_scale] for number in range(len(rows))]

    @staticmethod
    def _lines(questions: Questions, each: Scale, hosts: Candidates, positions: numpy.ndarray) -> list[dict[str, Any]]:
        raw = questions.raw(each.weigher, hosts)
        if raw is None:
            return []
        found = scores.spread(raw)
        within = scores.bounds(found, each.weigher.minval, each.weigher.maxval)
        columns = {
            "raw": raw,
            "normalised": scores.normalise(raw, within, found),
            "multiplier": numpy.broadcast_to(each.multiplier, len(raw)),
            "contribution": each.contribution(raw) if each.counts else numpy.zeros(len(raw)),
        }
        name = {"name": type(each.weigher).__name__}
        return [name | {key: float(values[place]) for key, values in columns.items()} for place in positions.tolist()]


def _sum(values: Sequence[numpy.ndarray], size: int) -> numpy.ndarray:
    """In the order of the weighers, so that ties break as they would for the obvious loop. A new array."""
    if len(values) < 2:
        return values[0].copy() if values else numpy.zeros(size)
    total: numpy.ndarray = values[0] + values[1]
    for each in values[2:]:
        total += each
    return total


def _column(numbers: Sequence[float]) -> numpy.ndarray:
    return numpy.array(numbers).reshape(-1, 1)
