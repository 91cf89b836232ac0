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
        self._counting: list[_Part] = []
        self._total: numpy.ndarray | None = None

    def scores(
        self, hosts: Candidates, request: RequestSpec, properties: dict[str, Any], kept: Kept | None = None
    ) -> numpy.ndarray:
        """One score for each of ``hosts``.

        :param kept: how the survivors differ from those of the call before; None if there was none
        :raises errors.PluginFailed: a weigher misbehaved, and is not to be skipped
        """
        if len(hosts) <= 1:  # one host needs no weighing, and a weigher must not refuse it
            return numpy.zeros(len(hosts))
        if kept is None:
            ask = functools.partial(self._supervision.ask, "Weigher")
            self._counting = [part for part in self._parts if ask(part.weigher, part.weigher.applies, request)]
        all_anew = kept is None
        left_out: list[_Part] = []
        for part in self._counting:
            about = hosts, request, properties, kept
            changed_all = self._supervision.ask("Weigher", part.weigher, part.update, *about)
            if changed_all is None:  # it is left out of this request, whatever it may say yet
                left_out.append(part)
            all_anew |= changed_all is not False
        self._counting = [part for part in self._counting if part not in left_out]
        return self._add_up(len(hosts), kept, all_anew)

    def _add_up(self, count: int, kept: Kept | None, all_anew: bool) -> numpy.ndarray:
        """Sums in the order of the weighers, so that ties break as they would for the obvious loop."""
        contributions = [part.contribution for part in self._counting if part.contribution is not None]
        if kept is None or all_anew or self._total is None:
            total = numpy.zeros(count)
            for contribution in contributions:
                total += contribution
        else:
            total = self._total if kept.alive is None else self._total[kept.alive]
            if kept.changed is not None:
                total[kept.changed] = sum((each[kept.changed] for each in contributions), 0.0)
        self._total = total
        return total

    def table(self, hosts: Candidates, positions: Sequence[int]) -> list[list[dict[str, Any]]]:
        """How the scores of the last call came about: for each of these positions, a row per weigher that counted."""
        parts = [
            self._supervision.ask("Weigher", part.weigher, part.rows, hosts, positions) or [] for part in self._parts
        ]
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
        self._found: scores.Bounds = (0.0, 0.0)
        self._bounds: scores.Bounds | None = None
        #: One number per survivor; None if it is 0 for all of them, or the weigher is left out.
        self.contribution: numpy.ndarray | None = None

    def update(self, hosts: Candidates, request: RequestSpec, properties: dict[str, Any], kept: Kept | None) -> bool:
        """Bring ``contribution`` up to date; False if nothing but the picked host's own has changed."""
        if kept is None or self._raw is None or not self._incremental:
            self._raw = self._weigh(hosts, request, properties)
            self._owned = False
            self._bounds = None
            self._found = self._finite_spread()
        elif self._keep(hosts, request, properties, kept):
            self._found = self._finite_spread()
        found = self._found
        within = scores.bounds(found, self.weigher.minval, self.weigher.maxval)
        if self._bounds != within:
            self._bounds = within
            self.contribution = self._weighted(hosts, self._raw, within, found)
            return True
        if kept is not None and kept.changed is not None and self.contribution is not None:
            one = self._raw[[kept.changed]]
            weighted = self._weighted(hosts.one(kept.changed), one, within, scores.spread(one))
            self.contribution[kept.changed] = 0.0 if weighted is None else weighted[0]
        return False

    def _finite_spread(self) -> scores.Bounds:
        """:raises WrongAnswer: a raw weight is not a finite number, which the spread shows"""
        assert self._raw is not None
        found = scores.spread(self._raw)
        if not (math.isfinite(found[0]) and math.isfinite(found[1])):
            raise WrongAnswer("gave a raw weight that is not a number")
        return found

    def _weighted(
        self, hosts: Candidates, raw: numpy.ndarray, within: scores.Bounds, found: scores.Bounds
    ) -> numpy.ndarray | None:
        """An array of our own; None for all 0."""
        if within[0] == within[1]:
            return None
        multiplier = self._multiplier(hosts)
        if _is_zero(multiplier):
            return None
        return multiplier * scores.normalise(raw, within, found)

    def rows(self, hosts: Candidates, positions: Sequence[int]) -> list[dict[str, Any]]:
        """Raw weight, normalised, multiplier and contribution; empty if this weigher has not counted."""
        if self._raw is None or self._bounds is None:
            return []
        chosen = list(positions)
        nothing = numpy.zeros(len(self._raw))
        columns = {
            "raw": self._raw[chosen],
            "normalised": scores.normalise(self._raw, self._bounds, scores.spread(self._raw))[chosen],
            "multiplier": numpy.broadcast_to(self._multiplier(hosts), len(self._raw))[chosen],
            "contribution": (nothing if self.contribution is None else self.contribution)[chosen],
        }
        name = {"name": type(self.weigher).__name__}
        return [name | {key: float(column[number]) for key, column in columns.items()} for number in range(len(chosen))]

    def _keep(self, hosts: Candidates, request: RequestSpec, properties: dict[str, Any], kept: Kept) -> bool:
        """Take over the survivors and the picked host's new weight; whether the spread may be another now."""
        assert self._raw is not None
        if kept.alive is not None:
            self._raw = self._raw[kept.alive]
            self._owned = True
            if self.contribution is not None:
                self.contribution = self.contribution[kept.alive]
        if kept.changed is None:
            return True
        if not self._owned:  # it may be a column of the table
            self._raw = self._raw.copy()
        self._owned = True
        before = self._raw[kept.changed]
        after = self._raw[kept.changed] = self._weigh(hosts.one(kept.changed), request, properties)[0]
        low, high = self._found
        return kept.alive is not None or not (low < before < high and low <= after <= high)

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
            return _checked_multiplier(self.weigher.multiplier(hosts), len(hosts))
        if not inspect.signature(self.weigher.weight_multiplier).parameters:
            return _require_number(self.weigher.weight_multiplier(), "the multiplier")
        states = [hosts.state(row) for row in hosts.rows.tolist()]
        asked = [_require_number(self.weigher.weight_multiplier(state), "the multiplier") for state in states]
        return numpy.array(asked)


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
    """:raises WrongAnswer: it is not one finite number for each host that was asked about"""
    if not isinstance(raw, numpy.ndarray) or raw.dtype.kind not in "fiub" or raw.shape != (wanted,):
        raise WrongAnswer(f"gave {raw!r:.80} as raw weights, where an array of {wanted} numbers is wanted")
    return raw


def _require_number(answer: Any, what: str) -> float:
    """:raises WrongAnswer:"""
    if not isinstance(answer, numbers.Real) or not math.isfinite(answer):
        raise WrongAnswer(f"gave {answer!r:.80} as {what}, where a number is wanted")
    return float(answer)
