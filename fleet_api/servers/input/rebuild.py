# SPDX-License-Identifier: Apache-2.0
"""The action ``rebuild``: what clients send, and the conductor's request that it becomes.

Called by :mod:`fleet_api.servers.actions`.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import falcon
import pydantic

from fleet.json_codec import JSONObject
from fleet.objects import boot_data, fields
from fleet.objects.access_address import AccessV4, AccessV6
from fleet.objects.changes import DiskConfig, NewMetadata
from fleet.objects.host_name import HostName
from fleet_api.requests import bodies
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import refuse_given
from fleet_api.servers.input.microversion_fields import require_known

#: Fields that came with later versions.
_SINCE = {"description": (2, 19), "key_name": (2, 54), "user_data": (2, 57), "hostname": (2, 90)}
#: In any form, and refused if it is not empty.
_Unused = object
#: Field → what to call it when it is refused.
_NOT_HERE = {
    "personality": "Personality",
    "preserve_ephemeral": "An ephemeral disk that is kept by a rebuild",
    "trusted_image_certificates": "A check of image certificates",
}


@dataclasses.dataclass(frozen=True)
class Rebuild:
    __pydantic_config__ = bodies.STRICT

    imageRef: fields.Text
    name: fields.Name | None = None
    description: fields.Text | None = None
    metadata: NewMetadata | None = None
    key_name: fields.Name | None = None
    user_data: boot_data.UserData | None = dataclasses.field(default=None, repr=False)
    hostname: HostName | None = None
    adminPass: fields.Name | None = dataclasses.field(default=None, repr=False)
    accessIPv4: AccessV4 | None = None
    accessIPv6: AccessV6 | None = None
    personality: _Unused = None
    preserve_ephemeral: _Unused = None
    trusted_image_certificates: _Unused = None
    disk_config: Annotated[DiskConfig | None, pydantic.Field(validation_alias="OS-DCF:diskConfig")] = None


def parse(request: falcon.Request, conductor: Conductor, given: Any) -> JSONObject:
    """Return the conductor's request. :raises errors.InvalidInput: naming the field; NotHere:"""
    wanted = fields.parse(Rebuild, given, "rebuild")
    refuse_given(wanted, _NOT_HERE)
    named = [name for name in _SINCE if name in given]
    require_known(request, "rebuild", named, _SINCE)
    with bodies.naming("rebuild.imageRef"):
        image = conductor.image(request, wanted.imageRef).uuid
    changes: JSONObject = {
        "name": wanted.name,
        "description": (wanted.description or "") if "description" in given else None,
        "hostname": wanted.hostname,
        "access_ip_v4": wanted.accessIPv4,
        "access_ip_v6": wanted.accessIPv6,
        "disk_config": wanted.disk_config,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    if wanted.metadata is not None:
        changes.update(metadata=wanted.metadata, replace_metadata=True)
    found: JSONObject = {"image": image}
    if changes:
        found["changes"] = changes
    if "key_name" in given:
        found["key_name"] = _key(request, conductor, wanted.key_name)
    if "user_data" in given:
        found["user_data"] = wanted.user_data or ""
    if wanted.adminPass:
        found["admin_password"] = wanted.adminPass
    return found


def _key(request: falcon.Request, conductor: Conductor, name: str | None) -> str:
    """Return the name of a key pair; "" removes the key. :raises errors.InvalidInput: there is none"""
    if name is None:
        return ""
    with bodies.naming("rebuild.key_name"):
        return str(conductor.operator(request).show_key_pair(name=name)["name"])
