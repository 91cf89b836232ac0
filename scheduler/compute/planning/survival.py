# SPDX-License-Identifier: Apache-2.0
"""What is lost with a host: reads the room for ``scheduler.planning.survival`` from a copy of the fleet, and decides on it.

``fleet drill`` calls it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy
from oslo_config import cfg

from fleet import capacity, errors
from fleet.db.feed.feed import Changes
from fleet.objects import RequestSpec, group_rule, instance_group
from fleet.objects.group_rule import GroupRule
from fleet.objects.survival import Loss, Report
from fleet.objects.whatif import Demand
from scheduler.compute import conf as compute_conf
from scheduler.compute.domain.request_key import request_key
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.planning.ground import packing
from scheduler.compute.tolerance import amounts
from scheduler.engine import filtering, pipeline
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.planning.copied_fleet import CopiedFleet
from scheduler.planning.survival.packing import Item
from scheduler.planning.survival.proof import LIMIT_S, Survival
from scheduler.planning.survival.room import NO_GROUP, Group, Room, Shape, Verdict

#: Returns the requests that place existing instances, by uuid, or why one cannot be read.
RequestsOf = Callable[[Sequence[str]], Mapping[str, Demand | errors.FleetError]]
_HARD = (instance_group.AFFINITY, instance_group.ANTI_AFFINITY)
#: Seconds for a caller who waits.
_ANSWER_S = 5.0
#: Hosts on which members of one group are tried together.
_TRIED_TOGETHER = 20


def run(
    conf: cfg.ConfigOpts,
    state: Changes,
    losses: Sequence[Loss],
    requests_of: RequestsOf,
    tick: Callable[[str], object],
    limit_s: float = LIMIT_S,
    spread: bool = False,
) -> Report:
    """Return a proof for each loss; nothing is changed.

    :param conf: of the scheduler; its filters are used
    :param state: the whole state, as the change feed reports it
    :param losses: hosts that are lost together. A host that is down or disabled stays so, and takes no guests
    :param tick: called with the name of each loss, when it is proved
    :param limit_s: seconds for one loss
    :param spread: let the configured weighers choose among the hosts, in place of the tightest fit. Fewer losses are proved
    """
    compute_conf.register_opts(conf)
    configured = loading.load_pipeline(conf)
    asked = configured if spread else packing(configured)
    fleet = CopiedFleet(asked, state, conf.service_down_time, HostManager)
    uuids = [each.uuid for each in state.instances if each.host]
    found = requests_of(uuids)
    requests = {uuid: _request(each) for uuid, each in found.items() if isinstance(each, Demand)}
    unreadable = {uuid: str(each) for uuid, each in found.items() if not isinstance(each, Demand)}
    unreadable.update({uuid: "it is gone" for uuid in uuids if uuid not in found})
    began = time.perf_counter()
    room = fleet.read(lambda hosts, _state: _room(asked, hosts, state, requests, unreadable))
    survival = Survival(room, Decisions(fleet, room, requests), limit_s)
    proofs = []
    for loss in losses:
        proofs.append(survival.of(loss.hosts))
        tick(loss.name)
    return Report(losses, proofs, time.perf_counter() - began)


def answer(
    conf: cfg.ConfigOpts, state: Callable[[], Changes], hosts: Sequence[str], requests: Mapping[str, Demand]
) -> dict[str, Any]:
    """Return the answer of the scheduler's ``plan_loss``: where the weighers would have the guests, if all fit so.

    :param state: reads the whole state
    """
    everything, loss = state(), Loss(" ".join(hosts), hosts)
    for spread in (True, False):
        report = run(conf, everything, [loss], lambda _uuids: requests, lambda _name: None, _ANSWER_S, spread)
        (proof,) = report.proofs
        if proof.verdict is Verdict.SAFE:
            break
    return {"verdict": proof.verdict.value, "why": proof.why, "plan": dict(proof.plan)}


def _request(demand: Demand) -> RequestSpec:
    request = RequestSpec.from_wire(demand.request_spec, demand.filter_properties)
    return dataclasses.replace(request, force_hosts=(), force_nodes=())


def _room(
    asked: pipeline.Pipeline,
    hosts: Candidates,
    state: Changes,
    requests: Mapping[str, RequestSpec],
    unreadable: Mapping[str, str],
) -> Room:
    """Rows are those of ``hosts``; a host with several nodes has several, and guests are on the row of their node."""
    keys = {hosts.key(row): number for number, row in enumerate(hosts.rows.tolist()) if hosts.present()[number]}
    placed = [each for each in state.instances if (each.host, each.node) in keys]
    shapes = _Shapes(asked, hosts)
    groups: dict[tuple[str, str], int] = {}
    kinds: list[Group] = []
    shape_of, group_of = [], []
    unknown = dict(unreadable)
    several_nodes = len(keys) > len({host for host, _node in keys})
    for each in placed:
        request = requests.get(each.uuid)
        shape_of.append(shapes.nothing if request is None else shapes.of(request))
        group_of.append(NO_GROUP if request is None else _group(request, groups, kinds))
        if request is not None and any(_is_open(rule) for rule in request.group_rules):
            unknown[each.uuid] = "its group has rules over labels among its members"
        if several_nodes and group_of[-1] != NO_GROUP:
            unknown[each.uuid] = "it is in a group, and hosts of this fleet have several nodes"
    names = [""] * len(hosts)
    for (host, _node), number in keys.items():
        names[number] = host
    return Room(
        hosts=names,
        free=amounts.free(asked, hosts),
        uuids=[each.uuid for each in placed],
        host_of=numpy.array([keys[each.host, each.node] for each in placed], dtype=int),
        shape_of=numpy.array(shape_of, dtype=int),
        group_of=numpy.array(group_of, dtype=int),
        shapes=shapes.found,
        groups=kinds,
        unreadable=unknown,
    )


def _group(request: RequestSpec, known: dict[tuple[str, str], int], kinds: list[Group]) -> int:
    policy = next((each for each in _HARD if each in request.group_policies), None)
    if policy is None or request.group_uuid is None:
        return NO_GROUP
    key = (request.group_uuid, policy)
    if key not in known:
        known[key] = len(kinds)
        kinds.append(Group(None if policy == instance_group.AFFINITY else request.group_max_server_per_host))
    return known[key]


def _is_open(rule: GroupRule) -> bool:
    """Return True if the proofs do not cover the rule: it says where members are, seen from each other."""
    return rule.is_hard and rule.policy in group_rule.AMONG_MEMBERS


class _Shapes:
    """The shapes of requests, each judged once. What a group forbids is left to the proofs."""

    def __init__(self, asked: pipeline.Pipeline, hosts: Candidates) -> None:
        self._asked = asked
        self._hosts = hosts
        self._known: dict[object, int] = {}
        self.found: list[Shape] = []
        self.nothing = self._add(Shape(numpy.zeros(len(hosts), dtype=bool), numpy.zeros(3, dtype=numpy.int64)))

    def of(self, request: RequestSpec) -> int:
        alone = without_group(request)
        key = request_key(alone)
        # Hosts that the request leaves out are no part of the key.
        whole = None if key is None else (key, alone.ignore_hosts, alone.requested_hosts)
        if whole is None or not self._asked.cacheable:
            return self._add(self._judged(alone))
        if whole not in self._known:
            self._known[whole] = self._add(self._judged(alone))
        return self._known[whole]

    def _judged(self, request: RequestSpec) -> Shape:
        prepared = pipeline.prepare(self._asked, request)
        found = filtering.run(prepared, self._hosts, restriction.allowed(self._hosts, request))
        disk_mb = capacity.claimed_disk_gb(request.root_gb, request.ephemeral_gb) * capacity.MB_PER_GB
        return Shape(found.alive.copy(), numpy.array([request.vcpus, request.memory_mb, disk_mb], dtype=numpy.int64))

    def _add(self, shape: Shape) -> int:
        self.found.append(shape)
        return len(self.found) - 1


def without_group(request: RequestSpec) -> RequestSpec:
    """Return the request as of an instance that is in no group. Rules that name hosts stay."""
    if not request.group_uuid and "group" not in request.scheduler_hints:
        return request
    hints = {name: value for name, value in request.scheduler_hints.items() if name != "group"}
    nobody: frozenset[str] = frozenset()
    return dataclasses.replace(
        *(request,),
        scheduler_hints=hints,
        group_policies=nobody,
        group_hosts=nobody,
        group_members=nobody,
        group_uuid=None,
        group_rules=tuple(rule for rule in request.group_rules if rule.policy in group_rule.OF_HOSTS),
        group_updated=False,
    )


class Decisions:
    """Implements :class:`scheduler.planning.survival.proof.Decisions` on a copy of the fleet.

    The members of groups still count at their lost hosts there. So groups are counted here, and the requests name none.
    """

    def __init__(self, fleet: CopiedFleet, room: Room, requests: Mapping[str, RequestSpec]) -> None:
        self._fleet = fleet
        self._room = room
        self._requests = requests
        self._row_of = {host: row for row, host in enumerate(room.hosts)}

    def place(self, items: Sequence[Item], lost: Sequence[str], until: float) -> Mapping[int, int] | None:
        with self._trial(lost) as trial:
            for item in items:
                if time.monotonic() > until or not self._place(trial, item):
                    return None
            return dict(trial.plan)

    def accepts(self, plan: Mapping[int, int], items: Sequence[Item], lost: Sequence[str]) -> bool:
        guests = [guest for item in items for guest in item.guests]
        with self._trial(lost) as trial:
            return all(self._decide(trial, guest, self._room.hosts[plan[guest]]) for guest in guests)

    def _place(self, trial: _Trial, item: Item) -> bool:
        if len(item.guests) == 1:
            # A member that stays together with others elsewhere has one host only.
            only = self._room.hosts[int(item.hosts[0])] if len(item.hosts) == 1 else None
            return self._decide(trial, item.guests[0], only)
        for row in item.hosts[:_TRIED_TOGETHER].tolist():
            if all(self._decide(trial, each, self._room.hosts[row]) for each in item.guests):
                return True
            trial.undo(item.guests)
        return False

    def _decide(self, trial: _Trial, guest: int, only: str | None) -> bool:
        """Decide and book; whether a host was found. :param only: the only host to consider"""
        request = without_group(self._requests[self._room.uuids[guest]])
        group = int(self._room.group_of[guest])
        ignored = (*request.ignore_hosts, *trial.lost, *trial.full(group))
        hosts = request.requested_hosts if only is None else (only,)
        made = self._fleet.decide(dataclasses.replace(request, ignore_hosts=ignored, requested_hosts=hosts))
        if made.complete:
            trial.add(guest, self._row_of[made.picks[0].key[0]])
        return made.complete

    @contextlib.contextmanager
    def _trial(self, lost: Sequence[str]) -> Iterator[_Trial]:
        trial = _Trial(self._fleet, self._room, lost)
        try:
            yield trial
        finally:
            trial.undo(list(trial.plan))


class _Trial:
    """The guests of one loss that have a host so far. ``plan`` has it by guest."""

    def __init__(self, fleet: CopiedFleet, room: Room, lost: Sequence[str]) -> None:
        self.lost = lost
        self.plan: dict[int, int] = {}
        self._fleet = fleet
        self._room = room

    def add(self, guest: int, row: int) -> None:
        self.plan[guest] = row

    def undo(self, guests: Iterable[int]) -> None:
        for guest in guests:
            if self.plan.pop(guest, None) is not None:
                self._fleet.release(self._room.uuids[guest])

    def full(self, group: int) -> list[str]:
        """Hosts that take no further member of a group whose members stay apart."""
        if group == NO_GROUP or self._room.groups[group].together:
            return []
        members = self._room.members_on(group)
        for guest, row in self.plan.items():
            members[row] += self._room.group_of[guest] == group
        most = self._room.groups[group].most or 0
        return [self._room.hosts[row] for row in numpy.flatnonzero(members >= most).tolist()]
