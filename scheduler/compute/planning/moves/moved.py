# SPDX-License-Identifier: Apache-2.0
"""The fleet as the feed would report it after, or during, some moves.

Plans of moves look at each of their states by it. Cells and devices count too: an instance gives back what it has claimed
on its source, and takes on its destination what a claim would take.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from fleet.db.feed.feed import Changes
from fleet.objects.feed_rows import ShownNode
from fleet.objects.rebalance import Move
from scheduler.compute.domain import consumption
from scheduler.compute.domain.hardware import HARDWARE, hardware, wanted
from scheduler.compute.planning.ground import Movable, as_move
from scheduler.planning.hypothetical import changed

#: By uuid, the instances that move, where they are at first.
Guests = Mapping[str, Movable]


def moved(state: Changes, moves: Sequence[Move], guests: Guests) -> Changes:
    """Return everything that the feed would report after these moves, of which each instance has one."""
    by_uuid = {each.instance_uuid: each for each in moves}
    node_of = {node.host: node.hypervisor_hostname for node in state.nodes}
    instances = [
        changed(each, host=move.destination, node=node_of[move.destination])
        if (move := by_uuid.get(each.uuid))
        else each
        for each in state.instances
    ]
    signs = [(each.source, each, -1) for each in moves] + [(each.destination, each, 1) for each in moves]
    return dataclasses.replace(_with_use(state, signs, guests), instances=instances)


def arriving(state: Changes, moves: Sequence[Move], guests: Guests) -> Changes:
    """Return what the feed would report while these moves are under way: both hosts hold the instances."""
    return _with_use(state, [(each.destination, each, 1) for each in moves], guests)


def without(state: Changes, guests: Guests) -> Changes:
    """Return what the feed would report if these instances were nowhere."""
    moves = [as_move(each, each.host, "") for each in guests.values()]
    instances = [each for each in state.instances if each.uuid not in guests]
    return dataclasses.replace(
        _with_use(state, [(each.source, each, -1) for each in moves], guests), instances=instances
    )


def joined(moves: Sequence[Move]) -> list[Move]:
    """Return one move for each guest: from where it was first to where it is at last."""
    found: dict[str, Move] = {}
    for each in moves:
        first = found.get(each.instance_uuid)
        found[each.instance_uuid] = dataclasses.replace(each, source=first.source) if first else each
    return list(found.values())


def _with_use(state: Changes, signs: Sequence[tuple[str, Move, int]], guests: Guests) -> Changes:
    """:param signs: a host, a move, and whether its instance leaves the host (-1) or comes to it (1), in this order"""
    of_host: dict[str, list[tuple[Move, int]]] = collections.defaultdict(list)
    for host, move, sign in signs:
        of_host[host].append((move, sign))
    nodes = [_changed(node, of_host[node.host], guests) if node.host in of_host else node for node in state.nodes]
    return dataclasses.replace(state, nodes=nodes)


def _changed(node: ShownNode, moves: Sequence[tuple[Move, int]], guests: Guests) -> ShownNode:
    vcpus = sum(sign * move.vcpus for move, sign in moves)
    memory_mb = sum(sign * move.memory_mb for move, sign in moves)
    disk_gb = sum(sign * move.disk_gb for move, sign in moves)
    increases = {
        "vcpus_used": vcpus,
        "memory_mb_used": memory_mb,
        "free_ram_mb": -memory_mb,
        "local_gb_used": disk_gb,
        "free_disk_gb": -disk_gb,
        "running_vms": sum(sign for _move, sign in moves),
    }
    numbers = {name: (getattr(node, name) or 0) + by for name, by in increases.items()}
    return changed(node, **numbers, **_hardware(node, moves, guests))


def _hardware(node: ShownNode, moves: Sequence[tuple[Move, int]], guests: Guests) -> dict[str, object]:
    """Return the columns of the free cells and devices, if they change."""
    before = known = hardware(node)
    for move, sign in moves if known else ():
        guest = guests[move.instance_uuid]
        if sign > 0:
            parts = wanted(guest.request)
            known = parts.taken_from(known) if parts else known
        elif guest.holding.claimed is not None:
            known = consumption.held(guest.holding.claimed).give_back[HARDWARE](known)
    if known is None or known is before:
        return {}
    topology = known.topology.to_wire() if known.topology else None
    return {"numa_topology": topology, "pci_stats": [each.to_wire() for each in known.pools]}
