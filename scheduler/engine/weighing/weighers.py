# SPDX-License-Identifier: Apache-2.0
"""Call a weigher, and check its answers. :mod:`scheduler.engine.weighing.weighing` calls it."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy

from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.plugins import BaseHostWeigher, WeighedHost, is_column_weigher, is_single_column
from scheduler.engine.prepared_request import PreparedRequest
from scheduler.engine.supervision.failures import WrongAnswer
from scheduler.engine.supervision.supervision import is_ours
from scheduler.engine.weighing import normalise

_MOST = 1e100


class Weights(NamedTuple):
    """Weights of some hosts from one weigher.

    :param raw: one number for each host; None if they need not be known, as they cannot change the order
    :param multiplier: one number, or one for each host
    :param observed: the smallest and the largest raw weight
    """

    raw: numpy.ndarray | None
    multiplier: float | numpy.ndarray
    observed: normalise.Bounds


def applying(prepared: PreparedRequest) -> list[BaseHostWeigher]:
    """Return the weighers that weigh for this request at all."""
    ask = prepared.supervision.ask
    return [each for each in prepared.weighers if ask("Weigher", each, each.applies, prepared.request)]


def of_fleet(prepared: PreparedRequest, hosts: Candidates) -> Sequence[Hashable]:
    """Return the values of the whole fleet that the weighers read."""
    return [prepared.supervision.ask("Weigher", each, each.of_fleet, hosts) for each in prepared.reading]


def weigh(
    prepared: PreparedRequest, each: BaseHostWeigher, hosts: Candidates, multiplier: float | None = None
) -> Weights | None:
    """Weigh all hosts together; None if the weigher is left out of this request.

    :param multiplier: the weigher's multiplier, if it is known to be one for all hosts
    """
    return prepared.supervision.ask("Weigher", each, _weigh, prepared, each, hosts, multiplier)


def raw(prepared: PreparedRequest, each: BaseHostWeigher, hosts: Candidates) -> numpy.ndarray | None:
    """Return the raw weights of a few hosts, finite or not; None if the weigher is left out of this request."""
    if is_ours(each) and is_single_column(each):  # nothing in it can misbehave
        return each.raw_of(hosts.column(each.column))
    return prepared.supervision.ask("Weigher", each, _raw, prepared, each, hosts)


def finite(prepared: PreparedRequest, each: BaseHostWeigher, hosts: Candidates) -> numpy.ndarray | None:
    """Return one finite raw weight for each of the hosts; None if the weigher is left out of this request."""
    answered = prepared.supervision.ask("Weigher", each, _observed, prepared, each, hosts)
    return None if answered is None else answered[0]


def _weigh(prepared: PreparedRequest, each: BaseHostWeigher, hosts: Candidates, known: float | None) -> Weights:
    multiplier = _multiplier(each, hosts) if known is None else known
    if is_column_weigher(each):
        if not isinstance(multiplier, numpy.ndarray) and multiplier == 0 and not each.refuses:
            return Weights(None, multiplier, (0.0, 0.0))
        same = uniform(each, hosts) if prepared.normalisation != "none" else None
        if same is not None:
            return Weights(None, multiplier, (same, same))
    answer, observed = _observed(prepared, each, hosts)
    return Weights(answer, multiplier, observed)


def uniform(each: BaseHostWeigher, hosts: Candidates) -> float | None:
    """Return the raw weight of all hosts, if it is known to be one without reading them, and no bound is fixed."""
    if not is_single_column(each) or each.minval is not None or each.maxval is not None:
        return None
    number = hosts.uniform(each.column)
    return None if number is None else float(each.raw_of(numpy.array(number)))


def _observed(
    prepared: PreparedRequest, each: BaseHostWeigher, hosts: Candidates
) -> tuple[numpy.ndarray, normalise.Bounds]:
    """:raises WrongAnswer: a raw weight is not finite"""
    answer = _raw(prepared, each, hosts)
    found = normalise.observed(answer)
    if not (math.isfinite(found[0]) and math.isfinite(found[1])):
        raise WrongAnswer("gave a raw weight that is not a number")
    return answer, found


def _raw(prepared: PreparedRequest, each: BaseHostWeigher, hosts: Candidates) -> numpy.ndarray:
    """:raises WrongAnswer: the answer is not one number for each host"""
    if is_column_weigher(each):
        answer = each.raw(hosts, prepared.request)
        if not _is_numbers(answer, len(hosts)):
            raise WrongAnswer(f"gave {answer!r:.80} as raw weights, where an array of {len(hosts)} numbers is wanted")
        return answer
    weighed = [WeighedHost(hosts.state(row)) for row in hosts.rows.tolist()]
    answers = list(each.weigh_objects(weighed, prepared.properties))
    if len(answers) != len(weighed):
        raise WrongAnswer(f"gave {len(answers)} raw weights for {len(weighed)} hosts")
    for one, weight in zip(weighed, answers, strict=True):
        _number(weight, f"the raw weight of host {one.obj.host}")
    return numpy.array(answers, dtype=float)


def _multiplier(each: BaseHostWeigher, hosts: Candidates) -> float | numpy.ndarray:
    """Return the multiplier, or one for each host; at most _MOST, so that sums of products stay finite.

    :raises WrongAnswer: it is neither one finite number nor one for each host
    """
    found = _given(each, hosts)
    return numpy.clip(found, -_MOST, _MOST) if isinstance(found, numpy.ndarray) else min(max(found, -_MOST), _MOST)


def _given(each: BaseHostWeigher, hosts: Candidates) -> float | numpy.ndarray:
    if is_column_weigher(each):
        multiplier = each.multiplier(hosts)
        if not isinstance(multiplier, numpy.ndarray):
            return _number(multiplier, "the multiplier")
        if not _is_numbers(multiplier, len(hosts)) or not numpy.isfinite(multiplier).all():
            raise WrongAnswer(f"gave {multiplier!r:.80} as multipliers, where {len(hosts)} numbers are wanted")
        return multiplier
    if not inspect.signature(each.weight_multiplier).parameters:
        return _number(each.weight_multiplier(), "the multiplier")
    states = [hosts.state(row) for row in hosts.rows.tolist()]
    return numpy.array([_number(each.weight_multiplier(state), "the multiplier") for state in states])


def _is_numbers(answer: object, wanted: int) -> bool:
    return isinstance(answer, numpy.ndarray) and answer.dtype.kind in "fiub" and answer.shape == (wanted,)


def _number(answer: object, what: str) -> float:
    """:raises WrongAnswer:"""
    if not isinstance(answer, numbers.Real) or not math.isfinite(answer):
        raise WrongAnswer(f"gave {answer!r:.80} as {what}, where a number is wanted")
    return float(answer)
