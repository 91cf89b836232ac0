# SPDX-License-Identifier: Apache-2.0
"""Claims in placement: the allocation of an instance on its chosen host, before the answer.

Called by the modules beside it. Placement is what keeps two schedulers from choosing the same room: nova's compute
service no longer checks memory, disk and vcpus. nova's conductor moves and deletes allocations later.
"""

from __future__ import annotations

import dataclasses
import itertools

from oslo_log import log as logging

from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import RequestSpec
from fleet.telemetry import metrics
from scheduler.nova.placement import Outcome, Placement, PlacementFailed
from scheduler.nova.request import NovaRequest, Offers

LOG = logging.getLogger(__name__)
#: Tries of one claim while other writers change the same rows of placement. The next host follows.
_ATTEMPTS = 4
#: Allocation requests of one host that are tried: another instance may take the resources of some meanwhile.
_OFFERS = 20


def resources_of(request: RequestSpec) -> dict[str, int]:
    """Return the amounts that one instance takes of its node, by resource class. Placement refuses amounts of zero."""
    if isinstance(request, NovaRequest) and request.wanted is not None:
        return dict(request.wanted.main.resources)
    flavor = request.flavor
    disk_gb = flavor.root_gb + flavor.ephemeral_gb + -(-flavor.swap // 1024)
    amounts = {"VCPU": flavor.vcpus, "MEMORY_MB": flavor.memory_mb, "DISK_GB": disk_gb}
    return {name: amount for name, amount in amounts.items() if amount}


def allocation(request: NovaRequest, node_uuid: str) -> JSONObject:
    """Return the allocation request for a compute node that serves the request alone."""
    return {"allocations": {node_uuid: {"resources": resources_of(request)}}, "mappings": {"": [node_uuid]}}


@dataclasses.dataclass(frozen=True)
class Claim:
    """An allocation that was written, or may have been.

    :param providers: uuids of all providers that it takes from
    :param before: what the instance held before, by provider
    """

    instance_uuid: str
    providers: frozenset[str]
    before: JSONMapping


class Claims:
    """The claims of one request. :meth:`give_back` undoes all of them."""

    def __init__(self, placement: Placement, request: NovaRequest, project_id: str, user_id: str) -> None:
        self._placement = placement
        self._request = request
        self._owner = {"project_id": project_id, "user_id": user_id}
        # nova names the cell of every move. An instance that is being built can hold only what a lost answer has claimed.
        self._is_move = request.destination.cell is not None
        self._made: list[Claim] = []
        #: Compute nodes that placement does not know.
        self.unknown: set[str] = set()
        #: What new instances hold already, by their uuid and by provider.
        self.found: dict[str, JSONMapping] = {}

    def claim(self, instance_uuid: str, node_uuid: str, offered: Offers | None = None) -> JSONMapping | None:
        """Claim the compute node for an instance. Return the allocation request; None if placement refuses it.

        None, too, if a new instance turns out to hold an allocation: :attr:`found` has it, and the next call replaces it.

        :param offered: the allocation requests to claim one of, by compute node; None to take all of the node itself
        :raises PlacementFailed:
        """
        asked = [allocation(self._request, node_uuid)] if offered is None else offered.get(node_uuid, ())
        known = instance_uuid in self.found
        for each in itertools.islice(asked, _OFFERS):
            if self._claim(instance_uuid, node_uuid, each["allocations"]):
                return each
            if not known and instance_uuid in self.found:
                return None
        return None

    def _claim(self, instance_uuid: str, node_uuid: str, allocations: JSONMapping) -> bool:
        # A new instance holds nothing, so most builds need one call.
        held: JSONObject = {}
        generation = None
        known = False
        for _attempt in range(_ATTEMPTS):
            if self._is_move or known:
                held, generation = self._placement.allocations(instance_uuid)
                if held and not self._is_move and instance_uuid not in self.found:
                    self.found[instance_uuid] = held
                    return False
            before = held if self._is_move else {}
            # As nova-scheduler does: during an evacuation an instance holds both hosts.
            wanted = {uuid: {"resources": each["resources"]} for uuid, each in allocations.items()} | before
            body = {"allocations": wanted, "consumer_generation": generation, **self._owner}
            made = Claim(instance_uuid, frozenset(allocations), before)
            try:
                outcome = self._placement.write(instance_uuid, body)
            except PlacementFailed:
                self._made.append(made)  # the allocation may be written, and only the answer lost
                raise
            metrics.NOVA_CLAIMS.labels(outcome.value).inc()
            if outcome is Outcome.TAKEN:
                self._made.append(made)
                return True
            if outcome is Outcome.UNKNOWN:
                self.unknown.add(node_uuid)
            if outcome in (Outcome.FULL, Outcome.UNKNOWN):
                return False
            known = True
        LOG.warning("The allocation of instance %s changes all the time: the next host is tried", instance_uuid)
        return False

    def give_back(self) -> None:
        """Restore the allocation that each instance held before. A failure is logged, and the other ones are restored."""
        for claim in reversed(self._made):
            try:
                self._restore(claim)
            except PlacementFailed as failure:
                LOG.error(
                    "The allocation of instance %s on providers %s remains, though the request has failed: %s",
                    *(claim.instance_uuid, ", ".join(sorted(claim.providers)), failure.message),
                )
        self._made.clear()

    def _restore(self, claim: Claim) -> None:
        for _attempt in range(_ATTEMPTS):
            held, generation = self._placement.allocations(claim.instance_uuid)
            added = claim.providers.intersection(held).difference(claim.before)
            if not added:
                return
            left = {uuid: each for uuid, each in held.items() if uuid not in added}
            body = {"allocations": left, "consumer_generation": generation, **self._owner}
            if self._placement.write(claim.instance_uuid, body) is Outcome.TAKEN:
                return
        raise PlacementFailed(problem="the allocation changes all the time.")
