# SPDX-License-Identifier: Apache-2.0
"""Keeps the promises proved, and publishes what their plans need. :mod:`scheduler.main` starts it."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from oslo_config import cfg

from fleet.clock import Clock
from fleet.db.operations import tolerances
from fleet.objects import Aggregate
from fleet.objects.tolerance import Tolerance
from fleet.objects.whatif import Demand
from fleet.telemetry import metrics
from scheduler.compute.planning.losses.promised_losses import Follower, Lost, OfPromise
from scheduler.compute.tolerance.admission import Admission
from scheduler.compute.tolerance.guard import Guard
from scheduler.compute.tolerance.hardware import Hardware
from scheduler.compute.tolerance.kept import Amount, Node
from scheduler.compute.tolerance.losses import Loss, Promise, Renewal
from scheduler.planning.survival.room import Verdict
from scheduler.state.booking import Booking
from scheduler.state.host_manager import Feed

#: How many times as long as a look took the prover rests at least, and for how many seconds at most.
_REST, _REST_MOST_S = 20, 30.0
#: Looks one after the other, at most, until the plans have room beside what was placed meanwhile.
_LOOKS = 3
_TOO_MANY = "more combinations may be lost than can be looked at"


class Prover:
    """:meth:`prove` is called every ``tolerance_interval`` seconds.

    :param promised: reads the promises
    :param feed: makes a feed of everything
    :param ask: asks a conductor for the requests of existing instances
    :param booked: returns what the scheduler has placed, and the database may not show yet
    :param decides_by: returns the pipeline of the scheduler. Another one means that the options were read again
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        admission: Admission,
        promised: Callable[[], Sequence[Tolerance]],
        feed: Callable[[], Feed],
        clock: Clock,
        ask: Callable[[list[str]], Sequence[Mapping[str, Any]]],
        decides_by: Callable[[], object] = lambda: None,
        booked: Callable[[], Iterable[Booking]] = tuple,
    ) -> None:
        self._admission, self._report = admission, admission.report
        self._promised = promised
        self._conf, self._feed, self._clock = conf, feed, clock
        self._ask = ask
        self._decides_by = decides_by
        self._booked = booked
        self._proves_for: object = None
        self._rests_until = 0.0
        self._follower: Follower | None = None
        #: Set when the promises are proved for the first time, or there are none.
        self.is_ready = threading.Event()
        self._is_new = True
        self._has_published = False
        metrics.TOLERANCE_PROOF_AGE.set_function(lambda: self._report.age_s)

    def prove(self) -> None:
        promised = tuple(self._promised())
        is_new, self._is_new = self._is_new, False
        if not promised:
            if self._has_published:
                self._admission.publish(None, _nothing_seen)
            self._follower, self._has_published = None, False
            self._report.nothing_promised()
            self.is_ready.set()
            return
        if is_new:
            # Others know the promises already. One that is made later binds from the end of its first look on.
            self._expect(promised)
        try:
            self._prove(promised)
        except BaseException:
            self._expect(promised)
            raise

    def _expect(self, promised: Sequence[Tolerance]) -> None:
        """Until the first proof no host is known, so that the policies of the promises decide."""
        if not self._has_published:
            scopes = [Promise(each, {}, _covers(each, self._conf.default_availability_zone)) for each in promised]
            self._admission.publish(Guard(scopes, []), _nothing_seen)
            self._has_published = True
            self._report.missing(len(promised))

    def _prove(self, promised: Sequence[Tolerance]) -> None:
        began, decides_by = time.monotonic(), self._decides_by()
        if decides_by is not self._proves_for:
            # Hosts that have not changed may take other guests now.
            self._proves_for, self._follower, self._rests_until = decides_by, None, 0.0
        if began < self._rests_until:
            return
        if self._follower is None:
            self._follower = Follower(self._conf, self._feed(), self._clock, self._requests_of)
        follower = self._follower
        for _look in range(_LOOKS):
            is_whole = self._look(promised, follower)
            # Builds go on during a look. What it has not seen may have taken the room of its plans.
            if self._admission.compare() and not is_whole:
                break
        if follower.is_current:
            self._report.confirmed()
            self.is_ready.set()
        self._rests_until = time.monotonic() + min(_REST * (time.monotonic() - began), _REST_MOST_S)

    def _look(self, promised: Sequence[Tolerance], follower: Follower) -> bool:
        """Prove what has changed, and publish it. Return whether all was proved anew."""
        lost = follower.look(promised, self._booked(), self._admission.shifted())
        if lost is None:
            return False
        # After a failure all is read and published again.
        self._follower = None
        self._publish(lost, follower)
        self._follower = follower
        return follower.is_whole

    def _publish(self, lost: Lost, follower: Follower) -> None:
        room, standing = follower.room, follower.standing
        assert room is not None, "it has been looked at"
        if follower.is_whole:
            guard = guard_of(lost, follower, self._conf.default_availability_zone)
            self._admission.publish(guard, follower.has_seen)
            self._has_published = True
        else:
            renewals = [renewal_of(number, follower) for number in standing.renewed]
            self._admission.renew(renewals, follower.has_seen)
        lacking = {room.uuids[guest] for each in standing.open.values() for guest in each.lacking}
        unproved = (number for number, each in standing.open.items() if each.verdict is Verdict.NOT_PROVED)
        unknown = {host for number in unproved for host in lost[number].hosts}
        counts = collections.Counter(each.verdict for each in standing.open.values())
        counts[Verdict.SAFE] = len(standing.findings) - len(standing.open)
        self._report.proved(counts, lacking, unknown)

    def _requests_of(self, uuids: Sequence[str]) -> Mapping[str, Demand]:
        return {each["uuid"]: Demand.of_instance(each) for each in self._ask(list(uuids))}


