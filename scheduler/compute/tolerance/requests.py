# SPDX-License-Identifier: Apache-2.0
"""Requests by what promises to survive losses mean for them, and requests for a part of their choice.

Called by ``admission``, and by :mod:`scheduler.compute.drivers.filter_scheduler`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from fleet.objects import RequestSpec, group_rule, instance_group
from scheduler.compute.tolerance.kept import Node

PASS = "tolerance:pass"
#: Key of filter_properties: the request gives an instance of a lost host a new one.
RESTORES = "restores"
#: Key of filter_properties: the request is a move of the balancer.
PROMISED = "promised"


def passes(request: RequestSpec) -> bool:
    """Return True if no promise holds the request up.

    An administrator has named the host, the instance is evacuated, or its flavor has the extra spec ``tolerance:pass`` =
    ``true``.
    """
    forced = bool(request.force_hosts or request.force_nodes)
    wish = str(request.flavor.extra_specs.get(PASS, "")).lower()
    return forced or request.filter_properties.get(RESTORES) is True or wish == "true"


def is_balancing(request: RequestSpec) -> bool:
    """Return True for a move of the balancer. It breaks no promise: policies are for placements that users ask for."""
    return request.filter_properties.get(PROMISED) is True


def apart_in(request: RequestSpec) -> str | None:
    """Return the uuid of the request's group, if its members must stay apart."""
    return request.group_uuid if instance_group.ANTI_AFFINITY in request.group_policies else None


def bound_in(request: RequestSpec) -> str | None:
    """Return the uuid of the request's group, if its members must be on one host."""
    return request.group_uuid if instance_group.AFFINITY in request.group_policies else None


def has_rules(request: RequestSpec) -> bool:
    """Return True if the request's group has policies or rules: members elsewhere may bind it."""
    return bool(request.group_policies or request.group_rules)


def alone(request: RequestSpec, uuid: str) -> RequestSpec:
    """Return the request for one of its instances, on any host, also on one where a build of it has failed."""
    anywhere = dataclasses.replace(request, requested_hosts=(), requested_nodes=(), retry=None)
    return dataclasses.replace(anywhere, instance_uuids=(uuid,), num_instances=1)


def after(request: RequestSpec, lost: Collection[str], placed: Collection[tuple[str, str]]) -> RequestSpec:
    """Return the request as it is when these hosts are lost: members on them do not bind it any more.

    :param placed: (uuid, host) of members, of those that the request does not place
    """
    gone = {uuid for uuid, host in placed if host in lost} | {
        uuid for uuid, host in request.group_places if host in lost
    }
    return dataclasses.replace(
        *(request,),
        group_members=request.group_members - gone,
        group_hosts=request.group_hosts.difference(lost),
        group_places=frozenset(pair for pair in request.group_places if pair[0] not in gone),
    )


def without_group(request: RequestSpec) -> RequestSpec:
    """Return the request as of an instance that is in no group. Rules that name hosts stay."""
    if not request.group_uuid and "group" not in request.scheduler_hints:
        return request
    hints = {name: value for name, value in request.scheduler_hints.items() if name != "group"}
    nobody: frozenset[str] = frozenset()
    return dataclasses.replace(
        *(request,),
        scheduler_hints=hints,
        group_policies=nobody,
        group_hosts=nobody,
        group_members=nobody,
        group_places=frozenset(),
        group_uuid=None,
        group_rules=tuple(rule for rule in request.group_rules if rule.policy in group_rule.OF_HOSTS),
        group_updated=False,
    )


def without(request: RequestSpec, hosts: Collection[str], nodes: Collection[Node]) -> RequestSpec:
    """Return the request that takes none of these hosts and nodes."""
    return dataclasses.replace(
        *(request,),
        ignore_hosts=(*request.ignore_hosts, *sorted(hosts)),
        ignore_nodes=(*request.ignore_nodes, *sorted(nodes)),
    )
