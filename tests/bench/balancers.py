# SPDX-License-Identifier: Apache-2.0
"""The balancing loop beside the documented rules of others, in one simulator of generated loads.

The guests are a fixed number, or come and go as the requests of a trace do, of which an even part is taken
(``FLEET_BENCH_TRACE`` and ``FLEET_BENCH_LIFETIMES``, as for ``packing``). A trace has no loads: they are generated, too.

The others are re-implementations from their documents, no code of theirs: CloudStack's cluster DRS (balanced), Proxmox VE's
automatic rebalancing of the cluster resource scheduler, Incus' cluster.rebalance, and Ganeti's hbal. Their defaults are
used; each function says what is assumed. All obey the memory of hosts and hard anti-affinity, and know the load of each
guest.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import functools
import math
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy

from conductor_stub.balance import deciding, guests_load
from conductor_stub.steps.balance_settings import BalanceSettings
from tests.bench import figures, packing, traces

#: The defaults of the loop were chosen with the seeds 1 to 3; FLEET_BENCH_SEEDS names others.
SEEDS = tuple(map(int, os.environ.get("FLEET_BENCH_SEEDS", "4 5 6").split()))
_HOSTS, _GUESTS, _CORES, _MEMORY_GIB = 20, 240, 32, 256
#: At the peak of a trace, vcpus by core.
_SOLD = 1.8
_MINUTES, _HOT, _COOLDOWN_MIN = 3 * 1440, 0.8, 360
_DAY = 1440
#: Of a minute in the mean that agents report (``compute_agent.node.guest_loads``).
_WEIGHT = 1 - numpy.exp(-60 / 480)
#: A balancer: called each minute with the minute and the world; yields moves (guest, host), which are made one by one.
Balancer = Callable[[int, "LoadedHosts"], Iterator[tuple[int, int]]]


class Guests(NamedTuple):
    """By guest: vcpus, memory in GiB, group (-1: none), and the minutes in which it comes and goes."""

    vcpus: numpy.ndarray
    memory: numpy.ndarray
    group: numpy.ndarray
    comes: numpy.ndarray
    goes: numpy.ndarray


def generated(_seed: int, chance: numpy.random.Generator) -> Guests:
    """A tenth of the guests are in groups of three that stay apart."""
    vcpus = chance.choice([2, 4, 8], _GUESTS)
    memory = vcpus * chance.choice([1, 2, 4], _GUESTS)
    group = numpy.where(numpy.arange(_GUESTS) < _GUESTS // 10, numpy.arange(_GUESTS) // 3, -1)
    return Guests(vcpus, memory, group, numpy.zeros(_GUESTS, int), numpy.full(_GUESTS, _MINUTES))


def replayed(seed: int, _chance: numpy.random.Generator) -> Guests:
    """Each n-th request of the trace, from the seed on, so that at the peak all cores of the hosts are sold 1.8 times."""
    asked = list(traces.requests())
    every = round(traces.peak(asked)[0] / (_SOLD * _HOSTS * _CORES))
    taken = asked[seed::every]
    # The trace fills an empty fleet: the days at its end are looked at.
    begin_s = max(each.at_s for each in taken) - 60 * _MINUTES
    comes = numpy.array([max(0, math.ceil((each.at_s - begin_s) / 60)) for each in taken])
    goes = numpy.array([min(_MINUTES, math.ceil((each.ends_s - begin_s) / 60)) if each.ends_s < math.inf else _MINUTES
                        for each in taken])  # fmt: skip
    lives = goes > comes
    vcpus = numpy.array([each.vcpus for each in taken])
    memory = numpy.array([math.ceil(each.quarters / 4) for each in taken])
    return Guests(vcpus[lives], memory[lives], numpy.full(lives.sum(), -1), comes[lives], goes[lives])


class LoadedHosts:
    """Hosts and guests, with the load of each guest in cores at each minute."""

    def __init__(self, guests: Guests, loads: numpy.ndarray) -> None:
        self.vcpus, self.memory, self.group, self.comes, self.goes = guests
        self.number = len(self.vcpus)
        self.loads = loads
        self.at = numpy.arange(self.number) % _HOSTS
        self.minute = -1

    def go_on(self) -> None:
        """Let the next minute begin: guests go, and each that comes gets the host with the fewest vcpus sold."""
        self.minute += 1
        if not self.minute and not self.comes.any():
            return
        for guest in numpy.flatnonzero(self.comes == self.minute).tolist():
            there = self.is_there()
            there[self.comes == self.minute] &= numpy.flatnonzero(self.comes == self.minute) < guest
            sold = numpy.bincount(self.at, weights=self.vcpus * there, minlength=_HOSTS)
            held = numpy.bincount(self.at, weights=self.memory * there, minlength=_HOSTS)
            able = held + self.memory[guest] <= _MEMORY_GIB
            assert able.any(), "a guest finds no memory: the fleet is too small for a comparison"
            self.at[guest] = int(numpy.where(able, sold, numpy.inf).argmin())

    def is_there(self) -> numpy.ndarray:
        found: numpy.ndarray = (self.comes <= self.minute) & (self.minute < self.goes)
        return found

    @property
    def load(self) -> numpy.ndarray:
        """Of each guest in cores, now."""
        now: numpy.ndarray = self.loads[:, self.minute]
        return now

    def of_hosts(self) -> numpy.ndarray:
        return numpy.bincount(self.at, weights=self.load, minlength=_HOSTS) / _CORES

    def memory_of_hosts(self) -> numpy.ndarray:
        return numpy.bincount(self.at, weights=self.memory * self.is_there(), minlength=_HOSTS)

    def may(self) -> numpy.ndarray:
        """Guests × hosts: the guest is there, there is memory, and no other member of the guest's group."""
        found = self.memory_of_hosts()[None, :] + self.memory[:, None] <= _MEMORY_GIB
        found &= self.is_there()[:, None]
        for group in range(self.group.max() + 1):
            members = numpy.flatnonzero(self.group == group)
            found[numpy.ix_(members, self.at[members])] = False
        found[numpy.arange(self.number), self.at] = False
        return found

    def after(self, change: numpy.ndarray, before: numpy.ndarray) -> numpy.ndarray:
        """Guests × hosts × hosts: a number of the hosts if the guest was there.

        :param change: guests: what the guest adds to it; ``before``: hosts, now
        """
        found = numpy.tile(before, (self.number, _HOSTS, 1))
        guests, hosts = numpy.arange(self.number), numpy.arange(_HOSTS)
        found[guests, :, self.at] -= change[:, None]
        found[:, hosts, hosts] += change[:, None]
        return found


