# SPDX-License-Identifier: Apache-2.0
"""The most that any single loss puts on a node, kept while losses get other plans.

``guard`` uses it. Most plans put one guest of a few sizes on a node, so each node has few different amounts: they are
counted, and the largest is looked for again only if the last of it has gone.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

from fleet.objects import Place

Thing = TypeVar("Thing", bound=Hashable)
#: Host and node.
Node = tuple[str, str]
#: vcpus, memory in MB, disk in MB.
Amount = tuple[int, int, int]
NOTHING: Amount = (0, 0, 0)


def node_of(place: Place) -> Node:
    return place.host, place.nodename or place.host


def told(node: Node) -> str:
    """Return the name of a node for users: the host, with the node if it has another name."""
    host, name = node
    return host if host == name else f"{host} ({name})"


def is_short(of_resource: tuple[int, int, int]) -> bool:
    """Return whether what is kept of a resource is not left beside a demand. :param of_resource: free, asked, kept"""
    free, asked, kept = of_resource
    return asked > 0 and kept > 0 and free - asked < kept


def exceeds(reserved: Amount, free: Amount) -> bool:
    return any(used > max(left, 0) for used, left in zip(reserved, free, strict=True))


def least(one: Amount, other: Amount) -> Amount:
    """Return the smaller of each resource."""
    return min(one[0], other[0]), min(one[1], other[1]), min(one[2], other[2])


class KeptThings(Generic[Thing]):
    """Counts, by node, the things that losses put there beside amounts. One is there as long as a loss puts it there."""

    def __init__(self) -> None:
        self._on: dict[Node, collections.Counter[Thing]] = {}

    def add(self, node: Node, thing: Thing) -> None:
        self._on.setdefault(node, collections.Counter())[thing] += 1

    def take(self, node: Node, thing: Thing) -> None:
        """Undo an addition."""
        there = self._on[node]
        there[thing] -= 1
        if not there[thing]:
            del there[thing]
        if not there:
            del self._on[node]

    def on(self, node: Node) -> Collection[Thing]:
        return self._on.get(node, ())

    def nodes(self) -> Collection[Node]:
        return self._on.keys()

    def nodes_of(self, thing: object) -> list[Node]:
        """Return the nodes on which some loss puts this one."""
        return [node for node, there in self._on.items() if thing in there]


class Kept:
    def __init__(self) -> None:
        self._counts: dict[Node, collections.Counter[Amount]] = {}
        self._most: dict[Node, Amount] = {}

    @property
    def nodes(self) -> Collection[Node]:
        return self._counts

    def most(self, node: Node) -> Amount:
        """Return the largest of each resource."""
        return self._most.get(node, NOTHING)

    def add(self, node: Node, amount: Amount) -> None:
        counts = self._counts.get(node)
        if counts is None:
            self._counts[node] = collections.Counter((amount,))
            self._most[node] = amount
            return
        counts[amount] += 1
        most = self._most[node]
        if amount[0] > most[0] or amount[1] > most[1] or amount[2] > most[2]:
            self._most[node] = _larger(most, amount)

    def take(self, node: Node, amount: Amount) -> None:
        """Undo an addition."""
        counts = self._counts[node]
        counts[amount] -= 1
        if counts[amount]:
            return
        del counts[amount]
        if not counts:
            del self._counts[node], self._most[node]
            return
        most = NOTHING
        for each in counts:
            most = _larger(most, each)
        self._most[node] = most


def _larger(one: Amount, other: Amount) -> Amount:
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])
