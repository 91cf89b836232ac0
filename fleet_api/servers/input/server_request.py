# SPDX-License-Identifier: Apache-2.0
"""``POST /servers``: what clients send, and the build request that it becomes.

Called by :mod:`fleet_api.block_storage.volume_request` and :mod:`fleet_api.servers.servers`. A field that the fleet
cannot honour is refused: if it were ignored, the client would not see that nothing was done.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import falcon
import pydantic

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import boot_data, fields, network
from fleet.objects.access_address import AccessV4, AccessV6
from fleet.objects.changes import DiskConfig, Tags
from fleet.objects.host_name import HostName
from fleet_api.requests import bodies
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import NotHere, refuse_given
from fleet_api.servers.input import block_devices
from fleet_api.servers.input.block_devices import BlockDevice
from fleet_api.servers.input.microversion_fields import require_known

#: Keys beside ``server`` under which hints stand.
HINTS = ("OS-SCH-HNT:scheduler_hints", "os:scheduler_hints")
_Count = Annotated[int, fields.WholeNumber(1, fields.MAX_INSTANCES)]
#: Fields that came with later versions.
_SINCE = {"description": (2, 19), "tags": (2, 52), "hostname": (2, 90)}
#: In any form, and refused if it is not empty.
_Unused = object


@dataclasses.dataclass(frozen=True)
class _Network:
    __pydantic_config__ = bodies.STRICT

    uuid: fields.Uuid | None = None
    fixed_ip: network.Address | None = None
    port: _Unused = None
    tag: _Unused = None


def _form(value: object) -> str:
    """Return the form of a value, so that the error about a mistake names only the fields of this form."""
    return "list" if isinstance(value, list) else "word"


_Networks = Annotated[
    Annotated[Literal["none", "auto"], pydantic.Tag("word")] | Annotated[list[_Network], pydantic.Tag("list")],
    pydantic.Discriminator(_form),
]


@dataclasses.dataclass(frozen=True)
class _Server:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name
    flavorRef: fields.Name | fields.Integer
    imageRef: fields.Text | None = None
    min_count: _Count | None = None
    max_count: _Count | None = None
    networks: _Networks | None = None
    block_device_mapping_v2: list[BlockDevice] | None = None
    availability_zone: fields.Text | None = None
    host: fields.Name | None = None
    hypervisor_hostname: fields.Name | None = None
    metadata: fields.Metadata = dataclasses.field(default_factory=dict)
    return_reservation_id: bool = False
    security_groups: list[JSONObject] | None = None
    description: fields.Text | None = None
    tags: Tags | None = None
    key_name: fields.Name | None = None
    config_drive: _Unused = None
    user_data: boot_data.UserData | None = dataclasses.field(default=None, repr=False)
    personality: _Unused = None
    trusted_image_certificates: _Unused = None
    adminPass: fields.Name | None = dataclasses.field(default=None, repr=False)
    accessIPv4: AccessV4 = ""
    accessIPv6: AccessV6 = ""
    hostname: HostName | None = None
    disk_config: Annotated[DiskConfig | None, pydantic.Field(validation_alias="OS-DCF:diskConfig")] = None


BODY = bodies.Body({"server": _Server}, HINTS)
#: Field → what to call it when it is refused.
_NOT_HERE = {
    "config_drive": "A config drive",
    "personality": "Personality",
    "trusted_image_certificates": "A check of image certificates",
}


@dataclasses.dataclass(frozen=True)
class Wanted:
    """``build`` is the build request; ``reservation`` is True if the client wants the reservation id only."""

    build: JSONObject
    reservation: bool


def parse(request: falcon.Request, conductor: Conductor) -> Wanted:
    """:raises errors.FleetError: naming the field; NotHere: for what a fleet does not have"""
    server = bodies.part(request, "server", _Server)
    refuse_given(server, _NOT_HERE)
    if any(each.get("name") != "default" for each in server.security_groups or ()):
        raise NotHere("A security group other than default")
    volumes = block_devices.volumes(server.block_device_mapping_v2 or (), server.imageRef)
    if ":" in (server.availability_zone or "") and (server.host or server.hypervisor_hostname):
        raise errors.InvalidInput(field="server.host", reason="may not stand beside a host in availability_zone")
    require_known(request, "server", [name for name in _SINCE if getattr(server, name) is not None], _SINCE)
    build = {
        "name": server.name,
        "flavor": str(server.flavorRef),
        "min_count": server.min_count or 1,
        "max_count": server.max_count or server.min_count or 1,
        "availability_zone": server.availability_zone or "",
        "scheduler_hints": hints(bodies.whole(request)),
        "metadata": server.metadata,
        "networks": _networks(server.networks),
    }
    if server.description:
        build["description"] = server.description
    if server.tags:
        build["tags"] = server.tags
    if server.imageRef:
        build["image"] = _image(request, conductor, server.imageRef)
    if server.key_name:
        with bodies.naming("server.key_name"):
            build["key_name"] = conductor.operator(request).show_key_pair(name=server.key_name)["name"]
    if volumes:
        build["block_device_mapping"] = volumes
    if server.user_data:
        build["user_data"] = server.user_data
    optional: dict[str, str | None] = {
        "access_ip_v4": server.accessIPv4,
        "access_ip_v6": server.accessIPv6,
        "hostname": server.hostname,
        "disk_config": server.disk_config,
        # The only ones to consider. Unlike ZONE:HOST:NODE, they must pass the filters.
        "requested_host": server.host,
        "requested_node": server.hypervisor_hostname,
    }
    build |= {name: value for name, value in optional.items() if value}
    if server.adminPass:
        build["admin_password"] = server.adminPass
    return Wanted(build, server.return_reservation_id)


def _networks(wanted: str | list[_Network] | None) -> str | list[JSONObject]:
    """An empty list means auto, as in nova. :raises errors.InvalidInput: NotHere:"""
    if not isinstance(wanted, list):
        return wanted or network.AUTO
    for each in wanted:
        for name, what in (("port", "A port that is made first"), ("tag", "A tag of a network")):
            if getattr(each, name):
                raise NotHere(what)
        if each.uuid is None:
            raise errors.InvalidInput(field="server.networks.uuid", reason="is required")
    return [{"network": each.uuid, "address": each.fixed_ip} for each in wanted] or network.AUTO


def _image(request: falcon.Request, conductor: Conductor, uuid: str) -> JSONObject:
    with bodies.naming("server.imageRef"):
        return conductor.image(request, uuid).to_image().to_wire()


def names_host(build: JSONMapping) -> bool:
    """Return True if a build request forces a host or a node, or requests one."""
    return ":" in build["availability_zone"] or not build.keys().isdisjoint(("requested_host", "requested_node"))


def hints(body: JSONMapping) -> JSONObject:
    """Return the value under one of HINTS. :raises errors.InvalidInput:"""
    for key in HINTS:
        if key in body:
            return fields.parse(dict[fields.Name, object], body[key] or {}, key)
    return {}
