# SPDX-License-Identifier: Apache-2.0
"""Ports: the addresses that servers have, in the form of the Networking API v2.0.

Called by :mod:`fleet_api.application`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import falcon
from typing_extensions import TypedDict

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import uuid_like
from fleet_api.access import identity
from fleet_api.network.selection import chosen, shown
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor
from fleet_api.servers import parts
from fleet_api.servers.addresses import FixedAddress, fixed, state

_PARAMETERS = ("id", "name", "device_id", "device_owner", "network_id", "mac_address", "status")


#: One of its names is no name of Python. The parameter ``fields`` may leave any out.
PortShown = TypedDict(
    "PortShown",
    {
        "id": str,
        "name": str,
        "network_id": str,
        "mac_address": str,
        "fixed_ips": list[FixedAddress],
        "device_id": str,
        "device_owner": str,
        "status": str,
        "admin_state_up": bool,
        "tenant_id": str,
        "project_id": str,
        "security_groups": list[str],
        "allowed_address_pairs": list[object],
        "port_security_enabled": bool,
        "binding:vnic_type": str,
        "tags": list[str],
        "description": str,
    },
    total=False,
)


def _views(instance: JSONMapping) -> Iterator[dict[str, object]]:
    project = instance["project_id"] or identity.ADMIN
    for plug in instance.get("interfaces") or ():
        yield {
            "id": plug["uuid"],
            "name": "",
            "network_id": plug["network"],
            "mac_address": plug["mac"],
            "fixed_ips": [fixed(plug)],
            "device_id": instance["uuid"],
            "device_owner": "compute:nova",
            "status": state(instance),
            "admin_state_up": True,
            "tenant_id": project,
            "project_id": project,
            # The guest may use its own address only, and no rule of a group limits whom it talks to.
            "security_groups": [],
            "allowed_address_pairs": [],
            "port_security_enabled": True,
            "binding:vnic_type": "normal",
            "tags": [],
            "description": "",
        }


class Ports:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("network:get")
    @answers.gives(answers.Answer({"ports": list[PortShown]}))
    @bodies.asks(*_PARAMETERS, "fields", "limit", "marker")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = {
            "ports": chosen(request, self._all(request, request.get_param_as_list("device_id")), _PARAMETERS)
        }

    @guard.by("network:get")
    @answers.gives(answers.Answer({"port": PortShown}))
    @bodies.asks("fields")
    def on_get_one(self, request: falcon.Request, response: falcon.Response, port_id: str) -> None:
        found = next((each for each in self._all(request, None) if each["id"] == port_id), None)
        if found is None:
            raise errors.NotFound(kind="Port", name=port_id)
        response.media = {"port": shown(request, found)}

    def _all(self, request: falcon.Request, servers: Iterable[str] | None) -> Iterator[JSONObject]:
        """Return the ports of these servers, or of all servers of the project. A server that is not there has none."""
        calls = self._conductor.operator(request)
        if servers:
            # Each once, in the order of the request.
            uuids = [each for each in dict.fromkeys(servers) if uuid_like.canonical(each) == each]
            listed = parts.every(calls.list_instances, {"uuids": uuids}) if uuids else ()
            found = {each["uuid"]: each for part in listed for each in part}
            for uuid in filter(found.__contains__, uuids):
                yield from _views(found[uuid])
            return
        project = None if request.context.is_open else request.context.caller.project_id
        filters = {"project_id": project} if project else {}
        for part in parts.every(calls.list_instances, filters):
            for instance in part:
                yield from _views(instance)
