# SPDX-License-Identifier: Apache-2.0
"""``fleet maintenance plan``: waves of hosts that can be empty together, computed on a copy of the fleet.

:mod:`fleet_cli.planning.maintenance` loads it by its entry point. The emptiest hosts go first. A guest moves to a
host that has had its turn, or that needs none, if one passes the filters: then it moves once. Only otherwise it moves
to a host whose turn is still to come. A guest at rest stays. A host whose guests do not all find a place waits for a
later wave. Each wave is planned on copies in which the moves of the waves before it are made. A wave has fewer hosts
if the fleet would not keep its promises to survive losses while they are empty.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

import numpy
from oslo_config import cfg

from fleet import errors
from fleet.db.feed.feed import Changes
from fleet.objects.rebalance import Move
from fleet.objects.waves import Wave, WavesGoal, WavesPlan
from fleet.objects.whatif import Demand
from scheduler.compute import conf as compute_conf
from scheduler.compute.planning import other_places
from scheduler.compute.planning.ground import Ground, Movable, RequestOf
from scheduler.compute.planning.losses import kept_promises
from scheduler.compute.planning.moves.columns import amount
from scheduler.compute.planning.moves.moved import joined, moved
from scheduler.compute.planning.wave_places import Places
from scheduler.planning import readings
from scheduler.planning.hypothetical import changed

#: Hosts for whose guests other places are looked for, at most, where no host can be emptied otherwise.
_MOST_ALONE = 20


def run(
    conf: cfg.ConfigOpts,
    state: Changes,
    goal: WavesGoal,
    requests: RequestOf,
    tick: Callable[[str], object],
    anew: RequestOf | None = None,
) -> WavesPlan:
    """Return a plan; nothing is changed.

    :param conf: of the scheduler; its filters are used
    :param state: the whole state, as the change feed reports it
    :param requests: returns the request that moves an existing instance, from its uuid
    :param tick: called with each host that has a wave
    :param anew: returns the request that places an existing instance when its host is lost; by default ``requests``
    """
    compute_conf.register_opts(conf)

    def known(uuid: str) -> Demand | errors.FleetError:
        try:
            return (anew or requests)(uuid)
        except errors.FleetError as gone:
            return gone

    def broken(during: Changes) -> Collection[str]:
        return kept_promises.broken(conf, during, goal.promised, lambda uuids: {uuid: known(uuid) for uuid in uuids})

    frugal = _Planner(Ground(conf, state, requests), goal, tick, broken, is_frugal=True)
    plan = frugal.plan()
    if not frugal.has_spared or len(plan.waves) <= plan.bound:
        return plan
    other = _Planner(Ground(conf, state, requests), goal, lambda _host: None, broken, is_frugal=False).plan()
    return min(plan, other, key=lambda each: (len(each.stuck), len(each.waves)))


class _Planner:
    def __init__(
        self,
        ground: Ground,
        goal: WavesGoal,
        tick: Callable[[str], object],
        broken: Callable[[Changes], Collection[str]],
        is_frugal: bool,
    ) -> None:
        """:param broken: returns the losses that a state does not survive, of those that it is to survive
        :param is_frugal: a wave is no larger than it must be if guests would move to hosts whose turn is still to come
        """
        self._ground = ground
        self._goal = goal
        self._tick = tick
        self._broken = broken
        self._is_frugal = is_frugal
        #: A wave was kept small.
        self.has_spared = False
        self._most = goal.at_a_time
        #: The moves so far, by guest: from where it was first to where it is now.
        self._moves: dict[str, Move] = {}
        #: Guests where they were at first.
        self._guests: dict[str, Movable] = {}
        #: Guests by the host where the moves so far have brought them.
        self._there: dict[str, list[Movable]] = collections.defaultdict(list)
        #: The order of hosts by what is on them: the emptiest first.
        self._sizes: dict[str, tuple[int, int, str]] = {}
        #: Guests that stay where they are.
        self._resting: dict[str, list[Movable]] = collections.defaultdict(list)
        self._left = list(dict.fromkeys(goal.hosts))
        self._stuck: dict[str, str] = {}

    def plan(self) -> WavesPlan:
        fleet = self._ground.copy()
        alive = set(fleet.hosts_up(disabled=True))
        nodes = collections.Counter(node.host for node in self._ground.state.nodes)
        for host in self._left:
            resting = self._ground.at_rest(host)
            for each in self._ground.movable(host):
                (self._resting if each.uuid in resting else self._there)[host].append(each)
            self._guests.update({each.uuid: each for each in self._there[host]})
            reason = self._ground.why_not_emptied(host) if host in alive else "is down"
            reason = reason or ("has several nodes" if nodes[host] > 1 else "")
            if reason:
                self._stuck[host] = reason
        self._left = [host for host in self._left if host not in self._stuck]
        self._sizes = {host: self._size(host) for host in self._left}
        guests = sum(len(self._there[host]) for host in self._left)
        names, use = fleet.read(readings.host_names), fleet.read(readings.utilization)
        free = fleet.read(self._ground.free)
        self._most = _most_at_once(names, use, free, self._left, self._guests.values(), self._goal.at_a_time)
        places = Places(self._ground, fleet, self._left)
        waves = []
        while self._left:
            wave = self._next_wave(places)
            if wave is None:
                break
            waves.append(wave)
            self._follow(wave, places)
        planned = [host for wave in waves for host in wave.hosts]
        most = _most_at_once(names, use, free, planned, self._guests.values(), self._goal.at_a_time)
        return WavesPlan(waves, self._stuck, guests, -(-len(planned) // most))

    def _next_wave(self, places: Places) -> Wave | None:
        """Return the next wave. None: no host that is left can be emptied."""
        refused: dict[str, str] = {}
        needed: dict[str, str] = {}
        before = set(self._broken(self._after(()))) if self._goal.promised else set()
        while True:
            hosts, moves = self._together(places, refused, needed)
            begun, booked = hosts[:1], list(moves)
            why = self._shorten(hosts, moves, before) if self._goal.promised else ""
            places.release(each for each in booked if each.source not in hosts)
            if hosts or not begun:
                break
            # The others may be empty while this one is not.
            needed[begun[0]] = why
        if not hosts:
            hosts, moves = self._alone(places, refused.keys() | needed.keys(), before)
        if not hosts:
            self._stuck |= refused | needed
            return None
        for host in hosts:
            self._tick(host)
        self._left = [host for host in self._left if host not in hosts]
        return Wave(hosts, moves)

    def _together(
        self, places: Places, refused: dict[str, str], needed: Collection[str]
    ) -> tuple[list[str], list[Move]]:
        """Return hosts that can be empty together, and the moves for it. Write why others cannot.

        :param needed: hosts that must not be empty now
        """
        hosts: list[str] = []
        moves: list[Move] = []
        taking: set[str] = set()
        waiting = set(self._left)
        # With fewer hosts in this wave, there would be one more.
        least = (len(waiting) - 1) % self._most + 1 if self._is_frugal else self._goal.at_a_time
        for host in sorted(set(self._left).difference(needed), key=self._sizes.__getitem__):
            if len(hosts) == self._goal.at_a_time:
                break
            made = "takes guests of this wave" if host in taking else self._emptied(places, host, hosts)
            if isinstance(made, str):
                refused[host] = made
                continue
            if len(hosts) >= least and any(each.destination in waiting for each in made):
                places.release(made)
                self.has_spared = True
                break
            hosts.append(host)
            moves += made
            taking.update(each.destination for each in made)
        return hosts, moves

    def _alone(self, places: Places, hosts: Collection[str], before: Set[str]) -> tuple[list[str], list[Move]]:
        """Return one of these hosts, and moves to other places than before that empty it; nothing if none are found."""
        for host in sorted(hosts, key=self._sizes.__getitem__)[:_MOST_ALONE]:
            for destinations in other_places.found(self._ground.pipeline, places.far(), self._in_order(host)):
                made = self._emptied(places, host, (), destinations)
                if isinstance(made, str):
                    continue
                if not self._worse([host], made, before):
                    return [host], made
                places.release(made)
        return [], []

    def _shorten(self, hosts: list[str], moves: list[Move], before: Set[str]) -> str:
        """Drop the last hosts of a wave until the fleet survives as much while it is empty as ``before``.

        Return why the first one alone cannot be empty, if so; "" otherwise. Each try proves the whole fleet.
        """

        def worse(number: int) -> Set[str]:
            some = set(hosts[:number])
            return self._worse(hosts[:number], [each for each in moves if each.source in some], before)

        good, bad = 0, len(hosts)
        if not hosts or not worse(bad):
            return ""
        lost = worse(1) if bad > 1 else worse(bad)
        if bad > 1 and not lost:
            good = 1
            while bad - good > 1:
                middle = (good + bad) // 2
                good, bad = (good, middle) if worse(middle) else (middle, bad)
        del hosts[good:]
        moves[:] = [each for each in moves if each.source in hosts]
        return f"the promise would not hold while it is empty: the loss of {min(lost)} is not survived" if lost else ""

    def _worse(self, hosts: Sequence[str], moves: Sequence[Move], before: Set[str]) -> Set[str]:
        """Return the losses that the fleet does not survive while these hosts are empty, beside those of ``before``."""
        return set(self._broken(self._during(hosts, moves))) - before if self._goal.promised else set()

    def _during(self, hosts: Sequence[str], moves: Sequence[Move]) -> Changes:
        state = self._after(moves)
        services = [changed(each, disabled=True) if each.host in hosts else each for each in state.services]
        return dataclasses.replace(state, services=services)

    def _after(self, moves: Sequence[Move]) -> Changes:
        """Return the state after the moves so far, and these."""
        return moved(self._ground.state, joined([*self._moves.values(), *moves]), self._guests)

    def _size(self, host: str) -> tuple[int, int, str]:
        there = self._there[host]
        return sum(each.request.memory_mb for each in there), len(there), host

    def _emptied(
        self, places: Places, host: str, wave: Sequence[str], destinations: Sequence[str] = ()
    ) -> list[Move] | str:
        """Find places for all guests of a host outside the wave; return why there are none, and book nothing then.

        :param destinations: the only host to look at for each guest, in their order; empty: all hosts
        """
        made: list[Move] = []
        for each, to in itertools.zip_longest(self._in_order(host), destinations):
            move = places.take(each, wave, to)
            if isinstance(move, str):
                places.release(made)
                return f"instance {each.uuid} finds no other host: {move}"
            made.append(move)
        return made

    def _in_order(self, host: str) -> list[Movable]:
        """Return the guests of a host, the largest first."""
        there = self._there[host]
        return sorted(there, key=lambda each: (-each.request.memory_mb, -each.request.vcpus, each.uuid))

    def _follow(self, wave: Wave, places: Places) -> None:
        """Put the guests of a wave where they go."""
        to = {each.instance_uuid: each.destination for each in wave.moves}
        sources = {each.source for each in wave.moves}
        for host in sources:
            going, self._there[host] = self._there[host], []
            for each in going:
                self._there[to[each.uuid]].append(dataclasses.replace(each, host=to[each.uuid]))
        for host in self._sizes.keys() & sources.union(to.values()):
            self._sizes[host] = self._size(host)
        self._moves = {each.instance_uuid: each for each in joined([*self._moves.values(), *wave.moves])}
        places.follow(wave, self._changed_by(wave))

    def _changed_by(self, wave: Wave) -> Changes:
        """Return the rows of the hosts and guests of a wave, as they are after it."""
        touched = {*wave.hosts, *(each.destination for each in wave.moves)}
        guests = {each.instance_uuid for each in wave.moves}
        state = self._ground.state
        part = dataclasses.replace(
            state,
            nodes=[each for each in state.nodes if each.host in touched],
            services=[each for each in state.services if each.host in touched],
            instances=[each for each in state.instances if each.uuid in guests],
            aggregates=(),
            heartbeats=(),
            full=False,
        )
        changing = [each for each in self._moves.values() if not touched.isdisjoint((each.source, each.destination))]
        return moved(part, changing, self._guests)


def _most_at_once(
    names: Sequence[str],
    use: readings.Hosts,
    free: numpy.ndarray,
    hosts: Collection[str],
    moving: Iterable[Movable],
    at_a_time: int,
) -> int:
    """Return how many of these hosts any plan can empty together, at most; at least 1.

    What moves away from all hosts must fit on the hosts outside a wave: even if the smallest hosts of the goal are taken
    first, no more hosts can be empty at a time. What guests at rest use, and what is reserved, is neither free nor moved.

    :param free: of each host, what the filters see free; where none judges it, all guests could go to one host
    """
    leaves: collections.defaultdict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for each in moving:
        of_guest = amount(each)
        leaves[each.host] = [leaves[each.host][0] + of_guest[0], leaves[each.host][1] + of_guest[1]]
    most = at_a_time
    for resource, used in enumerate((use.vcpus_used, use.memory_mb_used)):
        used_on: collections.Counter[str] = collections.Counter()
        for host, number in zip(names, used.tolist(), strict=True):
            used_on[host] += number
        stays = {host: max(used_on[host] - leaves[host][resource], 0) for host in hosts}
        capacity = collections.Counter({host: -held for host, held in stays.items()})
        # What is above a limit stays there, too.
        for host, size in zip(names, (used + numpy.clip(free[:, resource], 0, used.sum())).tolist(), strict=True):
            capacity[host] += size
        most = min(most, _empty_at_once(capacity, hosts, float(used.sum()) - sum(stays.values())))
    return max(most, 1)


def _empty_at_once(capacity: Mapping[str, float], hosts: Collection[str], used: float) -> int:
    left, number = sum(capacity.values()), 0
    for size in sorted(capacity[host] for host in hosts if host in capacity):
        left -= size
        if left < used:
            break
        number += 1
    return number
