# SPDX-License-Identifier: Apache-2.0
"""Finds the node where an instance gets its place if its host is lost. :mod:`scheduler.compute.tolerance.admission` asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet.objects import Place, RequestSpec
from scheduler.compute.tolerance import requests
from scheduler.compute.tolerance.fleet import Fleet
from scheduler.compute.tolerance.guard import Guard, Loss
from scheduler.compute.tolerance.hardware import has_hardware
from scheduler.compute.tolerance.kept import Amount, Node, node_of


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
    ) -> Node | None:
        """Return a node that passes the filters, and would have room for the instance beside the plan of the loss.

        Best one that keeps this room for another loss already.
        """
        if has_hardware(request):
            return self._alone(guard, request, loss, demand)
        group = requests.apart_in(request)
        # Where the loss brings another member of its group, it does not pass.
        members = {node for node, groups in loss.groups.items() if group in groups}
        sharing = [each for each in guard.sharing(loss, demand) if each not in members]
        for place in alternates:
            if node_of(place) in sharing:
                return node_of(place)
        if sharing:
            shared = self._fleet.passing(requests.alone(request), sharing)
            if shared is not None:
                return shared
        for place in alternates:
            node = node_of(place)
            if node in free and node not in members and Guard.is_spare(loss, node, free[node], demand):
                return node
        # Of all other hosts the filters know what is free.
        planned = self._fleet.free(loss.reserved)
        full = {node for node, free in planned.items() if not Guard.is_spare(loss, node, free, demand)}
        found = self._fleet.look(requests.without(requests.alone(request), loss.hosts, full | members))
        return found.picks[0].key if found.complete else None

    def _alone(self, guard: Guard, request: RequestSpec, loss: Loss, demand: Amount) -> Node | None:
        """Return a node that passes the filters, and to which the loss brings no other guest: no other member, either.

        Only for that the filters answer exactly whether cells and devices suffice.
        """
        one = requests.alone(request)
        sharing = [each for each in guard.sharing(loss, demand) if each not in loss.reserved]
        shared = self._fleet.passing(one, sharing) if sharing else None
        if shared is not None:
            return shared
        found = self._fleet.look(requests.without(one, loss.hosts, loss.reserved))
        return found.picks[0].key if found.complete else None
