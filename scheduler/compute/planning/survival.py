# SPDX-License-Identifier: Apache-2.0
"""Reads the room for ``scheduler.planning.survival`` from a copy of the fleet, and decides on it.

``fleet drill`` calls it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

from oslo_config import cfg

from fleet.db.feed.feed import Changes
from fleet.objects.survival import Loss, Report
from fleet.objects.whatif import Demand
from scheduler.compute import conf as compute_conf
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.planning.ground import packing
from scheduler.compute.planning.losses.decisions import Decisions
from scheduler.compute.planning.losses.room_reader import RequestsOf, RoomReader
from scheduler.planning.copied_fleet import CopiedFleet
from scheduler.planning.survival.proof import LIMIT_S, Survival
from scheduler.planning.survival.room import Verdict

#: Seconds for a caller who waits.
_ANSWER_S = 5.0


def run(
    conf: cfg.ConfigOpts,
    state: Changes,
    losses: Sequence[Loss],
    requests_of: RequestsOf,
    tick: Callable[[str], object],
    limit_s: float = LIMIT_S,
    spread: bool = False,
) -> Report:
    """Return a proof for each loss; nothing is changed.

    :param conf: of the scheduler; its filters are used
    :param state: the whole state, as the change feed reports it
    :param losses: hosts that are lost together. A host that is down or disabled stays so, and takes no guests
    :param tick: called with the name of each loss, when it is proved
    :param limit_s: seconds for one loss
    :param spread: let the configured weighers choose among the hosts, in place of the tightest fit. Fewer losses are proved
    """
    compute_conf.register_opts(conf)
    configured = loading.load_pipeline(conf)
    asked = configured if spread else packing(configured)
    fleet = CopiedFleet(asked, state, conf.service_down_time, HostManager)
    reader = RoomReader(asked, requests_of)
    room, _changed = fleet.read(lambda hosts, _state: reader.read(hosts))
    began = time.perf_counter()
    survival = Survival(room, Decisions(fleet, room, reader), limit_s)
    proofs = []
    for loss, proof in zip(losses, survival.proofs([loss.hosts for loss in losses]), strict=True):
        proofs.append(proof)
        tick(loss.name)
    return Report(losses, proofs, time.perf_counter() - began)


def answer(
    conf: cfg.ConfigOpts, state: Callable[[], Changes], hosts: Sequence[str], requests: Mapping[str, Demand]
) -> dict[str, object]:
    """Return the answer of the scheduler's ``plan_loss``: where the weighers would have the guests, if all fit so.

    Guests without a request stay on their lost host, such as those that wait for the end of a resize or are being deleted.

    :param state: reads the whole state
    """
    everything, loss, gone = state(), Loss(" ".join(hosts), hosts), set(hosts)
    moved = [each for each in everything.instances if each.host not in gone or each.uuid in requests]
    everything = dataclasses.replace(everything, instances=moved)
    for spread in (True, False):
        report = run(conf, everything, [loss], lambda _uuids: requests, lambda _name: None, _ANSWER_S, spread)
        (proof,) = report.proofs
        if proof.verdict is Verdict.SAFE:
            break
    return {"verdict": proof.verdict.value, "why": proof.why, "plan": dict(proof.plan)}
