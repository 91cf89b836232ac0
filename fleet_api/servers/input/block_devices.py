# SPDX-License-Identifier: Apache-2.0
"""``block_device_mapping_v2`` of ``POST /servers``: the root disk from the image, and volumes that exist.

Called by :mod:`fleet_api.servers.input.server_request`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet_api.requests import bodies
from fleet_api.requests.faults import NotHere

_FIELD = "server.block_device_mapping_v2"
#: What clients send in place of no index.
_NO_INDEX = (None, -1, "-1")
#: In any form, and refused if it is not empty.
_Unused = object


@dataclasses.dataclass(frozen=True)
class BlockDevice:
    __pydantic_config__ = bodies.STRICT

    source_type: Literal["image", "volume", "snapshot", "blank"]
    uuid: fields.Uuid | None = None
    destination_type: Literal["local", "volume"] | None = None
    boot_index: fields.Integer | str | None = None
    device_name: fields.Name | None = None
    delete_on_termination: bool = False
    volume_size: _Unused = None
    volume_type: _Unused = None
    guest_format: _Unused = None
    disk_bus: _Unused = None
    device_type: _Unused = None
    tag: _Unused = None


#: Fields of volumes that a fleet cannot honour.
_UNUSED = ("volume_size", "volume_type", "guest_format", "disk_bus", "device_type")


def volumes(given: Iterable[BlockDevice], image: str | None) -> list[JSONObject]:
    """Return the volumes, as a build request has them. The root disk from the image is what a server has anyway.

    :raises errors.InvalidInput: naming the field; NotHere:
    """
    return [_volume(each) for each in given if not _is_root(each, image)]


def _is_root(device: BlockDevice, image: str | None) -> bool:
    """:raises errors.InvalidInput: it is a disk of another kind than a volume"""
    if device.source_type == "volume":
        return False
    if (device.source_type, device.destination_type) == ("image", "local"):
        if image and device.uuid == image and str(device.boot_index) == "0":
            return True
        raise _wrong("uuid", "of a local disk must be imageRef, with boot_index 0")
    if device.source_type == "blank" and device.destination_type != "volume":
        raise _wrong("source_type", "is blank: swap and ephemeral disks come from the flavor")
    reason = f"is {device.source_type}, and no volume is made with a server: create it first, and name it as volume"
    raise _wrong("source_type", reason)


def _volume(device: BlockDevice) -> JSONObject:
    if device.uuid is None:
        raise _wrong("uuid", "is required for a volume")
    if device.destination_type == "local":
        raise _wrong("destination_type", "of a volume must be volume")
    if device.boot_index not in _NO_INDEX:
        raise _wrong("boot_index", "of a volume must be -1 or null: servers boot from imageRef")
    for name in _UNUSED:
        if getattr(device, name):
            raise _wrong(name, "cannot be chosen for a volume that exists")
    if device.tag or device.delete_on_termination:
        raise NotHere("A tag of a volume" if device.tag else "A volume that is deleted with its server")
    return {"volume_id": device.uuid, **({"device_name": device.device_name} if device.device_name else {})}


def _wrong(name: str, reason: str) -> errors.InvalidInput:
    return errors.InvalidInput(field=f"{_FIELD}.{name}", reason=reason)
