# SPDX-License-Identifier: Apache-2.0
"""Gives guests other places in the plans of losses, where a move needs the room that is kept for them.

A plan is one of many. A proof keeps it as long as it holds, so it may keep a node for a loss although others would do.
:mod:`scheduler.compute.tolerance.admission` calls this before it refuses a move.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fleet.objects import RequestSpec
from scheduler.compute.tolerance import requests
from scheduler.compute.tolerance.admitted import AdmittedInstances
from scheduler.compute.tolerance.amounts import demand_of, plus
from scheduler.compute.tolerance.guard import Guard, Own
from scheduler.compute.tolerance.kept import Amount, Node
from scheduler.compute.tolerance.losses import Loss
from scheduler.compute.tolerance.spares import Spares

#: Guests for which another place is looked for, for one move, and losses that are looked at.
_TRIES = 64


class _Placed(NamedTuple):
    """:param shift: gives it another place in the plan"""

    uuid: str
    request: RequestSpec
    shift: Callable[[Node], None]


class Clearing:
    def __init__(self, spares: Spares) -> None:
        self._spares = spares

    def clear(
        self,
        guard: Guard,
        admitted: AdmittedInstances,
        node: Node,
        free: Mapping[Node, Amount],
        demand: Amount,
        own: Own,
    ) -> None:
        """Let plans leave a node the room for an instance, as far as their guests find other places.

        Each plan is valid afterwards, also if the node is not taken. Members of groups with rules, and guests beside others
        that have cells or devices, keep their places.

        :param free: beside the instance
        :param own: what plans put there for the instance itself
        """
        before, tries = plus(free[node], demand), _TRIES
        for loss in guard.short(node, before, demand, own)[:_TRIES]:
            if node in loss.hardware:
                continue
            for uuid, request, shift in _placed(guard, admitted, loss, node):
                if not tries or not guard.is_short(loss, node, before, demand, own):
                    break
                tries -= 1
                wanted, left_out = requests.alone(request, uuid), {node, *loss.hardware}
                other = self._spares.find(guard, wanted, loss, (), free, demand_of(wanted), 1, left_out)
                if other is not None:
                    shift(other)


def _placed(guard: Guard, admitted: AdmittedInstances, loss: Loss, node: Node) -> list[_Placed]:
    """Return the guests that a loss puts on a node, and may put elsewhere, the largest first."""
    found = [
        _Placed(uuid, each.request, functools.partial(guard.shift, loss, uuid))
        for uuid, each in loss.guests.items()
        if each.node == node and each.is_free
    ]
    for late in admitted.movable(loss, node):
        assert late.request is not None, "it may move"
        found.append(_Placed(late.uuid, late.request, functools.partial(admitted.shift, late, loss)))

    def order(each: _Placed) -> tuple[int, int, str]:
        vcpus, memory_mb, _disk_mb = demand_of(each.request)
        return -memory_mb, -vcpus, each.uuid

    return sorted(found, key=order)
