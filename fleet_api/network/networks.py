# SPDX-License-Identifier: Apache-2.0
"""Networks and their subnets, in the form of the Networking API v2.0.

:mod:`fleet_api.application` names their paths.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import falcon
from typing_extensions import TypedDict

from fleet import errors
from fleet.objects.answers.catalog import NetworkView
from fleet_api.access import identity
from fleet_api.network.selection import chosen, shown
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor

_STATE = {"status": "ACTIVE", "admin_state_up": True, "tags": [], "description": "", "revision_number": 0}
#: Parameters that select networks or subnets, beside the general ones of ``selection``.
_NETWORK = ("id", "name", "shared", "is_default", "router:external")
_SUBNET = ("id", "name", "network_id", "cidr", "gateway_ip", "ip_version")


class Pool(TypedDict):
    start: str
    end: str


#: One of its names is no name of Python. The parameter ``fields`` may leave any out.
NetworkShown = TypedDict(
    "NetworkShown",
    {
        "id": str,
        "name": str,
        "status": str,
        "admin_state_up": bool,
        "shared": bool,
        "is_default": bool,
        "router:external": bool,
        "subnets": list[str],
        "tenant_id": str,
        "project_id": str,
        "tags": list[str],
        "description": str,
        "revision_number": int,
        "created_at": str,
        "updated_at": str,
    },
    total=False,
)


class SubnetShown(TypedDict, total=False):
    """The parameter ``fields`` may leave any out."""

    id: str
    network_id: str
    name: str
    cidr: str
    ip_version: int
    gateway_ip: str | None
    enable_dhcp: bool
    dns_nameservers: list[str]
    allocation_pools: list[Pool]
    host_routes: list[object]
    tenant_id: str
    project_id: str
    tags: list[str]
    description: str
    revision_number: int
    created_at: str
    updated_at: str


def _times(found: NetworkView) -> dict[str, str]:
    """Return the times of a network, to the second, in UTC."""
    moment = f"{found['created_at'][:19]}Z"
    return {"created_at": moment, "updated_at": moment}


def _view(found: NetworkView) -> dict[str, object]:
    return {
        "id": found["uuid"],
        "name": found["name"],
        "subnets": [found["uuid"]],
        "router:external": False,
        "shared": not found.get("projects"),
        "is_default": found["is_default"],
        "tenant_id": identity.ADMIN,
        "project_id": identity.ADMIN,
        **_STATE,
        **_times(found),
    }


def _subnet(found: NetworkView) -> dict[str, object]:
    common = {name: _STATE[name] for name in ("tags", "description", "revision_number")}
    return {
        "id": found["uuid"],
        "network_id": found["uuid"],
        "name": found["name"],
        "cidr": found["subnet"],
        "ip_version": ipaddress.IPv4Network(found["subnet"]).version,
        "gateway_ip": found["gateway"],
        "enable_dhcp": False,
        "dns_nameservers": found["dns"],
        "host_routes": [],
        "allocation_pools": [{"start": found["first"], "end": found["last"]}],
        "tenant_id": identity.ADMIN,
        "project_id": identity.ADMIN,
        **common,
        **_times(found),
    }


class Networks:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    def _all(self, request: falcon.Request) -> Sequence[NetworkView]:
        return self._conductor.operator(request).list_networks()

    def _one(self, request: falcon.Request, uuid: str, kind: str) -> NetworkView:
        """Find a network by uuid only: clients look up names in the list. :raises errors.NotFound:"""
        found = next((each for each in self._all(request) if each["uuid"] == uuid), None)
        if found is None:
            raise errors.NotFound(kind=kind, name=uuid)
        return found

    @guard.by("network:get")
    @answers.gives(answers.Answer({"networks": list[NetworkShown]}))
    @bodies.asks(*_NETWORK, "fields", "limit", "marker")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = {"networks": chosen(request, [_view(each) for each in self._all(request)], _NETWORK)}

    @guard.by("network:get")
    @answers.gives(answers.Answer({"network": NetworkShown}))
    @bodies.asks("fields")
    def on_get_one(self, request: falcon.Request, response: falcon.Response, network_id: str) -> None:
        response.media = {"network": shown(request, _view(self._one(request, network_id, "Network")))}

    @guard.by("network:get")
    @answers.gives(answers.Answer({"subnets": list[SubnetShown]}))
    @bodies.asks(*_SUBNET, "fields", "limit", "marker")
    def on_get_subnets(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = {"subnets": chosen(request, [_subnet(each) for each in self._all(request)], _SUBNET)}

    @guard.by("network:get")
    @answers.gives(answers.Answer({"subnet": SubnetShown}))
    @bodies.asks("fields")
    def on_get_subnet(self, request: falcon.Request, response: falcon.Response, subnet_id: str) -> None:
        response.media = {"subnet": shown(request, _subnet(self._one(request, subnet_id, "Subnet")))}
