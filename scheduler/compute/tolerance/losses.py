# SPDX-License-Identifier: Apache-2.0
"""Losses, the promises about them, and the instances that have a place in their plans. ``guard`` keeps them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy

from fleet.objects import Aggregate, RequestSpec
from fleet.objects.tolerance import LAST, REFUSE, WARN, Tolerance
from scheduler.compute.tolerance.hardware import Hardware
from scheduler.compute.tolerance.kept import Amount, Node

#: Policies by their strictness.
STRICTNESS = {WARN: 0, LAST: 1, REFUSE: 2}


class Guest(NamedTuple):
    """The place of one guest in the plan of a loss.

    :param request: of a guest of its shape, without its group
    :param is_free: False if its group has rules, which also bind its place
    """

    node: Node
    request: RequestSpec
    is_free: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """The guests of a plan, in arrays of one order: most plans are never read by guest.

    :param rows: indices of ``nodes``
    :param requests, is_free: see :class:`Guest`
    """

    nodes: Sequence[Node | None]
    uuids: numpy.ndarray
    rows: numpy.ndarray
    requests: numpy.ndarray
    is_free: numpy.ndarray

    def by_uuid(self) -> dict[str, Guest]:
        parts = (each.tolist() for each in (self.uuids, self.rows, self.requests, self.is_free))
        found = {}
        for uuid, row, request, is_free in zip(*parts, strict=True):
            node = self.nodes[row]
            assert node is not None, "a plan uses hosts that are there"
            found[uuid] = Guest(node, request, is_free)
        return found


@dataclasses.dataclass(eq=False)
class Loss:
    """Hosts that are lost together.

    :param problem: why there is no plan; "" if there is one
    :param overtaken: why the plan is not valid any more; "" if it is
    :param reserved: what the plan, and instances that were admitted since, put on nodes of other hosts
    :param hardware: their guests, where some of those on a node have cells or devices
    :param groups: uuids of the groups whose members stay apart, or on one host, of those that are put on a node
    :param places: of the guests that the proof has placed; None if it has placed nobody
    """

    name: str
    hosts: frozenset[str]
    problem: str = ""
    reserved: dict[Node, Amount] = dataclasses.field(default_factory=dict)
    hardware: dict[Node, Hardware] = dataclasses.field(default_factory=dict)
    groups: dict[Node, frozenset[str]] = dataclasses.field(default_factory=dict)
    places: Places | None = None
    overtaken: str = ""
    _guests: dict[str, Guest] | None = dataclasses.field(default=None, init=False)

    @property
    def guests(self) -> dict[str, Guest]:
        """The guests that the proof has placed, by uuid, where they are placed now."""
        if self._guests is None:
            self._guests = {} if self.places is None else self.places.by_uuid()
        return self._guests

    def replace_places(self, places: Places | None) -> None:
        self.places, self._guests = places, None

    @property
    def why(self) -> str:
        """Return why the loss is not survived as the fleet is; "" if it is."""
        return self.problem or self.overtaken


@dataclasses.dataclass(frozen=True)
class Promise:
    """A tolerance, and the losses that it is about by the hosts that they are of.

    :param covers: returns those of some hosts that are in its scope. Its second argument are all aggregates
    """

    tolerance: Tolerance
    losses_of: Mapping[str, Sequence[Loss]]
    covers: Callable[[Sequence[str], Sequence[Aggregate]], Collection[str]] = lambda hosts, _aggregates: hosts


@dataclasses.dataclass(frozen=True)
class Objection:
    """The promise that an instance on a host would break, with a sentence about it.

    :param promise: the strictest one, if there are several
    :param node: the only node of the host that would break it; None: each of them would
    """

    host: str
    sentence: str
    promise: Promise
    node: Node | None = None

    @property
    def policy(self) -> str:
        return self.promise.tolerance.policy

    def bars(self, policy: str) -> bool:
        """Return True if its promise is at least as strict as this policy."""
        return STRICTNESS[self.policy] >= STRICTNESS[policy]


@dataclasses.dataclass(frozen=True)
class Renewal:
    """The result of a new proof of a loss. :param number: among the losses of the guard"""

    number: int
    problem: str
    reserved: dict[Node, Amount]
    hardware: dict[Node, Hardware] = dataclasses.field(default_factory=dict)
    groups: dict[Node, frozenset[str]] = dataclasses.field(default_factory=dict)
    places: Places | None = None


@dataclasses.dataclass(frozen=True)
class Admitted:
    """An instance that came after the proof: where it is, and where it has its place in the plan of each loss.

    :param hardware: its request, if it has cells or devices. Of the same loss only members of its group may have their place
        there, too
    :param group: uuid of its group, if its members stay apart, or on one host
    :param brought: the losses and nodes for which it is the first member of its group
    :param request: for it alone; None if it is not known
    """

    uuid: str
    node: Node
    demand: Amount
    spares: Sequence[tuple[Loss, Node]]
    hardware: Hardware | None = None
    group: str | None = None
    brought: list[tuple[Loss, Node]] = dataclasses.field(default_factory=list)
    request: RequestSpec | None = None
