# SPDX-License-Identifier: Apache-2.0
"""The flavor mix: how often the fleet is asked for each size of instance, and how long such instances live.

The counts fade exponentially: after one half-life a request counts half. Conductors keep the mix in the database, and
schedulers read it with the change feed.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fleet.json_codec import JSONObject
from fleet.objects import fields

#: The default half-life: three days, in seconds.
HALF_LIFE_S = 3 * 86400
#: So many sizes are kept, those with the largest counts. More would make each decision slower and change little.
MOST = 32
#: A size whose count has faded to less is dropped.
_LEAST = 1e-3


class Shape(NamedTuple):
    """A size of instances. Flavors of the same size are one."""

    vcpus: int
    memory_mb: int
    disk_gb: int = 0

    def __str__(self) -> str:
        disk = f", {self.disk_gb} GB" if self.disk_gb else ""
        return f"{self.vcpus} vcpus, {self.memory_mb} MB{disk}"


class Counts(NamedTuple):
    """The counts of one shape: requested instances, ended instances, and the hours that the latter lived."""

    requests: float = 0.0
    ended: float = 0.0
    hours: float = 0.0

    def plus(self, other: Counts) -> Counts:
        return Counts(self.requests + other.requests, self.ended + other.ended, self.hours + other.hours)

    def times(self, factor: float) -> Counts:
        return Counts(self.requests * factor, self.ended * factor, self.hours * factor)


@dataclasses.dataclass(frozen=True)
class _Row:
    """One shape on the wire."""

    vcpus: fields.Positive
    memory_mb: fields.Positive
    disk_gb: fields.Natural = 0
    requests: fields.Finite = 0.0
    ended: fields.Finite = 0.0
    hours: fields.Finite = 0.0


@dataclasses.dataclass(frozen=True)
class FlavorMix:
    """``version`` grows with each change; ``at_s`` is the time of the newest count, in epoch seconds."""

    version: int = 0
    at_s: float = 0.0
    counts: Mapping[Shape, Counts] = dataclasses.field(default_factory=lambda: types.MappingProxyType({}))

    def with_more(self, more: Mapping[Shape, Counts], now_s: float, half_life_s: float = HALF_LIFE_S) -> FlavorMix:
        """Return the next version: the counts faded until ``now_s``, and what was counted since."""
        factor: float = 0.5 ** (max(now_s - self.at_s, 0.0) / half_life_s)
        found = {shape: counts.times(factor) for shape, counts in self.counts.items()}
        for shape, counts in more.items():
            found[shape] = found.get(shape, Counts()).plus(counts)
        kept = sorted(found.items(), key=lambda item: (-item[1].requests - item[1].ended, item[0]))[:MOST]
        return FlavorMix(
            self.version + 1,
            now_s,
            {shape: counts for shape, counts in kept if counts.requests + counts.ended >= _LEAST},
        )

    def shares(self) -> dict[Shape, float]:
        """Return each shape's share of the core-hours asked for; of the requests while no instance has ended.

        The life of a shape's instances is the mean of those that have ended, and of one with the mean life of all.
        """
        ended = sum(each.ended for each in self.counts.values())
        if ended:
            mean_h = sum(each.hours for each in self.counts.values()) / ended
            asked = {
                shape: each.requests * shape.vcpus * (each.hours + mean_h) / (each.ended + 1.0)
                for shape, each in self.counts.items()
            }
        else:
            asked = {shape: each.requests for shape, each in self.counts.items()}
        total = sum(asked.values())
        if not total:
            # Instances that ended at once, or none that was asked for since.
            return self.request_shares()
        return {shape: each / total for shape, each in asked.items() if each > 0}

    def request_shares(self) -> dict[Shape, float]:
        """Return each shape's share of the requests."""
        total = sum(each.requests for each in self.counts.values())
        return {shape: each.requests / total for shape, each in self.counts.items() if each.requests > 0}

    def to_wire(self) -> list[JSONObject]:
        return [{**shape._asdict(), **counts._asdict()} for shape, counts in self.counts.items()]

    @classmethod
    def from_wire(cls, data: object, version: int = 0, at_s: float = 0.0) -> FlavorMix:
        """:raises errors.InvalidInput: naming the field"""
        rows: Iterable[_Row] = fields.parse(list[_Row], data, "flavor_mix")
        counts = {
            Shape(row.vcpus, row.memory_mb, row.disk_gb): Counts(row.requests, row.ended, row.hours) for row in rows
        }
        return cls(version, at_s, counts)
