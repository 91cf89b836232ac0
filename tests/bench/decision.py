# SPDX-License-Identifier: Apache-2.0
"""One decision: how long it takes, beside the refresh before it, one pass of numpy, and the obvious scheduler."""

from __future__ import annotations

import functools
import random
import statistics
import time
import uuid
from collections.abc import Callable

import numpy

from fleet.objects import RequestSpec
from fleet.objects.flavor_mix import Counts, FlavorMix, Shape
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.drivers.loading import load_pipeline
from scheduler.engine import decide, pipeline
from scheduler.engine.decision import Decision
from scheduler.engine.filtering import Tally
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.consumption import Consumption
from scheduler.engine.pipeline import Pipeline
from scheduler.engine.request_cache import RequestCache
from tests import factories
from tests.bench import figures, fleets
from tests.clock import FakeClock
from tests.configuration import of_scheduler
from tests.factories import PlacedInstance
from tests.unit.scheduler import reference

SIZES = (1_000, 10_000, 100_000)
ROUNDS = {1_000: 300, 10_000: 100, 100_000: 30}
CHANGED = 0.01
FLAVORS = ({"vcpus": 1, "memory_mb": 1792}, {"vcpus": 2, "memory_mb": 3584}, {"vcpus": 4, "memory_mb": 7168})


#: Sixteen shapes, as many as the public trace has.
MIX = FlavorMix(
    1,
    counts={
        Shape(vcpus, vcpus * memory_mb): Counts(requests=100.0 / vcpus)
        for vcpus in (1, 2, 4, 8)
        for memory_mb in (768, 1792, 3584, 7168)
    },
)


class Bench:
    """A host manager over a fleet that changes, and the configured default pipeline."""

    def __init__(self, hosts: int, **options: float) -> None:
        self.feed = fleets.ChangingFeed(hosts)
        self.manager = HostManager(self.feed, self.feed, clock=FakeClock(factories.NOW))
        self.pipeline = load_pipeline(of_scheduler(**options))
        self.chance = random.Random(1)
        self.cache = RequestCache()
        self.manager.refresh()

    def request(self, number: int, count: int = 1, sizes: dict[str, int] | None = None) -> RequestSpec:
        """As a caller sends it. Each is a request of its own: other uuids; the flavor's sizes in turn, unless given."""
        uuids = [str(uuid.UUID(int=self.chance.getrandbits(128))) for _ in range(count)]
        wire = {
            "instance_type": {"root_gb": 10, **(sizes or FLAVORS[number % len(FLAVORS)])},
            "num_instances": count,
            "instance_properties": {"uuid": uuids[0], "project_id": "p"},
            "instance_uuids": uuids,
        }
        return RequestSpec.from_wire(wire, {})

    def decide(self, request: RequestSpec) -> Decision:
        prepared = pipeline.prepare(self.pipeline, request)
        work = functools.partial(decide.decide, self.pipeline, prepared, chance=self.chance, cache=self.cache)
        made = self.manager.decide(work, request.instance_uuids)
        assert made.complete
        return made


def default_pipeline() -> Pipeline:
    return load_pipeline(of_scheduler())


def run() -> None:
    for hosts in SIZES:
        bench = Bench(hosts)
        single = _single(bench, hosts)
        _same_shape(bench, hosts)
        _several(bench, hosts, single)
        _fragmentation(hosts)
        if hosts == 10_000:
            _reference(bench, hosts, single)


def _single(bench: Bench, hosts: int) -> float:
    """One instance per request, one host in a hundred changed before each."""
    decisions, refreshes, rows = [], [], 0
    placed: list[PlacedInstance] = []
    for number in range(ROUNDS[hosts] + 1):
        rows = bench.feed.change(CHANGED, placed)
        request = bench.request(number)
        refreshes.append(figures.timed(bench.manager.refresh))
        made: list[Decision] = []
        decisions.append(figures.timed(functools.partial(_keep, made, bench, request)))
        placed = [PlacedInstance(pick.instance_uuid, *pick.key) for pick in made[0].picks]
    decided, refreshed = figures.Times(decisions[1:]), figures.Times(refreshes[1:])
    a_pass = figures.repeat(functools.partial(_one_pass, bench), 50)
    figures.report(
        "decision",
        hosts=hosts,
        **decided.to_line(),
        numpy_passes=round(decided.median_s / a_pass.median_s, 1),
        numpy_pass_ms=round(a_pass.median_s * 1e3, 4),
        refresh_ms=round(refreshed.median_s * 1e3, 3),
        refresh_us_per_row=round(refreshed.median_s / rows * 1e6, 2),
    )
    return decided.median_s


