# SPDX-License-Identifier: Apache-2.0
"""The shapes of requests: each is judged once by the filters, and again on the rows that change.

Called by :mod:`scheduler.compute.planning.losses.room_reader` and :mod:`scheduler.compute.planning.moves.columns`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable

import numpy

from fleet.objects import RequestSpec
from scheduler.compute.domain.request_key import request_key
from scheduler.compute.tolerance.amounts import demand_of
from scheduler.compute.tolerance.requests import without_group
from scheduler.engine import filtering, pipeline
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.planning.survival.room import Shape


class Shapes:
    """The rules of groups are left to the proofs."""

    def __init__(self, asked: pipeline.Pipeline) -> None:
        self._asked = asked
        self._known: dict[Hashable, int] = {}
        self.found: list[Shape] = []
        self.requests: list[RequestSpec | None] = []
        #: The key of each shape; None if it has none.
        self._keys: list[Hashable | None] = []
        self._dropped: list[int] = []
        self.nothing = 0
        self._set(self.nothing, None, Shape(numpy.zeros(0, dtype=bool), numpy.zeros(3, dtype=numpy.int64)))

    def of(self, request: RequestSpec, hosts: Candidates) -> int:
        alone = without_group(request)
        key, only = request_key(alone), (alone.within_hosts, alone.requested_hosts, alone.requested_nodes)
        whole = None if key is None else (key, alone.ignore_hosts, only)  # a key says nothing of hosts
        known = self._known.get(whole) if whole is not None and self._asked.cacheable else None
        if known is not None:
            return known
        number = self._dropped.pop() if self._dropped else len(self.found)
        is_open = whole is None or not self._asked.cacheable
        demand = numpy.array(demand_of(alone), dtype=numpy.int64)
        self._set(number, alone, Shape(self._judged(alone, hosts), demand, is_open))
        if whole is not None and not is_open:
            self._known[whole], self._keys[number] = number, whole
        return number

    def follow(self, hosts: Candidates, rows: numpy.ndarray | None) -> bool:
        """Judge these rows again, or all. Return True if a host takes a shape that it did not take before.

        Shapes are changed in place.
        """
        gained = False
        some = None if rows is None else hosts.subset(rows)
        for number, shape in enumerate(self.found):
            request = self.requests[number]
            if request is None:
                if len(shape.fits) != len(hosts):
                    self.found[number] = Shape(numpy.zeros(len(hosts), dtype=bool), shape.demand)
            elif some is None or shape.is_open:
                fits = self._judged(request, hosts)
                gained = gained or len(fits) != len(shape.fits) or bool((fits & ~shape.fits).any())
                self.found[number] = dataclasses.replace(shape, fits=fits)
            elif rows is not None and len(rows):
                fits = self._judged(request, some)
                gained = gained or bool((fits & ~shape.fits[rows]).any())
                shape.fits[rows] = fits
        return gained

    @property
    def any_open(self) -> bool:
        """Return True if what is true of a host may change although the host does not."""
        return any(each.is_open for each in self.found)

    def drop(self, unused: Iterable[int]) -> None:
        """Drop these shapes, of which there are no guests any more."""
        for number in set(unused).difference(self._dropped, [self.nothing]):
            self._known.pop(self._keys[number], None)
            self._dropped.append(number)
            self.requests[number] = None
            self.found[number] = self.found[self.nothing]

    def _judged(self, request: RequestSpec, hosts: Candidates) -> numpy.ndarray:
        prepared = pipeline.prepare(self._asked, request)
        alive: numpy.ndarray = filtering.run(prepared, hosts, restriction.allowed(hosts, request)).alive
        return alive.copy()

    def _set(self, number: int, request: RequestSpec | None, shape: Shape) -> None:
        if number == len(self.found):
            self.found.append(shape)
            self.requests.append(request)
            self._keys.append(None)
        self.found[number], self.requests[number], self._keys[number] = shape, request, None