def _shares(chance: numpy.random.Generator, guests: Guests) -> numpy.ndarray:
    """Guests × minutes: a level that changes every some hours, the time of day, short peaks, and noise; else 0."""
    found = numpy.zeros((len(guests.vcpus), _MINUTES))
    for guest, (comes, goes) in enumerate(zip(guests.comes.tolist(), guests.goes.tolist(), strict=True)):
        minutes = numpy.arange(comes, goes)
        level = numpy.empty(len(minutes))
        at = 0
        while at < len(minutes):
            lasts = int(chance.exponential(10 * 60)) + 30
            level[at : at + lasts] = chance.beta(1.2, 2.5)
            at += lasts
        day = 0.15 * numpy.sin(2 * numpy.pi * (minutes / _DAY + chance.random()))
        peaks = 0.5 * (chance.random(len(minutes)) < 0.002)
        lasting = numpy.convolve(peaks, numpy.ones(5))[: len(minutes)]
        shares = level + day + lasting + 0.05 * chance.standard_normal(len(minutes))
        found[guest, comes:goes] = numpy.clip(shares, 0.01, 1.0)
    return found


def _imbalance(loads: numpy.ndarray) -> numpy.ndarray:
    """Standard deviation by mean."""
    found: numpy.ndarray = loads.std(axis=-1) / numpy.maximum(loads.mean(axis=-1), 1e-9)
    return found


def _best(world: LoadedHosts) -> tuple[int, int, float]:
    """Return the move after which the loads differ least, and their imbalance."""
    after = world.after(world.load / _CORES, world.of_hosts())
    found = numpy.where(world.may(), _imbalance(after), numpy.inf)
    guest, host = numpy.unravel_index(int(found.argmin()), found.shape)
    return int(guest), int(host), float(found[guest, host])


