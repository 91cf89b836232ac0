# SPDX-License-Identifier: Apache-2.0
"""Counts the instances that still fit when the guests of lost hosts are elsewhere.

:mod:`fleet_cli.planning.proving` loads it by its entry point, for ``fleet capacity --after-loss-of``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from oslo_config import cfg

from fleet import errors
from fleet.db.feed.feed import Changes
from fleet.objects import RequestSpec
from fleet.objects.survival import Loss, Remaining
from fleet.objects.whatif import Demand
from scheduler.compute.drivers import capacity_count, loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.planning import survival
from scheduler.compute.planning.ground import packing
from scheduler.compute.planning.losses.room_reader import RequestsOf
from scheduler.compute.tolerance.requests import without_group
from scheduler.engine import pipeline
from scheduler.planning.copied_fleet import CopiedFleet
from scheduler.planning.survival.room import Proof, Verdict


def run(
    conf: cfg.ConfigOpts,
    state: Changes,
    losses: Sequence[Loss],
    requests_of: RequestsOf,
    asked: Demand,
    tick: Callable[[str], object],
    limit_s: float,
) -> list[Remaining]:
    """Return for each loss how many instances of ``asked`` fit afterwards. Nothing is changed.

    :param tick: called with the name of each loss; the other arguments are those of ``survival.run``
    """
    known: dict[str, Demand | errors.FleetError] = {}

    def remembered(uuids: Sequence[str]) -> Mapping[str, Demand | errors.FleetError]:
        known.update(requests_of(uuids))
        return known

    report = survival.run(conf, state, losses, remembered, tick, limit_s)
    decided = packing(loading.load_pipeline(conf))
    fleet = CopiedFleet(decided, state, conf.service_down_time, HostManager)
    wanted = RequestSpec.from_wire(asked.request_spec, asked.filter_properties)

    def fits(loss: Loss, proof: Proof) -> int | None:
        try:
            for uuid, host in proof.plan.items():
                fleet.decide(_on(known[uuid], host, loss.hosts))
            left = dataclasses.replace(wanted, ignore_hosts=(*wanted.ignore_hosts, *loss.hosts))
            prepared = pipeline.prepare(decided, left)
            found = fleet.read(lambda hosts, _age: capacity_count.survey(prepared, hosts, None, "").answer()["fits"])
            return None if found is None else int(found)
        finally:
            for uuid in proof.plan:
                fleet.release(uuid)

    return [
        Remaining(loss.name, proof.verdict.value, fits(loss, proof) if proof.verdict is Verdict.SAFE else 0, proof.why)
        for loss, proof in zip(report.losses, report.proofs, strict=True)
    ]


def _on(demand: Demand | errors.FleetError, host: str, lost: Sequence[str]) -> RequestSpec:
    assert isinstance(demand, Demand), "what cannot be read has no plan"
    request = RequestSpec.from_wire(demand.request_spec, demand.filter_properties)
    alone = without_group(dataclasses.replace(request, force_hosts=(), force_nodes=()))
    return dataclasses.replace(alone, ignore_hosts=(*alone.ignore_hosts, *lost), requested_hosts=(host,))
