# SPDX-License-Identifier: Apache-2.0
"""How many more instances of one shape would fit, what runs out first, and what is left that they cannot use."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from fleet.objects import Aggregate, RequestSpec
from fleet.reasons import Reason
from scheduler import aggregate_metadata, filtering, restriction
from scheduler.candidates import Candidates
from scheduler.decision import Pipeline
from scheduler.filters import BaseHostFilter
from scheduler.plugin_watch import Supervision
from scheduler.shortfall import Shortfall

ZONE = "zone"
AGGREGATE = "aggregate"
NONE = "(none)"


@dataclasses.dataclass(frozen=True)
class _Room:
    """What the allowed hosts have of each measured resource; arrays have one element per allowed host."""

    keys: Sequence[tuple[str, str]]
    numbers: Sequence[Shortfall]
    fits: numpy.ndarray

    def count(self, positions: numpy.ndarray) -> dict[str, Any]:
        """The answer for these hosts."""
        fits = self.fits[positions]
        total = float(fits.sum())
        binding = self._binding(positions)
        return {
            "hosts": len(positions),
            "hosts_with_room": int(numpy.count_nonzero(fits > 0)),
            "fits": int(total) if math.isfinite(total) else None,
            "binds_first": max(binding, key=lambda name: binding[name]) if binding else None,
            "binding": dict(binding),
            "largest": self._largest(positions),
            "stranded": self._stranded(positions),
        }

    def _binding(self, positions: numpy.ndarray) -> Mapping[str, int]:
        """On how many hosts each resource is the one that runs out first."""
        if not self.numbers or not len(positions):
            return {}
        first = numpy.argmin([each.fits()[positions] for each in self.numbers], axis=0)
        return collections.Counter(self.numbers[number].resource for number in first.tolist())

    def _largest(self, positions: numpy.ndarray) -> dict[str, Any] | None:
        """The host that could take the largest single instance of this shape, as a multiple of what is asked."""
        asked = [each for each in self.numbers if each.asked > 0]
        if not asked or not len(positions):
            return None
        rooms = [numpy.minimum(each.usable(), numpy.maximum(each.most, 0))[positions] for each in asked]
        times = numpy.min([room / each.asked for room, each in zip(rooms, asked, strict=True)], axis=0)
        best = int(numpy.argmax(times))
        host, node = self.keys[int(positions[best])]
        room = {each.resource: _number(float(array[best])) for each, array in zip(asked, rooms, strict=True)}
        return {
            "host": host,
            "nodename": node,
            "times": _number(float(times[best])),
            "fits": _number(float(self.fits[positions[best]])),
            "room": room,
        }

    def _stranded(self, positions: numpy.ndarray) -> dict[str, Any]:
        """Per resource, what is usable, and what of it would be left when no further instance fits."""
        stranded = {}
        for each in self.numbers:
            step = each.asked if each.consumed is None else each.consumed
            usable = each.usable()[positions]
            taken = numpy.minimum(self.fits[positions] * step, usable) if step else numpy.zeros(len(usable))
            usable_sum, left_sum = float(usable.sum()), float((usable - taken).sum())
            stranded[each.resource] = {
                "unit": each.unit,
                "asked": float(each.asked),
                "usable": _number(usable_sum),
                "stranded": _number(left_sum),
            }
        return stranded


def count(
    pipeline: Pipeline,
    hosts: Candidates,
    request: RequestSpec,
    properties: dict[str, Any],
    group_by: str | None = None,
    default_zone: str = "nova",
    supervision: Supervision | None = None,
) -> dict[str, Any]:
    """``docs/explain.md``, section capacity. Each instance is counted as if it came alone: groups are not looked at.

    :param properties: what filters in nova's form are given
    :param group_by: ``zone``, ``aggregate`` (a host in several counts in each), or None
    """
    supervision = supervision or pipeline.watch.begin()
    allowed = restriction.restrict(hosts, request)

    def ask(each: BaseHostFilter, of: Candidates) -> Shortfall | None:
        return supervision.ask("Filter", each, lambda: each.shortfall(of, request))

    nobody = hosts.subset(numpy.array([], dtype=int))
    filters = () if allowed.forced else pipeline.filters
    measured = [each for each in filters if ask(each, nobody) is not None]
    others = [each for each in filters if each not in measured]
    round_ = filtering.run(others, hosts, allowed.mask, request, properties, log=False, supervision=supervision)
    rows = hosts.rows[round_.alive]
    chosen = hosts.subset(rows)
    numbers = [found for each in measured if (found := ask(each, chosen)) is not None]
    fits = numpy.min([each.fits() for each in numbers], axis=0) if numbers else numpy.full(len(rows), math.inf)
    room = _Room([hosts.key(row) for row in rows.tolist()], numbers, fits)
    answer = room.count(numpy.arange(len(rows)))
    answer["considered"] = int(numpy.count_nonzero(allowed.mask))
    answer["filters"] = [each.to_wire() for each in round_.counts]
    answer["remarks"] = [*supervision.remarks, *_unmeasured(round_)]
    groups = _groups(chosen, group_by, default_zone) if group_by else {}
    answer["groups"] = [{"name": name, **room.count(positions)} for name, positions in sorted(groups.items())]
    return answer


def _unmeasured(round_: filtering.Round) -> list[str]:
    """Filters of capacity that looked at the hosts, and have no numbers."""
    looked = zip(round_.ran, round_.survivors, round_.survivors[1:], strict=False)
    names = [
        type(each).__name__ for each, before, after in looked if each.reason is Reason.CAPACITY and after is not before
    ]
    return [f"Filter {name} tells one instance only: fewer may fit than are counted." for name in names]


def _groups(hosts: Candidates, group_by: str, default_zone: str) -> dict[str, numpy.ndarray]:
    """Positions of the hosts of each zone or aggregate."""
    names: list[Sequence[str]] = []

    def number(aggregates: Sequence[Aggregate]) -> int:
        if group_by == ZONE:
            names.append(sorted(aggregate_metadata.split_values(aggregates, "availability_zone")) or [default_zone])
        else:
            names.append([each.name for each in aggregates] or [NONE])
        return len(names) - 1

    numbers = hosts.by_aggregates(number, dtype=int)
    groups: dict[str, list[numpy.ndarray]] = collections.defaultdict(list)
    for each in numpy.unique(numbers).tolist():
        for name in names[each]:
            groups[name].append(numpy.flatnonzero(numbers == each))
    return {name: numpy.sort(numpy.concatenate(parts)) for name, parts in groups.items()}


def _number(value: float) -> float | None:
    """None for unlimited: JSON has no infinity."""
    return round(value, 3) if math.isfinite(value) else None
