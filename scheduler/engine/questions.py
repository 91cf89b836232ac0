# SPDX-License-Identifier: Apache-2.0
"""The weighers of one request: how to ask them, and what they may answer."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy

from fleet.objects import RequestSpec
from scheduler import weights
from scheduler.engine import scores
from scheduler.engine.candidates import Candidates
from scheduler.engine.plugin_watch import Supervision, WrongAnswer, is_ours
from scheduler.engine.scale import Scale
from scheduler.weights import BaseHostWeigher, ColumnWeigher, WeighedHost, over_columns

_NO_RAW = numpy.empty(0)


class Measured(NamedTuple):
    """What a weigher says of some hosts, and how that counts. ``raw`` is empty if it does not count anyway."""

    raw: numpy.ndarray
    scale: Scale


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

    def measure(self, each: BaseHostWeigher, hosts: Candidates, known: float | None = None) -> Measured | None:
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
        if is_ours(each) and weights.is_column_alone(each):  # nothing in it can misbehave
            return each.raw_of(hosts.column(each.column))
        return self._supervision.ask("Weigher", each, self._answer, each, hosts)

    def _measure(self, each: BaseHostWeigher, hosts: Candidates, known: float | None) -> Measured:
        multiplier = _multiplier(each, hosts) if known is None else known
        if _is_zero(multiplier) and over_columns(each) and not each.refuses:  # type: ignore[attr-defined]
            return Measured(_NO_RAW, Scale(each, multiplier, (0.0, 0.0)))
        same = weights.uniform(each, hosts)
        if (
            same is not None and each.minval is None and each.maxval is None
        ):  # else it is a bound's distance that counts
            return Measured(_NO_RAW, Scale(each, multiplier, (same, same)))
        raw, found = self._spread(each, hosts)
        return Measured(raw, Scale(each, multiplier, found))

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
