# SPDX-License-Identifier: Apache-2.0
"""How much of what is asked for finds room, by how hosts are weighed: the mean of several samples, on several fleets.

The samples are consecutive parts of a trace (see ``fleet_trial.replaying.traces``), each on an empty fleet, and one that is
generated. The environment names the trace: ``FLEET_BENCH_TRACE``, with its flavor map beside it, and
``FLEET_BENCH_LIFETIMES``. Without a trace only the generated sample is taken. Decisions are the scheduler's own, as ``fleet
whatif`` makes them.
"""

from __future__ import annotations

import heapq
import itertools
import os
import pathlib
import random
import statistics
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from oslo_config import cfg

from fleet.db.feed.feed import Changes
from fleet.objects.whatif import Change, Demand
from fleet_trial.replaying import traces
from scheduler.compute.planning import whatif
from tests import factories
from tests.bench import figures, packing_bound
from tests.configuration import of_scheduler

TRACE, LIFETIMES = "FLEET_BENCH_TRACE", "FLEET_BENCH_LIFETIMES"
REQUESTS, SAMPLES, FIRST = "FLEET_BENCH_REQUESTS", "FLEET_BENCH_SAMPLES", "FLEET_BENCH_FIRST"


class ScaledFleet(NamedTuple):
    """A fleet in proportion to a sample.

    :ivar room: its cores, of the most that the sample has in use
    :ivar memory: memory a core of each shape of hosts, of what the sample has in use
    """

    room: float
    memory: Sequence[float]


#: Cores of each shape of hosts.
CORES = 48
FLEETS: Mapping[str, ScaledFleet] = {
    "short of cores": ScaledFleet(0.9, (1.5,)),
    "short of both": ScaledFleet(0.9, (1.0,)),
    "two shapes": ScaledFleet(0.9, (0.6, 1.5)),
    "too large": ScaledFleet(1.15, (1.15,)),
}
#: In place of a setting: no host is too small for what is left. No setting can be expected to place more.
GIANT = "one giant host a shape (reference)"
#: Multipliers of memory, of cores, of fragmentation and of alignment; disk, of which the trace has none, does not count.
SETTINGS: Mapping[str, tuple[float, float, float, float]] = {
    "spread memory and cores (default)": (1.0, 1.0, 0.0, 0.0),
    "pack cores": (0.0, -1.0, 0.0, 0.0),
    "pack memory": (-1.0, 0.0, 0.0, 0.0),
    "pack memory and cores": (-1.0, -1.0, 0.0, 0.0),
    "fragmentation, spread": (0.1, 0.1, 1.0, 0.0),
    "fragmentation, pack": (-0.1, -0.1, 1.0, 0.0),
    "alignment, spread": (1.0, 1.0, 0.0, 1.0),
    "fragmentation and alignment, spread": (1.0, 1.0, 1.0, 1.0),
    "a little fragmentation, alignment": (1.0, 1.0, 0.35, 2.0),
    GIANT: (1.0, 1.0, 0.0, 0.0),
}


def run() -> None:
    samples = [list(generated()), *_samples()]
    for fleet_name, fleet in FLEETS.items():
        bounds, empty = zip(*(_bounds(fleet, sample) for sample in samples), strict=True)
        of_default: list[float] = []
        for name, multipliers in SETTINGS.items():
            is_giant = name == GIANT
            found = [_replayed(fleet, sample, multipliers, is_giant) for sample in samples]
            shares = [[each[key] for each in found] for key in ("core_hours", "instances", "empty")]
            of_default = of_default or shares[0]
            more = [one - other for one, other in zip(shares[0], of_default, strict=True)]
            figures.report(
                "packing",
                fleet=fleet_name,
                setting=name,
                core_hours_share=_mean(shares[0]),
                instances_share=_mean(shares[1]),
                empty_hosts_on_average=_mean(shares[2]),
                bound=_mean(bounds),
                empty_hosts_bound=_mean(empty),
                # Against the default, sample by sample: a difference within twice its error is none.
                core_hours_more=_mean(more),
                core_hours_more_error=_error(more),
                decision_ms=_mean([each["decision_ms"] for each in found]),
                core_hours_shares=[round(each, 4) for each in shares[0]],
                instances_shares=[round(each, 4) for each in shares[1]],
            )


def _mean(numbers: Sequence[float]) -> float:
    return round(statistics.mean(numbers), 4)


def _error(numbers: Sequence[float]) -> float | None:
    """Return the standard error of the mean; None of a single sample."""
    return round(statistics.stdev(numbers) / len(numbers) ** 0.5, 4) if len(numbers) > 1 else None


def _replayed(
    fleet: ScaledFleet, demands: Sequence[Demand], multipliers: Sequence[float], is_giant: bool = False
) -> dict[str, float]:
    state = _hosts(fleet, demands)
    if is_giant:
        state = factories.changes(_giants(state.nodes))
    found = whatif.run(_weighing(*multipliers), state, Change(), demands, lambda _done: None)
    return {
        "core_hours": found["vcpu_hours_placed"] / found["vcpu_hours_asked"],
        "instances": found["placed"] / found["instances"],
        "empty": found["hosts_empty_on_average"] / found["hosts"],
        "decision_ms": found["decision_ms"],
    }


