# SPDX-License-Identifier: Apache-2.0
"""The state that proofs read: free amounts, guests, and the hosts that would take a guest of each shape.

:mod:`scheduler.compute.planning.losses.room_reader` fills it, and the modules beside it search in it.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Protocol

import numpy

#: Free amount of a resource that no filter limits.
UNLIMITED = 2**60
NO_GROUP = -1
#: Host of a guest that is there no more: its number waits for another one.
GONE = -1
#: Losses, or pairs, so few that what is known of each is faster than passing through all guests.
_FEW = 16


class Verdict(enum.Enum):
    SAFE = "safe"
    UNSAFE = "unsafe"
    NOT_PROVED = "not proved"


@dataclasses.dataclass(frozen=True)
class Shape:
    """Guests that are equal for every filter, except for their groups.

    :param fits: a boolean for each host: one such guest, alone, passes every filter there now. Groups are not considered
    :param demand: what one guest takes of each resource
    :param is_open: what is true of a host may change although the host does not
    """

    fits: numpy.ndarray
    demand: numpy.ndarray
    is_open: bool = False

    @property
    def count(self) -> int:
        """The number of hosts that would take one."""
        return int(numpy.count_nonzero(self.fits))


@dataclasses.dataclass(frozen=True)
class Group:
    """A server group whose policy must hold.

    :param most: how many members a host may have; None: all members are on one host
    """

    most: int | None

    @property
    def together(self) -> bool:
        return self.most is None


class Index(Protocol):
    """Guests by host, and members of groups, for a room that is read again and again."""

    def guests_on(self, row: int) -> Sequence[int]:
        """Return the guests of a host, in their order."""

    def members(self, group: int) -> Mapping[int, int]:
        """Return how many members of a group each host has that has any."""


@dataclasses.dataclass(frozen=True)
class Room:
    """Rows of ``free`` are hosts, in the order of ``hosts``. Guests are in the order of ``uuids``.

    :param free: hosts × resources: what further guests may take; UNLIMITED where no filter limits it
    :param host_of: the row of each guest's host, or GONE
    :param shape_of: the shape of each guest
    :param group_of: the group of each guest, or NO_GROUP
    :param unreadable: guests about whose request nothing is known, with the reason
    :param ruled: guests whose group has further rules among its members. Only the decision code judges them
    :param order: rows in the order in which plans prefer them; None: hosts with the most memory first
    :param index: None: its contents are computed from all guests
    """

    hosts: Sequence[str]
    free: numpy.ndarray
    uuids: Sequence[str]
    host_of: numpy.ndarray
    shape_of: numpy.ndarray
    group_of: numpy.ndarray
    shapes: Sequence[Shape]
    groups: Sequence[Group] = ()
    unreadable: Mapping[int, str] = dataclasses.field(default_factory=dict)
    ruled: Collection[int] = ()
    order: numpy.ndarray | None = None
    index: Index | None = None

    def guests_of(self, losses: Losses) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Return the guests on the hosts of all losses, and where those of each loss begin."""
        if self.index is not None and _FEW * len(losses.rows) < len(self.hosts):
            on = [self.index.guests_on(row) for row in losses.rows.tolist()]
            ends = numpy.concatenate(([0], numpy.cumsum([len(each) for each in on], dtype=int)))
            return numpy.fromiter(itertools.chain.from_iterable(on), dtype=int), ends[losses.ends]
        order, starts = self._by_host
        rows = losses.rows
        counts = starts[rows + 1] - starts[rows]
        before = numpy.concatenate(([0], numpy.cumsum(counts)))
        positions = numpy.repeat(starts[rows] - before[:-1], counts) + numpy.arange(before[-1])
        return order[positions], before[losses.ends]

    @functools.cached_property
    def _by_host(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The guests in the order of their hosts, and where those of each host begin."""
        order = numpy.argsort(self.host_of, kind="stable")
        return order, numpy.searchsorted(self.host_of[order], numpy.arange(len(self.hosts) + 1))

    def members_on(self, group: int) -> numpy.ndarray:
        """Return how many members of a group each host has."""
        counts = numpy.zeros(len(self.hosts), dtype=int)
        for row, count in self.members(group).items():
            counts[row] = count
        return counts

    def members(self, group: int) -> Mapping[int, int]:
        """Return how many members of a group each host has that has any."""
        return self._members[group] if self.index is None else self.index.members(group)

    @functools.cached_property
    def _members(self) -> Sequence[Mapping[int, int]]:
        found: list[collections.Counter[int]] = [collections.Counter() for _group in self.groups]
        for group, row in zip(self.group_of.tolist(), self.host_of.tolist(), strict=True):
            if group != NO_GROUP and row != GONE:
                found[group][row] += 1
        return found

    @functools.cached_property
    def full(self) -> numpy.ndarray:
        """Pairs of a group whose members stay apart, and a host that takes no more of it, as :meth:`pairs`, sorted."""
        there = (self.group_of != NO_GROUP) & (self.host_of != GONE)
        pairs, counts = numpy.unique(self.pairs(self.group_of[there], self.host_of[there]), return_counts=True)
        most = numpy.array([len(self.uuids) + 1 if each.most is None else each.most for each in self.groups], dtype=int)
        full: numpy.ndarray = pairs[counts >= most[pairs // max(len(self.hosts), 1)]] if len(pairs) else pairs
        return full

    def is_full(self, groups: numpy.ndarray, rows: numpy.ndarray) -> numpy.ndarray:
        """Return for each pair of a group and a host whether the host takes no more members."""
        if len(groups) <= _FEW:
            pairs = zip(groups.tolist(), rows.tolist(), strict=True)
            return numpy.array([self._is_full(group, row) for group, row in pairs], dtype=bool)
        if not len(self.full):
            return numpy.zeros(len(groups), dtype=bool)
        numbers = self.pairs(groups, rows)
        found = numpy.searchsorted(self.full, numbers)
        there: numpy.ndarray = self.full[numpy.minimum(found, len(self.full) - 1)] == numbers
        return there

    def _is_full(self, group: int, row: int) -> bool:
        most = self.groups[group].most
        return most is not None and self.members(group).get(row, 0) >= most

    def pairs(self, groups: numpy.ndarray, rows: numpy.ndarray) -> numpy.ndarray:
        """Return a number for each pair of a group and a host."""
        return groups * len(self.hosts) + rows

    @functools.cached_property
    def preferred(self) -> numpy.ndarray:
        """All rows: hosts with the most memory first, so that plans spread, and that of all losses use the same hosts."""
        return preferred(self.free) if self.order is None else self.order


def preferred(free: numpy.ndarray) -> numpy.ndarray:
    """Return all rows, those with the most free first."""
    return numpy.lexsort((numpy.arange(len(free)), *(-free.T[::-1])))


@dataclasses.dataclass(frozen=True)
class Losses:
    """Rows of hosts that are lost together: those of loss n are ``rows[ends[n] : ends[n + 1]]``."""

    rows: numpy.ndarray
    ends: numpy.ndarray

    @classmethod
    def of(cls, losses: Sequence[Sequence[int]]) -> Losses:
        rows = numpy.fromiter(itertools.chain.from_iterable(losses), dtype=int)
        return cls(rows, numpy.concatenate(([0], numpy.cumsum([len(each) for each in losses], dtype=int))))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, number: int) -> numpy.ndarray:
        rows: numpy.ndarray = self.rows[self.ends[number] : self.ends[number + 1]]
        return rows

    def some(self, numbers: numpy.ndarray) -> Losses:
        return Losses.of([self[number].tolist() for number in numbers.tolist()])

    @functools.cached_property
    def numbers(self) -> numpy.ndarray:
        """The loss of each row."""
        return numpy.repeat(numpy.arange(len(self)), numpy.diff(self.ends))


@dataclasses.dataclass(frozen=True)
class Changed:
    """Differences from an earlier room.

    :param rows: hosts that have changed in any way
    :param homes: hosts whose guests have changed
    :param groups: groups whose members have changed
    :param better: whether a guest may fit where none of its kind did before
    """

    rows: numpy.ndarray
    homes: numpy.ndarray
    groups: Set[int]
    better: bool


@dataclasses.dataclass(frozen=True)
class Finding:
    """The proof about one loss, by numbers of guests and rows of hosts.

    :param guests: of the lost hosts; ``places``: if safe, the row of each
    :param lacking, why: as in :class:`Proof`
    :param is_late: the time was over before everything was tried
    """

    verdict: Verdict
    why: str
    guests: numpy.ndarray
    places: numpy.ndarray
    lacking: Sequence[int] = ()
    is_late: bool = False

    def proof(self, room: Room, lost: Sequence[str]) -> Proof:
        pairs = zip(self.guests.tolist(), self.places.tolist(), strict=False)
        plan = {room.uuids[guest]: room.hosts[row] for guest, row in pairs}
        return Proof(lost, len(self.guests), self.verdict, plan, [room.uuids[each] for each in self.lacking], self.why)


@dataclasses.dataclass(frozen=True)
class Proof:
    """The proof about the guests of hosts that are lost together.

    :param lost: the hosts
    :param guests: how many guests they have
    :param plan: if safe, the host of each guest by uuid
    :param lacking: if unsafe, guests that cannot all be placed; each of them alone, if there is only one reason for each
    :param why: how it was proved, or what forbids it
    """

    lost: Sequence[str]
    guests: int
    verdict: Verdict
    plan: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lacking: Sequence[str] = ()
    why: str = ""
