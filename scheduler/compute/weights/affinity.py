# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts on which other members of the server group are, or are not."""

from __future__ import annotations

import collections

import numpy

from fleet.objects import RequestSpec
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
        others = request.group_members.difference(request.instance_uuids)
        members = collections.Counter(hosts.hosts_of(others))
        return self.sign * hosts.counted(members)


class ServerGroupSoftAntiAffinityWeigher(ServerGroupSoftAffinityWeigher):
    """For a group with policy soft-anti-affinity, minus the number of its members on the host."""

    option = "soft_anti_affinity_weight_multiplier"
    policy = "soft-anti-affinity"
    sign = -1.0
