# SPDX-License-Identifier: Apache-2.0
"""A fleet as a problem of the search: hosts are places, guests are items, and the filters say what fits where.

Called by :mod:`scheduler.compute.planning.rebalance` and :mod:`scheduler.compute.planning.waves`. The filters for
vcpus, memory and disk tell the masks only how large one instance may be, as these are the resources of the problem. All
others judge each shape of guest once, on the fleet as it is.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Set

import numpy
from oslo_config import cfg

from fleet import capacity
from fleet.objects import RequestSpec, instance_group, uuid_like
from fleet.objects.whatif import Demand
from scheduler.compute.drivers import loading
from scheduler.compute.planning.ground import Ground, Movable
from scheduler.compute.planning.losses.room_reader import has_open_rules
from scheduler.compute.planning.losses.shapes import Shapes
from scheduler.compute.planning.moves.moved import without
from scheduler.compute.tolerance import amounts
from scheduler.engine import filtering, pipeline
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.planning.search.problem import ANY_NUMBER, NO_GROUP, Groups, MoveCosts, Problem, Terms

_SOFT_APART = "soft-anti-affinity"
VCPUS, MEMORY, DISK = range(3)


@dataclasses.dataclass(frozen=True)
class Columns:
    """:param hosts: names, in the order of the places; ``row_of`` has the number of each
    :param guests: in the order of the items; ``sizes`` is what each takes: vcpus, memory in MB, disk in MB
    :param up: hosts that are up and enabled
    :param why: by guest that stays, the reason
    :param chosen: how many of them could move, but stay in the plans made here, as rules about others read where they are
    :param unreadable: hosts with an instance that the conductor does not know
    :param problem: without terms: a goal brings its own
    :param new: the new instances of the goal, if room is to be made
    :param for_new: hosts whose filters let one of them pass, room or not, as they are or without the guests that may move
    :param full: those of them that the scheduler has refused in an earlier search
    :param most_new: how many of them the rules of their group let be on each host
    """

    hosts: list[str]
    row_of: Mapping[str, int]
    guests: list[Movable]
    up: numpy.ndarray
    why: Mapping[str, str]
    chosen: int
    unreadable: frozenset[str]
    problem: Problem
    new: RequestSpec | None
    for_new: numpy.ndarray
    full: numpy.ndarray
    most_new: numpy.ndarray

    @property
    def empty(self) -> numpy.ndarray:
        found: numpy.ndarray = numpy.bincount(self.problem.start, minlength=len(self.hosts)) == 0
        return found

    def guest_of(self) -> dict[str, Movable]:
        """Return the guests by uuid."""
        return {each.uuid: each for each in self.guests}

    def why_not(self, host: int) -> str:
        """Return why the host cannot be emptied; "" if all its guests may move."""
        if self.hosts[host] in self.unreadable:
            return "an instance of it is gone"
        for number in numpy.flatnonzero(self.problem.start == host).tolist():
            if self.guests[number].uuid in self.why:
                return f"instance {self.guests[number].uuid} {self.why[self.guests[number].uuid]}"
        return ""


def read(ground: Ground, conf: cfg.ConfigOpts, soft: bool, room_for: Demand | None) -> Columns:
    """:param soft: hosts that a soft anti-affinity would rather avoid take no member either
    :param room_for: the instances for which room is to be made
    """
    asked = loading.load_pipeline(conf)
    rules = amounts.without_amounts(asked)
    fleet = ground.copy()
    up = set(fleet.hosts_up())
    new = None if room_for is None else ground.request(room_for)
    found = fleet.read(lambda hosts, _age: _columns(ground, asked, rules, hosts, up, soft, new))
    if new is None:
        return found
    leaving = {each.uuid: each for each in found.guests if each.uuid not in found.why}
    emptied = ground.copy(without(ground.state, leaving))
    passes = [each.read(lambda hosts, _age: _passes(rules, hosts, new)) for each in (fleet, emptied)]
    return dataclasses.replace(found, for_new=(passes[0] | passes[1]) & found.up, most_new=_most_new(found, new))


def _passes(rules: pipeline.Pipeline, hosts: Candidates, new: RequestSpec) -> numpy.ndarray:
    """Return a mask of the hosts where the filters let a new instance be, with its group and its hints."""
    prepared = pipeline.prepare(rules, new)
    alive: numpy.ndarray = filtering.run(prepared, hosts, restriction.allowed(hosts, new)).alive
    return alive.copy()


def _most_new(columns: Columns, new: RequestSpec) -> numpy.ndarray:
    most = numpy.full(len(columns.hosts), ANY_NUMBER)
    if instance_group.ANTI_AFFINITY in new.group_policies:
        there = [columns.row_of[each.host] for each in columns.guests if each.uuid in new.group_members]
        members = numpy.bincount(numpy.array(there, dtype=int), minlength=len(most))
        most = numpy.maximum(new.group_max_server_per_host - members, 0)
    return most


def _columns(
    ground: Ground,
    asked: pipeline.Pipeline,
    rules: pipeline.Pipeline,
    hosts: Candidates,
    up: set[str],
    soft: bool,
    new: RequestSpec | None,
) -> Columns:
    present = hosts.present()
    keys = [hosts.key(row) for row in hosts.rows.tolist()]
    row_of = {key[0]: number for number, key in enumerate(keys) if present[number]}
    nodes = collections.Counter(key[0] for number, key in enumerate(keys) if present[number])
    shapes = Shapes(rules)
    guests = [each for host in sorted(ground.hosts()) if host in row_of for each in ground.movable(host)]
    there = collections.Counter(each.host for each in guests)
    unreadable = frozenset(host for host in ground.hosts() if there[host] < ground.count(host))
    why, chosen = _pinned(ground, guests, up, nodes, new)
    is_up = numpy.array([present[number] and key[0] in up for number, key in enumerate(keys)], dtype=bool)
    need = numpy.array([amount(each) for each in guests], dtype=numpy.int64).reshape(-1, 3)
    start = numpy.array([row_of[each.host] for each in guests], dtype=numpy.int64)
    room = amounts.free(asked, hosts)
    numpy.add.at(room, start, need)
    # What no guest holds, as an orphan, may be above the limit. Less room than none would make the mean of all too large.
    numpy.maximum(room, 0, out=room)
    shape_of = [
        shapes.nothing if each.uuid in why else shapes.of(_free_of_hosts(each.request), hosts) for each in guests
    ]
    group_of, most = _groups([each.request for each in guests], soft)
    cost = (need[:, MEMORY] + need[:, DISK]).astype(float)
    places = len(keys)
    none = numpy.zeros(places, dtype=bool)
    problem = Problem(
        need=need,
        capacity=room,
        start=start,
        transient=numpy.zeros(3, dtype=bool),
        terms=Terms(numpy.zeros((places, 0)), numpy.zeros((3, 0)), numpy.zeros(0)),
        moves=MoveCosts(numpy.maximum(cost, 1)),
        groups=Groups.apart(most, places),
        group_of=group_of,
        fits=numpy.array([shape.fits & is_up if len(shape.fits) else none for shape in shapes.found]),
        shape_of=numpy.array(shape_of, dtype=int),
    )
    return Columns(
        hosts=[key[0] for key in keys],
        row_of=row_of,
        guests=guests,
        up=is_up,
        why=why,
        chosen=chosen,
        unreadable=unreadable,
        problem=problem,
        new=new,
        for_new=none,
        full=none,
        most_new=numpy.zeros(places, dtype=int),
    )


def amount(guest: Movable) -> tuple[int, int, int]:
    """Return the vcpus, memory in MB and disk in MB that the guest holds."""
    held, request = guest.holding.claimed, guest.request
    if held is None:
        disk_gb = capacity.claimed_disk_gb(request.root_gb, request.ephemeral_gb)
        return request.vcpus, request.memory_mb, disk_gb * capacity.MB_PER_GB
    return held.vcpus, held.memory_mb, held.disk_gb * capacity.MB_PER_GB


def _free_of_hosts(request: RequestSpec) -> RequestSpec:
    return dataclasses.replace(request, force_hosts=(), force_nodes=())


def _pinned(
    ground: Ground, guests: list[Movable], up: set[str], nodes: Mapping[str, int], new: RequestSpec | None
) -> tuple[dict[str, str], int]:
    """Return why guests stay, by uuid, and how many of these could move. :param new: what room is to be made for"""
    together = collections.Counter(
        each.request.group_uuid for each in guests if instance_group.AFFINITY in each.request.group_policies
    )
    named = {name for each in guests for name in _named(each.request)}
    about = {*_named(new), *new.group_members} if new is not None else set()
    busy = ground.busy()
    found: dict[str, str] = {}
    chosen = 0
    for each in guests:
        reason = busy.get(each.uuid, "")
        if not reason and each.host not in up:
            reason = "is on a host that is down or disabled"
        elif not reason:
            reason = _chosen(each, nodes, together, named, about)
            chosen += bool(reason)
        if reason:
            found[each.uuid] = reason
    return found, chosen


def _chosen(
    guest: Movable, nodes: Mapping[str, int], together: Mapping[str | None, int], named: Set[str], about: Set[str]
) -> str:
    """Return why a guest that could move stays; "" if it may move."""
    request = guest.request
    if nodes[guest.host] > 1:
        return "is on a host with several nodes"
    if together[request.group_uuid] > 1 and instance_group.AFFINITY in request.group_policies:
        return "stays with the other members of its group"
    if has_open_rules(request):
        return "is in a group with rules over labels among its members"
    if guest.uuid in named:
        return "is named in the hints of another instance"
    if guest.uuid in about:
        return "is in the group, or the hints, of the new instance"
    return ""


def _named(request: RequestSpec) -> list[str]:
    """Return the uuids that the hints of a request name: the answer of its filters changes if these move."""
    values = [each for name, each in request.scheduler_hints.items() if name != "group"]
    several = [part for each in values for part in (each if isinstance(each, (list, tuple)) else [each])]
    found = [uuid_like.canonical(each) for each in several if isinstance(each, str)]
    return [each for each in found if each is not None]


def _groups(requests: list[RequestSpec], soft: bool) -> tuple[numpy.ndarray, list[int]]:
    """Return the group of each guest whose members stay apart, and how many members a host may have."""
    known: dict[str, int] = {}
    most: list[int] = []
    found = []
    for each in requests:
        hard = instance_group.ANTI_AFFINITY in each.group_policies
        apart = hard or (soft and _SOFT_APART in each.group_policies)
        if not apart or each.group_uuid is None:
            found.append(NO_GROUP)
            continue
        if each.group_uuid not in known:
            known[each.group_uuid] = len(most)
            most.append(each.group_max_server_per_host if hard else 1)
        found.append(known[each.group_uuid])
    return numpy.array(found, dtype=int), most
