# SPDX-License-Identifier: Apache-2.0
"""The scores of all rows of the table for one request, and of the rows that have changed since.

A host's score depends on the others through the bounds of each weigher's raw weights only. So, when rows change, their
own scores are found anew, and all of a weigher's only if a bound has moved. A raw weight that lay on a bound may have
taken it along: then, and only then, that weigher is asked about every host again.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy

from fleet.objects import RequestSpec
from scheduler import scores
from scheduler.candidates import Candidates
from scheduler.plugin_watch import Supervision, WrongAnswer
from scheduler.weights import BaseHostWeigher, ColumnWeigher, WeighedHost, over_columns

#: Gives hosts when asked.
Asked = Callable[[], Candidates]
#: The score of a row that is not to be chosen.
OUT = -math.inf
_NO_RAW = numpy.empty(0)
#: A spread of which nothing is known, so that raw weights are brought within the bounds.
_ANY: scores.Bounds = (-math.inf, math.inf)


class _Scale:
    """How one weigher's raw weights become contributions to the scores, by the spread that was found of them.

    ``counts``: whether it can tell one host from another. ``anew``: whether all its contributions are to be found anew
    at each change.
    """

    def __init__(
        self, weigher: BaseHostWeigher, multiplier: float | numpy.ndarray, found: scores.Bounds, within: scores.Bounds
    ) -> None:
        self.weigher = weigher
        self.multiplier = multiplier
        self.found = found
        self.within = within
        several = isinstance(multiplier, numpy.ndarray)
        self.counts = within[0] != within[1] and (several or multiplier != 0)
        self.anew = several or asked_anew(weigher)

    @property
    def uniform(self) -> float | None:
        """The multiplier, if it is one for all hosts."""
        return None if isinstance(self.multiplier, numpy.ndarray) or self.anew else self.multiplier

    def contribution(self, raw: numpy.ndarray, found: scores.Bounds | None = None) -> numpy.ndarray:
        """:param found: the spread of ``raw``, if it may be another than that of all hosts"""
        return self.multiplier * scores.normalise(raw, self.within, found or self.found)

    def of_one(self, raw: float) -> float:
        """As :meth:`contribution`, for one host, of a scale whose multiplier is a number."""
        low, high = self.within
        if low == high:
            return 0.0
        return float(self.multiplier * ((min(max(raw, low), high) - low) / (high - low)))

    @functools.cached_property
    def edges(self) -> tuple[float, float]:
        """The contributions of hosts whose raw weight is the smallest, and the largest."""
        return self.of_one(self.found[0]), self.of_one(self.found[1])


def asked_anew(each: BaseHostWeigher) -> bool:
    """Whether a pick may change its say on hosts other than the picked one."""
    return not over_columns(each) or each.depends_on_picks  # type: ignore[attr-defined]  # it is a ColumnWeigher


class _Measured(NamedTuple):
    raw: numpy.ndarray
    scale: _Scale


class Questions:
    """The weighers of one request and how to ask them."""

    def __init__(
        self,
        weighers: Sequence[BaseHostWeigher],
        request: RequestSpec,
        properties: dict[str, Any],
        supervision: Supervision,
    ) -> None:
        self.weighers = weighers
        self.request = request
        self.properties = properties
        self._supervision = supervision

    def counting(self) -> list[BaseHostWeigher]:
        """Those that weigh for this request at all."""
        ask = self._supervision.ask
        return [each for each in self.weighers if ask("Weigher", each, each.applies, self.request)]

    def measure(self, each: BaseHostWeigher, hosts: Candidates, known: float | None = None) -> _Measured | None:
        """What the weigher says of all hosts together; None if it is left out of this request.

        Where the multiplier is 0, nothing else is asked of who cannot refuse the request.

        :param known: its multiplier, if that is known to be one for all hosts
        """
        return self._supervision.ask("Weigher", each, self._measure, each, hosts, known)

    def raw(self, each: BaseHostWeigher, hosts: Candidates) -> numpy.ndarray | None:
        """One finite number for each of the hosts."""
        return self._supervision.ask("Weigher", each, self._finite, each, hosts)

    def rough(self, each: BaseHostWeigher, hosts: Candidates) -> numpy.ndarray | None:
        """One number for each of a few hosts, finite or not."""
        return self._supervision.ask("Weigher", each, self._answer, each, hosts)

    def _measure(self, each: BaseHostWeigher, hosts: Candidates, known: float | None) -> _Measured:
        multiplier = _multiplier(each, hosts) if known is None else known
        if _is_zero(multiplier) and over_columns(each) and not each.refuses:  # type: ignore[attr-defined]
            return _Measured(_NO_RAW, _Scale(each, multiplier, (0.0, 0.0), (0.0, 0.0)))
        raw, found = self._spread(each, hosts)
        return _Measured(raw, _Scale(each, multiplier, found, scores.bounds(found, each.minval, each.maxval)))

    def _finite(self, each: BaseHostWeigher, hosts: Candidates) -> numpy.ndarray:
        return self._spread(each, hosts)[0]

    def _spread(self, each: BaseHostWeigher, hosts: Candidates) -> tuple[numpy.ndarray, scores.Bounds]:
        raw = self._answer(each, hosts)
        found = scores.spread(raw)  # which shows a number that is none
        if not (math.isfinite(found[0]) and math.isfinite(found[1])):
            raise WrongAnswer("gave a raw weight that is not a number")
        return raw, found

    def _answer(self, each: BaseHostWeigher, hosts: Candidates) -> numpy.ndarray:
        if over_columns(each):
            return _checked(each.raw(hosts, self.request), len(hosts))  # type: ignore[attr-defined]
        weighed = [WeighedHost(hosts.state(row)) for row in hosts.rows.tolist()]
        answers = list(each.weigh_objects(weighed, self.properties))
        if len(answers) != len(weighed):
            raise WrongAnswer(f"gave {len(answers)} raw weights for {len(weighed)} hosts")
        for one, answer in zip(weighed, answers, strict=True):
            _require_number(answer, f"the raw weight of host {one.obj.host}")
        return numpy.array(answers, dtype=float)


class Weighing:
    """``total`` has one score per row of the table, :data:`OUT` for those that are not alive."""

    def __init__(self) -> None:
        self.total = numpy.empty(0)
        self._scales: list[_Scale] = []
        #: Whether hosts have been compared at all.
        self._weighed = False
        #: By number of the scale, if it counts: per row of the table, 0 for those that are out.
        self._contributions: dict[int, numpy.ndarray] = {}

    @property
    def nbytes(self) -> int:
        return self.total.nbytes * (1 + len(self._contributions))

    def grow(self, size: int) -> None:
        """Room for more rows, which are out."""
        more = size - len(self.total)
        self.total = numpy.concatenate((self.total, numpy.full(more, OUT)))
        self._contributions = {number: numpy.pad(each, (0, more)) for number, each in self._contributions.items()}

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
            asked = [(scale.weigher, scale.uniform) for scale in self._scales]
        elif len(hosts) > 1:
            asked = [(each, None) for each in questions.counting()]
        self._weighed = len(hosts) > 1
        self._scales, self._contributions = [], {}
        for each, multiplier in asked:
            measured = questions.measure(each, hosts, multiplier)
            if measured is None:
                continue
            if measured.scale.counts:
                contribution = measured.scale.contribution(measured.raw)
                self._contributions[len(self._scales)] = _spread_over(contribution, hosts, size)
            self._scales.append(measured.scale)
        self._add_up(hosts, size)

    def rough(self, questions: Questions, hosts: Candidates) -> numpy.ndarray | None:
        """Raw weights of a few hosts, a row per scale; None if a weigher must be left out, or none is needed."""
        if not self._weighed:
            return None
        raw = numpy.empty((len(self._scales), len(hosts)))
        for number, scale in enumerate(self._scales):
            idle = scale.anew or _is_zero(scale.multiplier)
            answer = scale.found[0] if idle else questions.rough(scale.weigher, hosts)
            if answer is None:
                return None
            raw[number] = answer
        return raw

    def update_one(
        self, questions: Questions, row: int, were: bool, stay: bool, raw: Sequence[float], hosts: Asked
    ) -> bool:
        """Take over one row that was ``were`` alive and is now, or not: ``stay``; else as :meth:`update`."""
        suspects = []
        total = 0.0
        for number, scale in enumerate(self._scales):
            contribution = self._contributions.get(number)
            if scale.anew:
                suspects.append(number)
                continue
            # Also if it is not a number.
            beyond = stay and not scale.found[0] <= raw[number] <= scale.found[1]
            if contribution is not None:
                before = contribution[row]
                now = contribution[row] = scale.of_one(raw[number]) if stay else 0.0
                total += now
                beyond |= were and before in scale.edges and not (stay and before == now)
            if beyond:
                suspects.append(number)
        self.total[row] = total if stay else OUT
        return self._recheck(questions, suspects, hosts()) if suspects else True

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
            at_edge = ((before == scale.edges[0]) | (before == scale.edges[1])) & were & ((before != after) | ~stay)
            if at_edge.any():
                suspects.add(number)
            contribution[rows] = after
            total += after
        self.total[rows] = total
        return self._recheck(questions, sorted(suspects), hosts()) if suspects else True

    def _recheck(self, questions: Questions, suspects: Sequence[int], hosts: Candidates) -> bool:
        """Ask these weighers about all hosts; False if one that did not count does now, or must be left out."""
        moved = False
        for number in suspects:
            former = self._scales[number]
            measured = questions.measure(former.weigher, hosts)
            if measured is None:
                return False
            if measured.scale.found == former.found and not former.anew:
                continue  # another host is on the bound, too
            scale = self._scales[number] = measured.scale
            contribution = self._contributions.get(number)
            if contribution is None:
                if scale.counts:
                    return False
            elif former.anew or scale.within != former.within:
                contribution[hosts.rows] = scale.contribution(measured.raw)
                moved = True
        if moved:
            self._add_up(hosts, len(self.total))
        return True

    def _add_up(self, hosts: Candidates, size: int) -> None:
        """Sums in the order of the weighers, so that ties break as they would for the obvious loop."""
        contributions = list(self._contributions.values())
        total = contributions[0].copy() if contributions else numpy.zeros(size)
        for contribution in contributions[1:]:
            total += contribution
        if len(hosts) < size:
            rows = hosts.rows
            chosen, total = total[rows], numpy.full(size, OUT)
            total[rows] = chosen
        self.total = total

    def table(self, questions: Questions, hosts: Candidates, rows: Sequence[int]) -> list[list[dict[str, Any]]]:
        """How the scores of these rows, of ``hosts``, come about: for each of them, a line per weigher that counted."""
        positions = numpy.searchsorted(hosts.rows, rows)
        lines = [self._lines(questions, scale, hosts, positions) for scale in self._scales]
        return [[of_scale[number] for of_scale in lines if of_scale] for number in range(len(rows))]

    @staticmethod
    def _lines(
        questions: Questions, scale: _Scale, hosts: Candidates, positions: numpy.ndarray
    ) -> list[dict[str, Any]]:
        raw = questions.raw(scale.weigher, hosts)
        if raw is None:
            return []
        found = scores.spread(raw)
        within = scores.bounds(found, scale.weigher.minval, scale.weigher.maxval)
        columns = {
            "raw": raw,
            "normalised": scores.normalise(raw, within, found),
            "multiplier": numpy.broadcast_to(scale.multiplier, len(raw)),
            "contribution": scale.contribution(raw) if scale.counts else numpy.zeros(len(raw)),
        }
        name = {"name": type(scale.weigher).__name__}
        return [name | {key: float(column[each]) for key, column in columns.items()} for each in positions.tolist()]


def _spread_over(values: numpy.ndarray, hosts: Candidates, size: int) -> numpy.ndarray:
    """Of these hosts, as a column of the table: 0 for the others."""
    if len(hosts) == size:
        return values
    spread = numpy.zeros(size)
    spread[hosts.rows] = values
    return spread


def _column(numbers: Sequence[float]) -> numpy.ndarray:
    return numpy.array(numbers).reshape(-1, 1)


def _multiplier(each: BaseHostWeigher, hosts: Candidates) -> float | numpy.ndarray:
    if isinstance(each, ColumnWeigher) and over_columns(each):
        return _checked_multiplier(each.multiplier(hosts), len(hosts))
    if not inspect.signature(each.weight_multiplier).parameters:
        return _require_number(each.weight_multiplier(), "the multiplier")
    states = [hosts.state(row) for row in hosts.rows.tolist()]
    return numpy.array([_require_number(each.weight_multiplier(state), "the multiplier") for state in states])


def _checked_multiplier(multiplier: Any, wanted: int) -> float | numpy.ndarray:
    """:raises WrongAnswer: neither one finite number nor one for each host"""
    if not isinstance(multiplier, numpy.ndarray):
        return _require_number(multiplier, "the multiplier")
    if multiplier.shape != (wanted,) or multiplier.dtype.kind not in "fiub" or not numpy.isfinite(multiplier).all():
        raise WrongAnswer(f"gave {multiplier!r:.80} as multipliers, where {wanted} numbers are wanted")
    return multiplier


def _is_zero(multiplier: float | numpy.ndarray) -> bool:
    """Of one for all hosts: where aggregates have their own, some may count."""
    return not isinstance(multiplier, numpy.ndarray) and multiplier == 0


def _checked(raw: Any, wanted: int) -> numpy.ndarray:
    """:raises WrongAnswer: it is not one number for each host that was asked about"""
    if not isinstance(raw, numpy.ndarray) or raw.dtype.kind not in "fiub" or raw.shape != (wanted,):
        raise WrongAnswer(f"gave {raw!r:.80} as raw weights, where an array of {wanted} numbers is wanted")
    return raw


def _require_number(answer: Any, what: str) -> float:
    """:raises WrongAnswer:"""
    if not isinstance(answer, numbers.Real) or not math.isfinite(answer):
        raise WrongAnswer(f"gave {answer!r:.80} as {what}, where a number is wanted")
    return float(answer)
