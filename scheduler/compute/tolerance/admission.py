# SPDX-License-Identifier: Apache-2.0
"""Lets a placement keep the promises: it goes elsewhere, last, or nowhere, as the policy of the promise says.

What passes: an instance whose host an administrator has named, one that is evacuated, and a flavor with the extra spec
``tolerance:pass`` = ``true``.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy
from oslo_log import log as logging

from fleet import errors
from fleet.objects import Place, RequestSpec
from fleet.objects.tolerance import LAST, WARN
from fleet.reasons import Reason
from fleet.telemetry import metrics
from scheduler.compute.tolerance import amounts
from scheduler.compute.tolerance.amounts import demand_of, demand_of_amounts
from scheduler.compute.tolerance.guard import Admitted, Amount, Guard, Kept, Loss, Objection
from scheduler.engine import filtering, pipeline
from scheduler.engine.decision import Decision
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.pipeline import Pipeline
from scheduler.state.booking import Booking

LOG = logging.getLogger(__name__)

PASS = "tolerance:pass"
#: Key of filter_properties: the request gives an instance of a lost host a new one.
RESTORES = "restores"
#: Further choices of a host for one request.
_TRIES = 3
#: Instances that were admitted since the newest proof, at most.
_REMEMBERED = 10_000


class Fleet:
    """The part of the scheduler that admission calls."""

    def __init__(
        self,
        configured: Callable[[], Pipeline],
        consider: Callable[[Callable[[Candidates, Any], Any]], Any],
        decide: Callable[[RequestSpec], Decision],
        look: Callable[[RequestSpec], Decision],
        release: Callable[[Sequence[str]], object],
    ) -> None:
        """:param decide: decides and books; ``look`` decides only
        :param release: drops bookings
        """
        self.pipeline = configured
        self.consider = consider
        self.decide = decide
        self.look = look
        self.release = release

    def free(self, hosts: Sequence[str]) -> dict[str, Amount]:
        """Return the free amounts of these hosts, beside all bookings."""

        def read(candidates: Candidates, _state: Any) -> dict[str, Amount]:
            rows = candidates.rows_of_hosts(hosts)
            some = candidates.subset(numpy.array(rows, dtype=int))
            found = amounts.free(self.pipeline(), some)
            return {candidates.key(row)[0]: found[number] for number, row in enumerate(rows)}

        found: dict[str, Amount] = self.consider(read)
        return found

    def passing(self, request: RequestSpec, hosts: Sequence[str]) -> str | None:
        """The first of these hosts that passes all filters. No other host is judged."""
        prepared = pipeline.prepare(self.pipeline(), request)

        def read(candidates: Candidates, _state: Any) -> str | None:
            rows = candidates.rows_of_hosts(hosts)
            some = candidates.subset(numpy.array(rows, dtype=int))
            alive = filtering.run(prepared, some, restriction.allowed(some, request)).alive
            passed = numpy.flatnonzero(alive)
            return candidates.key(rows[passed[0]])[0] if len(passed) else None

        found: str | None = self.consider(read)
        return found


class Admission:
    def __init__(
        self, fleet: Fleet, booking_timeout_s: float = 300.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """:param booking_timeout_s: an instance that no proof has seen after so long has not come"""
        self._fleet = fleet
        self._booking_timeout_s = booking_timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        self._guard: Guard | None = None
        #: Of the newest proof: losses by verdict, and who has no place. None: nothing is promised, or proved yet.
        self.proved: Mapping[str, int | list[str]] | None = None
        self._admitted: collections.deque[Admitted] = collections.deque(maxlen=_REMEMBERED)

    def publish(self, guard: Guard | None, known: Mapping[str, str]) -> None:
        """Take the plans of a new proof. :param known: by uuid, the hosts of the instances that it has seen"""
        with self._lock:
            self._guard = guard
            now = self._clock()
            later = [each for each in self._admitted if known.get(each.uuid) != each.host and now < each.until]
            self._admitted.clear()
            if guard is not None:
                for each in later:
                    self._readmit(guard, each)

    def _readmit(self, guard: Guard, each: Admitted) -> None:
        """An instance that the proof has not seen keeps its places in the plans."""
        spare_of = {loss.name: spare for loss, spare in each.spares}
        spares = [(loss, spare_of[loss.name]) for loss in guard.losses_of(each.host) if loss.name in spare_of]
        again = dataclasses.replace(each, spares=spares)
        guard.admit(again)
        self._admitted.append(again)

    def settled(self, request: RequestSpec, made: Decision) -> Decision:
        """Return a decision that keeps the promises, in place of ``made``, which is booked.

        :raises errors.NoValidHost: with Reason.TOLERANCE: there is none, and a promise says that it is refused
        """
        if self._guard is None or _passes(request):
            return made
        objection, made = self._object(request, made)
        if objection is None:
            return made
        first, policy = objection, objection.promise.tolerance.policy
        if policy == WARN:
            return self._broken(made, objection)
        avoided: set[str] = set()
        for _try in range(_TRIES):
            self._fleet.release(request.instance_uuids)
            avoided |= {objection.host, *self._full(request)}
            again = self._fleet.decide(_without(request, avoided))
            if not again.complete:
                break
            found, again = self._object(request, again)
            if found is None:
                return again
            objection = found
        self._fleet.release(request.instance_uuids)
        if policy == LAST:
            again = self._fleet.decide(request)
            return self._broken(again, first) if again.complete else again
        metrics.TOLERANCE_OBJECTIONS.labels(policy).inc()
        scope = first.promise.tolerance
        reason = (
            f"The {scope.scope} tolerates the loss of {scope.what}, and no host would keep this promise: "
            f"{first.sentence}."
        )
        details = {**made.to_wire(), "placed": 0, "reason_code": Reason.TOLERANCE.value}
        raise errors.NoValidHost(reason=reason, details=details)

    @staticmethod
    def _broken(made: Decision, objection: Objection) -> Decision:
        tolerance = objection.promise.tolerance
        metrics.TOLERANCE_OBJECTIONS.labels(tolerance.policy).inc()
        LOG.warning("A placement breaks the promise of the %s (%s): %s", tolerance.scope, tolerance.what,
                    objection.sentence)  # fmt: skip
        return made

    def _object(self, request: RequestSpec, made: Decision) -> tuple[Objection | None, Decision]:
        """Put the picks into the plans, or return why they break a promise.

        An agent that refuses a pick hands it to an alternate and asks nobody: those that would break a promise are dropped.
        """
        demand = demand_of(request)
        with self._lock:
            guard = self._guard
            if guard is None:
                return None, made
            hosts = {place.host: None for pick in made.picks for place in pick.alternates}
            hosts.update((pick.key[0], None) for pick in made.picks)
            free = self._fleet.free(list(hosts))
            admitted: list[Admitted] = []
            picks = []
            before = guard.kept() if len(made.picks) > 1 else None
            until = self._clock() + self._booking_timeout_s
            for pick in made.picks:
                host = pick.key[0]
                if host not in free:
                    # It has gone since the decision: the claim will say so.
                    picks.append(pick)
                    continue
                # Its booking is counted already.
                found = guard.unsafe(host) or guard.taken(host, free[host] + demand, demand)
                if found is not None:
                    _withdraw(guard, admitted, before)
                    return found, made
                spares = []
                for loss in guard.losses_of(host):
                    spare = self._spare(guard, request, loss, pick.alternates, free, demand)
                    if spare is None:
                        _withdraw(guard, admitted, before)
                        return guard.homeless(host, loss), made
                    spares.append((loss, spare))
                admitted.append(Admitted(pick.instance_uuid, host, demand, spares, until))
                guard.admit(admitted[-1])
                there = [each for each in pick.alternates if each.host in free]
                kept = [each for each in there if not _is_barred(guard, each.host, free[each.host], demand)]
                picks.append(dataclasses.replace(pick, alternates=kept))
            self._admitted.extend(admitted)
        return None, dataclasses.replace(made, picks=picks)

    def adopt(self, booked: Iterable[Booking]) -> None:
        """Give instances that another scheduler has booked their places in the plans, without asking the filters.

        Where there is none, the next proof says so.
        """
        with self._lock:
            guard, known = self._guard, {each.uuid for each in self._admitted}
            if guard is None:
                return
            # The same for all: the loop changes neither what is free nor which hosts keep anything.
            free = functools.cache(lambda: self._fleet.free(guard.keeping))
            for each in booked:
                if each.instance_uuid in known:
                    continue
                known.add(each.instance_uuid)
                demand, host = demand_of_amounts(each.amounts.numbers), each.key[0]
                spares = []
                for loss in guard.losses_of(host):
                    some = guard.sharing(loss, demand) or [
                        name for name, left in free().items() if Guard.is_spare(loss, name, left, demand)
                    ]
                    spares += [(loss, some[0])] if some else []
                until = self._clock() + self._booking_timeout_s
                self._admitted.append(Admitted(each.instance_uuid, host, demand, spares, until))
                guard.admit(self._admitted[-1])

    def _spare(
        self,
        guard: Guard,
        request: RequestSpec,
        loss: Loss,
        alternates: Sequence[Place],
        free: Mapping[str, Amount],
        demand: Amount,
    ) -> str | None:
        """A host that passes the filters, and would have room for the instance beside the plan of the loss.

        Best one that keeps this room for another loss already.
        """
        one = dataclasses.replace(
            request, instance_uuids=request.instance_uuids[:1], num_instances=1, requested_hosts=()
        )
        sharing = guard.sharing(loss, demand)
        for place in alternates:
            if place.host in sharing:
                return place.host
        if sharing:
            shared = self._fleet.passing(one, sharing)
            if shared is not None:
                return shared
        for place in alternates:
            if place.host in free and Guard.is_spare(loss, place.host, free[place.host], demand):
                return place.host
        # Of all other hosts the filters know what is free.
        planned = self._fleet.free(list(loss.reserved))
        full = {host for host, free in planned.items() if not Guard.is_spare(loss, host, free, demand)}
        found = self._fleet.look(_without(one, full | loss.hosts))
        return found.picks[0].key[0] if found.complete else None

    def _full(self, request: RequestSpec) -> set[str]:
        """Hosts on which the instances would break a promise at once."""
        demand = demand_of(request)
        with self._lock:
            guard = self._guard
            if guard is None:
                return set()
            keeping = self._fleet.free(guard.keeping)
            taken = {host for host, free in keeping.items() if guard.taken(host, free, demand)}
            return taken | guard.unsafe_hosts


def _passes(request: RequestSpec) -> bool:
    forced = bool(request.force_hosts or request.force_nodes)
    wish = str(request.flavor.extra_specs.get(PASS, "")).lower()
    return forced or request.filter_properties.get(RESTORES) is True or wish == "true"


def _withdraw(guard: Guard, admitted: Sequence[Admitted], before: Kept | None) -> None:
    """Earlier instances of a request that is not placed as it was decided take no room."""
    if before is not None and admitted:
        guard.withdraw(admitted, before)


def _is_barred(guard: Guard, host: str, free: Amount, demand: Amount) -> bool:
    found = guard.unsafe(host) or guard.taken(host, free, demand)
    return found is not None and found.promise.tolerance.policy != WARN


def _without(request: RequestSpec, hosts: set[str]) -> RequestSpec:
    return dataclasses.replace(request, ignore_hosts=(*request.ignore_hosts, *sorted(hosts)))
