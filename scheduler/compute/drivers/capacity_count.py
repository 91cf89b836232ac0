# SPDX-License-Identifier: Apache-2.0
"""Count how many more instances of one shape fit, which resource binds first, and how much is stranded.

``fleet capacity`` asks for it.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy

from fleet.json_codec import JSONObject
from fleet.objects import Aggregate, RequestSpec, group_rule
from fleet.reasons import Reason
from scheduler.compute.domain import aggregate_metadata
from scheduler.compute.filters import BaseHostFilter, FailureDomainFilter, ServerGroupAffinityFilter
from scheduler.compute.filters.failure_domain import Among
from scheduler.engine import filtering
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.names import Request
from scheduler.engine.prepared_request import PreparedRequest
from scheduler.engine.supervision.supervision import Supervision
from scheduler.why import shortfall
from scheduler.why.shortfall import Shortfall

ZONE = "zone"
AGGREGATE = "aggregate"
NONE = "(none)"


@dataclasses.dataclass(frozen=True)
class _Resource:
    """One resource on the allowed hosts. ``fits`` is how many more instances this resource alone allows."""

    numbers: Shortfall
    fits: numpy.ndarray


@dataclasses.dataclass(frozen=True)
class _Room:
    """Free amounts of each measured resource; arrays have one element per allowed host.

    :param together: all instances must be on one host
    :param rules: of the server group, over labels of hosts
    """

    keys: Sequence[tuple[str, str]]
    measured: Sequence[_Resource]
    fits: numpy.ndarray
    together: bool = False
    rules: Sequence[Among] = ()

    def count(self, positions: numpy.ndarray) -> JSONObject:
        """The answer for these hosts."""
        fits, total = self.fits[positions], self._total(positions)
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

    def _total(self, positions: numpy.ndarray) -> float:
        by_rules = min((each.total(self.fits, positions) for each in self.rules), default=math.inf)
        return min(by_rules, self._total_of_hosts(positions))

    def _total_of_hosts(self, positions: numpy.ndarray) -> float:
        fits = self.fits[positions]
        if not self.together:
            return float(fits.sum())
        by_host = collections.Counter[str]()
        for position, number in zip(positions.tolist(), fits.tolist(), strict=True):
            by_host[self.keys[position][0]] += number
        return max(by_host.values(), default=0.0)

    def _binding(self, positions: numpy.ndarray) -> Mapping[str, int]:
        """Return, by resource, the number of hosts on which it runs out first."""
        if not self.measured or not len(positions):
            return {}
        first = numpy.argmin([each.fits[positions] for each in self.measured], axis=0)
        return collections.Counter(self.measured[number].numbers.resource for number in first.tolist())

    def _largest(self, positions: numpy.ndarray) -> JSONObject | None:
        """The host that could take the largest single instance of this shape, as a multiple of what is asked.

        What does not grow with the instance (its cells, its group) rules out hosts that it leaves no room on.
        """
        asked = [each.numbers for each in self.measured if each.numbers.asked > 0 and each.numbers.scales]
        if not asked or not len(positions):
            return None
        rooms = [numpy.minimum(each.usable(), numpy.maximum(each.most, 0))[positions] for each in asked]
        times = numpy.min([room / each.asked for room, each in zip(rooms, asked, strict=True)], axis=0)
        for each in self.measured:
            if not each.numbers.scales:
                times = numpy.where(each.fits[positions] > 0, times, 0.0)
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

    def _stranded(self, positions: numpy.ndarray) -> JSONObject:
        """Per resource, what is usable, and what of it would be left when no further instance fits."""
        stranded = {}
        for each in (measured.numbers for measured in self.measured):
            usable = each.usable()[positions]
            taken = numpy.minimum(self.fits[positions] * each.step, usable) if each.step else numpy.zeros(len(usable))
            usable_sum, left_sum = float(usable.sum()), float((usable - taken).sum())
            stranded[each.resource] = {
                "unit": each.unit,
                "asked": float(each.asked),
                "usable": _number(usable_sum),
                "stranded": _number(left_sum),
            }
        return stranded


@dataclasses.dataclass(frozen=True)
class Survey:
    """A copy of the hosts, read under the lock. :meth:`answer` counts without the lock, as fitting takes time."""

    keys: Sequence[tuple[str, str]]
    numbers: Sequence[tuple[BaseHostFilter, Shortfall]]
    groups: Mapping[str, numpy.ndarray]
    considered: int
    counts: Sequence[filtering.FilterCount]
    looked: Sequence[BaseHostFilter]
    supervision: Supervision
    together: bool = False
    rules: Sequence[Among] = ()

    def answer(self) -> JSONObject:
        """``docs/explain.md``, section capacity."""
        measured, bound = [], numpy.full(len(self.keys), math.inf)
        for each, numbers in sorted(self.numbers, key=lambda pair: pair[1].rank):
            fits = self.supervision.ask("Filter", each, _fits, numbers, bound, len(self.keys))
            if fits is not None:
                measured.append(_Resource(numbers, fits))
                bound = numpy.minimum(bound, fits)
        room = _Room(self.keys, measured, bound, self.together, self.rules)
        answer = room.count(numpy.arange(len(self.keys)))
        answer["considered"] = self.considered
        answer["filters"] = [each.to_wire() for each in self.counts]
        answer["remarks"] = [*self.supervision.remarks, *_unmeasured(self.looked), *self._together(), *self._ruled()]
        answer["groups"] = [{"name": name, **room.count(each)} for name, each in sorted(self.groups.items())]
        return answer

    def _together(self) -> list[str]:
        return ["The group's policy puts all its instances on one host."] if self.together else []

    def _ruled(self) -> list[str]:
        if len(self.rules) + self.together < 2:
            return []
        return ["Each rule of the group is counted by itself: all of them together may let fewer in."]


def survey(
    prepared: PreparedRequest,
    hosts: Candidates,
    group_by: str | None = None,
    default_zone: str = "nova",
    divide: Callable[[Candidates], Mapping[str, numpy.ndarray]] | None = None,
) -> Survey:
    """Read what the hosts have.

    :param group_by: ``zone``, ``aggregate`` (a host in several aggregates counts in each), or None
    :param divide: returns the positions of the hosts of each group, in place of ``group_by``
    """
    if group_by and divide is None:
        divide = functools.partial(_groups, group_by=group_by, default_zone=default_zone)

    def ask(each: BaseHostFilter, of: Candidates) -> Shortfall | None:
        return prepared.supervision.ask("Filter", each, _shortfall, each, of, prepared.request)

    nobody = hosts.subset(numpy.array([], dtype=int))
    filters = prepared.filters
    measured = [each for each in filters if ask(each, nobody) is not None]
    others = [each for each in filters if not any(each is one for one in measured)]
    allowed = restriction.allowed(hosts, prepared.request)
    request = prepared.request
    # Only requests for instances have groups and rules.
    asked = request if isinstance(request, RequestSpec) else None
    judging = [each for each in others if isinstance(each, FailureDomainFilter)] if asked is not None else []
    if asked is not None and judging:
        # Rules among members are counted: a domain that has enough members now may take some later.
        of_hosts = tuple(rule for rule in asked.group_rules if rule.policy in group_rule.OF_HOSTS)
        request = dataclasses.replace(asked, group_rules=of_hosts)
    round_ = filtering.run(dataclasses.replace(prepared, filters=others, request=request), hosts, allowed)
    rows = hosts.rows[round_.alive]
    chosen = hosts.subset(rows)
    return Survey(
        keys=[hosts.key(row) for row in rows.tolist()],
        numbers=[(each, found) for each in measured if (found := ask(each, chosen)) is not None],
        groups=divide(chosen) if divide else {},
        considered=round_.considered,
        counts=filtering.Tally(others, round_.considered, round_.dropped).counts(),
        looked=round_.looked,
        supervision=prepared.supervision,
        together=asked is not None
        and any(each.together(asked) for each in filters if isinstance(each, ServerGroupAffinityFilter)),
        rules=[among for each in judging for among in each.among(chosen, asked)] if asked is not None else [],
    )


def _shortfall(each: BaseHostFilter, of: Candidates, request: Request) -> Shortfall | None:
    """:raises WrongAnswer:"""
    return shortfall.checked(each.shortfall(of, request), len(of))


def _fits(numbers: Shortfall, bound: numpy.ndarray, hosts: int) -> numpy.ndarray:
    """:raises WrongAnswer:"""
    return shortfall.counted(numbers.fits(bound), hosts, "how many instances fit")


def _unmeasured(looked: Sequence[BaseHostFilter]) -> list[str]:
    """Filters of capacity that looked at the hosts, and have no numbers."""
    names = [type(each).__name__ for each in looked if each.reason is Reason.CAPACITY]
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
    """Return None for infinity, which JSON lacks."""
    return round(value, 3) if math.isfinite(value) else None
