# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts on which other members of the server group are, or are not.

:mod:`scheduler.engine.weighing.weighers` calls it.
"""

from __future__ import annotations

import numpy

from fleet.objects import RequestSpec
from scheduler.compute.domain import group_members
from scheduler.compute.weights.base import ColumnWeigher
from scheduler.engine.hosts.candidates import Candidates


class ServerGroupSoftAffinityWeigher(ColumnWeigher):
    """For a group with policy soft-affinity, the number of its members on the host.

    Members count wherever the database, a booking or an earlier pick of the same request has them.
    """

    depends_on_picks = True
    option = "soft_affinity_weight_multiplier"
    policy = "soft-affinity"
    sign = 1.0

    def applies(self, request: RequestSpec) -> bool:
        return self.policy in request.group_policies

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return self.sign * hosts.counted(group_members.by_host(hosts, request))


class ServerGroupSoftAntiAffinityWeigher(ServerGroupSoftAffinityWeigher):
    """For a group with policy soft-anti-affinity, minus the number of its members on the host."""

    option = "soft_anti_affinity_weight_multiplier"
    policy = "soft-anti-affinity"
    sign = -1.0
