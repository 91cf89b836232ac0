# SPDX-License-Identifier: Apache-2.0
"""Weighs the survivors of one request, and between its instances only what a pick has changed."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy

from fleet.objects import RequestSpec
from scheduler import scores
from scheduler.candidates import Candidates
from scheduler.weights import BaseHostWeigher, ColumnWeigher, WeighedHost, over_columns


class Weighing:
    """Scores of a shrinking set of hosts. Arrays here have one element per survivor."""

    def __init__(self, weighers: Sequence[BaseHostWeigher]) -> None:
        self._parts = [_Part(weigher) for weigher in weighers]

    def scores(
        self, hosts: Candidates, request: RequestSpec, properties: dict[str, Any], kept: Kept | None = None
    ) -> numpy.ndarray:
        """One score for each of ``hosts``.

        :param kept: how the survivors differ from those of the call before; None if there was none
        """
        total = numpy.zeros(len(hosts))
        if len(hosts) > 1:  # one host needs no weighing, and a weigher must not refuse it
            for part in self._parts:
                if not part.weigher.applies(request):
                    continue
                total = total + part.contribution(hosts, request, properties, kept)
        return total


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
    ) -> numpy.ndarray:
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
            return self.weigher.raw(hosts, request)
        weighed = [WeighedHost(hosts.state(row)) for row in hosts.rows.tolist()]
        return numpy.array(self.weigher.weigh_objects(weighed, properties), dtype=float)

    def _multiplier(self, hosts: Candidates) -> float | numpy.ndarray:
        if isinstance(self.weigher, ColumnWeigher) and over_columns(self.weigher):
            return self.weigher.multiplier(hosts)
        if not inspect.signature(self.weigher.weight_multiplier).parameters:
            return self.weigher.weight_multiplier()
        return numpy.array([self.weigher.weight_multiplier(hosts.state(row)) for row in hosts.rows.tolist()])
