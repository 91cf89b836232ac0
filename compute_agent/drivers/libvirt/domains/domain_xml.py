# SPDX-License-Identifier: Apache-2.0
"""The XML of a domain, which holds exactly what the instance has claimed.

The driver makes it for each first boot, resize and move.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from compute_agent.drivers.libvirt.domains import interfaces, pci_devices
from compute_agent.drivers.machine import SMALL_PAGE_KB
from fleet.json_codec import JSONObject
from fleet.objects import Instance, network, numa

#: Of the element that marks a domain as one of ours.
NAMESPACE = "https://fleet.example.org/libvirt/1"
MARK = "instance"
_MIB_IN_KIB = 1024
#: How many characters of an instance's name a domain's title may have.
_LONGEST_TITLE = 200
ElementTree.register_namespace("fleet", NAMESPACE)


@dataclasses.dataclass(frozen=True)
class Disk:
    """``target`` gives the order; the guest chooses its own names. ``kind`` is file or block."""

    path: pathlib.Path
    format: str
    target: str
    readonly: bool = False
    serial: str = ""
    kind: str = "file"


@dataclasses.dataclass(frozen=True)
class Machine:
    """Values that all guests of a host share.

    :param kind: of domain: kvm or qemu
    :param cpu_mode: none, host-model or host-passthrough
    :param cell_cpus: CPUs of each NUMA cell of the host
    """

    kind: str
    cpu_mode: str
    cell_cpus: Mapping[int, Sequence[int]] = dataclasses.field(default_factory=dict)


def build(machine: Machine, instance: Instance, host: str, disks: Sequence[Disk], console: pathlib.Path) -> str:
    """:param host: that the domain is marked with"""
    topology = instance.claimed_topology
    cells = topology.cells if topology else ()
    domain = Element("domain", type=machine.kind)
    _text(domain, "name", name_of(instance.uuid))
    _text(domain, "uuid", instance.uuid)
    if title := printable(instance.name):
        _text(domain, "title", title)
    marks = {"host": host, "attempt": str(instance.attempt), "node": instance.node or ""}
    SubElement(SubElement(domain, "metadata"), f"{{{NAMESPACE}}}{MARK}", marks)
    _text(domain, "memory", str(instance.flavor.memory_mb), unit="MiB")
    _text(domain, "vcpu", str(instance.flavor.vcpus), placement="static")
    _place(domain, machine.cell_cpus, cells)
    system = SubElement(domain, "os")
    _text(system, "type", "hvm")
    SubElement(system, "boot", dev="hd")
    features = SubElement(domain, "features")
    SubElement(features, "acpi")
    SubElement(features, "apic")
    _cpu(domain, machine, instance, cells)
    SubElement(domain, "clock", offset="utc")
    # A guest that panics or is shut down stays off: the agent reports it, and its option says what follows.
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _text(domain, f"on_{event}", action)
    devices = _devices(domain, disks, console)
    interfaces.add(devices, network.interfaces_from_wire(instance.interfaces))
    pci_devices.add(devices, instance.claimed_devices)
    return ElementTree.tostring(domain, encoding="unicode")


def printable(name: str) -> str:
    """A name in one line, without what XML cannot have."""
    return "".join(each if each.isprintable() else " " for each in name).strip()[:_LONGEST_TITLE]


def mark_of(text: str, host: str) -> Mapping[str, str] | None:
    """Return ``host``, ``attempt`` and ``node`` of a domain's XML; None: the domain is not one that this host has made.

    A copy that an operator has made of a domain has its mark, too, and another name. Several agents may share a libvirt.
    """
    root = ElementTree.fromstring(text)
    found = root.find(f"metadata/{{{NAMESPACE}}}{MARK}")
    if found is None or root.findtext("name") != name_of(root.findtext("uuid", "")):
        return None
    mark = dict(found.attrib)
    return mark if mark.get("host") == host and mark.get("attempt", "").isdecimal() else None


def name_of(uuid: str) -> str:
    """Return libvirt's name of the domain of a guest."""
    return f"fleet-{uuid}"


