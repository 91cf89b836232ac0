# SPDX-License-Identifier: Apache-2.0
"""Makes placements keep the promises to survive losses.

By the policy of a promise, a host that would break it is used with a warning, as the last choice, or not at all.
:mod:`scheduler.compute.tolerance.requests` says which requests pass, and which are refused whatever the policy.

Called by :mod:`scheduler.compute.drivers.filter_scheduler` and :mod:`scheduler.compute.planning.losses.promises`.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from oslo_log import log as logging

from fleet import errors
from fleet.objects import RequestSpec
from fleet.objects.tolerance import LAST, REFUSE, WARN
from fleet.reasons import Reason
from fleet.telemetry import metrics
from scheduler.compute.tolerance import requests
from scheduler.compute.tolerance.amounts import demand_of, demand_of_amounts
from scheduler.compute.tolerance.fleet import Fleet
from scheduler.compute.tolerance.guard import Guard
from scheduler.compute.tolerance.hardware import Hardware, has_hardware
from scheduler.compute.tolerance.kept import Amount, Node, node_of
from scheduler.compute.tolerance.losses import Admitted, Objection, Renewal
from scheduler.compute.tolerance.spares import Spares
from scheduler.engine.decision import Decision, Pick
from scheduler.state.booking import Booking

LOG = logging.getLogger(__name__)

#: Further choices of a host for one request.
_TRIES = 3
#: Instances that were admitted since the newest proof, at most.
_REMEMBERED = 10_000


class Admission:
    def __init__(
        self, fleet: Fleet, booking_timeout_s: float = 300.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """:param booking_timeout_s: an instance that no proof has seen after so long has not come"""
        self._fleet = fleet
        self._spares = Spares(fleet)
        self._booking_timeout_s = booking_timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        self._guard: Guard | None = None
        #: Of the newest proof: losses by verdict, and who has no place. None: nothing is promised, or proved yet.
        self.proved: Mapping[str, int | list[str]] | None = None
        self._admitted: collections.deque[Admitted] = collections.deque(maxlen=_REMEMBERED)

    def publish(self, guard: Guard | None, has_seen: Callable[[str, Node], bool]) -> None:
        """Take the plans of a new proof. :param has_seen: whether it has seen an instance on a node"""
        with self._lock:
            self._guard = guard
            now = self._clock()
            later = [each for each in self._admitted if not has_seen(each.uuid, each.node) and now < each.until]
            self._admitted.clear()
            if guard is not None:
                for each in later:
                    self._readmit(guard, each)

    def renew(self, renewals: Sequence[Renewal], has_seen: Callable[[str, Node], bool]) -> None:
        """Take new plans for some losses; all others stand, with what was admitted since."""
        with self._lock:
            guard = self._guard
            assert guard is not None, "a guard was published"
            guard.renew(renewals)
            renewed = {id(guard.losses[each.number]) for each in renewals}
            now = self._clock()
            left = list(self._admitted)
            self._admitted.clear()
            for each in left:
                again = [pair for pair in each.spares if id(pair[0]) in renewed]
                others = [pair for pair in each.spares if id(pair[0]) not in renewed]
                # The new plans have their own members of groups.
                each.brought[:] = [pair for pair in each.brought if id(pair[0]) not in renewed]
                if has_seen(each.uuid, each.node) or now >= each.until:
                    guard.withdraw([dataclasses.replace(each, spares=others)])
                else:
                    guard.admit(dataclasses.replace(each, spares=again))
                    self._admitted.append(each)

    def compare(self) -> bool:
        """Compare the plans with what is free now. Return True if each of them still has its room."""
        with self._lock:
            guard = self._guard
            return guard is None or guard.compare(self._fleet.free(guard.keeping))

    def _readmit(self, guard: Guard, each: Admitted) -> None:
        """An instance that the proof has not seen keeps its places in the plans."""
        spare_of = {loss.name: spare for loss, spare in each.spares}
        spares = [(loss, spare_of[loss.name]) for loss in guard.losses_of(each.node[0]) if loss.name in spare_of]
        again = dataclasses.replace(each, spares=spares, brought=[])
        guard.admit(again)
        self._admitted.append(again)

    def settled(self, request: RequestSpec, made: Decision) -> Decision:
        """Return a decision that keeps the promises, in place of ``made``, which is booked.

        :raises errors.NoValidHost: with Reason.TOLERANCE: no host keeps a promise whose policy is to refuse, or a move
            of the balancer would break any promise
        """
        if self._guard is None or requests.passes(request):
            return made
        if requests.is_balancing(request):
            objection, judged = self._object(request, made, WARN)
            if objection is not None:
                self._fleet.release(request.instance_uuids)
                raise self._refused(objection, made)
            return judged
        objection, judged = self._object(request, made, LAST)
        refusal = objection
        avoided: set[str] = set()
        avoided_nodes: set[Node] = set()
        for number in range(_TRIES + 1):
            if objection is None or not objection.bars(LAST):
                return self._placed(judged, objection)
            if number == _TRIES:
                break
            self._fleet.release(request.instance_uuids)
            nodes, hosts = self._full(request, LAST, is_last=number + 1 == _TRIES)
            # An objection to a node may leave other nodes of its host; one to a host's loss leaves none.
            avoided_nodes |= nodes if objection.node is None else {objection.node, *nodes}
            avoided |= hosts if objection.node is not None else {objection.host, *hosts}
            again = self._fleet.decide(requests.without(request, avoided, avoided_nodes))
            if not again.complete:
                break
            objection, judged = self._object(request, again, LAST)
        self._fleet.release(request.instance_uuids)
        accepted = self._accepted(request)
        if accepted is not None:
            return accepted
        assert refusal is not None, "the first choice has met an objection"
        raise self._refused(refusal, made)

    def refusal(self, request: RequestSpec, made: Decision) -> str:
        """Return why :meth:`settled` would refuse these picks for a move of the balancer; "" if it would not.

        Nothing is booked. Only these picks are looked at, and cells and devices without them.
        """
        if requests.passes(request):
            return ""
        demand = demand_of(request)
        with self._lock:
            guard = self._guard
            if guard is None:
                return ""
            admitted: list[Admitted] = []
            free, whole = self._free(made), _times(len(made.picks), demand)
            try:
                for pick in made.picks:
                    if pick.key not in free:
                        continue
                    # As if it was booked.
                    free[pick.key] = _minus(free[pick.key], demand)
                    objection, one = self._admit(guard, request, pick, free, demand, whole, WARN)
                    if one is not None:
                        admitted.append(one)
                    if objection is not None:
                        return _reason(objection)
            finally:
                guard.withdraw(admitted)
        return ""

    def _accepted(self, request: RequestSpec) -> Decision | None:
        """Return a decision to which only promises object whose policy is not to refuse; None if there is none."""
        guard = self._guard
        if guard is None or guard.only_refuses:
            return None
        nodes, hosts = self._full(request, REFUSE, is_last=True)
        made = self._fleet.decide(requests.without(request, hosts, nodes))
        if not made.complete:
            return None if guard.has(REFUSE) else made
        objection, judged = self._object(request, made, REFUSE)
        if objection is None or not objection.bars(REFUSE):
            return self._placed(judged, objection)
        self._fleet.release(request.instance_uuids)
        return None

    @staticmethod
    def _refused(objection: Objection, made: Decision) -> errors.NoValidHost:
        metrics.TOLERANCE_OBJECTIONS.labels(objection.policy).inc()
        details = {**made.to_wire(), "placed": 0, "reason_code": Reason.TOLERANCE.value}
        return errors.NoValidHost(reason=_reason(objection), details=details)

    @staticmethod
    def _placed(made: Decision, objection: Objection | None) -> Decision:
        """Return the decision, and count and log the promise that it breaks, if there is one."""
        if objection is None:
            return made
        tolerance = objection.promise.tolerance
        metrics.TOLERANCE_OBJECTIONS.labels(tolerance.policy).inc()
        LOG.warning("A placement breaks the promise of the %s (%s): %s", tolerance.scope, tolerance.what,
                    objection.sentence)  # fmt: skip
        return made

    def _object(self, request: RequestSpec, made: Decision, barring: str) -> tuple[Objection | None, Decision]:
        """Put the picks into the plans, and return why they break a promise; None if they do not.

        Picks that break a promise are in no plan if its policy bars them. All others are in the plans of the losses that
        would be survived: a weaker promise that is broken anyway does not undo a stricter one.

        :param barring: the weakest policy that bars a pick
        Alternates that would break a promise are dropped: an agent that refuses a pick sends it on without asking again.
        """
        demand, is_hard, group = demand_of(request), has_hardware(request), requests.apart_in(request)
        whole = _times(len(made.picks), demand)
        with self._lock:
            guard = self._guard
            if guard is None:
                return None, made
            free = self._free(made)
            admitted: list[Admitted] = []
            objections: list[Objection] = []
            picks = []
            for pick in made.picks:
                if pick.key not in free:
                    # It has gone since the decision: the claim will say so.
                    picks.append(pick)
                    continue
                objection, one = self._admit(guard, request, pick, free, demand, whole, barring)
                if objection is not None:
                    objections.append(objection)
                if one is None:
                    continue
                admitted.append(one)
                there = [each for each in pick.alternates if node_of(each) in free]
                kept = [
                    each
                    for each in there
                    if not _is_barred(guard, node_of(each), free[node_of(each)], demand, is_hard, group)
                ]
                picks.append(dataclasses.replace(pick, alternates=kept))
            strictest = guard.strictest(objections)
            if strictest is not None and strictest.bars(barring):
                # The other instances of a request that is not placed as it was decided take no room.
                guard.withdraw(admitted)
                return strictest, made
            self._admitted.extend(admitted)
        return strictest, dataclasses.replace(made, picks=picks)

    def _free(self, made: Decision) -> dict[Node, Amount]:
        """Return what the nodes of all picks and of their alternates have left; one that has gone is not there."""
        alternates = (node_of(each) for pick in made.picks for each in pick.alternates)
        return self._fleet.free({*alternates, *(pick.key for pick in made.picks)})

    def _admit(
        self,
        guard: Guard,
        request: RequestSpec,
        pick: Pick,
        free: Mapping[Node, Amount],
        demand: Amount,
        whole: Amount,
        barring: str,
    ) -> tuple[Objection | None, Admitted | None]:
        """Return the objection to a pick, and its places in the plans, which it has now unless the objection bars it."""
        node, host = pick.key, pick.key[0]
        unsafe, losses = guard.unsafe(host), guard.losses_of(host)
        if requests.is_balancing(request) and unsafe is not None and not unsafe.bars(REFUSE):
            # What is not survived anyway holds up nothing.
            unsafe = None
        # Its booking is counted already.
        group = requests.apart_in(request)
        objections = [unsafe, guard.taken(node, _plus(free[node], demand), demand), guard.apart(node, group)]
        one = requests.alone(request, pick.instance_uuid)
        hardware = Hardware.of([one])
        if hardware is not None and not all(self._is_left(node, each) for each in guard.hardware(node)):
            objections.append(guard.crowded(node))
        found = guard.strictest(objections)
        if found is not None and found.bars(barring) and found.policy == guard.policy:
            return found, None
        spares = []
        for loss in losses:
            if loss.problem:
                # It has no plan. ``unsafe`` has said so.
                continue
            spare = self._spares.find(guard, one, loss, pick.alternates, free, demand, whole)
            if spare is None:
                objections.append(guard.homeless(host, loss))
            else:
                spares.append((loss, spare))
        found = guard.strictest(objections)
        if found is not None and found.bars(barring):
            return found, None
        until = self._clock() + self._booking_timeout_s
        admitted = Admitted(
            pick.instance_uuid, node, demand, spares, until, hardware, group or requests.bound_in(request)
        )
        guard.admit(admitted)
        return found, admitted

    def _is_left(self, node: Node, kept: Hardware) -> bool:
        """Return whether the guests still fit there, beside what is booked. Of several nothing is known without a trial."""
        return len(kept.requests) == 1 and self._fleet.passing(kept.requests[0], [node]) is not None

    def adopt(self, booked: Iterable[Booking]) -> None:
        """Give instances that another scheduler has booked their places in the plans, without asking the filters.

        If the plans have no place for an instance, the next proof reports it.
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
                demand, node = demand_of_amounts(each.amounts.numbers), each.key
                spares = []
                for loss in guard.losses_of(node[0]):
                    some = guard.sharing(loss, demand) or [
                        other for other, left in free().items() if Guard.is_spare(loss, other, left, demand)
                    ]
                    spares += [(loss, some[0])] if some else []
                until = self._clock() + self._booking_timeout_s
                self._admitted.append(Admitted(each.instance_uuid, node, demand, spares, until))
                guard.admit(self._admitted[-1])

    def _full(self, request: RequestSpec, policy: str, is_last: bool) -> tuple[set[Node], Set[str]]:
        """Nodes, and hosts, on which the instances would break a promise at once.

        :param policy: of promises that are at least as strict
        :param is_last: also nodes on which only a trial can decide whether cells and devices suffice
        """
        demand = demand_of(request)
        with self._lock:
            guard = self._guard
            if guard is None:
                return set(), frozenset()
            if not guard.has(policy):
                return set(), frozenset()
            keeping = self._fleet.free(guard.keeping)
            takes = guard.takes_beside(policy)
            taken = {node for node, free in keeping.items() if not takes(node, free, demand)}
            if has_hardware(request):
                taken.update(guard.nodes_with_hardware(of_several=not is_last))
            taken.update(guard.nodes_for_members(requests.apart_in(request)))
            return taken, guard.unsafe_hosts(policy)


def _plus(one: Amount, other: Amount) -> Amount:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _times(number: int, one: Amount) -> Amount:
    return number * one[0], number * one[1], number * one[2]


def _minus(one: Amount, other: Amount) -> Amount:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2]


def _reason(objection: Objection) -> str:
    scope = objection.promise.tolerance
    return (
        f"The {scope.scope} tolerates the loss of {scope.what}, and no host would keep this promise: "
        f"{objection.sentence}."
    )


def _is_barred(guard: Guard, node: Node, free: Amount, demand: Amount, is_hard: bool, group: str | None) -> bool:
    objections = [guard.unsafe(node[0]), guard.taken(node, free, demand), guard.apart(node, group)]
    if is_hard and guard.hardware(node):
        objections.append(guard.crowded(node))
    found = guard.strictest(objections)
    return found is not None and found.policy != WARN
