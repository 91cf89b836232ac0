# SPDX-License-Identifier: Apache-2.0
"""The input and the result of ``fleet rebalance``: what the moves are for, and the moves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from fleet.objects.whatif import Demand

#: Entry points (conf, state, goal, request of an instance, tick) -> plan; ``fleet`` imports no service.
ENTRY_POINTS = "fleet.objects.rebalance"


@dataclasses.dataclass(frozen=True)
class Goal:
    """Free whole hosts, or make room for the instances of ``demands``.

    :param free_hosts: stop when so many hosts are free; None for as many as possible. Unused if there are ``demands``
    :param demands: one request for one instance each
    :param most_moves: the plan has at most so many moves
    """

    most_moves: int
    free_hosts: int | None = None
    demands: Sequence[Demand] = ()


@dataclasses.dataclass(frozen=True)
class Move:
    """A migration of one instance, and what it costs: the memory and disk that its destination must take over.

    :param purpose: what the move is for, as users read it
    """

    instance_uuid: str
    source: str
    destination: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    purpose: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """Moves in the order in which to make them.

    :param hosts: number of hosts
    :param empty_before: how many hosts have no instance now
    :param freed: hosts that the moves leave without an instance
    :param fits: how many of the goal's demands fit afterwards
    :param kept: hosts that were tried and cannot be freed, or be given room, with the reason
    """

    moves: Sequence[Move]
    hosts: int
    empty_before: int
    freed: Sequence[str] = ()
    fits: int = 0
    kept: Mapping[str, str] = dataclasses.field(default_factory=dict)