def nothing(_minute: int, _world: LoadedHosts) -> Iterator[tuple[int, int]]:
    yield from ()


def cloudstack(minute: int, world: LoadedHosts) -> Iterator[tuple[int, int]]:
    """Each hour, above an imbalance of 0.4: the best moves, 50 at most, until it is below."""
    for _number in range(50 if minute % 60 == 0 else 0):
        now = float(_imbalance(world.of_hosts()))
        guest, host, then = _best(world)
        if now <= 0.4 or then >= now:
            return
        yield guest, host


def proxmox() -> Balancer:
    """Above an imbalance of 0.3 in three rounds (of a minute here, not 10 s): one move, if it lowers it by a tenth."""
    rounds = [0]

    def balance(_minute: int, world: LoadedHosts) -> Iterator[tuple[int, int]]:
        now = float(_imbalance(world.of_hosts()))
        rounds[0] = rounds[0] + 1 if now > 0.3 else 0
        if rounds[0] >= 3:
            guest, host, then = _best(world)
            if then <= 0.9 * now:
                rounds[0] = 0
                yield guest, host

    return balance


def incus(cooldown_min: int = _COOLDOWN_MIN) -> Balancer:
    """Each quarter of an hour (assumed; off by default), 20 points between the busiest host and the idlest: one guest moves
    that has not for six hours, and takes at most half of the difference.
    """
    moved: dict[int, int] = {}

    def balance(minute: int, world: LoadedHosts) -> Iterator[tuple[int, int]]:
        loads = world.of_hosts()
        busy, idle = int(loads.argmax()), int(loads.argmin())
        if minute % 15 or loads[busy] - loads[idle] < 0.2:
            return
        most = (loads[busy] - loads[idle]) / 2 * _CORES
        may = world.may()[:, idle] & (world.at == busy) & (world.load <= most)
        guests = [
            each for each in numpy.flatnonzero(may).tolist() if minute - moved.get(each, -cooldown_min) >= cooldown_min
        ]
        if guests:
            chosen = max(guests, key=lambda each: (world.load[each], each))
            moved[chosen] = minute
            yield chosen, idle

    return balance


def hbal(minute: int, world: LoadedHosts) -> Iterator[tuple[int, int]]:
    """Each hour (assumed; an operator runs it): moves while one lowers the score by 0.01. The score is the sum of the
    standard deviations of the loads of processors and memory.
    """
    for _number in range(50 if minute % 60 == 0 else 0):
        memory = world.memory_of_hosts() / _MEMORY_GIB
        after = world.after(world.memory / _MEMORY_GIB, memory)
        loads = world.after(world.load / _CORES, world.of_hosts())
        now = world.of_hosts().std() + memory.std()
        then = numpy.where(world.may(), loads.std(axis=-1) + after.std(axis=-1), numpy.inf)
        guest, host = numpy.unravel_index(int(then.argmin()), then.shape)
        if now - then[guest, host] < 0.01:
            return
        yield int(guest), int(host)


