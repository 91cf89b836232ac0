# SPDX-License-Identifier: Apache-2.0
"""Instances that were placed since the newest proof keep their places in its plans, as long as they are there.

``admission`` puts them in. A new proof that has seen an instance has a place for it in its own plans.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from scheduler.compute.tolerance import requests
from scheduler.compute.tolerance.guard import Guard
from scheduler.compute.tolerance.kept import Amount, Node, least
from scheduler.compute.tolerance.losses import Admitted, Loss, Renewal

#: Returns, of instances and the nodes where they were placed, those that a booking or the database shows there.
There = Callable[[Collection[tuple[str, Node]]], Collection[tuple[str, Node]]]
#: Returns whether a proof has seen an instance on a node.
HasSeen = Callable[[str, Node], bool]
_REMEMBERED = 10_000


class AdmittedInstances:
    """The newest guard, and the instances in its plans that its proof has not seen. Used under the lock of admission.

    ::

        placed ──▶ in the plans ──▶ in the plans of a proof, which has seen it
                        └─────────▶ dropped: deleted, given back, placed elsewhere, or its booking has expired
    """

    def __init__(self, there: There) -> None:
        self.guard: Guard | None = None
        self._there = there
        self._known: dict[tuple[str, Node], Admitted] = {}

    def __iter__(self) -> Iterator[Admitted]:
        return iter(self._known.values())

    def publish(self, guard: Guard | None, has_seen: HasSeen) -> None:
        """Take the plans of a new proof."""
        self.drop_gone()
        self.guard = guard
        later, self._known = list(self._known.values()), {}
        if guard is None:
            return
        for each in later:
            if not has_seen(each.uuid, each.node):
                self._admit_again(guard, each)

    def renew(self, renewals: Sequence[Renewal], has_seen: HasSeen) -> None:
        """Take new plans for some losses; all others stand, with what was admitted since."""
        guard = self.guard
        assert guard is not None, "a guard was published"
        self.drop_gone()
        guard.renew(renewals)
        renewed = {id(guard.losses[each.number]) for each in renewals}
        later, self._known = list(self._known.values()), {}
        for each in later:
            again = [pair for pair in each.spares if id(pair[0]) in renewed]
            others = [pair for pair in each.spares if id(pair[0]) not in renewed]
            # The new plans have their own members of groups.
            each.brought[:] = [pair for pair in each.brought if id(pair[0]) not in renewed]
            if has_seen(each.uuid, each.node):
                guard.withdraw([dataclasses.replace(each, spares=others)])
            else:
                guard.admit(dataclasses.replace(each, spares=again))
                self.remember([each])

    def _admit_again(self, guard: Guard, each: Admitted) -> None:
        """An instance that the proof has not seen keeps its places in the plans."""
        spare_of = {loss.name: spare for loss, spare in each.spares}
        spares = [(loss, spare_of[loss.name]) for loss in guard.losses_of(each.node[0]) if loss.name in spare_of]
        again = dataclasses.replace(each, spares=spares, brought=[])
        guard.admit(again)
        self.remember([again])

    def remember(self, admitted: Iterable[Admitted]) -> None:
        """Note instances that the guard has admitted."""
        for each in admitted:
            self._known[each.uuid, each.node] = each
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]

    def own(self, uuid: str, there: Node, node: Node, demand: Amount) -> dict[Loss, Amount]:
        """Return what :meth:`Guard.own` does, for an instance that was admitted. :param there: where it is"""
        each = self._known.get((uuid, there))
        if each is None:
            return {}
        return {loss: least(each.demand, demand) for loss, spare in each.spares if spare == node}

    def movable(self, loss: Loss, node: Node) -> list[Admitted]:
        """Return the instances that have their places in the plan of a loss on a node, and may have others."""
        return [
            each
            for each in self
            if (loss, node) in each.spares
            and (each.hardware, each.group) == (None, None)
            and each.request is not None
            and not requests.has_rules(each.request)
        ]

    def shift(self, each: Admitted, loss: Loss, node: Node) -> None:
        """Give an instance another place in the plan of a loss."""
        assert self.guard is not None, "it was admitted"
        spares = [(of, node if of is loss else spare) for of, spare in each.spares]
        self.guard.withdraw([dataclasses.replace(each, spares=[pair for pair in each.spares if pair[0] is loss])])
        self.guard.admit(dataclasses.replace(each, spares=[(loss, node)]))
        self._known[each.uuid, each.node] = dataclasses.replace(each, spares=spares)

    def drop(self, uuid: str, node: Node) -> None:
        """Take an instance out of the plans: it is placed there again."""
        each = self._known.pop((uuid, node), None)
        if each is not None and self.guard is not None:
            self.guard.withdraw([each])

    def drop_gone(self) -> bool:
        """Take the instances out of the plans that are not there any more. Return True if there were some."""
        if not self._known:
            return False
        there = self._there(self._known.keys())
        gone = [each for each in self._known if each not in there]
        for uuid, node in gone:
            self.drop(uuid, node)
        return bool(gone)