def _keep(made: list[Decision], bench: Bench, request: RequestSpec) -> None:
    made.append(bench.decide(request))


def _one_pass(bench: Bench) -> None:
    """The least that a decision can do: look at every number that the default filters and weighers read, once."""

    def look(candidates: Candidates, **_rest: object) -> Decision:
        for name in _COLUMNS:
            numpy.add.reduce(candidates.column(name))
        return Decision(1, 0, (), Tally((), 0, ()), Consumption({}), None)

    bench.manager.decide(look, ())


_COLUMNS = (
    *("free_ram_mb", "total_usable_ram_mb", "reserved_ram_mb", "ram_allocation_ratio"),
    *("free_disk_mb", "total_usable_disk_gb", "reserved_disk_mb", "disk_allocation_ratio"),
    *("vcpus_used", "vcpus_total", "reserved_vcpus", "cpu_allocation_ratio"),
    *("num_io_ops", "disabled", "last_seen_up"),
)


def _same_shape(bench: Bench, hosts: int) -> None:
    """A request with the key of an earlier one, after 1 % of the hosts changed; beside a request with new sizes."""
    repeated, fresh = [], []
    for number in range(ROUNDS[hosts]):
        repeated.append(_after_a_change(bench, bench.request(0)))
        novel = bench.request(0, sizes={"vcpus": 1 + number % 8, "memory_mb": 1000 + number, "root_gb": 1 + number})
        fresh.append(_after_a_change(bench, novel))
    again, first = figures.Times(repeated[1:]), figures.Times(fresh[1:])
    figures.report("same_shape", hosts=hosts, **again.to_line(), of_a_first=round(again.median_s / first.median_s, 3))


def _after_a_change(bench: Bench, request: RequestSpec) -> float:
    bench.feed.change(CHANGED)
    bench.manager.refresh()
    return figures.timed(functools.partial(bench.decide, request))


def _fragmentation(hosts: int) -> None:
    """The processor time of decisions with the weigher of fragmentation, of that of the default weighers, in turns.

    The weigher counts changed hosts again when it is asked next. So a changed row costs its refresh, and its part of what
    decisions of known sizes take longer than with the default weighers.
    """
    benches = Bench(hosts), Bench(hosts, fragmentation_weight_multiplier=1.0)
    for bench in benches:
        bench.manager.hint(lambda cache: cache.learn_demand(MIX))
    same, novel, refreshes = ([[], []] for _kind in range(3))
    rows = 0
    for number in range(ROUNDS[hosts]):
        sizes = {"vcpus": 1 + number % 8, "memory_mb": 1000 + number, "root_gb": 1 + number}
        for which, bench in enumerate(benches):
            rows = bench.feed.change(CHANGED)
            refreshes[which].append(_busy_s(bench.manager.refresh))
            same[which].append(_busy_s(functools.partial(bench.decide, bench.request(number))))
            novel[which].append(_busy_s(functools.partial(bench.decide, bench.request(number, sizes=sizes))))
    for kind, (without, with_it) in (("of three flavors", same), ("a new size each", novel)):
        plain_s, weighed_s = (statistics.median(each[3:]) for each in (without, with_it))
        figures.report(
            "fragmentation",
            hosts=hosts,
            requests=kind,
            shapes=len(MIX.counts),
            default_ms=round(plain_s * 1e3, 3),
            fragmentation_ms=round(weighed_s * 1e3, 3),
            of_default=round(weighed_s / plain_s, 2),
        )
    refreshed_s = statistics.median(refreshes[1][3:])
    later_s = statistics.median(same[1][3:]) - statistics.median(same[0][3:])
    figures.report(
        "fragmentation", hosts=hosts, rows=rows, us_per_changed_row=round((refreshed_s + later_s) / rows * 1e6, 2)
    )


def _busy_s(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def _several(bench: Bench, hosts: int, single_s: float) -> None:
    times = figures.Times([figures.timed(functools.partial(bench.decide, bench.request(0, 100))) for _ in range(5)])
    figures.report(
        "hundred_instances",
        hosts=hosts,
        **times.to_line(),
        of_hundred_requests=round(times.median_s / single_s / 100, 3),
    )


def _reference(bench: Bench, hosts: int, single_s: float) -> None:
    request = bench.request(0)
    slow = figures.timed(lambda: reference.select(bench.feed.nodes, request, 2, {}))
    figures.report("reference", hosts=hosts, reference_ms=round(slow * 1e3, 2), times_faster=round(slow / single_s))
