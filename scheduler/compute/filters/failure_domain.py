# SPDX-License-Identifier: Apache-2.0
"""Rules of the server group over labels of hosts (:mod:`fleet.objects.group_rule`).

:mod:`scheduler.engine.filtering` calls it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection
from typing import Self

import numpy
from oslo_config import cfg

from fleet.objects import RequestSpec, group_rule, request_parts
from fleet.objects.group_rule import GroupRule
from scheduler.compute.domain import failure_domains
from scheduler.compute.domain.failure_domains import FailureDomains
from scheduler.compute.filters.availability_zone import AvailabilityZoneFilter
from scheduler.compute.filters.base import ColumnFilter
from scheduler.compute.filters.compute import ComputeFilter
from scheduler.engine.hosts.candidates import Candidates


class FailureDomainFilter(ColumnFilter):
    """Hosts pass that keep the rules of the server group over labels: among its members, and of members and hosts.

    The emptiest domain of a spread is looked for among the domains with an enabled host that is up, in the requested zone.
    """

    judges = (request_parts.GROUP_RULES,)
    depends_on_picks = True
    #: When every domain has one member more, a spread accepts all of them again.
    revives = True

    def __init__(self, service_down_time_s: float = 60, default_zone: str = "nova") -> None:
        self._alive = ComputeFilter(service_down_time_s)
        self._in_zone = AvailabilityZoneFilter(default_zone)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.service_down_time, conf.default_availability_zone)

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        rules = [rule for rule in request.group_rules if rule.is_hard]
        if not rules:
            return None
        crowd = failure_domains.crowd(hosts, request)
        passed = numpy.ones(len(hosts), dtype=bool)
        for rule in rules:
            found = self._judged(rule, hosts, request, crowd)
            passed &= found.allowed()[found.domains.of_hosts(hosts)]
        return passed

    def limits(self, hosts: Candidates, request: RequestSpec) -> dict[str, numpy.ndarray]:
        """Return how many members the domain of each host may have: a claim does not look for the emptiest domain again."""
        spreads = [rule for rule in request.group_rules if rule.policy == group_rule.SPREAD]
        if not spreads:
            return {}
        crowd = failure_domains.crowd(hosts, request)
        most = {rule: self._judged(rule, hosts, request, crowd).emptiest + rule.max_skew for rule in spreads}
        return {f"{group_rule.LIMIT}{rule.label}": numpy.full(len(hosts), most[rule]) for rule in spreads}

    def among(self, hosts: Candidates, request: RequestSpec) -> list[Among]:
        """Return the judgements of domains by the rules among members. The caller counts members of further instances."""
        crowd = failure_domains.crowd(hosts, request)
        found = []
        for rule in request.group_rules:
            if rule.is_hard and rule.policy in group_rule.AMONG_MEMBERS:
                judged = self._judged(rule, hosts, request, crowd)
                whole = hosts.whole()
                serving = numpy.zeros(len(judged.domains.names), dtype=bool)
                serving[judged.domains.of_row[self._serving(whole, request)]] = True
                found.append(Among(judged, judged.domains.of_hosts(hosts), serving & judged.domains.named))
        return found

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        crowd = failure_domains.crowd(hosts, request)
        for rule in request.group_rules:
            found = self._judged(rule, hosts, request, crowd)
            number = int(found.domains.of_hosts(hosts)[0])
            if rule.is_hard and not found.allowed()[number]:
                return found.reason(number)
        return ""

    def _judged(
        self, rule: GroupRule, hosts: Candidates, request: RequestSpec, crowd: Collection[tuple[str, str]]
    ) -> _Judged:
        domains = FailureDomains.of(hosts, rule.label)
        members = domains.members(hosts, crowd)
        if rule.policy == group_rule.AFFINITY:
            # Only the sender sees whether a move is still going on.
            return _Judged(rule, domains, members, moving=domains.is_moving(hosts, request.group_places))
        if rule.policy != group_rule.SPREAD:
            return _Judged(rule, domains, members)

        serving = functools.partial(self._serving, request=request)
        return _Judged(rule, domains, members, domains.emptiest(hosts, members, serving))

    def _serving(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        """Return a mask of the hosts that may take instances now."""
        alive = hosts.present() & self._alive.mask(hosts, request)
        in_zone = self._in_zone.mask(hosts, request)
        return alive if in_zone is None else alive & in_zone


@dataclasses.dataclass(frozen=True)
class _Judged:
    """A rule that refuses hosts, and the domains of its label.

    :param members: of the group, in each domain; ``emptiest``: in the domain that has the fewest, for a spread
    :param moving: whether a member goes from one domain to another, so that none can be joined
    """

    rule: GroupRule
    domains: FailureDomains
    members: numpy.ndarray
    emptiest: float = 0.0
    moving: bool = False

    def allowed(self) -> numpy.ndarray:
        """Return a mask of the domains whose hosts pass."""
        rule, named = self.rule, self.domains.named
        if rule.policy in group_rule.OF_HOSTS:
            among = numpy.array([name in rule.values for name in self.domains.names], dtype=bool)
            return ~among if rule.policy == group_rule.MUST_NOT else among
        if rule.policy == group_rule.ANTI_AFFINITY:
            return (self.members < rule.max_members) | ~named
        if rule.policy == group_rule.AFFINITY:
            if self.moving:
                return numpy.zeros(len(self.domains.names), dtype=bool)
            # All domains pass for the first member only.
            return named & (self.members > 0) if self.members.any() else named
        return named & (self.members + 1 - self.emptiest <= rule.max_skew)

    def reason(self, number: int) -> str:
        """Return why the hosts of a domain do not pass. :param number: of the domain"""
        rule, name = self.rule, self.domains.names[number]
        if rule.policy == group_rule.MUST_NOT:
            return f"is in {rule.label} {name}, which the group must not use"
        if name == failure_domains.NOWHERE:
            return f"has no label {rule.label}, which a rule of the group needs ({rule})"
        if rule.policy == group_rule.MUST:
            return f"is in {rule.label} {name}; the group must use {' or '.join(rule.values)}"
        there = f"is in {rule.label} {name} with {self.members[number]:.0f} members of the group"
        if rule.policy == group_rule.ANTI_AFFINITY:
            return f"{there}; at most {rule.max_members} may be in one {rule.label}"
        if rule.policy == group_rule.AFFINITY:
            if self.moving:
                return f"{there}, and a member is being moved to another {rule.label}"
            others = [self.domains.names[each] for each in numpy.flatnonzero(self.members).tolist()]
            return f"{there}; the members are in {rule.label} {', '.join(sorted(others))}"
        return f"{there}; the emptiest {rule.label} has {self.emptiest:.0f}, and max_skew is {rule.max_skew}"


@dataclasses.dataclass(frozen=True)
class Among:
    """Counts the instances that a rule among members allows.

    :param of_hosts: the number of each host's domain
    :param serving: a mask of the domains with a host that takes instances
    """

    judged: _Judged
    of_hosts: numpy.ndarray
    serving: numpy.ndarray

    def total(self, fits: numpy.ndarray, positions: numpy.ndarray) -> float:
        """Return the number on the hosts at these positions. :param fits: of each host, by all else"""
        room, there = self._by_domain(fits, slice(None)), self._by_domain(fits, positions)
        rule, members, named = self.judged.rule, self.judged.members, self.judged.domains.named
        if rule.policy == group_rule.AFFINITY:
            allowed = there[self.judged.allowed()]
            return float(allowed.sum() if members.any() else allowed.max(initial=0.0))
        if rule.policy == group_rule.ANTI_AFFINITY:
            most = numpy.where(named, numpy.maximum(rule.max_members - members, 0), numpy.inf)
        else:
            # The domain that is full with the fewest members holds up all others. Without a domain that serves it is 0, as
            # for a decision.
            emptiest = (members + room)[self.serving].min() if self.serving.any() else 0
            most = numpy.where(named, numpy.maximum(emptiest + rule.max_skew - members, 0), 0)
        return float(numpy.minimum(there, numpy.minimum(room, most)).sum())

    def _by_domain(self, fits: numpy.ndarray, positions: numpy.ndarray | slice) -> numpy.ndarray:
        names = self.judged.domains.names
        counted = numpy.bincount(self.of_hosts[positions], weights=fits[positions], minlength=len(names))
        # Of no hosts numpy counts in whole numbers, which have no infinity.
        return counted.astype(float)
