# SPDX-License-Identifier: Apache-2.0
"""Hosts in varied states, and a feed that returns them as the database would."""

from __future__ import annotations

import random
from collections.abc import Sequence

from fleet.db.feed.feed import Changes
from tests import factories
from tests.factories import Node, PlacedInstance, Service

ZONES = 4


def name_of(number: int) -> str:
    return f"host{number:06d}"


def make_node(number: int, chance: random.Random) -> Node:
    """Three hardware generations, filled by anything from nothing to more than they have."""
    vcpus, memory_mb, local_gb = chance.choice([(32, 131072, 1000), (64, 262144, 2000), (96, 524288, 4000)])
    filled = chance.random() * 1.1
    instances = int(filled * 20)
    return factories.node(
        name_of(number),
        id=number + 1,
        vcpus=vcpus,
        vcpus_used=int(vcpus * filled * 4),
        memory_mb=memory_mb,
        memory_mb_used=512 + int(memory_mb * filled),
        local_gb=local_gb,
        local_gb_used=int(local_gb * filled * 0.8),
        reserved_memory_mb=512,
        cpu_allocation_ratio=16.0,
        ram_allocation_ratio=1.5,
        running_vms=instances,
        io_workload=chance.choice([0, 0, 0, 0, 1, 2]),
    )


class ChangingFeed:
    """A change feed. ``change`` prepares what the next ``read`` returns; the first read returns everything."""

    def __init__(self, hosts: int, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        self._generation = 1
        self._pending: Changes | None = None
        self.nodes = [make_node(number, self._chance) for number in range(hosts)]

    def change(self, share: float, placed: Sequence[PlacedInstance] = ()) -> int:
        """Give ``share`` of the hosts another state; returns how many."""
        count = max(1, int(len(self.nodes) * share))
        changed = []
        for number in self._chance.sample(range(len(self.nodes)), count):
            self.nodes[number] = make_node(number, self._chance)
            changed.append(self.nodes[number])
        self._generation += 1
        self._pending = Changes(self._generation, nodes=changed, instances=placed)
        return count

    def read(self, since: int) -> Changes:
        if since == 0:
            return self._everything()
        pending, self._pending = self._pending, None
        return pending or Changes(self._generation)

    def _everything(self) -> Changes:
        services = [Service(node.host, node.id) for node in self.nodes]
        zones = [
            factories.aggregate(
                [node.host for node in self.nodes[zone::ZONES]], zone + 1, availability_zone=f"zone{zone}"
            )
            for zone in range(ZONES)
        ]
        return Changes(self._generation, full=True, nodes=self.nodes, services=services, aggregates=zones)
