# SPDX-License-Identifier: Apache-2.0
"""Changes of a server that exists: ``PUT /servers/ID``, and the conductor's call for all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import falcon
import pydantic

from fleet import errors
from fleet.objects import fields
from fleet_api.requests import bodies
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import NotHere

_DESCRIPTION_SINCE = (2, 19)


@dataclasses.dataclass(frozen=True)
class _Server:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name | None = None
    description: fields.Text | None = None
    accessIPv4: Any = None
    accessIPv6: Any = None
    hostname: Any = None
    disk_config: Annotated[Any, pydantic.Field(validation_alias="OS-DCF:diskConfig")] = None


BODY = bodies.Body({"server": _Server})


def parse(request: falcon.Request) -> dict[str, str]:
    """Return what the body of ``PUT /servers/ID`` changes. :raises NotHere: errors.InvalidInput:"""
    given = bodies.part(request, "server", _Server)
    if given.accessIPv4 or given.accessIPv6 or given.hostname:
        raise NotHere("An address or a host name of a server")
    changes = {"name": given.name} if given.name is not None else {}
    if "description" in bodies.whole(request)["server"]:
        if request.context.version < _DESCRIPTION_SINCE:
            raise errors.InvalidInput(field="server.description", reason="is known from version 2.19 on")
        changes["description"] = given.description or ""
    if not changes:
        raise errors.InvalidInput(field="server", reason="has neither a name nor a description")
    return changes


def change(
    conductor: Conductor, request: falcon.Request, server_id: str, changes: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Change a server, which the caller may see, and return its instance. :param changes: an InstanceChanges"""
    changed: Mapping[str, Any] = conductor.operator(request).update_instance(name=server_id, changes=dict(changes))
    return changed
