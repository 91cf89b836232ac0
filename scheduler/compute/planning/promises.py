# SPDX-License-Identifier: Apache-2.0
"""Proves the promises again and again, and publishes what their plans need."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from fleet import errors
from fleet.db.feed import domains
from fleet.db.feed.feed import Changes
from fleet.db.hosts import tolerances
from fleet.objects import RequestSpec
from fleet.objects.survival import Loss
from fleet.objects.tolerance import Tolerance
from fleet.objects.whatif import Demand
from fleet.telemetry import metrics
from scheduler.compute.planning import survival
from scheduler.compute.tolerance import guard
from scheduler.compute.tolerance.admission import Admission
from scheduler.compute.tolerance.amounts import demand_of
from scheduler.planning.survival.room import Verdict

LOG = logging.getLogger(__name__)

#: Seconds for one loss; and how many times as long as a proof took the prover rests at least.
LIMIT_S, _REST = 1.0, 20
#: Requests that one call asks for.
_AT_ONCE = 500
_TOO_MANY = "more combinations may be lost than can be looked at"


class Prover:
    """:meth:`prove` is called every ``tolerance_interval`` seconds.

    :param promised: reads the promises
    :param state: reads everything, as the change feed reports it
    :param ask: asks a conductor for the requests of existing instances
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        admission: Admission,
        promised: Callable[[], Sequence[Tolerance]],
        state: Callable[[], Changes],
        ask: Callable[[list[str]], Sequence[Mapping[str, Any]]],
    ) -> None:
        self._conf = conf
        self._admission = admission
        self._promised = promised
        self._state = state
        self._ask = ask
        self._rests_until = 0.0
        self._known: dict[tuple[Any, ...], Demand] = {}
        self._last: tuple[int, tuple[Tolerance, ...]] | None = None

    def prove(self) -> None:
        promised = tuple(self._promised())
        if not promised:
            if self._last is not None:
                self._admission.publish(None, {})
                self._admission.proved, self._last, self._known = None, None, {}
                _count(collections.Counter(), 0)
            return
        began = time.monotonic()
        if began < self._rests_until:
            return
        state = self._state()
        if self._last == (state.generation, promised):
            return
        self._admission.publish(self._guard(promised, state), {row.uuid: row.host for row in state.instances})
        self._last = state.generation, promised
        self._rests_until = time.monotonic() + _REST * (time.monotonic() - began)

    def _guard(self, promised: Sequence[Tolerance], state: Changes) -> guard.Guard:
        hosts = sorted({node.host for node in state.nodes})
        wanted: dict[frozenset[str], Loss] = {}
        of_promise: list[tuple[Tolerance, list[Loss], list[str]]] = []
        for each in promised:
            scope = tolerances.hosts_of(each, hosts, state.aggregates)
            values = domains.value_of(state, each.label) if each.label else {}
            losses = each.losses(scope, values)
            found = list(losses) if losses is not None else [Loss(each.what, [host]) for host in scope]
            of_promise.append((each, found, [] if losses is not None else scope))
            if losses is not None:
                wanted.update((frozenset(loss.hosts), loss) for loss in found)
        report = survival.run(
            self._conf, state, list(wanted.values()), self._requests(state), lambda _name: None, LIMIT_S
        )
        demands = {key[0]: _amount(demand) for key, demand in self._known.items()}
        proved: dict[frozenset[str], guard.Loss] = {}
        counts: collections.Counter[Verdict] = collections.Counter()
        lacking: set[str] = set()
        for loss, proof in zip(report.losses, report.proofs, strict=True):
            counts[proof.verdict] += 1
            lacking |= set(proof.lacking)
            is_safe = proof.verdict is Verdict.SAFE
            made = guard.Loss(
                loss.name, frozenset(loss.hosts), "" if is_safe else f"{proof.verdict.value}: {proof.why}"
            )
            for uuid, host in proof.plan.items():
                made.reserve(host, demands[uuid])
            proved[made.hosts] = made
        self._admission.proved = _count(counts, len(lacking))
        return guard.Guard([_promise(*each, proved) for each in of_promise])

    def _requests(self, state: Changes) -> survival.RequestsOf:
        """Asks for instances that are new, or have moved or changed since the last proof."""
        keys = {row.uuid: (row.uuid, row.host, row.instance_type_id, row.vm_state) for row in state.instances}

        def requests_of(uuids: Sequence[str]) -> Mapping[str, Demand | errors.FleetError]:
            self._known = {key: self._known[key] for key in keys.values() if key in self._known}
            missing = [uuid for uuid in uuids if keys[uuid] not in self._known]
            for start in range(0, len(missing), _AT_ONCE):
                for each in self._ask(missing[start : start + _AT_ONCE]):
                    made = Demand(each["request_spec"], each["filter_properties"], [None], name=each["uuid"])
                    self._known[keys[made.name]] = made
            return {key[0]: demand for key, demand in self._known.items()}

        return requests_of


def _amount(demand: Demand) -> guard.Amount:
    return demand_of(RequestSpec.from_wire(demand.request_spec, demand.filter_properties))


def _promise(
    tolerance: Tolerance, losses: Sequence[Loss], unlooked: Sequence[str], proved: Mapping[frozenset[str], guard.Loss]
) -> guard.Promise:
    of_host: dict[str, list[guard.Loss]] = collections.defaultdict(list)
    for loss in losses:
        made = proved.get(frozenset(loss.hosts))
        if unlooked or made is None:
            made = guard.Loss(loss.name, frozenset(loss.hosts), _TOO_MANY)
        for host in loss.hosts:
            of_host[host].append(made)
    return guard.Promise(tolerance, dict(of_host))


def _count(counts: collections.Counter[Verdict], lacking: int) -> dict[str, int]:
    """Set the gauges, and return what the scheduler tells of the proof."""
    for verdict in Verdict:
        metrics.TOLERANCE_LOSSES.labels(verdict.value).set(counts[verdict])
    metrics.TOLERANCE_UNPROTECTED.set(lacking)
    metrics.TOLERANCE_PROVED_AT.set_to_current_time()
    return {**{verdict.value: counts[verdict] for verdict in Verdict}, "unprotected guests": lacking}
