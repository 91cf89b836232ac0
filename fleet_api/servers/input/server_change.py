# SPDX-License-Identifier: Apache-2.0
"""Changes of a server that exists: ``PUT /servers/ID``, and the conductor's call for all of them.

Called by :mod:`fleet_api.servers.servers` and :mod:`fleet_api.servers.server_details`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated

import falcon
import pydantic

from fleet.json_codec import JSONMapping
from fleet.objects import fields
from fleet.objects.access_address import AccessV4, AccessV6
from fleet.objects.changes import DiskConfig
from fleet.objects.host_name import HostName
from fleet_api.requests import bodies
from fleet_api.requests.conductor import Conductor
from fleet_api.servers.input.microversion_fields import require_known

#: Fields that came with later versions.
_SINCE = {"description": (2, 19), "hostname": (2, 90)}


@dataclasses.dataclass(frozen=True)
class _Server:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name | None = None
    description: fields.Text | None = None
    accessIPv4: AccessV4 | None = None
    accessIPv6: AccessV6 | None = None
    hostname: HostName | None = None
    disk_config: Annotated[DiskConfig | None, pydantic.Field(validation_alias="OS-DCF:diskConfig")] = None


BODY = bodies.Body({"server": _Server})


def parse(request: falcon.Request) -> dict[str, str]:
    """Return the changes in the body of ``PUT /servers/ID``; there may be none. :raises errors.InvalidInput:"""
    given = bodies.part(request, "server", _Server)
    named = {
        "name": given.name,
        "access_ip_v4": given.accessIPv4,
        "access_ip_v6": given.accessIPv6,
        "hostname": given.hostname,
        "disk_config": given.disk_config,
    }
    body = bodies.whole(request)["server"]
    require_known(request, "server", [name for name in _SINCE if name in body], _SINCE)
    changes = {name: value for name, value in named.items() if value is not None}
    if "description" in body:
        changes["description"] = given.description or ""
    return changes


def change(conductor: Conductor, request: falcon.Request, server_id: str, changes: Mapping[str, object]) -> JSONMapping:
    """Change a server, which the caller may see, and return its instance. :param changes: an InstanceChanges"""
    changed: JSONMapping = conductor.operator(request).update_instance(name=server_id, changes=dict(changes))
    return changed
