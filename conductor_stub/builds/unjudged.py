# SPDX-License-Identifier: Apache-2.0
"""Remarks the parts of an accepted request that no filter of the schedulers judges.

:mod:`conductor_stub.builds.intake` answers with the remarks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import oslo_messaging
from oslo_log import log as logging

from fleet import errors
from fleet.context import RequestContext, new_context
from fleet.db.catalog import groups
from fleet.db.tables.catalog import GroupRow
from fleet.json_codec import JSONMapping
from fleet.objects import Flavor, Image, RequestSpec, Zone, numa, pci, request_parts
from fleet.objects.request_spec import InstanceProperties

LOG = logging.getLogger(__name__)

#: Seconds between two calls to a scheduler.
INTERVAL_S = 10
#: Answers of schedulers, and of the transport, that leave the conductor with what it knows.
_NO_ANSWER = (oslo_messaging.MessagingException, errors.FleetError)


class Unjudged:
    """Keeps the answer of a scheduler about its filters. Before the first answer, nothing is remarked.

    :param ask: calls ``describe_filters`` of a scheduler
    """

    def __init__(self, ask: Callable[[RequestContext], JSONMapping]) -> None:
        self._ask = ask
        self._judged: Collection[str] | None = None

    def learn(self) -> None:
        """Ask a scheduler. If none answers, the former answer stays."""
        try:
            self._judged = frozenset(self._ask(new_context())["judged"])
        except _NO_ANSWER as lost:
            LOG.debug("No scheduler has said which filters it has: %s", type(lost).__name__)

    def remarks(self, spec: JSONMapping, group: GroupRow | None) -> Sequence[str]:
        """Return a sentence for each part of a stored build request that no filter judges.

        :param group: the request's server group
        """
        if self._judged is None:
            return ()
        zone = Zone.parse(spec["availability_zone"])
        request = RequestSpec(
            flavor=Flavor(**spec["flavor"]),
            image=Image(**spec["image"]),
            instance=InstanceProperties(availability_zone=zone.zone or None),
            scheduler_hints=spec["scheduler_hints"],
            force_hosts=(zone.host,) if zone.host else (),
            force_nodes=(zone.node,) if zone.node else (),
            group_policies=frozenset((group.policy,) if group else ()),
            group_rules=groups.rules_of(group) if group else (),
            numa_topology=numa.InstanceTopology.from_wire(spec["numa_topology"], "numa_topology"),
            pci_requests=pci.requests_from_wire(spec["pci_requests"], "pci_requests"),
        )
        return request_parts.remarks(request, self._judged)
