# SPDX-License-Identifier: Apache-2.0
"""What the commands ``fleet explain``, ``fleet capacity`` and ``fleet whatif`` need of nova: requests made from its records.

It has the methods of the conductor's ``operator`` namespace that make a request, by flavor or by server.
"""

from __future__ import annotations

from typing import Any

import oslo_messaging
from oslo_utils import uuidutils

from fleet import errors
from fleet.context import RequestContext
from fleet.db.nova import api_queries
from fleet.db.nova.database import NovaDatabase
from fleet.objects import BuildRequest, Claimed, Flavor, Holding, Zone, fields
from fleet.rpc import versions
from fleet.rpc.endpoint import endpoint, require_size
from scheduler.driver import Scheduler
from scheduler.engine.candidates import Candidates
from scheduler.engine.decision import StateAge
from scheduler.nova import decoder
from scheduler.nova.request import NovaRequest


class NovaOperator:
    """Namespace ``operator`` on topic ``scheduler``."""

    target = oslo_messaging.Target(namespace="operator", version=versions.CURRENT["scheduler"])

    def __init__(self, driver: Scheduler, api: NovaDatabase) -> None:
        self._driver = driver
        self._api = api

    @endpoint
    def request_of(self, context: RequestContext, name: fields.Text) -> dict[str, Any]:
        """Return the request of a server, as if it were placed anew; what it holds counts as free.

        :raises errors.NotFound:
        """
        spec = self._api.read(api_queries.request_spec, name) if uuidutils.is_uuid_like(name) else None
        if spec is None:
            raise errors.NotFound(kind="Request of server (by uuid)", name=name)
        request = decoder.decode({"spec_obj": spec, "instance_uuids": [name]}).request
        holding = self._holding(name, request)
        return _sent(request, {"holding": holding.to_wire()})

    @endpoint
    def request_for(self, context: RequestContext, request: dict[str, Any]) -> dict[str, Any]:
        """Return the request for new servers of one of nova's flavors. :raises errors.NotFound:"""
        require_size(request, "request")
        asked = BuildRequest.from_wire(request)
        if asked.group:
            raise errors.InvalidInput(field="request.group", reason="is not looked up in nova; leave it out")
        zone = Zone.parse(asked.availability_zone)
        spec = {
            "instance_type": self._flavor(asked.flavor),
            "num_instances": asked.num_instances,
            "image": asked.image.to_wire(),
            "instance_properties": {
                "project_id": context.project_id,
                "user_id": context.user_id,
                "availability_zone": zone.zone or None,
            },
        }
        properties = {
            "scheduler_hints": asked.scheduler_hints,
            "ignore_hosts": asked.ignore_hosts,
            "force_hosts": [zone.host] if zone.host else [],
            "force_nodes": [zone.node] if zone.node else [],
        }
        return {"request_spec": spec, "filter_properties": properties}

    @endpoint
    def list_hosts(self, context: RequestContext) -> list[dict[str, Any]]:
        """Return the names of the hosts that are up."""
        return [{"host": host} for host in self._driver.hosts_up()]

    def _flavor(self, flavor: str | Flavor) -> dict[str, Any]:
        if isinstance(flavor, Flavor):
            return flavor.to_wire()
        found = self._api.read(api_queries.flavor, flavor)
        if found is None:
            raise errors.NotFound(kind="Flavor", name=flavor)
        return {**found, "root_gb": found["root_gb"] or 0, "ephemeral_gb": found["ephemeral_gb"] or 0}

    def _holding(self, uuid: str, request: NovaRequest) -> Holding:
        """Return what a server holds of its host, by its flavor."""

        def work(hosts: Candidates, state: StateAge) -> tuple[str, str | None] | None:
            found = hosts.placed(uuid)
            return None if found is None else (found.host, found.node)

        self._driver.refresh()
        place = self._driver.host_manager.consider(work)
        if place is None:
            return Holding(uuid)
        return Holding(uuid, *place, Claimed(request.memory_mb, request.flavor.claimed_disk_gb, request.vcpus))


def _sent(request: NovaRequest, more: dict[str, Any]) -> dict[str, Any]:
    return {"request_spec": {**request.request_spec, **more}, "filter_properties": dict(request.filter_properties)}
