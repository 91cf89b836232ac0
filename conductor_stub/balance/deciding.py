# SPDX-License-Identifier: Apache-2.0
"""Chooses few moves that relieve hosts which have been hot for a while. A function of its arguments.

The load of a host is the larger of its shares of CPU and of memory, in points (percent of the host). A host is *hot*
while one of these is above the mean of the loads by more than the threshold, and above its least load; and while its
processors are measured to be busier than is wanted of any host, and those of others less. A move is taken
only if of what makes the host hot the more loaded of the two hosts has less by the margin afterwards, and its new host
neither becomes hot nor the most loaded of the two: so no guest goes back and forth. Called by
:mod:`conductor_stub.balance.trying`.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Callable, Collection, Mapping, Sequence

from conductor_stub.steps.balance_settings import BalanceSettings
from fleet.clock import seconds

#: Moves that are put to the filters in one round, and guests that a reason names.
_TRIED, _NAMED = 20, 3
#: After so many refusals of moves of a guest, or of moves to a destination, moves of others are tried first.
_REFUSED = 3
_MIB_PER_GIB = 1024
#: Factor of ``hold_time`` for hosts whose load is one measurement, not the mean of some minutes.
_ROUGH = 5
#: Exponent of the GiB that a move must be worth: small busy guests go before large ones that bring as much a GiB. The bench
#: ``balancers`` moves a tenth less than with 1.
_SMALL_FIRST = 1.4
#: A move of so many GiB must bring twice what a move of nothing must.
_LARGE_GIB = 64.0


@dataclasses.dataclass(frozen=True)
class Host:
    """:param cpu: load of the processors, as a share of them; it may be above 1
    :param memory: load of the memory: its pressure, or what is allocated
    :param cores, memory_mb: processors and memory, in the units of ``Guest.cores`` and ``Guest.pressing_mb``
    :param vcpus_free, memory_free_mb: what the limits leave for further guests
    :param takes: guests may come
    :param smooth: the load is the mean of some minutes
    :param vcpus: their limit, if the loads are what is allocated; else 0
    :param known_at: when the load is measured again after guests have come or gone; None: it is
    """

    name: str
    cpu: float
    memory: float
    cores: float
    vcpus_free: float
    memory_free_mb: float
    memory_mb: float
    takes: bool = True
    smooth: bool = False
    vcpus: float = 0.0
    known_at: datetime.datetime | None = None

    @property
    def load(self) -> float:
        return 100 * max(self.cpu, self.memory)

    def with_guest(self, guest: Guest, sign: int) -> Host:
        """Return the host as it should be when the guest has come (1) or gone (-1)."""
        cpu, memory = self._shares(guest)
        return dataclasses.replace(
            self,
            cpu=self.cpu + sign * cpu,
            memory=self.memory + sign * memory,
            vcpus_free=self.vcpus_free - sign * guest.vcpus,
            memory_free_mb=self.memory_free_mb - sign * guest.memory_mb,
        )

    def _shares(self, guest: Guest) -> tuple[float, float]:
        """Return the guest's parts of the CPU load and of the memory load.

        On a host whose load is what is allocated, a guest counts by its size, or by its measured load if that is larger.
        """
        cores, memory_mb = max(self.cores, 1e-9), max(self.memory_mb, 1.0)
        cpu, memory = guest.cores / cores, guest.pressing_mb / memory_mb
        if not self.vcpus:
            return cpu, memory
        of_vcpus, of_memory = guest.vcpus / self.vcpus, guest.memory_mb / memory_mb
        return (max(cpu, of_vcpus), max(memory, of_memory)) if guest.measured else (of_vcpus, of_memory)


@dataclasses.dataclass(frozen=True)
class Guest:
    """:param cores: of the host's processors that it keeps busy
    :param pressing_mb: its part of the load of the memory
    :param stays: why it cannot move now; "" if it can
    :param takers: hosts that take the running guest
    :param measured: what it keeps busy is measured, not a share of what its host does
    :param group: uuid of its group; ""
    """

    uuid: str
    name: str
    host: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    cores: float
    pressing_mb: float = 0.0
    stays: str = ""
    takers: frozenset[str] = frozenset()
    measured: bool = False
    group: str = ""

    @property
    def gib(self) -> float:
        return self.memory_mb / _MIB_PER_GIB + self.disk_gb


@dataclasses.dataclass(frozen=True)
class Chosen:
    """A move.

    :param gain: points of what makes its host hot that the more loaded of its two hosts has less afterwards
    """

    guest: Guest
    destination: str
    gain: float


@dataclasses.dataclass(frozen=True)
class Round:
    """:param mean: of the loads of the hosts that guests may come to
    :param hot_since: hosts that are hot, and since when
    :param before, expected: points of the most loaded host above the mean, now and after the moves
    :param not_done: by host that is hot, why it is left as it is
    :param waiting: those of them that have not been hot for their time
    """

    mean: float
    before: float
    expected: float
    loads: Mapping[str, float]
    hot_since: Mapping[str, datetime.datetime]
    moves: Sequence[Chosen]
    not_done: Mapping[str, str]
    waiting: frozenset[str] = frozenset()


#: Returns why the filters, or a soft rule, are against a guest on a host; "" if nothing is.
Refuses = Callable[[Guest, str], str]


def decide(
    hosts: Sequence[Host],
    guests: Sequence[Guest],
    hot_since: Mapping[str, datetime.datetime],
    settings: BalanceSettings,
    now: datetime.datetime,
    refuses: Refuses,
    held_up: str = "",
) -> Round:
    """:param hot_since: of the look before
    :param held_up: why no guest should move now
    """
    loads = {each.name: each.load for each in hosts}
    mean = _mean(hosts)
    bounds = _Bounds(mean, settings)
    above = {each.name: bounds.above(each) for each in hosts}
    hot = {name: hot_since.get(name, now) for name, points in above.items() if points > 0}
    choosing = _Choosing(hosts, guests, bounds, settings, refuses, held_up, now)
    not_done: dict[str, str] = {}
    waiting, ready = set(), []
    for name in sorted(hot, key=lambda name: (-above[name], name)):
        ready_at = hot[name] + seconds(settings.hold_time_s * (1 if choosing.hosts[name].smooth else _ROUGH))
        known_at = choosing.hosts[name].known_at
        if known_at is not None and known_at > max(ready_at, now):
            waiting.add(name)
            not_done[name] = f"its guests have changed: its load is known from {known_at:%H:%M:%S} UTC on"
            continue
        if ready_at > now:
            waiting.add(name)
            not_done[name] = f"hot since {hot[name]:%H:%M:%S} UTC, which counts from {ready_at:%H:%M:%S} UTC on"
            continue
        ready.append(name)
    # Each host has its share of the tries; then those whose moves were refused have what is left.
    not_done |= {name: choosing.relieve(name, -(-_TRIED // len(ready))) for name in ready}
    not_done |= {name: choosing.relieve(name, _TRIED) for name in ready if choosing.refusals[name]}
    not_done = {name: why for name, why in not_done.items() if why}
    before, expected = _above(hosts), _above(list(choosing.hosts.values()))
    return Round(mean, before, expected, loads, hot, choosing.moves, not_done, frozenset(waiting))


def counted(hosts: Sequence[Host]) -> Sequence[Host]:
    """Return the hosts whose mean loads are compared with: those that guests may come to, and if there are none, all.

    A host out of use cannot share the load. With it in the mean the others would all seem too full to take a guest.
    """
    return [each for each in hosts if each.takes] or hosts


def _mean(hosts: Sequence[Host]) -> float:
    loads = [each.load for each in counted(hosts)]
    return sum(loads) / len(loads) if loads else 0.0


def _above(hosts: Sequence[Host]) -> float:
    mean = _mean(hosts)
    return max((each.load for each in hosts), default=mean) - mean


class _Bounds:
    """The loads, in points, above which a host is hot: one of processors as measured, and one of anything else."""

    def __init__(self, mean: float, settings: BalanceSettings) -> None:
        level = mean + settings.threshold
        busy = max(settings.most_cpu_load, mean + settings.margin)
        self._any = max(level, settings.least_load)
        self._measured_cpu = max(min(level, busy), settings.least_load, settings.least_cpu_load)

    def above(self, host: Host) -> float:
        """Return the points by which a host is above them; it is hot if that is more than 0."""
        return max(self._of_cpu(host), self._of_memory(host))

    def heats(self, host: Host) -> Callable[[Host], float]:
        """Return a function that returns, of any host, the share of what this hot one has most above its bound."""
        return _cpu if self._of_cpu(host) >= self._of_memory(host) else _memory

    def _of_cpu(self, host: Host) -> float:
        return 100 * host.cpu - (self._any if host.vcpus else self._measured_cpu)

    def _of_memory(self, host: Host) -> float:
        return 100 * host.memory - self._any


def _cpu(host: Host) -> float:
    return host.cpu


def _memory(host: Host) -> float:
    return host.memory


class _Choosing:
    """The hosts as they should be after the moves so far."""

    def __init__(
        self,
        hosts: Sequence[Host],
        guests: Sequence[Guest],
        bounds: _Bounds,
        settings: BalanceSettings,
        refuses: Refuses,
        held_up: str,
        now: datetime.datetime,
    ) -> None:
        self.hosts = {each.name: each for each in hosts}
        self.moves: list[Chosen] = []
        self._guests = guests
        self._bounds = bounds
        self._settings = settings
        self._refuses = refuses
        self._held_up = held_up
        #: Hosts whose loads are not known after a change.
        self._unknown = {each.name for each in hosts if each.known_at is not None and each.known_at > now}
        self._tries = _TRIED
        #: By hot host, by guest and destination, why the move is refused.
        self.refusals: dict[str, dict[tuple[str, str], str]] = {name: {} for name in self.hosts}
        self._gib_left = float(settings.most_gib)

    def relieve(self, name: str, refusals: int) -> str:
        """Choose moves until the host is not hot any more; return why it still is, or "".

        :param refusals: after so many more, the host is left as it is
        """
        most = len(self.refusals[name]) + refusals
        while self._bounds.above(self.hosts[name]) > 0:
            if len(self.moves) >= self._settings.most_moves:
                return f"the round has its {self._settings.most_moves} moves"
            why = self._choose(name, most)
            if why:
                return why
        return ""

    def _choose(self, name: str, most: int) -> str:
        there = [self._now(each) for each in self._guests if each.host == name and each.uuid not in self._moved]
        movable = [each for each in there if not each.stays]
        if not movable:
            return _stay(there) if there else "no guest is there"
        within = [each for each in movable if each.gib <= self._gib_left]
        if not within:
            return f"its guests are larger than the {self._gib_left:.0f} GiB that are left to the round"
        found = [
            each
            for guest in within
            for destination in self.hosts.values()
            if (each := self._judged(guest, name, destination)) is not None
        ]
        if not found:
            return (
                f"no move would make it less loaded by {self._settings.margin:g} points without making another host hot"
            )
        if self._held_up:
            return self._held_up
        refusals = self.refusals[name]
        found.sort(key=self._order)
        while (each := _untried(found, refusals)) is not None:
            if not self._tries or len(refusals) >= most:
                return "; ".join(["too many moves are refused", *list(refusals.values())[-1:]])
            self._tries -= 1
            why = self._refuses(each.guest, each.destination)
            if not why:
                self._take(each)
                return ""
            refusals[each.guest.uuid, each.destination] = why
        return next(iter(refusals.values()))

    def _now(self, guest: Guest) -> Guest:
        """The rules of a group were judged by where its members are: one of them moves in a round."""
        if guest.group and not guest.stays and any(each.guest.group == guest.group for each in self.moves):
            return dataclasses.replace(guest, stays="is in a group of which another member moves in this round")
        return guest

    @property
    def _moved(self) -> set[str]:
        return {each.guest.uuid for each in self.moves}

    def _judged(self, guest: Guest, name: str, host: Host) -> Chosen | None:
        if host.name == name or not host.takes or host.name in self._unknown or host.name not in guest.takers:
            return None
        if host.memory_free_mb < guest.memory_mb or host.vcpus_free < guest.vcpus:
            return None
        before = self.hosts[name], host
        after = self.hosts[name].with_guest(guest, -1), host.with_guest(guest, 1)
        share = self._bounds.heats(before[0])
        gain = 100 * (max(map(share, before)) - max(map(share, after)))
        if gain < self._settings.margin * (1 + guest.gib / _LARGE_GIB):
            return None
        if self._bounds.above(after[1]) > 0 or after[1].load > max(each.load for each in before):
            return None
        return Chosen(guest, host.name, gain)

    def _order(self, chosen: Chosen) -> tuple[float, str, str, float, str]:
        """The most that a move brings for what it moves comes first; of the hosts for one guest the least loaded."""
        guest, there = chosen.guest, self.hosts[chosen.destination]
        return -chosen.gain / max(guest.gib, 1.0) ** _SMALL_FIRST, guest.name, guest.uuid, there.load, there.name

    def _take(self, chosen: Chosen) -> None:
        guest, there = chosen.guest, chosen.destination
        self.hosts[guest.host] = self.hosts[guest.host].with_guest(guest, -1)
        self.hosts[there] = self.hosts[there].with_guest(guest, 1)
        self._gib_left -= guest.gib
        self.moves.append(chosen)


def _untried(moves: Sequence[Chosen], refusals: Collection[tuple[str, str]]) -> Chosen | None:
    """Return the first move that was not tried, of a guest and to a destination that were not refused often if there is one.

    :param refusals: by guest and destination
    """
    of_guest, to_host = (collections.Counter(each[end] for each in refusals) for end in (0, 1))
    left = [each for each in moves if (each.guest.uuid, each.destination) not in refusals]
    seldom = (each for each in left if max(of_guest[each.guest.uuid], to_host[each.destination]) < _REFUSED)
    return next(seldom, left[0] if left else None)


def _stay(guests: Sequence[Guest]) -> str:
    told = [f"{each.name} {each.stays}" for each in guests[:_NAMED]]
    more = len(guests) - _NAMED
    return "; ".join([*told, *([f"and {more} more stay"] if more > 0 else [])])
