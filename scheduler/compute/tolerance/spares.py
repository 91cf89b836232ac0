# SPDX-License-Identifier: Apache-2.0
"""Finds the node where an instance gets its place if its host is lost. :mod:`scheduler.compute.tolerance.admission` asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fleet.objects import Place, RequestSpec
from scheduler.compute.tolerance import requests
from scheduler.compute.tolerance.amounts import times
from scheduler.compute.tolerance.fleet import Fleet
from scheduler.compute.tolerance.guard import Guard
from scheduler.compute.tolerance.hardware import has_hardware
from scheduler.compute.tolerance.kept import Amount, Node, node_of
from scheduler.compute.tolerance.losses import Loss

#: Hosts that are tried for several instances that must have their place together.
_TRIES = 10


class Spares:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def find(
        self,
        guard: Guard,
        request: RequestSpec,
        loss: Loss,
        alternates: Sequence[Place],
        free: Mapping[Node, Amount],
        demand: Amount,
        number: int,
        left_out: Collection[Node] = (),
    ) -> Node | None:
        """Return a node that passes the filters, and would have room for the instance beside the plan of the loss.

        Best one that keeps this room for another loss already.

        :param request: for this instance alone
        :param number: of instances that its request places. If their group binds them to one host, it takes them all
        :param left_out: nodes that an instance without cells and devices, in no group, shall not have
        """
        one = self._after(request, loss)
        bound, group = requests.bound_in(one), requests.apart_in(one)
        if bound is not None:
            there = sorted(node for node, groups in loss.groups.items() if bound in groups)
            if there:
                return self._beside(one, loss, there[0], demand)
            demand = times(number, demand)
        if has_hardware(one):
            return self._alone(guard, one, loss, free, demand, number if bound is not None else 1)
        # Where the loss brings another member of its group, it does not pass.
        members = {node for node, groups in loss.groups.items() if group in groups}.union(left_out)
        sharing = [each for each in guard.sharing(loss, demand, free) if each not in members]
        for place in alternates:
            if node_of(place) in sharing:
                return node_of(place)
        if sharing:
            shared = self._fleet.passing(one, sharing)
            if shared is not None:
                return shared
        for place in alternates:
            node = node_of(place)
            if node not in free or node in members or node[0] not in guard.hosts:
                continue
            if Guard.is_spare(loss, node, free[node], demand):
                return node
        # Of all other hosts the filters know what is free.
        planned = self._fleet.free(loss.reserved)
        full = {node for node, free in planned.items() if not Guard.is_spare(loss, node, free, demand)}
        return self._elsewhere(guard, one, loss, full | members)

    def _elsewhere(self, guard: Guard, one: RequestSpec, loss: Loss, left_out: Collection[Node]) -> Node | None:
        """Return the node that the filters and weighers choose. A host that no proof has seen may be lost as well."""
        hosts = loss.hosts
        for _look in range(2):
            found = self._fleet.look(requests.without(one, hosts, left_out))
            if not found.complete:
                return None
            if found.picks[0].key[0] in guard.hosts:
                return found.picks[0].key
            hosts = hosts | (self._fleet.hosts() - guard.hosts)
        return None

    def _after(self, request: RequestSpec, loss: Loss) -> RequestSpec:
        if not request.group_members and not request.group_hosts:
            return request
        members = request.group_members.difference(request.instance_uuids)
        placed = self._fleet.consider(lambda candidates, _state: candidates.places_of(members))
        return requests.after(request, loss.hosts, placed)

    def _beside(self, request: RequestSpec, loss: Loss, node: Node, demand: Amount) -> Node | None:
        """Return the node to which the loss brings the members of the group, if it takes one more."""
        free = self._fleet.free([node])
        if node not in free or not Guard.is_spare(loss, node, free[node], demand):
            return None
        there = loss.hardware.get(node)
        if there is not None:
            if not self._fleet.fit_together((*there.requests, request), node):
                return None
        elif has_hardware(request):
            # Members without cells and devices are counted by sums, from which the cells that they leave cannot be read.
            return None
        return self._fleet.passing(request, [node])

    def _alone(
        self, guard: Guard, one: RequestSpec, loss: Loss, free: Mapping[Node, Amount], demand: Amount, number: int
    ) -> Node | None:
        """Return a node that passes the filters, and to which the loss brings no other guest: no other member, either.

        Only for that the filters answer exactly whether cells and devices suffice.

        :param number: of such instances that must have their place there together
        """
        left_out = set(loss.reserved)
        for node in guard.sharing(loss, demand, free):
            if node not in left_out and self._fleet.passing(one, [node]) and self._takes(one, node, number):
                return node
        for _try in range(_TRIES if number > 1 else 1):
            found = self._elsewhere(guard, one, loss, left_out)
            if found is None or self._takes(one, found, number):
                return found
            left_out.add(found)
        return None

    def _takes(self, one: RequestSpec, node: Node, number: int) -> bool:
        return number == 1 or self._fleet.fit_together([one] * number, node)
