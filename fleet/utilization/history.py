# SPDX-License-Identifier: Apache-2.0
"""Samples of a fleet over the time of a trace, and the figures that they give.

Replays and ``fleet whatif`` fill it.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from fleet.json_codec import JSONObject
from fleet.objects.flavor_mix import Shape
from fleet.utilization.pools import Pools, PoolSample, measure_pools, use_of_pools
from fleet.utilization.sample import Hosts, Sample, measure, use_of

#: Samples of a trace, at equal distances; of few requests without times, one after each.
SAMPLES = 200
#: What a sample's ``at`` counts.
SECONDS, REQUESTS = "seconds", "requests"


class _Sample(Protocol):
    def to_json(self) -> JSONObject: ...


#: What is sampled at one moment, and the sample of it.
_Reading = TypeVar("_Reading")
_Taken = TypeVar("_Taken", bound=_Sample)


class Timeline(abc.ABC, Generic[_Reading, _Taken]):
    """Takes a sample at each of at most :data:`SAMPLES` moments between ``first`` and ``last``."""

    def __init__(self, axis: str, first: float, last: float) -> None:
        """:param axis: :data:`SECONDS` or :data:`REQUESTS`"""
        self.axis = axis
        self._last = last
        count = SAMPLES if axis == SECONDS else min(SAMPLES, int(last) + 1)
        self._due = _moments(first, last, count)
        self._next: float | None = next(self._due)
        self._samples: list[_Taken] = []
        self._use: list[JSONObject] = []

    @abc.abstractmethod
    def _measure(self, at: float, found: _Reading, placed: int, refused: int) -> _Taken: ...

    @abc.abstractmethod
    def _use_of(self, names: Sequence[str], found: _Reading) -> list[JSONObject]: ...

    def due(self, at: float) -> bool:
        """Return True if a moment before ``at`` has no sample yet."""
        return self._next is not None and self._next < at

    def add(self, at: float, found: _Reading, placed: int, refused: int) -> None:
        """Use one reading for all moments before ``at``: nothing has changed since."""
        while self._next is not None and self._next < at:
            self._samples.append(self._measure(self._next, found, placed, refused))
            self._next = next(self._due, None)

    def finish(self, names: Sequence[str], found: _Reading, placed: int, refused: int) -> None:
        """Take the last sample.

        :param names: of the hosts, or of the pools
        """
        self._samples.append(self._measure(self._last, found, placed, refused))
        self._use = self._use_of(names, found)

    def _over_time(self) -> JSONObject:
        return {"axis": self.axis, "samples": [each.to_json() for each in self._samples]}


class History(Timeline[Hosts, Sample]):
    """The history of hosts."""

    def __init__(self, axis: str, first: float, last: float, asked: Mapping[Shape, int]) -> None:
        """:param asked: how many instances of each size the trace requests"""
        super().__init__(axis, first, last)
        total = sum(asked.values())
        self._shares = {shape: count / total for shape, count in asked.items()}

    def _measure(self, at: float, found: Hosts, placed: int, refused: int) -> Sample:
        return measure(at, found, self._shares, placed, refused)

    def _use_of(self, names: Sequence[str], found: Hosts) -> list[JSONObject]:
        return use_of(names, found)

    def figures(self) -> JSONObject:
        """Return the averages over all samples, the samples, and the use of each host at the end."""
        last = self._samples[-1]
        return {
            "stranded_vcpus": self._stranded("vcpus"),
            "stranded_memory_mb": self._stranded("memory_mb"),
            "largest_that_fits": str(last.largest) if last.largest else None,
            "over_time": self._over_time(),
            "hosts_used": self._use,
        }

    def _stranded(self, resource: str) -> str:
        stranded, free = (
            _mean([getattr(each, f"{kind}_{resource}") for each in self._samples]) for kind in ("stranded", "free")
        )
        return f"{stranded:.0f} of {free:.0f} free ({100 * stranded / free if free else 0:.1f} %)"


class PoolHistory(Timeline[Pools, PoolSample]):
    """The history of storage pools."""

    def _measure(self, at: float, found: Pools, placed: int, refused: int) -> PoolSample:
        return measure_pools(at, found, placed, refused)

    def _use_of(self, names: Sequence[str], found: Pools) -> list[JSONObject]:
        return use_of_pools(names, found)

    def figures(self) -> JSONObject:
        """Return the samples, and the use of each pool at the end."""
        return {"over_time": self._over_time(), "pools_used": self._use}


def _moments(first: float, last: float, count: int) -> Iterator[float]:
    if last <= first:
        yield last
        return
    for number in range(count):
        yield first + (last - first) * number / (count - 1)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
