# SPDX-License-Identifier: Apache-2.0
"""Makes placements keep the promises to survive losses.

By the policy of a promise, a host that would break it is used with a warning, as the last choice, or not at all.
:mod:`scheduler.compute.tolerance.requests` says which requests pass, and which are refused whatever the policy.

Called by :mod:`scheduler.compute.drivers.filter_scheduler` and :mod:`scheduler.compute.planning.losses.promises`.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Iterable, Mapping, Sequence, Set

from oslo_log import log as logging

from fleet import errors
from fleet.objects import RequestSpec
from fleet.objects.tolerance import LAST, REFUSE, WARN
from fleet.reasons import Reason
from fleet.telemetry import metrics
from scheduler.compute.tolerance import requests
from scheduler.compute.tolerance.admitted import AdmittedInstances, HasSeen
from scheduler.compute.tolerance.amounts import demand_of, demand_of_amounts, minus, plus
from scheduler.compute.tolerance.clearing import Clearing
from scheduler.compute.tolerance.fleet import Fleet
from scheduler.compute.tolerance.guard import Guard
from scheduler.compute.tolerance.hardware import Hardware, has_hardware
from scheduler.compute.tolerance.kept import Amount, Node, node_of
from scheduler.compute.tolerance.losses import Admitted, Objection, Renewal
from scheduler.compute.tolerance.report import ProofReport
from scheduler.compute.tolerance.spares import Spares
from scheduler.engine.decision import Decision, Pick
from scheduler.state.booking import Booking

LOG = logging.getLogger(__name__)

#: Further choices of a host for one request.
_TRIES = 3


class Admission:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._spares = Spares(fleet)
        self._clearing = Clearing(self._spares)
        self._lock = threading.Lock()
        self._admitted = AdmittedInstances(fleet.there)
        self.report = ProofReport()

    @property
    def _guard(self) -> Guard | None:
        return self._admitted.guard

    @property
    def binds(self) -> bool:
        """True if there is a promise, and a proof of it."""
        return self._guard is not None

    def publish(self, guard: Guard | None, has_seen: HasSeen) -> None:
        """Take the plans of a new proof. :param has_seen: whether it has seen an instance on a node"""
        with self._lock:
            self._admitted.publish(guard, has_seen)

    def renew(self, renewals: Sequence[Renewal], has_seen: HasSeen) -> None:
        """Take new plans for some losses; all others stand, with what was admitted since."""
        with self._lock:
            self._admitted.renew(renewals, has_seen)

    def shifted(self) -> Sequence[int]:
        """Return the numbers of the losses whose plans were changed for moves. The next proof renews them."""
        with self._lock:
            return [] if self._guard is None else self._guard.shifted()

    def compare(self) -> bool:
        """Compare the plans with what is free now. Return True if each of them still has its room."""
        with self._lock:
            guard = self._guard
            return guard is None or guard.compare(self._fleet.free(guard.keeping))

    def settled(self, request: RequestSpec, made: Decision) -> Decision:
        """Return a decision that keeps the promises, in place of ``made``, which is booked.

        :raises errors.NoValidHost: with Reason.TOLERANCE: no host keeps a promise whose policy is to refuse, or a move
            of the balancer would break any promise
        """
        if self._guard is None or requests.passes(request):
            return made
        if requests.is_balancing(request):
            objection, judged = self._object(request, made, WARN, clears=True)
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
        accepted = self._cleared(request) or self._accepted(request)
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
            free = self._free(guard, made)
            try:
                for pick in made.picks:
                    if pick.key not in free:
                        continue
                    # As if it was booked.
                    free[pick.key] = minus(free[pick.key], demand)
                    objection, one = self._admit(guard, request, pick, free, demand, len(made.picks), WARN, clears=True)
                    if one is not None:
                        admitted.append(one)
                    if objection is not None:
                        return _reason(objection)
            finally:
                guard.withdraw(admitted)
        return ""

    def _cleared(self, request: RequestSpec) -> Decision | None:
        """Return a decision for a move that other plans of losses make room for; None if there is none."""
        if len(request.instance_uuids) != 1 or self._fleet.shown(request.instance_uuids[0]) is None:
            return None
        _nodes, hosts = self._full(request, LAST, is_last=True)
        made = self._fleet.decide(requests.without(request, hosts, ()))
        if not made.complete:
            return None
        objection, judged = self._object(request, made, LAST, clears=True)
        if objection is None or not objection.bars(LAST):
            return self._placed(judged, objection)
        self._fleet.release(request.instance_uuids)
        return None

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

    def _object(
        self, request: RequestSpec, made: Decision, barring: str, clears: bool = False
    ) -> tuple[Objection | None, Decision]:
        """Put the picks into the plans, and return why they break a promise; None if they do not.

        Picks that break a promise are in no plan if its policy bars them. All others are in the plans of the losses that
        would be survived: a weaker promise that is broken anyway does not undo a stricter one. Alternates that would break a
        promise are dropped: an agent that refuses a pick sends it on without asking again.

        :param barring: the weakest policy that bars a pick
        :param clears: make room for a move in the plans, if it is taken
        """
        with self._lock:
            guard = self._guard
            if guard is None:
                return None, made
            for pick in made.picks:
                self._admitted.drop(pick.instance_uuid, pick.key)
            objection, admitted, picks = self._judge(guard, request, made, barring, clears)
            if objection is not None and self._admitted.drop_gone():
                guard.withdraw(admitted)
                objection, admitted, picks = self._judge(guard, request, made, barring, clears)
            if objection is not None and objection.bars(barring):
                # The other instances of a request that is not placed as it was decided take no room.
                guard.withdraw(admitted)
                return objection, made
            self._admitted.remember(admitted)
        return objection, dataclasses.replace(made, picks=picks)

    def _judge(
        self, guard: Guard, request: RequestSpec, made: Decision, barring: str, clears: bool
    ) -> tuple[Objection | None, list[Admitted], list[Pick]]:
        """Return the strictest objection to the picks, their places in the plans, and the picks with fit alternates."""
        demand, is_hard, group = demand_of(request), has_hardware(request), requests.apart_in(request)
        free = self._free(guard, made)
        objections, admitted, picks = [], [], []
        for pick in made.picks:
            if pick.key not in free:
                # It has gone since the decision: the claim will say so.
                picks.append(pick)
                continue
            objection, one = self._admit(guard, request, pick, free, demand, len(made.picks), barring, clears)
            if objection is not None:
                objections.append(objection)
            if one is None:
                continue
            admitted.append(one)
            kept = [
                each
                for each in pick.alternates
                if (node := node_of(each)) in free
                and not self._is_barred(guard, node, free[node], demand, is_hard, group)
            ]
            picks.append(dataclasses.replace(pick, alternates=kept))
        return guard.strictest(objections), admitted, picks

    def _free(self, guard: Guard, made: Decision) -> dict[Node, Amount]:
        """Return what is left on the nodes of all picks, of their alternates, and on those whose kept room others share.

        A node that has gone is not there.
        """
        alternates = (node_of(each) for pick in made.picks for each in pick.alternates)
        return self._fleet.free({*alternates, *(pick.key for pick in made.picks), *guard.most_kept})

    def _admit(
        self,
        guard: Guard,
        request: RequestSpec,
        pick: Pick,
        free: Mapping[Node, Amount],
        demand: Amount,
        number: int,
        barring: str,
        clears: bool,
    ) -> tuple[Objection | None, Admitted | None]:
        """Return the objection to a pick, and its places in the plans, which it has now unless the objection bars it.

        :param number: of instances that the request places
        :param clears: make room for a move in the plans, if it is taken
        """
        node, host = pick.key, pick.key[0]
        unsafe, losses = guard.unsafe(host), guard.losses_of(host)
        if requests.is_balancing(request) and unsafe is not None and not unsafe.bars(REFUSE):
            # What is not survived anyway holds up nothing.
            unsafe = None
        # Its booking is counted already.
        group = requests.apart_in(request)
        objections = [unsafe, self._unseen(guard, host), *self._kept(guard, pick, free, demand, group, clears)]
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
                # It has no plan: the objection ``unsafe`` counts it.
                continue
            spare = self._spares.find(guard, one, loss, pick.alternates, free, demand, number)
            if spare is None:
                objections.append(guard.homeless(host, loss))
            else:
                spares.append((loss, spare))
        found = guard.strictest(objections)
        if found is not None and found.bars(barring):
            return found, None
        group = group or requests.bound_in(request)
        admitted = Admitted(pick.instance_uuid, node, demand, spares, hardware, group, request=one)
        guard.admit(admitted)
        return found, admitted

    def _kept(
        self, guard: Guard, pick: Pick, free: Mapping[Node, Amount], demand: Amount, group: str | None, clears: bool
    ) -> list[Objection | None]:
        """Return the objections to a pick that takes what plans put on its node: room, and a member of its group."""
        node, before = pick.key, plus(free[pick.key], demand)
        found = [guard.taken(node, before, demand), guard.apart(node, group)]
        moving = self._fleet.shown(pick.instance_uuid) if any(found) else None
        if moving is None:
            return found
        own = {
            **guard.own(pick.instance_uuid, moving.host, node, demand),
            **self._admitted.own(pick.instance_uuid, (moving.host, moving.node or moving.host), node, demand),
        }
        if clears and found[0] is not None:
            self._clearing.clear(guard, self._admitted, node, free, demand, own)
        return [guard.taken(node, before, demand, own), guard.apart(node, group, own)]

    def _unseen(self, guard: Guard, host: str) -> Objection | None:
        return None if host in guard.hosts else guard.unseen(host, self._fleet.aggregates())

    def _is_barred(
        self, guard: Guard, node: Node, free: Amount, demand: Amount, is_hard: bool, group: str | None
    ) -> bool:
        host = node[0]
        objections = [guard.unsafe(host), self._unseen(guard, host), guard.taken(node, free, demand)]
        objections.append(guard.apart(node, group))
        if is_hard and guard.hardware(node):
            objections.append(guard.crowded(node))
        found = guard.strictest(objections)
        return found is not None and found.bars(LAST)

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
                    some = guard.sharing(loss, demand, free()) or [
                        other for other, left in free().items() if Guard.is_spare(loss, other, left, demand)
                    ]
                    spares += [(loss, some[0])] if some else []
                admitted = Admitted(each.instance_uuid, node, demand, spares)
                guard.admit(admitted)
                self._admitted.remember([admitted])

    def _full(self, request: RequestSpec, policy: str, is_last: bool) -> tuple[set[Node], Set[str]]:
        """Nodes, and hosts, on which the instances would break a promise at once.

        :param policy: of promises that are at least as strict
        :param is_last: also nodes on which only a trial can decide whether cells and devices suffice
        """
        demand = demand_of(request)
        with self._lock:
            guard = self._guard
            if guard is None or not guard.has(policy):
                return set(), frozenset()
            keeping = self._fleet.free(guard.keeping)
            takes = guard.takes_beside(policy)
            taken = {node for node, free in keeping.items() if not takes(node, free, demand)}
            if has_hardware(request):
                taken.update(guard.nodes_with_hardware(of_several=not is_last))
            taken.update(guard.nodes_for_members(requests.apart_in(request)))
            hosts = guard.unsafe_hosts(policy)
            if unseen := self._fleet.hosts() - guard.hosts:
                hosts |= guard.covered(policy, sorted(unseen), self._fleet.aggregates())
            return taken, hosts


def _reason(objection: Objection) -> str:
    scope = objection.promise.tolerance
    return (
        f"The {scope.scope} tolerates the loss of {scope.what}, and no host would keep this promise: "
        f"{objection.sentence}."
    )
