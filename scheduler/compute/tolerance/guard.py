# SPDX-License-Identifier: Apache-2.0
"""Room that the plans of all losses need. Hosts are lost one loss at a time, so plans of different losses share room.

A plan stays valid while each of its hosts has free what the plan puts there: ``reserved`` of the loss. A host therefore must
keep free the most that any single loss puts there: ``kept``.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy

from fleet.objects.tolerance import Tolerance

#: vcpus, memory in MB, disk in MB.
Amount = numpy.ndarray
_NOTHING = numpy.zeros(3, dtype=numpy.int64)
#: Hosts that are looked at, and returned, to find one whose kept room serves another loss.
_LOOKED, _SHARED = 16, 3
_NAMES = ("vcpus", "MB of memory", "MB of disk")


class Needs(NamedTuple):
    """The demand of a plan on hosts: the ``amounts`` on those in ``rows`` of ``hosts``."""

    hosts: Sequence[str]
    rows: numpy.ndarray
    amounts: numpy.ndarray


@dataclasses.dataclass(eq=False)
class Loss:
    """Hosts that are lost together.

    :param problem: why there is no plan; "" if there is one
    :param needs: of the plan, of other hosts
    """

    name: str
    hosts: frozenset[str]
    problem: str = ""
    needs: Needs | None = None

    @functools.cached_property
    def reserved(self) -> dict[str, Amount]:
        """Return the demand of the plan, and of instances that were admitted since, on other hosts. Few losses need it."""
        if self.needs is None:
            return {}
        rows = self.needs.rows.tolist()
        return {self.needs.hosts[row]: amount for row, amount in zip(rows, self.needs.amounts, strict=True)}

    def reserve(self, host: str, demand: Amount) -> None:
        self.reserved[host] = self.reserved.get(host, _NOTHING) + demand


@dataclasses.dataclass(frozen=True)
class Promise:
    """A tolerance, and the losses that it is about by the hosts that they are of."""

    tolerance: Tolerance
    losses_of: Mapping[str, Sequence[Loss]]


@dataclasses.dataclass(frozen=True)
class Objection:
    """Why an instance on a host would break promises. ``policy``: the strictest of them."""

    host: str
    sentence: str
    promise: Promise


#: By host: amounts, and the names of losses
Kept = tuple[dict[str, Amount], dict[str, str]]


@dataclasses.dataclass(frozen=True)
class Admitted:
    """An instance that came after the proof: where it is, and where it has its place in the plan of each loss.

    :param until: monotonic seconds; if no proof has seen it until then, it has not come
    """

    uuid: str
    host: str
    demand: Amount
    spares: Sequence[tuple[Loss, str]]
    until: float = math.inf


class Guard:
    """Used under a lock of its owner.

    :param kept: by host, the most that the plan of any single loss puts there
    :param kept_for: by host, the name of the loss that needs the most of it
    """

    def __init__(self, promises: Sequence[Promise], kept: Mapping[str, Amount], kept_for: Mapping[str, str]) -> None:
        self.promises = promises
        self._kept = dict(kept)
        self._kept_for = dict(kept_for)

    @property
    def keeping(self) -> list[str]:
        """Hosts on which plans put anything."""
        return list(self._kept)

    @functools.cached_property
    def unsafe_hosts(self) -> frozenset[str]:
        """Hosts whose guests have no plan as it is."""
        return frozenset(
            host
            for promise in self.promises
            for host, losses in promise.losses_of.items()
            if any(loss.problem for loss in losses)
        )

    def taken(self, host: str, free: Amount, demand: Amount) -> Objection | None:
        """Return why an instance of this size would take what a plan needs of the host, or None. :param free: before it"""
        kept = self._kept.get(host, _NOTHING)
        short = (free - demand < kept) & (demand > 0) & (kept > 0)
        if not short.any():
            return None
        number = int(numpy.flatnonzero(short)[0])
        asked, left = int(demand[number]), int(free[number])
        sentence = (
            f"{host} has {left} {_NAMES[number]} free, of which {int(kept[number])} are kept for the guests of "
            f"{self._kept_for[host]}: {asked} more do not fit beside them"
        )
        return Objection(host, sentence, self._strictest(self.promises))

    def unsafe(self, host: str) -> Objection | None:
        """Return why the host takes no more: its guests have no plan as it is; None if they have one."""
        broken = [
            (promise, loss) for promise in self.promises for loss in promise.losses_of.get(host, ()) if loss.problem
        ]
        if not broken:
            return None
        loss = broken[0][1]
        sentence = f"{host} takes no more, as the loss of {loss.name} is not survived: {loss.problem}"
        return Objection(host, sentence, self._strictest([promise for promise, _loss in broken]))

    def homeless(self, host: str, loss: Loss) -> Objection:
        sentence = f"an instance on {host} would find no other host if {loss.name} was lost"
        about = [each for each in self.promises if loss in each.losses_of.get(host, ())]
        return Objection(host, sentence, self._strictest(about))

    def losses_of(self, host: str) -> list[Loss]:
        found = {id(loss): loss for promise in self.promises for loss in promise.losses_of.get(host, ())}
        return list(found.values())

    @staticmethod
    def is_spare(loss: Loss, host: str, free: Amount, demand: Amount) -> bool:
        """Return True if the host could take an instance of this size if the loss happened."""
        after = free - loss.reserved.get(host, _NOTHING)
        return host not in loss.hosts and bool(((after >= demand) | (demand == 0)).all())

    def sharing(self, loss: Loss, demand: Amount) -> list[str]:
        """Hosts that keep room for other losses, which an instance of this size may use in this one."""
        some = itertools.islice(self._kept.items(), _LOOKED)
        found = (
            host
            for host, kept in some
            if host not in loss.hosts and bool((kept - loss.reserved.get(host, _NOTHING) >= demand).all())
        )
        return list(itertools.islice(found, _SHARED))

    def admit(self, admitted: Admitted) -> None:
        """Put an instance into the plans."""
        for loss, spare in admitted.spares:
            loss.reserve(spare, admitted.demand)
            self._keep(loss, spare, loss.reserved[spare])

    def kept(self) -> Kept:
        """Return what is kept now, for :meth:`withdraw`."""
        return dict(self._kept), dict(self._kept_for)

    def withdraw(self, admitted: Iterable[Admitted], before: Kept) -> None:
        """Take instances out of the plans again. :param before: what was kept before they were admitted"""
        for each in admitted:
            for loss, spare in each.spares:
                loss.reserve(spare, -each.demand)
        self._kept, self._kept_for = before

    def _keep(self, loss: Loss, host: str, demand: Amount) -> None:
        kept = self._kept.get(host, _NOTHING)
        if (demand > kept).any():
            self._kept[host] = numpy.maximum(kept, demand)
            self._kept_for[host] = loss.name

    @staticmethod
    def _strictest(promises: Sequence[Promise]) -> Promise:
        return max(promises, key=lambda each: _STRICTNESS[each.tolerance.policy])


_STRICTNESS = {"warn": 0, "last": 1, "refuse": 2}
