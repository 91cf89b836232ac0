# SPDX-License-Identifier: Apache-2.0
"""``fleet whatif``: requests decided one after the other on a copy of the fleet, by the code that decides the real ones.

Nothing is sent, booked or written anywhere else. For the hosts time stands still at the newest heartbeat: who was alive
then stays so. Every pick is taken as a success, and holds its room until its instance ends.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy
from oslo_config import cfg

from fleet import capacity, errors
from fleet.clock import utcnow
from fleet.db.feed import Changes
from fleet.objects import RequestSpec
from fleet.objects.flavor_mix import Counts, FlavorMix, Shape
from fleet.objects.whatif import Change, Demand
from scheduler import conf as scheduler_conf
from scheduler import loading
from scheduler.compute.consumption import consumption
from scheduler.engine import decide, pipeline
from scheduler.engine.candidates import Candidates
from scheduler.engine.consumption import Consumption
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.request_cache import RequestCache
from scheduler.host_manager import HostManager
from scheduler.planning.hypothetical import FixedFeed, hypothetical, newest_heartbeat

#: Of those that found no host, so many are named.
_NAMED = 10
#: The flavor mix is learned anew this often, in seconds of the demands' time.
_LEARN_EVERY_S = 900.0


def run(
    conf: cfg.ConfigOpts, state: Changes, change: Change, demands: Iterable[Demand], tick: Callable[[int], object]
) -> dict[str, Any]:
    """Place the demands, which are in the order of their times, and return the figures.

    :param conf: of the scheduler; its filters and weighers are used, whatever its driver
    :param state: everything, as the feed tells it
    :param tick: called with 1 after each demand
    :raises errors.NotFound: a host that is to go, or to be copied, is not there
    :raises errors.InvalidInput: a filter that is to go is not among those configured
    """
    scheduler_conf.register_opts(conf)
    course = _Course(_pipeline(conf, change.without_filters), hypothetical(state, change), conf.service_down_time)
    for demand in demands:
        course.take(demand)
        tick(1)
    return course.figures()


def _pipeline(conf: cfg.ConfigOpts, without: Sequence[str]) -> pipeline.Pipeline:
    asked = loading.load_pipeline(conf)
    names = [type(each).__name__ for each in asked.filters]
    for name in without:
        if name not in names:
            raise errors.InvalidInput(field="without-filter", reason=f"{name} is not among {', '.join(names)}")
    left = [each for each in asked.filters if type(each).__name__ not in without]
    return dataclasses.replace(asked, filters=left, domain=dataclasses.replace(asked.domain, consumption=_built))


def _built(request: RequestSpec) -> Consumption:
    """Return what an instance takes of its host once it is built. Here every build ends at once."""
    taken = consumption(request)
    numbers = {name: amount for name, amount in taken.numbers.items() if name != "num_io_ops"}
    return dataclasses.replace(taken, numbers=numbers)


class _Course:
    """The hypothetical fleet, and the outcome of the demands so far."""

    def __init__(self, asked: pipeline.Pipeline, state: Changes, service_down_time_s: float) -> None:
        now = newest_heartbeat(state) or utcnow()
        feed = FixedFeed(state)
        self._manager = HostManager(feed, feed, lambda: now, math.inf, service_down_time_s)
        self._manager.refresh()
        self._pipeline = asked
        self._cache = RequestCache()
        self._chance = random.Random(1)
        self._deaths: list[tuple[float, str, float, Shape]] = []
        self._requests = 0
        self._instances: collections.Counter[str] = collections.Counter()
        self._reasons: collections.Counter[str] = collections.Counter()
        self._unplaced: list[str] = []
        self._took_s: list[float] = []
        self._lives: list[tuple[float, float | None, int, bool]] = []
        self._mix = _Learning(state.mix)
        self._refused_shapes: collections.Counter[Shape] = collections.Counter()
        self._began_s: float | None = None
        self._at_s = 0.0
        #: Empty hosts at ``at_s``, and the sum of empty hosts times seconds until then.
        self._empty_now = self._manager.consider(_empty)
        self._empty_s = 0.0

    def take(self, demand: Demand) -> None:
        if self._began_s is None:
            self._began_s = self._at_s = demand.at_s
        self._end_due(demand.at_s)
        self._go_on(demand.at_s)
        learned = self._mix.due(demand.at_s)
        if learned is not None:
            self._manager.hint(lambda cache: cache.learn_demand(learned))
        request = RequestSpec.from_wire(demand.request_spec, demand.filter_properties)
        began = time.perf_counter()
        made = self._manager.decide(
            functools.partial(
                decide.decide,
                self._pipeline,
                pipeline.prepare(self._pipeline, request),
                chance=self._chance,
                log=False,
                cache=self._cache,
            ),
            request.instance_uuids,
        )
        self._took_s.append(time.perf_counter() - began)
        self._requests += 1
        self._mix.asked(request)
        self._instances["placed" if made.complete else "refused"] += request.num_instances
        self._lives += [(demand.at_s, life, request.vcpus, made.complete) for life in demand.lifetimes_s]
        if made.complete:
            for pick, life_s in zip(made.picks, demand.lifetimes_s, strict=True):
                if life_s is not None:
                    heapq.heappush(self._deaths, (demand.at_s + life_s, pick.instance_uuid, life_s, _shape(request)))
            self._empty_now = self._manager.consider(_empty)
        else:
            self._refused(demand, request, made)

    def _refused(self, demand: Demand, request: RequestSpec, made: Decision) -> None:
        assert made.refusal is not None
        self._reasons[made.refusal.code.value] += request.num_instances
        self._refused_shapes[_shape(request)] += request.num_instances
        if len(self._unplaced) < _NAMED:
            self._unplaced.append(f"{demand.name}: {made.reason}" if demand.name else made.reason)

    def _end_due(self, now_s: float) -> None:
        while self._deaths and self._deaths[0][0] <= now_s:
            at_s, uuid, life_s, shape = heapq.heappop(self._deaths)
            self._go_on(at_s)
            self._mix.ended(shape, life_s)
            self._manager.hint(lambda cache, uuid=uuid: cache.release(uuid))  # type: ignore[misc]
            self._empty_now = self._manager.consider(_empty)

    def _go_on(self, at_s: float) -> None:
        """Count the empty hosts until then."""
        self._empty_s += self._empty_now * (at_s - self._at_s)
        self._at_s = at_s

    def _empty_on_average(self) -> float:
        """Return the time average of empty hosts; of their number at the end if no time has passed."""
        passed_s = self._at_s - (self._began_s or 0.0)
        return round(self._empty_s / passed_s if passed_s else float(self._empty_now), 1)

    def figures(self) -> dict[str, Any]:
        """Return numbers, and sentences for people. Hours are those of the trace."""
        asked_h, placed_h = self._vcpu_hours()
        return {
            **self._manager.consider(_use),
            "requests": self._requests,
            "instances": self._instances.total(),
            "placed": self._instances["placed"],
            "refused": self._instances["refused"],
            "refused_by_reason": dict(self._reasons),
            "refused_by_size": {str(shape): count for shape, count in self._refused_shapes.most_common()},
            "hosts_empty_on_average": self._empty_on_average(),
            "vcpu_hours_asked": round(asked_h, 1),
            "vcpu_hours_placed": round(placed_h, 1),
            "unplaced": self._unplaced,
            "decision_ms": round(statistics.median(self._took_s) * 1000, 3) if self._took_s else None,
        }

    def _vcpu_hours(self) -> tuple[float, float]:
        """Asked for and placed; of instances without an end, until the last request."""
        end_s = max((at_s for at_s, _life, _vcpus, _placed in self._lives), default=0.0)
        asked = placed = 0.0
        for at_s, life_s, vcpus, was_placed in self._lives:
            hours = vcpus * min(math.inf if life_s is None else life_s, end_s - at_s) / 3600
            asked += hours
            placed += hours if was_placed else 0.0
        return asked, placed


class _Learning:
    """Learns the flavor mix of the demands in their own time, as conductors do in the database."""

    def __init__(self, known: FlavorMix | None) -> None:
        self._mix = dataclasses.replace(known, at_s=0.0) if known else FlavorMix()
        self._new: dict[Shape, Counts] = {}

    def asked(self, request: RequestSpec) -> None:
        self._count(_shape(request), Counts(requests=request.num_instances))

    def ended(self, shape: Shape, life_s: float) -> None:
        self._count(shape, Counts(ended=1, hours=life_s / 3600))

    def due(self, now_s: float) -> FlavorMix | None:
        """Return the next version of the mix, if it is time for one."""
        if not self._new or now_s < self._mix.at_s + _LEARN_EVERY_S:
            return None
        self._mix, self._new = self._mix.with_more(self._new, now_s), {}
        return self._mix

    def _count(self, shape: Shape, more: Counts) -> None:
        self._new[shape] = self._new.get(shape, Counts()).plus(more)


def _shape(request: RequestSpec) -> Shape:
    return Shape(request.vcpus, request.memory_mb, capacity.claimed_disk_gb(request.root_gb, request.ephemeral_gb))


def _empty(hosts: Candidates, _state: StateAge) -> int:
    """Return how many hosts have no instance."""
    return int(numpy.count_nonzero(hosts.present() & (hosts.column("num_instances") == 0)))


def _use(hosts: Candidates, _state: StateAge) -> dict[str, Any]:
    """Return the used share of each resource over all hosts. More than 100 % means overcommit."""
    there = hosts.present()

    def total(name: str) -> float:
        return float(numpy.add.reduce(hosts.column(name)[there]))

    ram, disk = total("total_usable_ram_mb"), total("total_usable_disk_gb")
    return {
        "hosts": int(numpy.count_nonzero(there)),
        "hosts_in_use": int(numpy.count_nonzero(hosts.column("num_instances")[there])),
        "vcpus_used": _share(total("vcpus_used"), total("vcpus_total")),
        "memory_mb_used": _share(ram - total("free_ram_mb"), ram),
        "disk_gb_used": _share(disk - total("free_disk_mb") / 1024, disk),
    }


def _share(used: float, of: float) -> str:
    return f"{used:.0f} of {of:.0f} ({100 * used / of if of else 0:.1f} %)"
