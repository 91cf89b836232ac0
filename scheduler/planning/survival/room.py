# SPDX-License-Identifier: Apache-2.0
"""What the proofs read of the fleet: what is free, who is where, and which hosts would take a guest of each shape."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
from collections.abc import Mapping, Sequence

import numpy

#: Free amount of a resource that no filter limits.
UNLIMITED = 2**60
NO_GROUP = -1


class Verdict(enum.Enum):
    SAFE = "safe"
    UNSAFE = "unsafe"
    NOT_PROVED = "not proved"


@dataclasses.dataclass(frozen=True)
class Shape:
    """Guests that no filter tells apart, but for their groups.

    :param fits: a boolean for each host: one such guest, alone, passes every filter there now. Groups are not considered
    :param demand: what one guest takes of each resource
    """

    fits: numpy.ndarray
    demand: numpy.ndarray

    @functools.cached_property
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


@dataclasses.dataclass(frozen=True)
class Room:
    """Rows of ``free`` are hosts, in the order of ``hosts``. Guests are in the order of ``uuids``.

    :param free: hosts × resources: what further guests may take; UNLIMITED where no filter limits it
    :param host_of: the row of each guest's host
    :param shape_of: the shape of each guest
    :param group_of: the group of each guest, or NO_GROUP
    :param unreadable: guests about whose request nothing is known, with the reason
    """

    hosts: Sequence[str]
    free: numpy.ndarray
    uuids: Sequence[str]
    host_of: numpy.ndarray
    shape_of: numpy.ndarray
    group_of: numpy.ndarray
    shapes: Sequence[Shape]
    groups: Sequence[Group] = ()
    unreadable: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def guests_on(self, rows: numpy.ndarray) -> numpy.ndarray:
        """Return the guests on these hosts."""
        order, ends = self._by_host
        return numpy.concatenate([numpy.array([], dtype=int), *(order[ends[row] : ends[row + 1]] for row in rows)])

    @functools.cached_property
    def _by_host(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The guests in the order of their hosts, and where those of each host begin."""
        order = numpy.argsort(self.host_of, kind="stable")
        return order, numpy.searchsorted(self.host_of[order], numpy.arange(len(self.hosts) + 1))

    def members_on(self, group: int) -> numpy.ndarray:
        """Return how many members of a group each host has."""
        return numpy.bincount(self._homes[group], minlength=len(self.hosts))

    def hosts_of_members(self, group: int) -> set[int]:
        """Return the hosts that have a member of a group; none if it is NO_GROUP."""
        return set() if group == NO_GROUP else set(self._homes[group].tolist())

    @functools.cached_property
    def choices(self) -> numpy.ndarray:
        """How many other hosts would surely take each guest: too few by one for each member of its group."""
        counts = numpy.array([shape.count for shape in self.shapes])
        at_home = numpy.array([shape.fits for shape in self.shapes])[self.shape_of, self.host_of]
        in_group = self.group_of != NO_GROUP
        members = numpy.bincount(self.group_of[in_group], minlength=max(len(self.groups), 1))
        left: numpy.ndarray = counts[self.shape_of] - at_home - numpy.where(in_group, members[self.group_of], 0)
        return left

    @functools.cached_property
    def _homes(self) -> list[numpy.ndarray]:
        """By group, the hosts of its members."""
        order = numpy.argsort(self.group_of, kind="stable")
        ends = numpy.searchsorted(self.group_of[order], numpy.arange(len(self.groups) + 1))
        return [self.host_of[order[start:end]] for start, end in itertools.pairwise(ends.tolist())]


@dataclasses.dataclass(frozen=True)
class Proof:
    """What would become of the guests of hosts that are lost together.

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
