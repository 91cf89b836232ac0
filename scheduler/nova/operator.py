# SPDX-License-Identifier: Apache-2.0
"""Makes requests from nova's records for ``fleet explain``, ``fleet capacity`` and ``fleet whatif``.

It has the methods of the conductor's ``operator`` namespace that make a request, by flavor or by server. Called by
:mod:`scheduler.nova.service`.
"""

from __future__ import annotations

from typing import Any

from oslo_utils import uuidutils

from fleet import errors
from fleet.context import RequestContext
from fleet.db.nova import api_queries
from fleet.db.nova.api_queries import Group
from fleet.db.nova.database import NovaDatabase
from fleet.json_codec import JSONObject
from fleet.objects import BuildRequest, Claimed, Flavor, Holding, Zone, fields, structure
from fleet.rpc.endpoint import endpoint, require_size, served
from scheduler.compute.drivers.driver import Scheduler
from scheduler.engine.decision import StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.nova import decoder, traits
from scheduler.nova.request import NovaRequest


class NovaOperator:
    """Namespace ``operator`` on topic ``scheduler``."""

    target = served("scheduler", "operator")

    def __init__(self, driver: Scheduler, api: NovaDatabase) -> None:
        self._driver = driver
        self._api = api

    @endpoint
    def request_of(self, context: RequestContext, name: fields.Text) -> JSONObject:
        """Return the request of a server, as if it were placed anew; what it holds counts as free.

        :raises errors.NotFound:
        """
        spec = self._api.read(api_queries.request_spec, name) if uuidutils.is_uuid_like(name) else None
        if spec is None:
            raise errors.NotFound(kind="Request of server (by uuid)", name=name)
        request = decoder.decode({"spec_obj": spec, "instance_uuids": [name]}).request
        noted = traits.noted(request.required_traits, request.forbidden_traits)
        group = self._api.read(api_queries.group, request.group_uuid) if request.group_uuid else None
        plain: Any = structure.plain(spec, "spec_obj")
        outside = {key: plain[key] for key in ("requested_resources", "request_level_params") if plain.get(key)}
        return {
            "request_spec": {
                **request.request_spec,
                **noted,
                **outside,
                "holding": self._holding(name, request).to_wire(),
            },
            "filter_properties": {**request.filter_properties, **self._keys(group, name)},
        }

    @endpoint
    def request_for(self, context: RequestContext, request: JSONObject) -> JSONObject:
        """Return the request for new servers of one of nova's flavors, in one of its groups. :raises errors.NotFound:"""
        require_size(request, "request")
        asked = BuildRequest.from_wire(request)
        zone = Zone.parse(asked.availability_zone)
        flavor, image = self._flavor(asked.flavor), asked.image.to_wire()
        spec = {
            "instance_type": flavor,
            "num_instances": asked.num_instances,
            "image": image,
            **traits.noted(*traits.of_request(flavor, image)),
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
            **(self._keys(self._group(asked.group)) if asked.group else {}),
        }
        return {"request_spec": spec, "filter_properties": properties}

    @endpoint
    def list_decisions(self, context: RequestContext, request_id: fields.Name) -> JSONObject:
        """Return the decisions of a request that the schedulers of this machine have kept.

        :raises errors.ConfigError: they keep no decisions
        """
        return {"decisions": list(self._driver.decisions_of(request_id)), "silent": []}

    @endpoint
    def list_hosts(self, context: RequestContext) -> list[JSONObject]:
        """Return the names of the hosts that are up."""
        return [{"host": host} for host in self._driver.hosts_up()]

    def _flavor(self, flavor: str | Flavor) -> JSONObject:
        if isinstance(flavor, Flavor):
            return dict(flavor.to_wire())
        found = self._api.read(api_queries.flavor, flavor)
        if found is None:
            raise errors.NotFound(kind="Flavor", name=flavor)
        return {**found, "root_gb": found["root_gb"] or 0, "ephemeral_gb": found["ephemeral_gb"] or 0}

    def _group(self, name: str) -> Group:
        found = self._api.read(api_queries.group, name)
        if found is None:
            raise errors.NotFound(kind="Server group", name=name)
        return found

    def _keys(self, group: Group | None, server: str = "") -> JSONObject:
        """Return the keys of ``filter_properties`` for a group. The host of ``server`` itself is not one of its hosts."""
        if group is None:
            return {}
        others = [member for member in group.members if member != server]

        def work(hosts: Candidates, state: StateAge) -> list[str]:
            return sorted(set(hosts.hosts_of(others)))

        self._driver.refresh()
        used = self._driver.host_manager.consider(work)
        return decoder.group_properties(group.uuid, group.policies, group.rules, group.members, used)

    def _holding(self, uuid: str, request: NovaRequest) -> Holding:
        """Return the amounts that a server holds on its host, by its flavor."""

        def work(hosts: Candidates, state: StateAge) -> tuple[str, str | None] | None:
            found = hosts.placed(uuid)
            return None if found is None else (found.host, found.node)

        self._driver.refresh()
        place = self._driver.host_manager.consider(work)
        if place is None:
            return Holding(uuid)
        return Holding(uuid, *place, Claimed(request.memory_mb, request.flavor.claimed_disk_gb, request.vcpus))
