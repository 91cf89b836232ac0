# SPDX-License-Identifier: Apache-2.0
"""Asks placement which hosts it offers, for requests that the columns of the hosts do not decide.

:mod:`scheduler.nova.placing` asks it.
"""

from __future__ import annotations

import dataclasses

from fleet import errors
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine.decision import StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.nova.domain_columns import NODE_UUID
from scheduler.nova.placement import Placement
from scheduler.nova.request import NovaRequest
from scheduler.nova.resource_request import ResourceRequest

#: With one of these hints the hosts that fit may be few, so that all candidates are asked for.
_ALL_WITH_HINTS = frozenset({"group", "same_host", "different_host"})


class CandidateQuery:
    """Makes the query that nova-scheduler makes.

    :param most: most candidates that are asked for; None: all
    :param falls_back: for dedicated CPUs, ask a second time for hosts that report no PCPU
    """

    def __init__(self, host_manager: HostManager, most: int | None, falls_back: bool = True) -> None:
        self._host_manager = host_manager
        self._most = most
        self._falls_back = falls_back

    def offered(self, placement: Placement, request: NovaRequest) -> NovaRequest:
        """Return the request with placement's offers for it.

        :raises errors.NoValidHost: placement offers nothing
        :raises errors.InvalidInput: placement refuses the query
        """
        assert request.wanted is not None
        asked, limit = self.asked(request)
        offered = placement.offers(asked.query(limit))
        other = request.wanted.fallback() if self._falls_back else None
        if other is not None:
            asked, limit = self.asked(dataclasses.replace(request, wanted=other))
            for root, further in placement.offers(asked.query(limit)).items():
                offered[root] = [*offered.get(root, ()), *further]
        if not offered:
            raise errors.NoValidHost(reason=f"Placement offers no host for {_described(request.wanted)}.")
        return dataclasses.replace(request, offered=offered)

    def asked(self, request: NovaRequest) -> tuple[ResourceRequest, int | None]:
        """Return the query within the request's zone, aggregates and host, and the limit of its answer."""
        wanted = request.wanted
        assert wanted is not None
        hosts = request.destination.host or next(iter(request.force_hosts), None)
        nodes = request.destination.node or next(iter(request.force_nodes), None)
        limit = None if _ALL_WITH_HINTS.intersection(request.scheduler_hints) else self._most
        in_tree = None
        if hosts or nodes:
            found = self._host_manager.consider(lambda known, _state: _uuids(known, hosts, nodes))
            if len(found) == 1:
                in_tree = found[0]
            else:
                limit = None  # placement can be asked for one tree only
        zone = self._host_manager.consider(lambda known, state: _zone(known, state, request.instance.availability_zone))
        aggregates = (*request.destination.aggregates, *([zone] if zone else []))
        return wanted.within(aggregates, request.destination.forbidden_aggregates, in_tree), limit


def _uuids(hosts: Candidates, host: str | None, node: str | None) -> list[str]:
    rows = hosts.rows[hosts.present()].tolist()
    keys = ((row, hosts.key(row)) for row in rows)
    return [hosts.object(row, NODE_UUID) for row, key in keys if host in (None, key[0]) and node in (None, key[1])]


def _zone(hosts: Candidates, _state: StateAge, name: str | None) -> frozenset[str]:
    """Return the aggregates of a zone. Empty for no zone, and for the zone of hosts without one."""
    if not name:
        return frozenset()
    return frozenset(
        each.uuid for each in hosts.all_aggregates() if each.uuid and each.metadata.get("availability_zone") == name
    )


def _described(wanted: ResourceRequest) -> str:
    parts = []
    for suffix, group in wanted.groups.items():
        amounts = [f"{name}:{amount}" for name, amount in sorted(group.resources.items())]
        traits = [*sorted(group.required), *(f"no {name}" for name in sorted(group.forbidden))]
        parts.append(", ".join([*amounts, *traits]) + (f" (group {suffix})" if suffix else ""))
    return "; ".join(parts)[:500]
