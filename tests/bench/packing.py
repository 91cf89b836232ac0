# SPDX-License-Identifier: Apache-2.0
"""What share of the core-hours that a trace asks for finds room on a fleet just too small, by how hosts are weighed.

The trace (see ``fleet.trial.traces``) is named by the environment: ``FLEET_BENCH_TRACE``, with its flavor map beside it, and
``FLEET_BENCH_LIFETIMES``. Decisions are the scheduler's own, as ``fleet whatif`` makes them.
"""

from __future__ import annotations

import heapq
import itertools
import os
import pathlib
import uuid
from collections.abc import Iterator, Mapping, Sequence

from oslo_config import cfg

from fleet.db.feed import Changes
from fleet.objects.whatif import Change, Demand
from fleet.trial import traces
from scheduler.planning import whatif
from tests import factories
from tests.bench import figures
from tests.configuration import of_scheduler

TRACE, LIFETIMES, REQUESTS = "FLEET_BENCH_TRACE", "FLEET_BENCH_LIFETIMES", "FLEET_BENCH_REQUESTS"
#: Of the most cores that the trace has in use at a time, so many are there.
ROOM = 0.6
#: Two shapes in turn, so that where an instance goes matters to what fits later: cores, and GB of memory.
SHAPES = ((48, 168), (32, 192))
#: Multipliers of memory and of cores; disk, of which the trace has none, does not count.
SETTINGS: Mapping[str, tuple[float, float]] = {
    "spread memory and cores (default)": (1.0, 1.0),
    "spread memory": (1.0, 0.0),
    "spread cores": (0.0, 1.0),
    "by chance": (0.0, 0.0),
    "pack memory": (-1.0, 0.0),
    "pack cores": (0.0, -1.0),
    "pack memory and cores": (-1.0, -1.0),
    "pack memory, spread cores": (-1.0, 1.0),
    "spread memory, pack cores": (1.0, -1.0),
}


def run() -> None:
    if TRACE not in os.environ:
        figures.report("packing", skipped=f"{TRACE} names no trace")
        return
    demands = list(_demands())
    cores = max(itertools.accumulate(change for _at_s, change in _changes(demands)))
    hosts = round(ROOM * cores / (sum(vcpus for vcpus, _gb in SHAPES) / len(SHAPES)))
    for name, (ram, cpu) in SETTINGS.items():
        found = whatif.run(_weighing(ram, cpu), _fleet(hosts), Change(), demands, lambda _done: None)
        figures.report(
            "packing",
            setting=name,
            hosts=hosts,
            requests=found["requests"],
            instances=found["instances"],
            placed=found["placed"],
            core_hours_asked=found["vcpu_hours_asked"],
            core_hours_share=round(found["vcpu_hours_placed"] / found["vcpu_hours_asked"], 4),
            decision_ms=found["decision_ms"],
        )


def _demands() -> Iterator[Demand]:
    path, lifetimes = pathlib.Path(os.environ[TRACE]), os.environ.get(LIFETIMES)
    flavors = traces.read_flavors(path.parent / "flav_map.txt")
    bins = traces.read_bins(path.parent / "v1.interval_map.txt") if lifetimes else {}
    requests = traces.read_requests(path, pathlib.Path(lifetimes) if lifetimes else None, bins)
    numbers = itertools.count(1)
    for request in itertools.islice(requests, int(os.environ.get(REQUESTS, "5000"))):
        uuids = [str(uuid.UUID(int=next(numbers))) for _ in range(request.count)]
        spec = {
            "instance_type": flavors[request.flavor],
            "num_instances": request.count,
            "instance_uuids": uuids,
            "instance_properties": {"uuid": uuids[0]},
        }
        yield Demand(spec, {}, list(request.lifetimes_s), request.at_s)


def _changes(demands: Sequence[Demand]) -> Iterator[tuple[float, int]]:
    """The times at which cores come into use, or (negative) out of use."""
    ends: list[tuple[float, int]] = []
    for demand in demands:
        while ends and ends[0][0] <= demand.at_s:
            yield heapq.heappop(ends)
        vcpus = demand.request_spec["instance_type"]["vcpus"]
        for life_s in demand.lifetimes_s:
            yield demand.at_s, vcpus
            if life_s is not None:
                heapq.heappush(ends, (demand.at_s + life_s, -vcpus))


def _fleet(hosts: int) -> Changes:
    shapes = itertools.islice(itertools.cycle(SHAPES), hosts)
    return factories.changes(
        [
            factories.node(f"host{number:04}", id=number + 1, vcpus=vcpus, memory_mb=gb * 1024, local_gb=1000)
            for number, (vcpus, gb) in enumerate(shapes)
        ]
    )


def _weighing(ram: float, cpu: float) -> cfg.ConfigOpts:
    return of_scheduler(
        ram_weight_multiplier=ram,
        cpu_weight_multiplier=cpu,
        disk_weight_multiplier=0.0,
        # In thought no build ever ends, which would count against its host for ever.
        io_ops_weight_multiplier=0.0,
        shuffle_best_same_weighed_hosts=not ram and not cpu,
    )
