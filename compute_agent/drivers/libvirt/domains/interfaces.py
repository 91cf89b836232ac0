# SPDX-License-Identifier: Apache-2.0
"""Plugs of guests into bridges: the bridges of the host, the XML of a plug, and the addresses that a guest reads.

Called by :mod:`compute_agent.drivers.libvirt.inventory`, and by the makers of domains and of seed disks.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

from fleet.json_codec import JSONObject
from fleet.objects.network import Interface

#: libvirt's own filter: only what comes from the MAC and the IPv4 address of the guest leaves its tap.
FILTER = "clean-traffic"
#: The kernel shows a bridge as a device with this directory.
_DEVICES = pathlib.Path("/sys/class/net")


def bridges(chosen: Sequence[str], devices: pathlib.Path = _DEVICES) -> list[str]:
    """Return the bridges that guests may be plugged into. :param chosen: empty: all of this machine"""
    return sorted(chosen or (path.parent.name for path in devices.glob("*/bridge")))


def add(devices: Element, interfaces: Sequence[Interface]) -> None:
    """Give a domain its plugs, in their order."""
    for each in interfaces:
        plug = SubElement(devices, "interface", type="bridge")
        SubElement(plug, "mac", address=each.mac)
        SubElement(plug, "source", bridge=each.bridge)
        SubElement(plug, "model", type="virtio")
        SubElement(SubElement(plug, "filterref", filter=FILTER), "parameter", name="IP", value=each.address)


def network_config(interfaces: Sequence[Interface]) -> JSONObject:
    """Return what cloud-init's data source NoCloud reads, in its version 1, which every release knows."""
    return {"version": 1, "config": [_physical(number, each) for number, each in enumerate(interfaces)]}


def _physical(number: int, each: Interface) -> JSONObject:
    subnet: JSONObject = {"type": "static", "address": f"{each.address}/{each.prefix}"}
    if each.gateway:
        subnet["gateway"] = each.gateway
    if each.dns:
        subnet["dns_nameservers"] = list(each.dns)
    return {"type": "physical", "name": f"eth{number}", "mac_address": each.mac, "subnets": [subnet]}


def network_data(interfaces: Sequence[Interface]) -> JSONObject:
    """Return the same in OpenStack's form, ``network_data.json``."""
    servers = list(dict.fromkeys(server for each in interfaces for server in each.dns))
    return {
        "links": [_link(each) for each in interfaces],
        "networks": [_network(number, each) for number, each in enumerate(interfaces)],
        "services": [{"type": "dns", "address": server} for server in servers],
    }


def _link(each: Interface) -> JSONObject:
    return {"id": _name(each), "vif_id": each.uuid, "type": "bridge", "ethernet_mac_address": each.mac, "mtu": None}


def _network(number: int, each: Interface) -> JSONObject:
    route = {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": each.gateway}
    return {
        "id": f"network{number}",
        "network_id": each.network,
        "link": _name(each),
        "type": "ipv4",
        "ip_address": each.address,
        "netmask": str(each.subnet.netmask),
        "routes": [route] if each.gateway else [],
        "services": [{"type": "dns", "address": server} for server in each.dns],
    }


def _name(each: Interface) -> str:
    return f"tap{each.uuid[:11]}"
