# SPDX-License-Identifier: Apache-2.0
"""How one weigher's raw weights become contributions to the scores of the hosts."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy

from scheduler.engine import scores
from scheduler.weights import BaseHostWeigher, over_columns


class Scale:
    """How one weigher's raw weights become contributions to the scores, by the spread that was found of them.

    ``counts``: whether it can tell one host from another. ``anew``: whether all its contributions are to be found anew
    at each change.
    """

    def __init__(self, weigher: BaseHostWeigher, multiplier: float | numpy.ndarray, found: scores.Bounds) -> None:
        self.weigher = weigher
        self.multiplier = multiplier
        self.found = found
        self.within = within = scores.bounds(found, weigher.minval, weigher.maxval)
        several = isinstance(multiplier, numpy.ndarray)
        self.counts = within[0] != within[1] and (several or multiplier != 0)
        self.anew = several or asked_anew(weigher)
        #: How many hosts are on the lower and on the upper bound; None if they are not counted.
        self.on_edges: list[int] | None = None

    @property
    def uniform(self) -> float | None:
        """The multiplier, if it is one for all hosts."""
        return None if isinstance(self.multiplier, numpy.ndarray) or self.anew else self.multiplier

    def contribution(self, raw: numpy.ndarray, found: scores.Bounds | None = None) -> numpy.ndarray:
        """:param found: the spread of ``raw``, if it may be another than that of all hosts"""
        normal = scores.normalise(raw, self.within, found or self.found)
        return (
            self.multiplier * normal if isinstance(self.multiplier, numpy.ndarray) or self.multiplier != 1 else normal
        )

    def of_one(self, raw: float) -> float:
        """As :meth:`contribution`, for one host, of a scale whose multiplier is a number.

        :class:`scheduler.engine.weighing._Line` does the same in the same order: contributions are compared with ``edges``.
        """
        low, high = self.within
        if low == high:
            return 0.0
        return float(self.multiplier * ((min(max(raw, low), high) - low) / (high - low)))

    @functools.cached_property
    def edges(self) -> tuple[float, float]:
        """The contributions of hosts whose raw weight is the smallest, and the largest."""
        return self.of_one(self.found[0]), self.of_one(self.found[1])

    def leaves_an_edge(self, before: float | None, now: float | None) -> bool:
        """Count a host that contributed ``before``, and does ``now``; whether a bound has nobody left.

        None: it was not alive, or is not. Only where those on the bounds are counted.
        """
        return self._count([int(edge == now) - int(edge == before) for edge in self.edges])

    def leave_an_edge(self, before: numpy.ndarray, after: numpy.ndarray) -> bool:
        """As :meth:`leaves_an_edge`, of several: what those contributed that were alive, and those that are."""
        gone, come = ([int(numpy.count_nonzero(each == edge)) for edge in self.edges] for each in (before, after))
        return self._count([more - fewer for more, fewer in zip(come, gone, strict=True)])

    def _count(self, more: Sequence[int]) -> bool:
        self.on_edges = [number + each for number, each in zip(self.on_edges or (0, 0), more, strict=True)]
        return min(self.on_edges) <= 0


def asked_anew(each: BaseHostWeigher) -> bool:
    """Whether a pick may change its say on hosts other than the picked one."""
    return not over_columns(each) or each.depends_on_picks  # type: ignore[attr-defined]  # it is a ColumnWeigher
