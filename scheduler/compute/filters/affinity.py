# SPDX-License-Identifier: Apache-2.0
"""Hosts with or without certain other instances: by hint, or by server group.

Called by :mod:`scheduler.compute.filters`.
"""

from __future__ import annotations

import collections

import numpy

from fleet.objects import RequestSpec, hints, instance_group, request_parts
from scheduler.compute.domain import group_members
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates
from scheduler.why.shortfall import Shortfall


def _hosts(hosts: Candidates, uuids: list[str]) -> set[str]:
    return {host for uuid in uuids if (host := hosts.host_of(uuid)) is not None}


class SameHostFilter(ColumnFilter):
    """With the hint ``same_host``, hosts pass that have any of the named instances."""

    judges = (request_parts.hint("same_host"),)
    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        wanted = hints.neighbours(request.scheduler_hints, "same_host")
        return hosts.only(hosts.rows_of_hosts(_hosts(hosts, wanted))) if wanted else None


class DifferentHostFilter(ColumnFilter):
    """With the hint ``different_host``, hosts pass that have none of the named instances."""

    judges = (request_parts.hint("different_host"),)
    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        unwanted = hints.neighbours(request.scheduler_hints, "different_host")
        return ~hosts.only(hosts.rows_of_hosts(_hosts(hosts, unwanted))) if unwanted else None


class ServerGroupAffinityFilter(ColumnFilter):
    """For a group with policy affinity, hosts pass that have a member. All hosts pass for its first member, and none while
    a member moves from one to another.
    """

    judges = (request_parts.GROUP[instance_group.AFFINITY],)
    depends_on_picks = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        if instance_group.AFFINITY not in request.group_policies:
            return None
        if group_members.is_moving(request):
            return numpy.zeros(len(hosts), dtype=bool)
        # Members booked a moment ago are not among the hosts that the caller read.
        others = request.group_members.difference(request.instance_uuids)
        group_hosts = request.group_hosts.union(hosts.hosts_of(others))
        # All hosts pass for the first member only, so the answer is not None.
        return hosts.only(hosts.rows_of_hosts(group_hosts)) if group_hosts else numpy.ones(len(hosts), dtype=bool)

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        is_moving = instance_group.AFFINITY in request.group_policies and group_members.is_moving(request)
        return "cannot be joined: a member of the group is being moved to another host" if is_moving else ""

    @staticmethod
    def together(request: RequestSpec) -> bool:
        """Return True if all instances of the request must end on one host."""
        return instance_group.AFFINITY in request.group_policies


class ServerGroupAntiAffinityFilter(ColumnFilter):
    """For a group with policy anti-affinity, hosts pass with fewer than ``max_server_per_host`` members.

    Members count wherever the database, a booking or an earlier pick of the same request has them. Without a member
    list, a host passes that is not one of ``group_hosts``. A requested instance does not keep itself from its own host.
    """

    judges = (request_parts.GROUP[instance_group.ANTI_AFFINITY],)
    depends_on_picks = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        if instance_group.ANTI_AFFINITY not in request.group_policies:
            return None
        if request.group_members:
            full = self._full_hosts(hosts, request)
        else:
            full = group_members.named_hosts(hosts, request).union(hosts.hosts_of(()))
        return ~hosts.only(hosts.rows_of_hosts(full))

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> Shortfall | None:
        """Return the places left for the group. Each node of a host is counted by itself."""
        if instance_group.ANTI_AFFINITY not in request.group_policies:
            return None
        most = request.group_max_server_per_host if request.group_members else 1
        members = (
            group_members.by_host(hosts, request) if request.group_members else collections.Counter(hosts.hosts_of(()))
        )
        if most == 1:
            members.update(group_members.named_hosts(hosts, request).difference(members))
        limit = numpy.full(len(hosts), float(most))
        return _Places("places for the group", "", 1, limit, hosts.counted(members), limit)

    def _full_hosts(self, hosts: Candidates, request: RequestSpec) -> set[str]:
        members = group_members.by_host(hosts, request)
        full = {host for host, count in members.items() if count >= request.group_max_server_per_host}
        # The sender may know of members that neither the database nor a booking has shown here yet.
        return full | group_members.named_hosts(hosts, request) if request.group_max_server_per_host == 1 else full


class _Places(Shortfall):
    """The number of instances that the group's policy allows on a host, without regard to their size."""

    scales = False
