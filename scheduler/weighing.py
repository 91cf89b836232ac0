# SPDX-License-Identifier: Apache-2.0
"""Weighs the survivors of one request, and between its instances only what a pick has changed."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy

from fleet.objects import RequestSpec
from scheduler import scores
from scheduler.candidates import Candidates
from scheduler.plugin_watch import PluginWatch, Supervision, WrongAnswer
from scheduler.weights import BaseHostWeigher, ColumnWeigher, WeighedHost, over_columns


class Weighing:
    """Scores of a shrinking set of hosts. Arrays here have one element per survivor."""

    def __init__(self, weighers: Sequence[BaseHostWeigher], supervision: Supervision | None = None) -> None:
        self._parts = [_Part(weigher) for weigher in weighers]
        self._supervision = supervision or PluginWatch().begin()

    def scores(
        self, hosts: Candidates, request: RequestSpec, properties: dict[str, Any], kept: Kept | None = None
    ) -> numpy.ndarray:
        """One score for each of ``hosts``.

        :param kept: how the survivors differ from those of the call before; None if there was none
        :raises errors.PluginFailed: a weigher misbehaved, and is not to be skipped
        """
        total = numpy.zeros(len(hosts))
        if len(hosts) > 1:  # one host needs no weighing, and a weigher must not refuse it
            for part in self._parts:
                ask = functools.partial(part.contribution, hosts, request, properties, kept)
                contribution = self._supervision.ask("Weigher", part.weigher, ask)
                if contribution is not None:
                    total = total + contribution
        return total

    def table(self, hosts: Candidates, positions: Sequence[int]) -> list[list[dict[str, Any]]]:
        """How the scores of the last call came about: for each of these positions, a row per weigher that counted."""
        parts = [part.rows(hosts, positions) for part in self._parts]
        return [[rows[number] for rows in parts if rows] for number in range(len(positions))]


class Kept:
    """Since the last round: which of the former survivors are ``alive`` (None: all), and where the pick is now."""

    def __init__(self, alive: numpy.ndarray | None, changed: int | None) -> None:
        self.alive = alive
        self.changed = changed


class _Part:
    """One weigher. Bounds that stay leave the contributions of the hosts that a pick has not touched alone."""

    def __init__(self, weigher: BaseHostWeigher) -> None:
        self.weigher = weigher
        self._incremental = (
            isinstance(weigher, ColumnWeigher) and over_columns(weigher) and not weigher.depends_on_picks
        )
        self._raw: numpy.ndarray | None = None
        self._owned = False
        self._bounds: scores.Bounds | None = None
        self._contribution: numpy.ndarray | None = None

    def contribution(
        self, hosts: Candidates, request: RequestSpec, properties: dict[str, Any], kept: Kept | None
    ) -> numpy.ndarray | None:
        """None if the weigher has nothing to say about this request."""
        if not self.weigher.applies(request):
            return None
        if kept is None or self._raw is None or not self._incremental:
            self._raw = self._weigh(hosts, request, properties)
            self._owned = False
            self._bounds = None
        else:
            self._update(hosts, request, properties, kept)
        within = scores.bounds(self._raw, self.weigher.minval, self.weigher.maxval)
        if self._bounds != within or self._contribution is None:
            self._bounds = within
            multiplier = self._multiplier(hosts)
            self._contribution = multiplier * scores.normalise(self._raw, within)
        elif kept is not None and kept.changed is not None:
            one = hosts.one(kept.changed)
            normal = scores.normalise(self._raw[[kept.changed]], within)
            self._contribution[kept.changed] = (self._multiplier(one) * normal)[0]
        return self._contribution

    def rows(self, hosts: Candidates, positions: Sequence[int]) -> list[dict[str, Any]]:
        """Raw weight, normalised, multiplier and contribution; empty if this weigher has not counted."""
        if self._raw is None or self._bounds is None or self._contribution is None:
            return []
        chosen = list(positions)
        columns = {
            "raw": self._raw[chosen],
            "normalised": scores.normalise(self._raw, self._bounds)[chosen],
            "multiplier": numpy.broadcast_to(self._multiplier(hosts), len(self._raw))[chosen],
            "contribution": self._contribution[chosen],
        }
        name = {"name": type(self.weigher).__name__}
        return [name | {key: float(column[number]) for key, column in columns.items()} for number in range(len(chosen))]

    def _update(self, hosts: Candidates, request: RequestSpec, properties: dict[str, Any], kept: Kept) -> None:
        assert self._raw is not None
        assert self._contribution is not None
        if kept.alive is not None:
            self._raw = self._raw[kept.alive]
            self._owned = True
            self._contribution = self._contribution[kept.alive]
        if kept.changed is not None:
            one = hosts.one(kept.changed)
            if not self._owned:  # it may be a column of the table
                self._raw = self._raw.copy()
            self._owned = True
            self._raw[kept.changed] = self._weigh(one, request, properties)[0]

    def _weigh(self, hosts: Candidates, request: RequestSpec, properties: dict[str, Any]) -> numpy.ndarray:
        if isinstance(self.weigher, ColumnWeigher) and over_columns(self.weigher):
            return _checked(self.weigher.raw(hosts, request), len(hosts))
        weighed = [WeighedHost(hosts.state(row)) for row in hosts.rows.tolist()]
        answers = list(self.weigher.weigh_objects(weighed, properties))
        if len(answers) != len(weighed):
            raise WrongAnswer(f"gave {len(answers)} raw weights for {len(weighed)} hosts")
        for each, answer in zip(weighed, answers, strict=True):
            _require_number(answer, f"the raw weight of host {each.obj.host}")
        return numpy.array(answers, dtype=float)

    def _multiplier(self, hosts: Candidates) -> float | numpy.ndarray:
        if isinstance(self.weigher, ColumnWeigher) and over_columns(self.weigher):
            return self.weigher.multiplier(hosts)
        if not inspect.signature(self.weigher.weight_multiplier).parameters:
            return _require_number(self.weigher.weight_multiplier(), "the multiplier")
        states = [hosts.state(row) for row in hosts.rows.tolist()]
        asked = [_require_number(self.weigher.weight_multiplier(state), "the multiplier") for state in states]
        return numpy.array(asked)


def _checked(raw: Any, wanted: int) -> numpy.ndarray:
    """:raises WrongAnswer: it is not one finite number for each host that was asked about"""
    if not isinstance(raw, numpy.ndarray) or raw.dtype.kind not in "fiub" or raw.shape != (wanted,):
        raise WrongAnswer(f"gave {raw!r:.80} as raw weights, where an array of {wanted} numbers is wanted")
    # One pass tells that all is well; only a sum that is not finite is looked into.
    if not math.isfinite(raw.sum()) and not numpy.isfinite(raw).all():
        raise WrongAnswer("gave a raw weight that is not a number")
    return raw


def _require_number(answer: Any, what: str) -> float:
    """:raises WrongAnswer:"""
    if not isinstance(answer, numbers.Real) or not math.isfinite(answer):
        raise WrongAnswer(f"gave {answer!r:.80} as {what}, where a number is wanted")
    return float(answer)
