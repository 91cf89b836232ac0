# SPDX-License-Identifier: Apache-2.0
"""A network: the bridge that guests are plugged into, and the addresses that they get. An interface: one plug of a guest.

Made by :mod:`fleet.db.catalog.networks`; the libvirt driver plugs guests by it.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from typing import Annotated, Literal

import pydantic

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import fields, uuid_like

#: What a request may name in place of networks: the default network if there is one, or none at all.
AUTO: Literal["auto"] = "auto"
NONE: Literal["none"] = "none"
#: Interfaces of one guest.
MOST = 8
#: Bits of the prefix of a subnet: 16,777,214 to 2 addresses.
_LARGEST, _SMALLEST = 8, 30
_BRIDGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def _bridge(text: str) -> str:
    if not _BRIDGE.fullmatch(text):
        raise ValueError("must be the name of a bridge: at most 15 letters, digits, '_', '.' and '-'")
    return text


def _address(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise ValueError(f"must be an IPv4 address such as 192.0.2.10, not {text[:50]!r}") from None


def _subnet(text: str) -> str:
    try:
        found = ipaddress.IPv4Network(text)
    except ValueError:
        raise ValueError(f"must be an IPv4 subnet without host bits, such as 192.0.2.0/24, not {text[:50]!r}") from None
    if not _LARGEST <= found.prefixlen <= _SMALLEST:
        raise ValueError(f"must have a prefix from /{_LARGEST} to /{_SMALLEST}, not /{found.prefixlen}")
    return str(found)


def _mac(text: str) -> str:
    if not _MAC.fullmatch(text):
        raise ValueError("must be a MAC address such as 02:00:5e:10:00:01")
    return text


Bridge = Annotated[str, pydantic.Strict(), pydantic.AfterValidator(_bridge)]
#: IPv4 in its canonical form.
Address = Annotated[str, pydantic.Strict(), pydantic.AfterValidator(_address)]
Subnet = Annotated[str, pydantic.Strict(), pydantic.AfterValidator(_subnet)]
Mac = Annotated[str, pydantic.Strict(), pydantic.AfterValidator(_mac)]
Servers = Annotated[list[Address], pydantic.Field(max_length=8)]


@dataclasses.dataclass(frozen=True)
class Network:
    """Guests get the addresses from ``first`` to ``last`` of ``subnet``, without ``gateway`` and ``dns``.

    Only ``projects`` may use the network; if there are none, all may. A request for ``auto`` gets the ``is_default`` one.
    """

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    name: uuid_like.GivenName
    bridge: Bridge
    subnet: Subnet
    first: Address | None = None
    last: Address | None = None
    gateway: Address | None = None
    dns: Servers = dataclasses.field(default_factory=list)
    projects: Annotated[list[fields.Name], pydantic.Field(max_length=1000)] = dataclasses.field(default_factory=list)
    is_default: fields.Flag = False

    @classmethod
    def from_wire(cls, data: object, field: str = "network") -> Network:
        """Return the network with its whole range. :raises errors.InvalidInput: naming the field"""
        given = fields.parse(cls, data, field)
        subnet = ipaddress.IPv4Network(given.subnet)
        lowest, highest = subnet.network_address + 1, subnet.broadcast_address - 1
        for name in ("first", "last", "gateway"):
            value = getattr(given, name)
            if value is not None and not lowest <= ipaddress.IPv4Address(value) <= highest:
                reason = f"must be a host of {subnet}, from {lowest} to {highest}, not {value}"
                raise errors.InvalidInput(field=f"{field}.{name}", reason=reason)
        first, last = given.first or str(lowest), given.last or str(highest)
        if ipaddress.IPv4Address(first) > ipaddress.IPv4Address(last):
            raise errors.InvalidInput(field=f"{field}.first", reason=f"is {first}, which comes after the last, {last}")
        projects = sorted(set(given.projects))
        return dataclasses.replace(given, first=first, last=last, projects=projects)


@dataclasses.dataclass(frozen=True)
class WantedNetwork:
    """A network that a request names. :param network: name or uuid. :param address: None: any that is free"""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    network: fields.Name
    address: Address | None = None


_LISTED = Annotated[list[WantedNetwork], pydantic.Field(max_length=MOST)]
#: Of a request for a build.
Wanted = Literal["auto", "none"] | list[WantedNetwork]


def parse_wanted(data: object, field: str) -> Wanted:
    """:raises errors.InvalidInput: naming the field"""
    if data in (AUTO, NONE):
        return AUTO if data == AUTO else NONE
    if isinstance(data, str):
        raise errors.InvalidInput(field=field, reason=f"must be {AUTO}, {NONE} or a list of networks")
    found: list[WantedNetwork] = fields.parse(_LISTED, data, field)
    return found


def named(wanted: Wanted) -> list[WantedNetwork]:
    """Return the networks that a request names one by one."""
    return wanted if isinstance(wanted, list) else []


@dataclasses.dataclass(frozen=True)
class Interface:
    """A plug of a guest, and the address that it has. ``address`` and ``mac`` are empty before the build is accepted.

    :param uuid: of the address
    :param prefix: bits of the subnet's prefix
    """

    network: fields.Uuid
    name: fields.Name
    bridge: Bridge
    prefix: Annotated[int, pydantic.Strict(), pydantic.Field(ge=_LARGEST, le=_SMALLEST)]
    gateway: Address | None = None
    dns: Servers = dataclasses.field(default_factory=list)
    uuid: fields.Text = ""
    address: Address | Literal[""] = ""
    mac: Mac | Literal[""] = ""

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)

    @property
    def subnet(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Interface(f"{self.address}/{self.prefix}").network


_INTERFACES = Annotated[list[Interface], pydantic.Field(max_length=MOST)]


def interfaces_from_wire(data: object, field: str = "instance.interfaces") -> list[Interface]:
    """Return the interfaces of an instance; none if it has none. :raises errors.InvalidInput: naming the field"""
    found: list[Interface] = fields.parse(_INTERFACES, data or [], field)
    return found
