# SPDX-License-Identifier: Apache-2.0
"""Claims in placement: the allocation of an instance on its chosen host, before the answer.

Placement is what keeps two schedulers from choosing the same room: nova's compute service no longer checks memory, disk and
vcpus. nova's conductor moves and deletes allocations later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging

from fleet.objects import RequestSpec
from fleet.telemetry import metrics
from scheduler.nova.placement import Outcome, Placement, PlacementFailed
from scheduler.nova.request import NovaRequest

LOG = logging.getLogger(__name__)
#: Somebody else writes the same rows of placement: tried so often, then the next host is taken.
_ATTEMPTS = 4


def resources_of(request: RequestSpec) -> dict[str, int]:
    """Return what one instance takes, by resource class. Placement refuses amounts of zero."""
    flavor = request.flavor
    disk_gb = flavor.root_gb + flavor.ephemeral_gb + -(-flavor.swap // 1024)
    amounts = {"VCPU": flavor.vcpus, "MEMORY_MB": flavor.memory_mb, "DISK_GB": disk_gb}
    return {name: amount for name, amount in amounts.items() if amount}


@dataclasses.dataclass(frozen=True)
class Claim:
    """An allocation that was written.

    :param before: what the instance held before, by provider
    """

    instance_uuid: str
    node_uuid: str
    before: Mapping[str, Any]


class Claims:
    """The claims of one request. :meth:`give_back` undoes all of them."""

    def __init__(self, placement: Placement, request: NovaRequest, project_id: str, user_id: str) -> None:
        self._placement = placement
        self._resources = resources_of(request)
        self._owner = {"project_id": project_id, "user_id": user_id}
        # nova names the cell of every move. An instance that is being built can hold only what a lost answer has claimed.
        self._is_move = request.destination.cell is not None
        self._made: list[Claim] = []
        #: Compute nodes that placement does not know.
        self.unknown: set[str] = set()

    def claim(self, instance_uuid: str, node_uuid: str) -> bool:
        """Claim the compute node for an instance; False if placement refuses it. :raises PlacementFailed:"""
        # A new instance holds nothing, so most builds need one call.
        held: dict[str, Any] = {}
        generation = None
        known = False
        for _attempt in range(_ATTEMPTS):
            if self._is_move or known:
                held, generation = self._placement.allocations(instance_uuid)
            before = held if self._is_move else {}
            # As nova-scheduler does: during an evacuation an instance holds both hosts.
            wanted = {node_uuid: {"resources": self._resources}, **before}
            body = {"allocations": wanted, "consumer_generation": generation, **self._owner}
            outcome = self._placement.write(instance_uuid, body)
            metrics.NOVA_CLAIMS.labels(outcome.value).inc()
            if outcome is Outcome.TAKEN:
                self._made.append(Claim(instance_uuid, node_uuid, before))
                return True
            if outcome is Outcome.UNKNOWN:
                self.unknown.add(node_uuid)
            if outcome in (Outcome.FULL, Outcome.UNKNOWN):
                return False
            known = True
        LOG.warning("The allocation of instance %s changes all the time: the next host is tried", instance_uuid)
        return False

    def give_back(self) -> None:
        """Restore what each instance held before. A failure is logged: the rest is given back all the same."""
        for claim in reversed(self._made):
            try:
                self._restore(claim)
            except PlacementFailed as failure:
                LOG.error(
                    "The allocation of instance %s on provider %s remains, though the request has failed: %s",
                    *(claim.instance_uuid, claim.node_uuid, failure.message),
                )
        self._made.clear()

    def _restore(self, claim: Claim) -> None:
        for _attempt in range(_ATTEMPTS):
            held, generation = self._placement.allocations(claim.instance_uuid)
            if claim.node_uuid not in held or claim.node_uuid in claim.before:
                return
            left = {uuid: each for uuid, each in held.items() if uuid != claim.node_uuid}
            body = {"allocations": left, "consumer_generation": generation, **self._owner}
            if self._placement.write(claim.instance_uuid, body) is Outcome.TAKEN:
                return
        raise PlacementFailed(problem="the allocation changes all the time.")
