# SPDX-License-Identifier: Apache-2.0
"""``fleet rebalance --flavor``: a plan of moves that makes room for instances that fit on no host now.

For each instance, the hosts that lack least are tried: some of their instances are moved elsewhere, a single one if that
is enough. Of the hosts where this works, the one with the least memory to move is taken. A new copy of the fleet, with
these moves made, must then place the instance there by the configured filters.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from fleet import capacity
from fleet.db.feed.feed import Changes
from fleet.objects import RequestSpec
from fleet.objects.rebalance import Goal, Move, Plan
from scheduler.compute.planning.ground import Ground, Movable, elsewhere
from scheduler.planning import readings
from scheduler.planning.hypothetical import ChangedRow

#: Hosts that are tried for one instance.
_HOSTS = 32
#: Choices of single instances that are tried on a host.
_SINGLES = 3


class Amounts(NamedTuple):
    vcpus: float
    memory_mb: float
    disk_gb: float

    def minus(self, other: Amounts) -> Amounts:
        return Amounts(*(max(one - two, 0.0) for one, two in zip(self, other, strict=True)))

    @property
    def nothing(self) -> bool:
        return not any(self)


def make_room(ground: Ground, goal: Goal, tick: Callable[[str], object]) -> Plan:
    """Plan the moves. :param tick: called with each host that is tried"""
    return _Planner(ground, goal, tick).plan()


class _Planner:
    def __init__(self, ground: Ground, goal: Goal, tick: Callable[[str], object]) -> None:
        self._ground = ground
        self._goal = goal
        self._tick = tick
        self._state = ground.state
        self._fleet = ground.copy()
        self._moves: list[Move] = []
        #: The placed instances of the goal, with their hosts.
        self._placed: list[RequestSpec] = []
        self._kept: dict[str, str] = {}

    def plan(self) -> Plan:
        names = self._fleet.read(readings.host_names)
        empty = self._fleet.read(readings.empty_hosts)
        fits = 0
        for demand in self._goal.demands:
            request = RequestSpec.from_wire(demand.request_spec, demand.filter_properties)
            if not (self._place(request) or self._make_room(request)):
                break
            fits += 1
        return Plan(self._moves, len(names), empty, fits=fits, kept=self._kept)

    def _place(self, request: RequestSpec) -> bool:
        made = self._fleet.decide(request)
        if made.complete:
            self._placed.append(dataclasses.replace(request, requested_hosts=(made.picks[0].key[0],)))
        return made.complete

    def _make_room(self, request: RequestSpec) -> bool:
        choices = [(host, moves) for host in self._nearest(request) if (moves := self._moves_from(host, request))]
        for host, moves in sorted(choices, key=lambda choice: sum(each.memory_mb for each in choice[1])):
            if len(self._moves) + len(moves) > self._goal.most_moves:
                self._kept[host] = f"needs {len(moves)} moves, and {self._goal.most_moves - len(self._moves)} are left"
                continue
            if self._accept(host, moves, request):
                return True
        return False

    def _accept(self, host: str, moves: Sequence[Move], request: RequestSpec) -> bool:
        """Make the moves on a new copy. Return False, and change nothing, if the instance is still refused there."""
        state = moved(self._state, moves)
        fleet = self._ground.copy(state)
        wanted = dataclasses.replace(request, requested_hosts=(host,))
        for each in (*self._placed, wanted):
            if not fleet.decide(each).complete:
                self._kept[host] = "the filters refuse it even with the room made"
                return False
        self._state, self._fleet = state, fleet
        self._placed.append(wanted)
        self._moves += moves
        return True

    def _nearest(self, request: RequestSpec) -> list[str]:
        """Return the hosts that lack least of what the request asks for, in shares of it."""
        asked = _asked(request)
        lacking = {}
        for host, free, used in self._hosts():
            if all(have + taken >= amount for have, taken, amount in zip(free, used, asked, strict=True)):
                lack = asked.minus(free)
                lacking[host] = sum(part / whole for part, whole in zip(lack, asked, strict=True) if whole)
        return sorted(lacking, key=lambda host: (lacking[host], host))[:_HOSTS]

    def _hosts(self) -> Iterator[tuple[str, Amounts, Amounts]]:
        """Yield hosts that are up, what is free on each, and what is used."""
        up = set(self._fleet.hosts_up())
        hosts = self._fleet.read(readings.utilization)
        disk_gb_used = self._fleet.read(readings.disk_gb_used)
        rows = zip(
            self._fleet.read(readings.host_names),
            *(each.tolist() for each in (*hosts.free, hosts.vcpus_used, hosts.memory_mb_used, disk_gb_used)),
            strict=True,
        )
        for name, vcpus, memory_mb, disk_mb, vcpus_used, memory_mb_used, disk_used in rows:
            if name in up:
                free = Amounts(vcpus, memory_mb, disk_mb / capacity.MB_PER_GB)
                yield name, free, Amounts(vcpus_used, memory_mb_used, disk_used)

    def _moves_from(self, host: str, request: RequestSpec) -> list[Move]:
        """Return moves that make room on this host; none if there is no choice. Nothing stays booked."""
        self._tick(host)
        moving = {each.instance_uuid for each in self._moves}
        reason = self._ground.why_not(host)
        if reason:
            self._kept[host] = reason
            return []
        there = [each for each in self._ground.movable(host) if each.uuid not in moving and is_plain(each)]
        (free,) = (free for name, free, _used in self._hosts() if name == host)
        for chosen in _choices(there, _asked(request).minus(free)):
            moves = self._elsewhere(chosen, host)
            if moves:
                return moves
        self._kept[host] = "its instances find no other hosts"
        return []

    def _elsewhere(self, instances: Sequence[Movable], host: str) -> list[Move]:
        taken = [name for each in self._placed for name in each.requested_hosts]
        moves = []
        for each in instances:
            move = elsewhere(self._fleet, each, taken, f"make room on {host}")
            if move is None:
                break
            moves.append(move)
        for made in moves:
            self._fleet.release(made.instance_uuid)
        return moves if len(moves) == len(instances) else []


def _choices(there: Sequence[Movable], lack: Amounts) -> Iterator[list[Movable]]:
    """Yield sets of instances that hold what is lacking: single ones, the smallest first, then as few as possible."""
    if lack.nothing:
        return
    by_size = sorted(there, key=lambda each: (_held(each).memory_mb, _held(each).vcpus, each.uuid))
    singles = [each for each in by_size if lack.minus(_held(each)).nothing]
    for each in singles[:_SINGLES]:
        yield [each]
    chosen, left = [], lack
    for each in reversed(by_size):
        smaller = left.minus(_held(each))
        if smaller != left:
            chosen.append(each)
            left = smaller
        if left.nothing:
            yield chosen
            return


def moved(state: Changes, moves: Sequence[Move]) -> Changes:
    """Return everything that the feed would tell after these moves.

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
    of_host: dict[str, list[tuple[Move, int]]] = collections.defaultdict(list)
    for each in moves:
        of_host[each.source].append((each, -1))
        of_host[each.destination].append((each, 1))
    nodes = [_with_moves(node, of_host[node.host]) if node.host in of_host else node for node in state.nodes]
    return dataclasses.replace(state, nodes=nodes, instances=instances)


