# SPDX-License-Identifier: Apache-2.0
"""Addresses of servers, and the interfaces that have them. Servers and ports answer with them."""

from __future__ import annotations

from typing_extensions import TypedDict

from fleet import states
from fleet.json_codec import JSONMapping


class FixedAddress(TypedDict):
    subnet_id: str
    ip_address: str


class InterfaceShown(TypedDict):
    port_id: str
    net_id: str
    mac_addr: str
    port_state: str
    fixed_ips: list[FixedAddress]


class PlainAddress(TypedDict):
    version: int
    addr: str


#: Its names are no names of Python.
ServerAddress = TypedDict(
    "ServerAddress", {"version": int, "addr": str, "OS-EXT-IPS:type": str, "OS-EXT-IPS-MAC:mac_addr": str}
)


def view(instance: JSONMapping) -> dict[str, list[ServerAddress]]:
    """Return the addresses of a server by the name of the network."""
    return {plug["name"]: [_address(plug)] for plug in instance.get("interfaces") or ()}


def plain(instance: JSONMapping) -> dict[str, list[PlainAddress]]:
    """Return the same with fewer fields."""
    return {plug["name"]: [_plain(plug)] for plug in instance.get("interfaces") or ()}


def _plain(plug: JSONMapping) -> PlainAddress:
    return {"version": 4, "addr": plug["address"]}


def _address(plug: JSONMapping) -> ServerAddress:
    return {
        "version": 4,
        "addr": plug["address"],
        "OS-EXT-IPS:type": "fixed",
        "OS-EXT-IPS-MAC:mac_addr": plug["mac"],
    }


def interfaces(instance: JSONMapping) -> list[InterfaceShown]:
    return [
        {
            "port_id": plug["uuid"],
            "net_id": plug["network"],
            "mac_addr": plug["mac"],
            "port_state": state(instance),
            "fixed_ips": [fixed(plug)],
        }
        for plug in instance.get("interfaces") or ()
    ]


def fixed(plug: JSONMapping) -> FixedAddress:
    """A network has one subnet, of the same uuid."""
    return {"subnet_id": plug["network"], "ip_address": plug["address"]}


def state(instance: JSONMapping) -> str:
    """``DOWN`` until the guest has run."""
    return "DOWN" if instance["vm_state"] in (states.BUILDING, states.ERROR) else "ACTIVE"
