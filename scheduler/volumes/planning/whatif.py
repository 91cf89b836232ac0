# SPDX-License-Identifier: Apache-2.0
"""``fleet whatif`` for volumes: demands decided one after the other on a copy of the pools.

:mod:`fleet_cli.planning.whatif` loads it by its entry point. Every pick holds its space until its volume ends.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Mapping, Sequence

import numpy
from oslo_config import cfg

from fleet.db.feed.feed import Changes
from fleet.objects.feed_rows import ShownPool, ShownVolume
from fleet.objects.volume import size_of
from fleet.objects.whatif import VOLUME_RATIO, Change, Demand
from fleet.utilization.history import REQUESTS, SECONDS, PoolHistory
from fleet.utilization.pools import Pools
from scheduler import conf as scheduler_conf
from scheduler.engine.decision import StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.planning.copied_fleet import CopiedFleet, without_filters
from scheduler.planning.hypothetical import Places, hypothetical
from scheduler.planning.outcomes import Outcomes
from scheduler.volumes import conf as volume_conf
from scheduler.volumes.domain import space
from scheduler.volumes.domain.pool_state import name_of
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.drivers import loading
from scheduler.volumes.drivers.host_manager import HostManager


def run(
    conf: cfg.ConfigOpts,
    state: Changes[ShownPool, ShownVolume],
    change: Change,
    demands: Sequence[Demand],
    tick: Callable[[int], object],
) -> dict[str, object]:
    """Place the demands, which are in the order of their times, and return the figures.

    :param conf: of the scheduler; its filters and weighers are used, whatever its driver
    :param state: the whole state, as the feed of pools reports it
    :param tick: called with 1 after each demand
    :raises errors.NotFound: a backend that is to go, or to be copied, is not there
    :raises errors.InvalidInput: a filter that is to go is not among those configured
    """
    scheduler_conf.register_opts(conf)
    volume_conf.register_opts(conf)
    asked = without_filters(loading.load_pipeline(conf), change.without_filters)
    changed = hypothetical(state, change, _POOLS)
    pools = CopiedFleet(asked, changed, conf.service_down_time, HostManager)
    outcomes, ends = Outcomes(), list[tuple[float, str]]()
    history = _history(demands)

    def go_on(at_s: float) -> None:
        """Take the samples that are due until then."""
        at = at_s if history.axis == SECONDS else outcomes.requests
        if history.due(at):
            history.add(at, pools.read(_reading), outcomes.placed, outcomes.refused)

    for demand in demands:
        while ends and ends[0][0] <= demand.at_s:
            at_s, uuid = heapq.heappop(ends)
            go_on(at_s)
            pools.release(uuid)
        go_on(demand.at_s)
        request = VolumeRequest.from_wire(demand.request_spec, demand.filter_properties)
        began = time.perf_counter()
        made = pools.decide(request)
        took_s, size_gb = time.perf_counter() - began, request.properties.size
        outcomes.add(demand, made, took_s, size_of(size_gb, request.volume_type.name), size_gb)
        (life_s,) = demand.lifetimes_s
        if made.complete and life_s is not None:
            heapq.heappush(ends, (demand.at_s + life_s, made.picks[0].instance_uuid))
        tick(1)
    counts = {"volumes": outcomes.placed + outcomes.refused}
    history.finish(pools.read(_names), pools.read(_reading), outcomes.placed, outcomes.refused)
    return {**outcomes.figures(), **counts, **outcomes.hours("gb"), **pools.read(_use), **history.figures()}


def _history(demands: Sequence[Demand]) -> PoolHistory:
    """Return the history to fill: over the time of the demands, or over their number if they have no times."""
    first, last = (demands[0].at_s, demands[-1].at_s) if demands else (0.0, 0.0)
    return PoolHistory(SECONDS, first, last) if first < last else PoolHistory(REQUESTS, 0, len(demands))


def _names(pools: Candidates, _state: StateAge) -> Sequence[str]:
    """The names of the pools of a known capacity, in the order of :func:`_reading`."""
    return [name_of(pools.key(row)) for row in pools.rows[_sized(pools)].tolist()]


def _reading(pools: Candidates, _state: StateAge) -> Pools:
    sized = _sized(pools)
    return Pools(
        total=pools.column("total_capacity_gb")[sized],
        provisioned=pools.column("provisioned_capacity_gb")[sized],
        room=space.room(pools, True)[sized],
        empty=int(numpy.count_nonzero(pools.present() & (pools.column("total_volumes") == 0))),
    )


def _sized(pools: Candidates) -> numpy.ndarray:
    found: numpy.ndarray = pools.present() & pools.column("sized")
    return found


def _emptied(row: ShownPool, _host: str) -> Mapping[str, object]:
    """The columns of a pool like this one that has no volumes."""
    return {
        "free_capacity_gb": row.total_capacity_gb,
        "allocated_capacity_gb": 0,
        "provisioned_capacity_gb": 0.0,
        "total_volumes": 0,
    }


def _overcommitted(ratios: Mapping[str, float]) -> Mapping[str, object]:
    """The ledger has the ratio as text, because it may be ``auto``."""
    return {"max_over_subscription_ratio": str(ratios[VOLUME_RATIO])} if VOLUME_RATIO in ratios else {}


_POOLS = Places(_emptied, _overcommitted)


def _use(pools: Candidates, _state: StateAge) -> dict[str, object]:
    """Return the space that volumes hold of all pools, and the largest volume that still fits.

    Capacity without a number is left out.
    """
    there, sized = pools.present(), _sized(pools)
    total = float(pools.column("total_capacity_gb")[sized].sum())
    provisioned = float(pools.column("provisioned_capacity_gb")[sized].sum())
    return {
        "pools": int(numpy.count_nonzero(there)),
        "pools_in_use": int(numpy.count_nonzero(pools.column("total_volumes")[there])),
        "provisioned_gb": f"{provisioned:.0f} of {total:.0f} ({100 * provisioned / total if total else 0:.1f} %)",
        "largest_thin": _largest(pools, there, thin=True),
        "largest_thick": _largest(pools, there, thin=False),
    }


def _largest(pools: Candidates, there: numpy.ndarray, thin: bool) -> str:
    """The largest volume that a pool has space for, and the pool. Filters may still refuse it."""
    if not there.any():
        return ""
    rooms = numpy.where(there, space.room(pools, thin), -math.inf)
    best = int(rooms.argmax())
    if rooms[best] < 1:
        return ""
    amount = "unlimited" if math.isinf(rooms[best]) else f"{math.floor(rooms[best])} GiB"
    return f"{amount} on {name_of(pools.key(int(pools.rows[best])))}"
