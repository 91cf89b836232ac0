# SPDX-License-Identifier: Apache-2.0
"""Failure domains: the hosts with one value of a label, and how many members of a server group each has.

The filter and the weigher of group rules read them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from typing import Self

import numpy

from fleet.objects import RequestSpec
from scheduler.compute.domain import group_members
from scheduler.compute.domain.columns import Labels
from scheduler.engine.hosts.candidates import Candidates

#: Name, and number, of the domain of hosts without the label.
NOWHERE = ""
_NOWHERE = 0
#: So many domains are asked one by one whether they serve; then all hosts are looked at once.
_ASKED = 8
#: Returns a mask of the hosts that may take instances now.
Serving = Callable[[Candidates], numpy.ndarray]


@dataclasses.dataclass(frozen=True)
class FailureDomains:
    """The domains of one label.

    :param names: by number of a domain; :data:`NOWHERE` stands for hosts without the label
    :param of_row: number of the domain of each row of the table
    """

    names: Sequence[str]
    of_row: numpy.ndarray

    @classmethod
    def of(cls, hosts: Candidates, label: str) -> Self:
        def name_of(labels: Labels) -> str:
            return next((value for key, value in labels if key == label), NOWHERE)

        found = hosts.whole().grouped("labels", ("label", label), name_of)
        return cls(found.names, found.numbers)

    def of_hosts(self, hosts: Candidates) -> numpy.ndarray:
        """Return the number of the domain of each of ``hosts``."""
        return hosts.of_table(self.of_row)

    @functools.cached_property
    def named(self) -> numpy.ndarray:
        """A mask of the domains that are not :data:`NOWHERE`."""
        named = numpy.ones(len(self.names), dtype=bool)
        named[_NOWHERE] = False
        return named

    def members(self, hosts: Candidates, crowd: Collection[tuple[str, str]]) -> numpy.ndarray:
        """Return the number of members in each domain. One that moves inside a domain is one member of it.

        :param crowd: (uuid, host) of each member
        """
        return numpy.bincount([number for _uuid, number in self._there(hosts, crowd)], minlength=len(self.names))

    def is_moving(self, hosts: Candidates, crowd: Collection[tuple[str, str]]) -> bool:
        """Return True if a member is on its way from one domain to another."""
        there = self._there(hosts, crowd)
        return len(there) > len({uuid for uuid, _number in there})

    def _there(self, hosts: Candidates, crowd: Collection[tuple[str, str]]) -> set[tuple[str, int]]:
        """The domains of each member. A host with several nodes counts once, one that is not known does not count."""
        rows = {host: hosts.rows_of_hosts([host])[:1] for _uuid, host in crowd}
        return {(uuid, int(self.of_row[row])) for uuid, host in crowd for row in rows[host]}

    def emptiest(self, hosts: Candidates, members: numpy.ndarray, serving: Serving) -> float:
        """Return the smallest number of members of a domain with a host that serves; 0 if none has.

        The domain with the fewest members usually serves, so domains are asked one by one before all hosts are looked at.
        """
        whole = hosts.whole()
        order = numpy.argsort(members, kind="stable")
        order = order[order != _NOWHERE]
        for number in order[:_ASKED].tolist():
            if serving(whole.subset(numpy.flatnonzero(self.of_row == number))).any():
                return float(members[number])
        if len(order) > _ASKED:
            there = numpy.bincount(self.of_row[serving(whole)], minlength=len(self.names)) > 0
            served = members[there & self.named]
            return float(served.min()) if len(served) else 0.0
        return 0.0


def crowd(hosts: Candidates, request: RequestSpec) -> set[tuple[str, str]]:
    """Return (uuid, host) of the members of the group, and of one without a uuid on each further host that the sender names.

    The sender may be of an earlier release, which does not send who is there.
    """
    members = group_members.places(hosts, request)
    further = request.group_hosts.difference(host for _uuid, host in members)
    return members.union((f"one on {host}", host) for host in further)
