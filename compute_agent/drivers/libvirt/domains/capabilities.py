# SPDX-License-Identifier: Apache-2.0
"""Parses libvirt's capabilities: CPU model, NUMA cells, and what kinds of guests the machine runs.

Called by :mod:`compute_agent.drivers.libvirt.access` and :mod:`compute_agent.drivers.libvirt.live_moves`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from oslo_log import log as logging

from compute_agent.drivers.libvirt.domains.connection import library
from compute_agent.drivers.machine import cpu_list
from fleet.json_codec import JSONMapping, JSONObject

if TYPE_CHECKING:
    import libvirt

LOG = logging.getLogger(__name__)

_KIB = 1024
_FULL_VIRTUALIZATION = "hvm"


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """``cells`` are in the form of an inventory's ``numa_topology``."""

    architecture: str
    cpu_info: JSONMapping
    cells: tuple[JSONMapping, ...]
    #: XML of the host's processor; "" if there is none.
    cpu_text: str
    #: Pairs of architecture and type of domain, such as kvm.
    guests: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Capabilities:
        root = ElementTree.fromstring(text)
        host_cpu = root.find("host/cpu")
        architecture = root.findtext("host/cpu/arch", "")
        return cls(
            architecture,
            _cpu_info(host_cpu) if host_cpu is not None else {},
            tuple(_cell(cell) for cell in root.findall("host/topology/cells/cell")),
            "" if host_cpu is None else ElementTree.tostring(host_cpu, encoding="unicode"),
            tuple(_guests(root)),
        )

    def cpu_with_all_features(self, connection: libvirt.virConnect) -> JSONMapping:
        """Return ``cpu_info`` with the features of the processor's model, too: libvirt names only those beside it."""
        module = library()
        try:
            text = connection.baselineCPU([self.cpu_text], module.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES)
        except module.libvirtError as failure:
            # libvirt does not know models of every architecture.
            LOG.debug("The features of the processor's model are not known: %s", failure)
            return self.cpu_info
        found = {feature.get("name", "") for feature in ElementTree.fromstring(text).findall("feature")}
        return {**self.cpu_info, "features": sorted({*self.cpu_info.get("features", ()), *found})}

    @property
    def supported_instances(self) -> list[list[str]]:
        return [[architecture, kind, _FULL_VIRTUALIZATION] for architecture, kind in self.guests]

    def can_run(self, kind: str) -> bool:
        return (self.architecture, kind) in self.guests

    def cell_cpus(self) -> dict[int, list[int]]:
        return {cell["id"]: list(cell["cpuset"]) for cell in self.cells}


def _cpu_info(cpu: ElementTree.Element) -> JSONObject:
    topology = cpu.find("topology")
    return {
        "arch": cpu.findtext("arch", ""),
        "vendor": cpu.findtext("vendor", ""),
        "model": cpu.findtext("model", ""),
        "features": sorted(feature.get("name", "") for feature in cpu.findall("feature")),
        "topology": {
            key: int(topology.get(key, "1")) for key in ("sockets", "cores", "threads") if topology is not None
        },
    }


def _cell(cell: ElementTree.Element) -> JSONObject:
    cpus = cell.findall("cpus/cpu")
    siblings = {tuple(cpu_list(known)) for cpu in cpus if (known := cpu.get("siblings"))}
    sockets = {int(cpu.get("socket_id", "-1")) for cpu in cpus}
    return {
        "id": int(cell.get("id", "0")),
        "cpuset": sorted(int(cpu.get("id", "0")) for cpu in cpus),
        "memory": int(cell.findtext("memory", "0")) // _KIB,
        "socket": sockets.pop() if len(sockets) == 1 and min(sockets) >= 0 else None,
        "siblings": sorted(list(each) for each in siblings) if any(len(each) > 1 for each in siblings) else [],
        "mempages": [
            {"size_kb": int(pages.get("size", "0")), "total": int(pages.text or "0")}
            for pages in cell.findall("pages")
            if int(pages.text or "0")
        ],
    }


def _guests(root: ElementTree.Element) -> list[tuple[str, str]]:
    return [
        (architecture.get("name", ""), domain.get("type", ""))
        for guest in root.findall("guest")
        if guest.findtext("os_type") == _FULL_VIRTUALIZATION
        for architecture in guest.findall("arch")
        for domain in architecture.findall("domain")
    ]
