# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts by the preferences of the server group over labels of hosts (:mod:`fleet.objects.group_rule`).

:mod:`scheduler.engine.weighing.weighers` calls it.
"""

from __future__ import annotations

import numpy

from fleet.objects import RequestSpec, group_rule
from scheduler.compute.domain import failure_domains
from scheduler.compute.domain.failure_domains import FailureDomains
from scheduler.compute.weights.base import ColumnWeigher
from scheduler.engine.hosts.candidates import Candidates


class FailureDomainWeigher(ColumnWeigher):
    """The members of the group in the host's domain: for soft-affinity more is better, otherwise fewer.

    A value that a rule ``should`` names counts as one member. Several preferences of a group are added up.
    """

    depends_on_picks = True
    option = "failure_domain_weight_multiplier"

    def applies(self, request: RequestSpec) -> bool:
        return any(not rule.is_hard for rule in request.group_rules)

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        crowd = failure_domains.crowd(hosts, request)
        total = numpy.zeros(len(hosts))
        for rule in request.group_rules:
            if rule.is_hard:
                continue
            domains = FailureDomains.of(hosts, rule.label)
            if rule.policy == group_rule.SHOULD:
                liked = numpy.array([name in rule.values for name in domains.names], dtype=float)
            else:
                members = domains.members(hosts, crowd) * domains.named
                liked = members if rule.kind == group_rule.AFFINITY else -members
            total += liked[domains.of_hosts(hosts)]
        return total
