# SPDX-License-Identifier: Apache-2.0
"""PCI devices, pools of equal devices, and requests for them.

Agents report them, filters and claims count with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields, structure

REQUIRED, LEGACY, PREFERRED, SOCKET = "required", "legacy", "preferred", "socket"
NumaPolicy = Literal["required", "legacy", "preferred", "socket"]

Tags = frozenset[tuple[str, str]]
#: The kind of a device: its NUMA cell (None: unknown) and its properties.
Kind = tuple[int | None, Tags]

#: Keys of a device that are its own, not its kind's.
_OWN_KEYS = ("address", "dev_id", "label", "parent_addr", "status", "request_id", "extra_info", "capabilities")
_MOST = 65536
Properties = Annotated[dict[fields.Name, fields.Text | None], pydantic.Field(max_length=128)]


@dataclasses.dataclass(frozen=True)
class PciPool:
    """``count`` free devices of one kind; ``tags`` hold vendor_id, product_id, dev_type, physical_network …"""

    count: int
    numa_node: int | None = None
    tags: Tags = frozenset()

    @property
    def kind(self) -> Kind:
        return self.numa_node, self.tags

    def to_wire(self) -> JSONObject:
        return {**dict(sorted(self.tags)), "numa_node": self.numa_node, "count": self.count}


@dataclasses.dataclass(frozen=True)
class PciDevice:
    """One device; ``request_id`` names the request that it was claimed for."""

    address: str
    numa_node: int | None = None
    tags: Tags = frozenset()
    request_id: str | None = None

    @property
    def kind(self) -> Kind:
        return self.numa_node, self.tags

    def to_wire(self) -> JSONObject:
        own = {"address": self.address, "numa_node": self.numa_node, "request_id": self.request_id}
        return {**dict(sorted(self.tags)), **own}


@dataclasses.dataclass(frozen=True)
class PciRequest:
    """``count`` devices, each with all the properties of one of the alternatives in ``spec``.

    Values compare without case, as in nova. None: the devices do not have the property.
    """

    count: Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=_MOST)]
    spec: tuple[Properties, ...]
    alias_name: fields.Text | None = None
    request_id: fields.Text | None = None
    numa_policy: NumaPolicy | None = None

    def to_wire(self) -> JSONObject:
        return {**dataclasses.asdict(self), "spec": [dict(each) for each in self.spec]}


def pools_from_wire(data: object, field: str = "pci_stats") -> tuple[PciPool, ...]:
    """A list of flat dicts, its JSON, or nova's object with ``pools``. :raises errors.InvalidInput: naming the field"""
    return tuple(_pool(each, f"{field}.{number}") for number, each in enumerate(_records(data, "pools", field)))


def devices_from_wire(data: object, field: str = "pci_devices") -> tuple[PciDevice, ...]:
    """:raises errors.InvalidInput: naming the field"""
    found = tuple(_device(each, f"{field}.{number}") for number, each in enumerate(_records(data, "objects", field)))
    addresses = [device.address for device in found]
    if len(set(addresses)) < len(addresses):
        raise errors.InvalidInput(field=field, reason="has two devices with the same address")
    return found


def requests_from_wire(data: object, field: str = "pci_requests") -> tuple[PciRequest, ...]:
    """:raises errors.InvalidInput: naming the field"""
    records = _records(data, "requests", field)
    found = fields.parse(tuple[PciRequest, ...], records, field) if records else ()
    if sum(each.count for each in found) > _MOST:
        raise errors.InvalidInput(field=field, reason=f"asks for more than {_MOST} devices")
    return found


def _records(data: object, wrapper: str, field: str) -> list[Any]:
    """Return the list, as such or (nova) under one key of an object."""
    data = structure.plain(data or None, field)
    if isinstance(data, Mapping) and wrapper in data:
        data = data[wrapper]
    if not data:
        return []
    if not isinstance(data, list) or len(data) > _MOST:
        raise errors.InvalidInput(field=field, reason=f"must be a list of at most {_MOST}")
    return data


def _pool(data: object, field: str) -> PciPool:
    record = _record(data, field)
    return PciPool(
        fields.parse(fields.Natural, record.get("count"), f"{field}.count"),
        _cell_id(record, field),
        _tags(record, ("count",), field),
    )


def _device(data: object, field: str) -> PciDevice:
    record = _record(data, field)
    address = fields.parse(fields.Name, record.get("address"), f"{field}.address")
    request_id = fields.parse(fields.Text, record.get("request_id") or "", f"{field}.request_id")
    return PciDevice(address, _cell_id(record, field), _tags(record, _OWN_KEYS, field), request_id or None)


def _record(data: object, field: str) -> JSONMapping:
    record = fields.parse(JSONObject, data, field)
    # nova's pool objects keep additional properties in a dict of their own.
    return {**record, **fields.parse(JSONObject, record.get("tags") or {}, f"{field}.tags")}


def _cell_id(record: Mapping[str, object], field: str) -> int | None:
    number = record.get("numa_node")
    return None if number is None or number == -1 else fields.parse(fields.Natural, number, f"{field}.numa_node")


def _tags(record: Mapping[str, object], left_out: tuple[str, ...], field: str) -> Tags:
    named = {key: value for key, value in record.items() if key not in (*left_out, "numa_node", "tags")}
    texts = {key: str(value) for key, value in named.items() if value is not None}
    return frozenset(fields.parse(fields.Texts, texts, field).items())
