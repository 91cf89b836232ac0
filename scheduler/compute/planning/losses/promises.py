# SPDX-License-Identifier: Apache-2.0
"""Keeps the promises proved, and publishes what their plans need. :mod:`scheduler.main` starts it."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
from oslo_config import cfg

from fleet.clock import Clock
from fleet.objects.tolerance import Tolerance
from fleet.objects.whatif import Demand
from fleet.telemetry import metrics
from scheduler.compute.planning.losses.promised_losses import Follower, Lost, OfPromise
from scheduler.compute.tolerance import guard
from scheduler.compute.tolerance.admission import Admission
from scheduler.planning.survival.room import GONE, Room, Verdict
from scheduler.planning.survival.standing import Standing
from scheduler.state.host_manager import Feed

#: How many times as long as a look took the prover rests at least.
_REST = 20
#: Guests, and hosts, that the scheduler names when it is asked.
_SHOWN = 5000
#: Requests that one call asks for.
_AT_ONCE = 500
_TOO_MANY = "more combinations may be lost than can be looked at"


class Prover:
    """:meth:`prove` is called every ``tolerance_interval`` seconds.

    :param promised: reads the promises
    :param feed: makes a feed of everything
    :param ask: asks a conductor for the requests of existing instances
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        admission: Admission,
        promised: Callable[[], Sequence[Tolerance]],
        feed: Callable[[], Feed],
        clock: Clock,
        ask: Callable[[list[str]], Sequence[Mapping[str, Any]]],
    ) -> None:
        self._admission = admission
        self._promised = promised
        self._conf, self._feed, self._clock = conf, feed, clock
        self._ask = ask
        self._rests_until = 0.0
        self._follower: Follower | None = None

    def prove(self) -> None:
        promised = tuple(self._promised())
        if not promised:
            if self._follower is not None:
                self._admission.publish(None, {})
                self._admission.proved, self._follower = None, None
                _count(collections.Counter(), 0)
            return
        began = time.monotonic()
        if began < self._rests_until:
            return
        if self._follower is None:
            self._follower = Follower(self._conf, self._feed(), self._clock, self._requests_of)
        lost = self._follower.look(promised)
        if lost is not None:
            self._publish(lost, self._follower)
            self._rests_until = time.monotonic() + _REST * (time.monotonic() - began)

    def _publish(self, lost: Lost, follower: Follower) -> None:
        room, findings = follower.room, follower.standing.findings
        assert room is not None, "it has been looked at"
        counts = collections.Counter(each.verdict for each in findings)
        lacking = {room.uuids[guest] for each in findings for guest in each.lacking}
        made = guard_of(lost, room, follower.standing)
        unknown = {
            host
            for number, each in enumerate(findings)
            if each.verdict is Verdict.NOT_PROVED
            for host in lost[number].hosts
        }
        self._admission.proved = {
            **_count(counts, len(lacking)),
            "guests without a place": sorted(lacking)[:_SHOWN],
            "hosts without a proof": sorted(unknown)[:_SHOWN],
        }
        known = {
            uuid: room.hosts[row] for uuid, row in zip(room.uuids, room.host_of.tolist(), strict=False) if row != GONE
        }
        self._admission.publish(made, known)

    def _requests_of(self, uuids: Sequence[str]) -> Mapping[str, Demand]:
        found = {}
        for start in range(0, len(uuids), _AT_ONCE):
            for each in self._ask(list(uuids[start : start + _AT_ONCE])):
                name = each["uuid"]
                found[name] = Demand(each["request_spec"], each["filter_properties"], [None], name=name)
        return found


def guard_of(lost: Lost, room: Room, standing: Standing) -> guard.Guard:
    """Return what the plans of all losses need."""
    plans = standing.plans
    width = len(room.hosts)
    pairs, place = numpy.unique(plans.losses * width + plans.places, return_inverse=True)
    needs = numpy.zeros((len(pairs), room.free.shape[1]), dtype=numpy.int64)
    numpy.add.at(needs, place, room.demands[room.shape_of[plans.guests]])
    of_loss, rows = pairs // width, pairs % width
    ends = numpy.searchsorted(of_loss, numpy.arange(len(lost) + 1))
    losses = []
    for number, finding in enumerate(standing.findings):
        some = slice(int(ends[number]), int(ends[number + 1]))
        problem = "" if finding.verdict is Verdict.SAFE else f"{finding.verdict.value}: {finding.why}"
        plan = guard.Needs(room.hosts, rows[some], needs[some])
        losses.append(guard.Loss(lost[number].name, lost.hosts[number], problem, plan))
    kept = numpy.zeros((width, room.free.shape[1]), dtype=numpy.int64)
    numpy.maximum.at(kept, rows, needs)
    # Hosts that keep the most come first, each with the loss that needs it.
    order = numpy.lexsort((-of_loss, needs[:, 2], needs[:, 0], needs[:, 1]))[::-1]
    _rows, first = numpy.unique(rows[order], return_index=True)
    order = order[numpy.sort(first)]
    largest = dict(zip(rows[order].tolist(), of_loss[order].tolist(), strict=True))
    return guard.Guard(
        [_promise(each, lost, losses) for each in lost.by_promise],
        {room.hosts[row]: kept[row] for row in largest},
        {room.hosts[row]: lost[number].name for row, number in largest.items()},
    )


def _promise(of_promise: OfPromise, lost: Lost, losses: Sequence[guard.Loss]) -> guard.Promise:
    of_host: dict[str, list[guard.Loss]] = collections.defaultdict(list)
    for number in of_promise.numbers:
        for host in lost.hosts[number]:
            of_host[host].append(losses[number])
    for host in of_promise.unlooked:
        of_host[host].append(guard.Loss(host, frozenset([host]), _TOO_MANY))
    return guard.Promise(of_promise.tolerance, dict(of_host))


def _count(counts: collections.Counter[Verdict], lacking: int) -> dict[str, int]:
    """Set the gauges, and return what the scheduler tells of the proof."""
    for verdict in Verdict:
        metrics.TOLERANCE_LOSSES.labels(verdict.value).set(counts[verdict])
    metrics.TOLERANCE_UNPROTECTED.set(lacking)
    metrics.TOLERANCE_PROVED_AT.set_to_current_time()
    return {**{verdict.value: counts[verdict] for verdict in Verdict}, "unprotected guests": lacking}
