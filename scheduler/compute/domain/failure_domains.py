# SPDX-License-Identifier: Apache-2.0
"""Failure domains: the hosts with one value of a label, and how many members of a server group each has.

The filter and the weigher of group rules read them.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Self

import numpy

from fleet.objects import RequestSpec
from scheduler.compute.domain.columns import Labels
from scheduler.engine.hosts.candidates import Candidates

#: Name of the domain of hosts without the label.
NOWHERE = ""


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
        found: numpy.ndarray = self.of_row[hosts.rows]
        return found

    @property
    def named(self) -> numpy.ndarray:
        """A mask of the domains that are not :data:`NOWHERE`."""
        return numpy.array([name != NOWHERE for name in self.names], dtype=bool)

    def members(self, hosts: Candidates, crowd: collections.Counter[str]) -> numpy.ndarray:
        """Return the number of members in each domain. :param crowd: members by host"""
        counts = numpy.zeros(len(self.names))
        for host, number in crowd.items():
            rows = hosts.rows_of_hosts([host])
            if rows:
                counts[self.of_row[rows[0]]] += number
        return counts

    def emptiest(self, members: numpy.ndarray, serving: numpy.ndarray) -> float:
        """Return the smallest number of members of a domain that has a host in ``serving``; 0 if none has.

        :param serving: mask over all rows of the table
        """
        there = numpy.bincount(self.of_row[serving], minlength=len(self.names)) > 0
        served = members[there & self.named]
        return float(served.min()) if len(served) else 0.0


def crowd(hosts: Candidates, request: RequestSpec) -> collections.Counter[str]:
    """Return the number of the group's members on each host.

    Members count wherever the database, a booking or an earlier pick of the same request has them. The requested instances
    do not count: they may stay where they are. The sender may name hosts of members that are not known here yet.
    """
    members = collections.Counter(hosts.hosts_of(request.group_members.difference(request.instance_uuids)))
    members.update(request.group_hosts.difference(members))
    return members
