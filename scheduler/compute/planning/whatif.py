# SPDX-License-Identifier: Apache-2.0
"""``fleet whatif``: requests decided one after the other on a copy of the fleet, by the code that decides the real ones.

:mod:`fleet_cli.planning.whatif` loads it by its entry point. Every pick holds its room until its instance ends.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
import time
from collections.abc import Callable, Sequence

from oslo_config import cfg

from fleet import capacity
from fleet.db.feed.feed import Changes
from fleet.json_codec import JSONObject
from fleet.objects import Flavor, RequestSpec
from fleet.objects.flavor_mix import Counts, FlavorMix, Shape
from fleet.objects.whatif import Change, Demand
from fleet.utilization.history import REQUESTS, SECONDS, History
from scheduler.compute import conf as compute_conf
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine import pipeline
from scheduler.planning import readings
from scheduler.planning.copied_fleet import CopiedFleet, without_filters
from scheduler.planning.hypothetical import NODES, hypothetical
from scheduler.planning.outcomes import Outcomes

#: The flavor mix is learned anew this often, in seconds of the demands' time.
_LEARN_EVERY_S = 900.0


def run(
    conf: cfg.ConfigOpts, state: Changes, change: Change, demands: Sequence[Demand], tick: Callable[[int], object]
) -> JSONObject:
    """Place the demands, which are in the order of their times, and return the figures.

    :param conf: of the scheduler; its filters and weighers are used, whatever its driver
    :param state: the whole state, as the change feed reports it
    :param tick: called with 1 after each demand
    :raises errors.NotFound: a host that is to go, or to be copied, is not there
    :raises errors.InvalidInput: a filter that is to go is not among those configured
    """
    compute_conf.register_opts(conf)
    history = _history(demands)
    course = _Course(
        without_filters(loading.load_pipeline(conf), change.without_filters),
        hypothetical(state, change, NODES),
        conf.service_down_time,
        history,
        frozenset(change.without_hosts),
    )
    for demand in demands:
        course.take(demand)
        tick(1)
    return course.figures()


def _history(demands: Sequence[Demand]) -> History:
    """Return the history to fill: over the time of the demands, or over their number if they have no times."""
    asked: collections.Counter[Shape] = collections.Counter()
    for each in demands:
        flavor = Flavor.from_wire(each.request_spec["instance_type"])
        disk_gb = capacity.claimed_disk_gb(flavor.root_gb, flavor.ephemeral_gb)
        asked[Shape(flavor.vcpus, flavor.memory_mb, disk_gb)] += len(each.lifetimes_s)
    first, last = (demands[0].at_s, demands[-1].at_s) if demands else (0.0, 0.0)
    if first < last:
        return History(SECONDS, first, last, asked)
    return History(REQUESTS, 0, len(demands), asked)


class _Course:
    """The hypothetical fleet, and the outcome of the demands so far."""

    def __init__(
        self,
        asked: pipeline.Pipeline,
        state: Changes,
        service_down_time_s: float,
        history: History,
        gone: frozenset[str],
    ) -> None:
        """:param gone: hosts that the change removes: members of server groups there do not restrict other members"""
        self._fleet = CopiedFleet(asked, state, service_down_time_s, HostManager)
        self._deaths: list[tuple[float, str, float, Shape]] = []
        self._history = history
        self._gone = gone
        self._outcomes = Outcomes()
        self._mix = _Learning(state.mix)
        self._began_s: float | None = None
        self._at_s = 0.0
        #: Empty hosts at ``at_s``, and the sum of empty hosts times seconds until then.
        self._empty_now = self._fleet.read(readings.empty_hosts)
        self._empty_s = 0.0

    def take(self, demand: Demand) -> None:
        if self._began_s is None:
            self._began_s = self._at_s = demand.at_s
        self._end_due(demand.at_s)
        self._go_on(demand.at_s)
        learned = self._mix.due(demand.at_s)
        if learned is not None:
            self._fleet.change(lambda cache: cache.learn_demand(learned))
        request = RequestSpec.from_wire(demand.request_spec, demand.filter_properties)
        if "holding" in demand.request_spec:
            request = self._moved(request)
        began = time.perf_counter()
        made = self._fleet.decide(request)
        took_s = time.perf_counter() - began
        self._outcomes.add(demand, made, took_s, str(_shape(request)), request.vcpus)
        self._mix.asked(request)
        if made.complete:
            for pick, life_s in zip(made.picks, demand.lifetimes_s, strict=True):
                if life_s is not None:
                    heapq.heappush(self._deaths, (demand.at_s + life_s, pick.instance_uuid, life_s, _shape(request)))
            self._empty_now = self._fleet.read(readings.empty_hosts)

    def _moved(self, request: RequestSpec) -> RequestSpec:
        """Return the request of an instance that exists, as for its move."""
        places = frozenset(pair for pair in request.group_places if pair[1] not in self._gone)
        hosts = frozenset(request.group_hosts) - self._gone
        return dataclasses.replace(request, force_hosts=(), force_nodes=(), group_hosts=hosts, group_places=places)

    def _end_due(self, now_s: float) -> None:
        while self._deaths and self._deaths[0][0] <= now_s:
            at_s, uuid, life_s, shape = heapq.heappop(self._deaths)
            self._go_on(at_s)
            self._mix.ended(shape, life_s)
            self._fleet.release(uuid)
            self._empty_now = self._fleet.read(readings.empty_hosts)

    def _go_on(self, at_s: float) -> None:
        """Count the empty hosts until then, and take the samples that are due."""
        at = at_s if self._history.axis == SECONDS else self._outcomes.requests
        if self._history.due(at):
            self._history.add(at, self._fleet.read(readings.utilization), *self._counts())
        self._empty_s += self._empty_now * (at_s - self._at_s)
        self._at_s = at_s

    def _empty_on_average(self) -> float:
        """Return the time average of empty hosts; of their number at the end if no time has passed."""
        passed_s = self._at_s - (self._began_s or 0.0)
        return round(self._empty_s / passed_s if passed_s else float(self._empty_now), 1)

    def figures(self) -> JSONObject:
        """Return numbers, and sentences for people. Hours are those of the trace."""
        hosts, names = self._fleet.read(readings.utilization), self._fleet.read(readings.host_names)
        self._history.finish(names, hosts, *self._counts())
        return {
            **self._fleet.read(readings.use),
            **self._outcomes.figures(),
            "instances": sum(self._counts()),
            "hosts_empty_on_average": self._empty_on_average(),
            **self._outcomes.hours("vcpu"),
            **self._history.figures(),
        }

    def _counts(self) -> tuple[int, int]:
        return self._outcomes.placed, self._outcomes.refused


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