def fleet(settings: BalanceSettings) -> Balancer:
    """The loop of the conductors, in mode auto. It knows what agents report: of each guest the mean of some minutes, and of
    one that has just come the last minute. Hosts whose guests have changed are left alone until they are measured.
    """
    hot: dict[str, datetime.datetime] = {}
    moved: dict[int, int] = {}
    begun = datetime.datetime(2026, 1, 1)
    lasting = numpy.zeros(0)
    known_at: dict[int, datetime.datetime] = {}

    def balance(minute: int, world: LoadedHosts) -> Iterator[tuple[int, int]]:
        nonlocal lasting, known_at
        lasting = numpy.zeros(world.number) if not minute else lasting + _WEIGHT * (world.load - lasting)
        fresh = world.comes == minute
        lasting[fresh] = world.load[fresh]
        now = begun + datetime.timedelta(minutes=minute)
        settles = now + datetime.timedelta(seconds=guests_load.SETTLED_S)
        if minute:
            known_at.update(dict.fromkeys(world.at[fresh].tolist(), settles))
        loads = numpy.bincount(world.at, weights=lasting, minlength=_HOSTS) / _CORES
        memory = world.memory_of_hosts()
        hosts = [
            deciding.Host(
                str(number),
                cpu=float(loads[number]),
                memory=0.0,
                cores=float(_CORES),
                vcpus_free=1e9,
                memory_free_mb=1024.0 * float(_MEMORY_GIB - memory[number]),
                memory_mb=1024.0 * _MEMORY_GIB,
                smooth=True,
                known_at=known_at.get(number),
            )
            for number in range(_HOSTS)
        ]
        may = functools.cache(world.may)
        decide = functools.partial(
            deciding.decide,
            hosts,
            hot_since=hot,
            settings=settings,
            now=now,
            refuses=lambda guest, host: "" if may()[int(guest.uuid), int(host)] else "refused",
        )
        # The loads of hosts alone decide which are hot. In most minutes none is, and the guests need not be listed.
        found = decide(guests=())
        if found.hot_since:
            found = decide(guests=guests(minute, world))
        hot.clear()
        hot.update(found.hot_since)
        for each in found.moves:
            guest = int(each.guest.uuid)
            moved[guest] = minute
            lasting[guest] = world.load[guest]
            known_at |= dict.fromkeys((int(world.at[guest]), int(each.destination)), settles)
            yield guest, int(each.destination)

    def guests(minute: int, world: LoadedHosts) -> list[deciding.Guest]:
        takers = frozenset(map(str, range(_HOSTS)))
        return [
            deciding.Guest(
                str(each),
                str(each),
                str(world.at[each]),
                vcpus=int(world.vcpus[each]),
                memory_mb=1024 * int(world.memory[each]),
                disk_gb=0,
                cores=float(lasting[each]),
                stays="cooldown" if minute - moved.get(each, -(10**6)) < settings.cooldown_s / 60 else "",
                takers=takers,
            )
            for each in numpy.flatnonzero(world.is_there()).tolist()
        ]

    return balance


@dataclasses.dataclass
class _Count:
    hot_minutes: int = 0
    moves: int = 0
    gib: int = 0
    broken: int = 0
    repeats: int = 0


def run() -> None:
    balancers: dict[str, Callable[[], Balancer]] = {
        "none": lambda: nothing,
        "fleet": lambda: fleet(BalanceSettings()),
        "fleet, threshold 17, most_cpu_load 78": lambda: fleet(BalanceSettings(threshold=17, most_cpu_load=78)),
        "fleet, threshold 20, most_cpu_load 200": lambda: fleet(BalanceSettings(threshold=20, most_cpu_load=200)),
        "fleet, least_cpu_load 40": lambda: fleet(BalanceSettings(least_cpu_load=40)),
        "CloudStack DRS (re-implemented)": lambda: cloudstack,
        "Proxmox CRS (re-implemented)": proxmox,
        "Incus (re-implemented)": incus,
        "Ganeti hbal (re-implemented)": lambda: hbal,
    }
    sources = {"generated": generated} | ({"trace": replayed} if packing.TRACE in os.environ else {})
    for source, guests in sources.items():
        for seed in SEEDS:
            chance = numpy.random.default_rng(seed)
            asked = guests(seed, chance)
            loads = asked.vcpus[:, None] * _shares(chance, asked)
            used = round(float(loads.sum()) / _MINUTES / _HOSTS / _CORES, 3)
            about = {"guests": source, "seed": seed, "hosts": _HOSTS, "days": _MINUTES // _DAY, "used": used}
            for name, made in balancers.items():
                figures.report(
                    "balancers", balancer=name, **about, **vars(_simulated(LoadedHosts(asked, loads), made()))
                )


def _simulated(world: LoadedHosts, balance: Balancer) -> _Count:
    counted = _Count()
    last: dict[int, int] = collections.defaultdict(lambda: -(10**6))
    for minute in range(_MINUTES):
        world.go_on()
        for guest, host in balance(minute, world):
            counted.broken += not world.may()[guest, host]
            counted.repeats += minute - last[guest] < _COOLDOWN_MIN
            last[guest] = minute
            world.at[guest] = host
            counted.moves += 1
            counted.gib += int(world.memory[guest])
        counted.hot_minutes += int((world.of_hosts() > _HOT).sum())
    return counted
