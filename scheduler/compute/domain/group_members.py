# SPDX-License-Identifier: Apache-2.0
"""The members of a request's server group on hosts."""

from __future__ import annotations

import collections

from fleet.objects import RequestSpec
from scheduler.engine.hosts.candidates import Candidates


def by_host(hosts: Candidates, request: RequestSpec) -> collections.Counter[str]:
    """Return the number of members on each host.

    Members count wherever the database, a booking or an earlier pick of the same request has them. The requested instances
    do not count: they may stay where they are.
    """
    return collections.Counter(hosts.hosts_of(request.group_members.difference(request.instance_uuids)))