def _with_moves(node: object, moves: Sequence[tuple[Move, int]]) -> object:
    """:param moves: to and from this node, with 1 and -1"""
    for move, sign in moves:
        node = _with_use(node, move, sign)
    return node


def _with_use(node: object, move: Move, sign: int) -> object:
    """Return a node that holds an instance more, or less."""
    changes = {
        "vcpus_used": sign * move.vcpus,
        "memory_mb_used": sign * move.memory_mb,
        "free_ram_mb": -sign * move.memory_mb,
        "local_gb_used": sign * move.disk_gb,
        "free_disk_gb": -sign * move.disk_gb,
        "running_vms": sign,
    }
    return ChangedRow(node, **{name: (getattr(node, name) or 0) + by for name, by in changes.items()})


def is_plain(instance: Movable) -> bool:
    """Return True if the instance has no cells, pinned CPUs or devices, which a plan does not give back."""
    held = instance.holding.claimed
    return held is not None and not held.numa_topology and not held.pci_devices


def _held(instance: Movable) -> Amounts:
    held = instance.holding.claimed
    assert held is not None, "only plain instances are chosen"
    return Amounts(held.vcpus, held.memory_mb, held.disk_gb)


def _asked(request: RequestSpec) -> Amounts:
    return Amounts(request.vcpus, request.memory_mb, capacity.claimed_disk_gb(request.root_gb, request.ephemeral_gb))
