# SPDX-License-Identifier: Apache-2.0
"""Room on hosts that has changed, and the builds that wait for room.

The room queue of :mod:`conductor_stub.builds` chooses by them what it wakes.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Amount:
    """Room of a node, or what a build needs of it."""

    vcpus: float = 0
    memory_mb: float = 0
    disk_gb: float = 0

    def holds(self, need: Amount) -> bool:
        return need.vcpus <= self.vcpus and need.memory_mb <= self.memory_mb and need.disk_gb <= self.disk_gb

    def less(self, taken: Amount) -> Amount:
        return Amount(self.vcpus - taken.vcpus, self.memory_mb - taken.memory_mb, self.disk_gb - taken.disk_gb)


@dataclasses.dataclass(frozen=True)
class Room:
    """A node of a host that is up and enabled.

    :param zones: of the host; empty if no aggregate sets one
    :param free: at most what the scheduler would let builds have
    :param generation: of the newest change
    :param hosts_generation: of the newest change of its service or aggregates; of any change, if the node is new
    """

    node_id: int
    host: str
    zones: frozenset[str]
    free: Amount
    generation: int
    hosts_generation: int


@dataclasses.dataclass(frozen=True)
class Waiter:
    """A queued build.

    :param request: of all builds of one request and attempt
    :param zone: that the request names
    :param need: what filters have tested; 0 for the rest. ``size`` is what it takes of a host
    :param by_room: whether freed room could help; otherwise only another host or aggregate
    :param fresh: whether no pass has seen it since the refusal of ``refused_generation``
    :param turn: 1 for the oldest build of its project, 2 for the next one
    """

    uuid: str
    request: tuple[str, int]
    project_id: str
    shape: str
    need: Amount
    size: Amount
    zone: str | None = None
    by_room: bool = True
    fresh: bool = False
    refused_generation: int = 0
    together: bool = False
    turn: int = 1


@dataclasses.dataclass(frozen=True)
class ReturnedRoom:
    """Room that has woken a build in vain: a build of another shape may use it.

    :param depth: how many builds it has woken in vain
    """

    node_id: int
    shape: str
    depth: int