def _bounds(fleet: ScaledFleet, demands: Sequence[Demand]) -> tuple[float, float]:
    """Return the most of the core-hours that can be placed, and the most of the hosts that can be empty on average."""
    nodes = _hosts(fleet, demands).nodes
    most = packing_bound.core_hours(demands, [(each.vcpus, each.memory_mb) for each in _giants(nodes)])
    empty = packing_bound.empty_hosts(demands, [(each.vcpus, each.memory_mb) for each in nodes])
    return most / packing_bound.core_hours(demands, [(1e9, 1e12)]), empty / len(nodes)


def _giants(nodes: Sequence[factories.Node]) -> list[factories.Node]:
    """Return one host for each shape, with all that the hosts of this shape have: nothing on it is fragmented."""
    shapes: dict[tuple[int, int], list[factories.Node]] = {}
    for each in nodes:
        shapes.setdefault((each.vcpus, each.memory_mb), []).append(each)
    return [
        factories.node(
            f"shape{number}",
            id=number,
            vcpus=sum(each.vcpus for each in alike),
            memory_mb=sum(each.memory_mb for each in alike),
            local_gb=10**9,
        )
        for number, alike in enumerate(shapes.values(), 1)
    ]


_RESOURCES = ("vcpus", "memory_mb")


def _samples() -> Iterator[list[Demand]]:
    if TRACE in os.environ:
        length, first = _length(), int(os.environ.get(FIRST, "0"))
        asked = itertools.islice(demands(), first * length, None)
        for _number in range(int(os.environ.get(SAMPLES, "10"))):
            yield list(itertools.islice(asked, length))


def _length() -> int:
    return int(os.environ.get(REQUESTS, "2000"))


def generated() -> Iterator[Demand]:
    """Requests of one to four instances; half of the cores are asked for in large sizes, and lives differ a lot."""
    chance = random.Random(1)
    sizes = ((1, 2048), (2, 4096), (2, 16384), (4, 8192), (8, 16384), (8, 65536), (16, 32768))
    for number in range(_length()):
        vcpus, memory_mb = chance.choices(sizes, [30, 25, 10, 15, 10, 5, 5])[0]
        count = chance.choice((1, 1, 2, 4))
        lives = [chance.lognormvariate(9.5, 1.5) for _ in range(count)]
        yield _demand({"vcpus": vcpus, "memory_mb": memory_mb}, count, lives, 30.0 * number)


def demands() -> Iterator[Demand]:
    """Return all requests of the trace."""
    path, lifetimes = pathlib.Path(os.environ[TRACE]), os.environ.get(LIFETIMES)
    flavors = traces.read_flavors(path.parent / "flav_map.txt")
    bins = traces.read_bins(path.parent / "v1.interval_map.txt") if lifetimes else {}
    for request in traces.read_requests(path, pathlib.Path(lifetimes) if lifetimes else None, bins):
        yield _demand(flavors[request.flavor], request.count, request.lifetimes_s, request.at_s)


def _demand(flavor: Mapping[str, int], count: int, lifetimes_s: Sequence[float | None], at_s: float) -> Demand:
    uuids = [str(uuid.uuid4()) for _ in range(count)]
    spec = {
        "instance_type": flavor,
        "num_instances": count,
        "instance_uuids": uuids,
        "instance_properties": {"uuid": uuids[0]},
    }
    return Demand(spec, {}, list(lifetimes_s), at_s)


def _peak(demands: Sequence[Demand], resource: str) -> float:
    """The most of a resource that is in use at a time if every instance is placed."""
    return max(itertools.accumulate(change for _at_s, change in _changes(demands, resource)))


def _changes(demands: Sequence[Demand], resource: str) -> Iterator[tuple[float, int]]:
    """The times at which so much comes into use, or (negative) out of use."""
    ends: list[tuple[float, int]] = []
    for demand in demands:
        while ends and ends[0][0] <= demand.at_s:
            yield heapq.heappop(ends)
        size = demand.request_spec["instance_type"][resource]
        for life_s in demand.lifetimes_s:
            yield demand.at_s, size
            if life_s is not None:
                heapq.heappush(ends, (demand.at_s + life_s, -size))


def _hosts(fleet: ScaledFleet, demands: Sequence[Demand]) -> Changes:
    cores, memory_mb = (_peak(demands, resource) for resource in _RESOURCES)
    count = round(fleet.room * cores / CORES)
    sizes = itertools.islice(itertools.cycle(fleet.memory), count)
    return factories.changes(
        [
            factories.node(
                f"host{number:04}",
                id=number + 1,
                vcpus=CORES,
                memory_mb=round(size * CORES * memory_mb / cores / 1024) * 1024,
                local_gb=1000,
            )
            for number, size in enumerate(sizes)
        ]
    )


def cells(name: str, demands: Sequence[Demand], unit_mb: int) -> dict[str, list[list[int]]]:
    """Return the hosts of a fleet in proportion to a sample: vcpus and memory in units of their only cell."""
    nodes = _hosts(FLEETS[name], demands).nodes
    return {each.host: [[each.vcpus, each.memory_mb // unit_mb]] for each in nodes}


def _weighing(ram: float, cpu: float, fragmentation: float, alignment: float) -> cfg.ConfigOpts:
    return of_scheduler(
        ram_weight_multiplier=ram,
        cpu_weight_multiplier=cpu,
        fragmentation_weight_multiplier=fragmentation,
        alignment_weight_multiplier=alignment,
        disk_weight_multiplier=0.0,
        # In thought no build ever ends, which would count against its host for ever.
        io_ops_weight_multiplier=0.0,
    )
