# SPDX-License-Identifier: Apache-2.0
"""The members of a request's server group on hosts. The filters and weighers of server groups read them."""

from __future__ import annotations

import collections

from fleet.objects import RequestSpec
from scheduler.engine.hosts.candidates import Candidates


def places(hosts: Candidates, request: RequestSpec) -> set[tuple[str, str]]:
    """Return (uuid, host) of each member. A member that is being moved has two places, as for a claim.

    Members count wherever the database, a booking, the sender or an earlier pick of the same request has them. The requested
    instances do not count: they may stay where they are.
    """
    found = hosts.places_of(request.group_members.difference(request.instance_uuids))
    return found.union(pair for pair in request.group_places if pair[0] not in request.instance_uuids)


def is_moving(request: RequestSpec) -> bool:
    """Return True if a member other than the requested instances is on its way from one host to another."""
    others = [uuid for uuid, _host in request.group_places if uuid not in request.instance_uuids]
    return len(set(others)) < len(others)


def by_host(hosts: Candidates, request: RequestSpec) -> collections.Counter[str]:
    """Return the number of members on each host."""
    return collections.Counter(host for _uuid, host in places(hosts, request))


def named_hosts(hosts: Candidates, request: RequestSpec) -> set[str]:
    """Return ``group_hosts`` without the hosts where the requested instances are: nova's conductor names these as well.

    Another member on such a host still counts in :func:`by_host`.
    """
    if not request.group_hosts:
        return set()
    placed = (hosts.placed(uuid) for uuid in request.instance_uuids)
    return set(request.group_hosts.difference(each.host for each in placed if each is not None))
