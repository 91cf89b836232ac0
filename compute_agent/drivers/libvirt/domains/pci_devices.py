# SPDX-License-Identifier: Apache-2.0
"""PCI devices that guests may have: those of the machine that an allow-list names.

Called by :mod:`compute_agent.drivers.libvirt.domains.domain_xml` and :mod:`compute_agent.drivers.libvirt.inventory`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import pci

OPTION = "[libvirt] pci_devices"
_ADDRESS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
_KIND = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
#: nova's words for a device with virtual functions, such a function, and all others.
_PHYSICAL, _VIRTUAL, _PLAIN = "type-PF", "type-VF", "type-PCI"
_BRIDGE = "pci-bridge"


def require_valid(allowed: Iterable[str]) -> None:
    """:raises errors.ConfigError: an element is neither an address nor a kind of device"""
    for each in allowed:
        if not _ADDRESS.fullmatch(each) and not _KIND.fullmatch(each):
            reason = f"must have addresses such as 0000:81:00.1, and VENDOR:PRODUCT such as 8086:10ed, got {each!r}"
            raise errors.ConfigError(option=OPTION, reason=reason)


def inventory(described: Iterable[str], allowed: Sequence[str]) -> list[JSONObject]:
    """Return the allowed devices in the form of ``pci_passthrough_devices``.

    :param described: the XML of each device of the machine
    """
    found = [_device(ElementTree.fromstring(text)) for text in described]
    kind = "{vendor_id}:{product_id}".format
    return [each for each in found if each and (each["address"] in allowed or kind(**each) in allowed)]


def _device(root: Element) -> JSONObject | None:
    """Return one device; None for a bridge, which is the machine's own."""
    about = root.find("capability[@type='pci']")
    if about is None or about.find(f"capability[@type='{_BRIDGE}']") is not None:
        return None
    domain, bus, slot, function = (int(about.findtext(name, "0"), 0) for name in ("domain", "bus", "slot", "function"))
    kinds = {each.get("type") for each in about.findall("capability")}
    numa = about.find("numa")
    return {
        "address": f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}",
        "vendor_id": _id(about, "vendor"),
        "product_id": _id(about, "product"),
        "dev_type": _VIRTUAL if "phys_function" in kinds else _PHYSICAL if "virt_functions" in kinds else _PLAIN,
        "numa_node": int(numa.get("node", "0")) if numa is not None else None,
    }


def _id(about: Element, name: str) -> str:
    found = about.find(name)
    return "" if found is None else found.get("id", "").removeprefix("0x")


def add(devices: Element, claimed: Iterable[pci.PciDevice]) -> None:
    """Add devices to those of a domain. libvirt takes each from the machine's driver, and gives it back.

    :raises errors.InvalidInput: an address is none
    """
    for device in claimed:
        address = _ADDRESS.fullmatch(device.address)
        if address is None:
            raise errors.InvalidInput(
                field="instance.claimed_pci_devices", reason=f"has {device.address}, which is no PCI address"
            )
        hostdev = SubElement(devices, "hostdev", mode="subsystem", type="pci", managed="yes")
        parts = zip(("domain", "bus", "slot", "function"), address.groups(), strict=True)
        SubElement(SubElement(hostdev, "source"), "address", {name: f"0x{part}" for name, part in parts})
