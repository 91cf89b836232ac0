# SPDX-License-Identifier: Apache-2.0
"""The fleet as the feed would report it after, or during, some moves.

Plans of moves look at each of their states by it.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from fleet.db.feed.feed import Changes
from fleet.objects.rebalance import Move
from scheduler.compute.planning.ground import Movable
from scheduler.planning.hypothetical import ChangedRow


def moved(state: Changes, moves: Sequence[Move]) -> Changes:
    """Return everything that the feed would report after these moves.

    The moved instances have no cells or devices: :func:`is_plain`.
    """
    by_uuid = {each.instance_uuid: each for each in moves}
    node_of = {node.host: node.hypervisor_hostname for node in state.nodes}
    instances = [
        ChangedRow(each, host=move.destination, node=node_of[move.destination])
        if (move := by_uuid.get(each.uuid))
        else each
        for each in state.instances
    ]
    signs = [(each.source, each, -1) for each in moves] + [(each.destination, each, 1) for each in moves]
    return dataclasses.replace(_with_use(state, signs), instances=instances)


def arriving(state: Changes, moves: Sequence[Move]) -> Changes:
    """Return what the feed would report while these moves are under way: both hosts hold the instances."""
    return _with_use(state, [(each.destination, each, 1) for each in moves])


def is_plain(instance: Movable) -> bool:
    """Return True if the instance has no cells, pinned CPUs or devices, which a plan does not give back."""
    held = instance.holding.claimed
    return held is not None and not held.numa_topology and not held.pci_devices


def joined(moves: Sequence[Move]) -> list[Move]:
    """Return one move for each guest: from where it was first to where it is at last."""
    first: dict[str, Move] = {}
    for each in moves:
        first.setdefault(each.instance_uuid, each)
    last = {each.instance_uuid: each for each in moves}
    return [dataclasses.replace(each, source=first[uuid].source) for uuid, each in last.items()]


def _with_use(state: Changes, signs: Sequence[tuple[str, Move, int]]) -> Changes:
    """:param signs: a host, a move, and whether its instance comes to the host (1) or leaves it (-1)"""
    of_host: dict[str, list[tuple[Move, int]]] = collections.defaultdict(list)
    for host, move, sign in signs:
        of_host[host].append((move, sign))
    nodes = [_changed(node, of_host[node.host]) if node.host in of_host else node for node in state.nodes]
    return dataclasses.replace(state, nodes=nodes)


def _changed(node: object, moves: Sequence[tuple[Move, int]]) -> object:
    vcpus = sum(sign * move.vcpus for move, sign in moves)
    memory_mb = sum(sign * move.memory_mb for move, sign in moves)
    disk_gb = sum(sign * move.disk_gb for move, sign in moves)
    changes = {
        "vcpus_used": vcpus,
        "memory_mb_used": memory_mb,
        "free_ram_mb": -memory_mb,
        "local_gb_used": disk_gb,
        "free_disk_gb": -disk_gb,
        "running_vms": sum(sign for _move, sign in moves),
    }
    return ChangedRow(node, **{name: (getattr(node, name) or 0) + by for name, by in changes.items()})
