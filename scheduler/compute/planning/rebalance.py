# SPDX-License-Identifier: Apache-2.0
"""``fleet rebalance``: a plan of moves that frees whole hosts, computed on a copy of the fleet.

Hosts are tried in the order of the memory that must move. A host is freed if each of its instances finds another host by
the configured filters; the fullest host that passes is taken, and never an empty one. A host that receives instances is
not freed, so the moves do not depend on each other. ``make_room`` plans for the other goal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oslo_config import cfg

from fleet.db.feed.feed import Changes
from fleet.objects.rebalance import Goal, Move, Plan
from scheduler.compute import conf as compute_conf
from scheduler.compute.planning.ground import Ground, Movable, RequestOf, elsewhere
from scheduler.compute.planning.make_room import make_room
from scheduler.planning import readings
from scheduler.planning.copied_fleet import CopiedFleet


def run(conf: cfg.ConfigOpts, state: Changes, goal: Goal, request_of: RequestOf, tick: Callable[[str], object]) -> Plan:
    """Return a plan; nothing is changed.

    :param conf: of the scheduler; its filters are used
    :param state: the whole state, as the change feed reports it
    :param request_of: returns the request that places an existing instance, from its uuid
    :param tick: called with each host that is tried
    """
    compute_conf.register_opts(conf)
    ground = Ground(conf, state, request_of)
    return make_room(ground, goal, tick) if goal.demands else free_hosts(ground, goal, tick)


def free_hosts(ground: Ground, goal: Goal, tick: Callable[[str], object]) -> Plan:
    """Plan the moves that free hosts. :param tick: called with each host that is tried"""
    fleet = ground.copy()
    use = dict(zip(fleet.read(readings.host_names), fleet.read(readings.utilization).memory_mb_used, strict=True))
    up = fleet.hosts_up()
    empty = [host for host in use if not ground.count(host)]
    moves: list[Move] = []
    freed: list[str] = []
    receivers: set[str] = set()
    kept: dict[str, str] = {}
    donors = [host for host in up if ground.count(host)]
    for host in sorted(donors, key=lambda host: (use[host], ground.count(host), host)):
        if goal.free_hosts is not None and len(freed) >= goal.free_hosts:
            break
        tick(host)
        if host in receivers:
            kept[host] = "receives instances in this plan"
            continue
        left = goal.most_moves - len(moves)
        reason = ground.why_not(host)
        if not reason and ground.count(host) > left:
            reason = f"needs {ground.count(host)} moves, and {left} are left"
        made = [] if reason else _emptied(fleet, ground.movable(host), [*freed, *empty], host)
        if reason or made is None or len(made) < ground.count(host):
            kept[host] = reason or "an instance finds no other host"
            continue
        moves += made
        receivers |= {each.destination for each in made}
        freed.append(host)
    return Plan(moves, len(use), len(empty), freed, kept=kept)


def _emptied(fleet: CopiedFleet, instances: Sequence[Movable], without: Sequence[str], host: str) -> list[Move] | None:
    """Find other hosts for all instances; None, and nothing is booked, if one finds none. The largest goes first."""
    moves: list[Move] = []
    for each in sorted(instances, key=lambda each: (-each.request.memory_mb, -each.request.vcpus, each.uuid)):
        move = elsewhere(fleet, each, without, f"free {host}")
        if move is None:
            for made in moves:
                fleet.release(made.instance_uuid)
            return None
        moves.append(move)
    return moves