def place_anew(domain: Element, cell_cpus: Mapping[int, Sequence[int]], claimed: JSONObject) -> None:
    """Pin the domain to the cells and CPUs that another host has claimed for it. The guest sees the same cells as before.

    :param cell_cpus: CPUs of each NUMA cell of that host
    :param claimed: the claimed topology, in its wire form
    """
    topology = numa.InstanceTopology.from_wire(claimed, "cells")
    for tag in ("cputune", "numatune", "memoryBacking"):
        for former in domain.findall(tag):
            domain.remove(former)
    _place(domain, cell_cpus, topology.cells if topology else ())


def _place(domain: Element, cell_cpus: Mapping[int, Sequence[int]], cells: Sequence[numa.InstanceCell]) -> None:
    """Pin vcpus and memory to the cells and CPUs that are claimed."""
    if not cells:
        return
    tune = SubElement(domain, "cputune")
    all_cpus: set[int] = set()
    for cell in cells:
        for vcpu in sorted(cell.cpuset):
            pinned = (cell.cpu_pinning or {}).get(vcpu)
            cpus = cell_cpus.get(cell.id, ()) if pinned is None else (pinned,)
            all_cpus.update(cpus)
            if cpus:
                SubElement(tune, "vcpupin", vcpu=str(vcpu), cpuset=_listed(cpus))
    if all_cpus:
        SubElement(tune, "emulatorpin", cpuset=_listed(all_cpus))
    placement = SubElement(domain, "numatune")
    SubElement(placement, "memory", mode="strict", nodeset=_listed(cell.id for cell in cells))
    for number, cell in enumerate(cells):
        SubElement(placement, "memnode", cellid=str(number), mode="strict", nodeset=str(cell.id))
    if any((cell.pagesize or 0) > SMALL_PAGE_KB for cell in cells):
        pages = SubElement(SubElement(domain, "memoryBacking"), "hugepages")
        for number, cell in enumerate(cells):
            if (cell.pagesize or 0) > SMALL_PAGE_KB:
                SubElement(pages, "page", size=str(cell.pagesize), unit="KiB", nodeset=str(number))


def _cpu(domain: Element, machine: Machine, instance: Instance, cells: Sequence[numa.InstanceCell]) -> None:
    if machine.cpu_mode == "none" and not cells:
        return
    cpu = SubElement(domain, "cpu", {} if machine.cpu_mode == "none" else {"mode": machine.cpu_mode})
    shape = next((cell.cpu_topology for cell in cells if cell.cpu_topology), None)
    if shape is not None and shape.sockets * shape.cores * shape.threads == instance.flavor.vcpus:
        sizes = {key: str(value) for key, value in dataclasses.asdict(shape).items()}
        SubElement(cpu, "topology", sizes)
    if cells:
        layout = SubElement(cpu, "numa")
        for number, cell in enumerate(cells):
            memory = str(cell.memory * _MIB_IN_KIB)
            SubElement(layout, "cell", id=str(number), cpus=_listed(cell.cpuset), memory=memory, unit="KiB")


def _devices(domain: Element, disks: Sequence[Disk], console: pathlib.Path) -> Element:
    devices = SubElement(domain, "devices")
    devices.extend(_disk(disk) for disk in disks)
    serial = SubElement(devices, "serial", type="pty")
    SubElement(serial, "log", file=str(console), append="on")
    SubElement(serial, "target", port="0")
    random = SubElement(devices, "rng", model="virtio")
    _text(random, "backend", "/dev/urandom", model="random")
    return devices


def _disk(disk: Disk) -> Element:
    device = Element("disk", type=disk.kind, device="disk")
    SubElement(device, "driver", name="qemu", type=disk.format)
    SubElement(device, "source", {"dev" if disk.kind == "block" else "file": str(disk.path)})
    SubElement(device, "target", dev=disk.target, bus="virtio")
    if disk.readonly:
        SubElement(device, "readonly")
    if disk.serial:
        _text(device, "serial", disk.serial)
    return device


def disk_text(disk: Disk) -> str:
    """The XML of one disk, to be added to a domain."""
    return ElementTree.tostring(_disk(disk), encoding="unicode")


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(str(number) for number in sorted(numbers))


def _text(parent: Element, tag: str, text: str, **attributes: str) -> None:
    SubElement(parent, tag, attributes).text = text