def guard_of(lost: Lost, follower: Follower, default_zone: str) -> Guard:
    """Return what the plans of all losses need."""
    losses = []
    for number in range(len(lost)):
        made = renewal_of(number, follower)
        parts = made.problem, made.reserved, made.hardware, made.groups, made.places
        losses.append(Loss(lost[number].name, lost.hosts[number], *parts))
    return Guard([_promise(each, lost, losses, default_zone) for each in lost.by_promise], losses, lost.names)


def renewal_of(number: int, follower: Follower) -> Renewal:
    """Return what the plan of a loss needs."""
    room, finding, nodes = follower.room, follower.standing.findings[number], follower.nodes
    assert room is not None, "it has been looked at"
    problem = "" if finding.verdict is Verdict.SAFE else f"{finding.verdict.value}: {finding.why}"
    reserved: dict[Node, Amount] = {}
    hardware: dict[Node, Hardware] = {}
    for row, kinds in follower.standing.plan_of(number).items():
        node = nodes[row]
        assert node is not None, "a plan uses hosts that are there"
        reserved[node] = follower.amount_of(kinds)
        wanted = follower.hardware_of(kinds)
        if wanted is not None:
            hardware[node] = wanted
    return Renewal(number, problem, reserved, hardware, follower.groups_by_node(finding), follower.places_of(finding))


def _promise(of_promise: OfPromise, lost: Lost, losses: Sequence[Loss], default_zone: str) -> Promise:
    of_host: dict[str, list[Loss]] = collections.defaultdict(list)
    for number in of_promise.numbers:
        for host in lost.hosts[number]:
            of_host[host].append(losses[number])
    for host in of_promise.unlooked:
        of_host[host].append(Loss(host, frozenset([host]), _TOO_MANY))
    return Promise(of_promise.tolerance, dict(of_host), _covers(of_promise.tolerance, default_zone))


def _covers(tolerance: Tolerance, default_zone: str) -> Callable[[Sequence[str], Sequence[Aggregate]], Collection[str]]:
    return lambda hosts, aggregates: tolerances.hosts_of(tolerance, hosts, aggregates, default_zone)


def _nothing_seen(_uuid: str, _node: Node) -> bool:
    return False
