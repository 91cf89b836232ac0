# SPDX-License-Identifier: Apache-2.0
"""Attributes of a host state that are computed from several columns, in nova's form.

Plugins in nova's form read them.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping, Sequence

from fleet.hardware import pools
from fleet.hardware.node import Hardware
from fleet.json_codec import JSONObject
from fleet.objects.numa import HostCell, HostTopology
from fleet.objects.pci import PciRequest
from scheduler.compute.domain.hardware import HARDWARE
from scheduler.compute.domain.host_state import Capabilities
from scheduler.engine.hosts.candidates import Candidates

View = Callable[[Candidates, int], object]


def _service(hosts: Candidates, row: int) -> JSONObject:
    return {
        "host": hosts.key(row)[0],
        "binary": "fleet-compute",
        "topic": "compute",
        "disabled": hosts.value(row, "disabled"),
        "disabled_reason": hosts.disabled_reason(row),
        "forced_down": hosts.value(row, "forced_down"),
        "last_seen_up": _time(hosts.value(row, "last_seen_up")),
        "silence_s": abs(hosts.now - hosts.value(row, "last_seen_up")),
    }


def _updated(hosts: Candidates, row: int) -> datetime.datetime | None:
    return _time(hosts.value(row, "updated"))


def _time(epoch_s: float) -> datetime.datetime | None:
    """Return naive UTC, as nova does; None for 0, which means never."""
    if not epoch_s:
        return None
    return datetime.datetime.fromtimestamp(epoch_s, datetime.UTC).replace(tzinfo=None)


def _host_ip(hosts: Candidates, row: int) -> str | None:
    found: str | None = hosts.object(row, "host_ip")
    return found


class CellsView(JSONObject):
    """The NUMA cells of a host in the form of the wire. ``topology`` is what nova's later plugins judge."""

    def __init__(self, topology: HostTopology) -> None:
        super().__init__(topology.to_wire())
        self.topology = topology

    @property
    def cells(self) -> Sequence[HostCell]:
        return self.topology.cells

    @property
    def has_threads(self) -> bool:
        return any(cell.has_threads for cell in self.topology.cells)


class PoolsView(list[JSONObject]):
    """The free PCI devices of a host in the form of the wire, with what nova's later plugins call."""

    def __init__(self, free: pools.Pools) -> None:
        super().__init__(pool.to_wire() for pool in free)
        self.free = free

    @property
    def pools(self) -> list[JSONObject]:
        return self

    def support_requests(self, requests: Sequence[PciRequest], *args: object, **more: object) -> bool:
        """Return True if there are free devices for all requests. Further arguments of nova's releases are ignored."""
        return pools.allocate(self.free, requests) is not None


def _numa_topology(hosts: Candidates, row: int) -> CellsView | None:
    hardware: Hardware | None = hosts.rare(row, HARDWARE)
    return CellsView(hardware.topology) if hardware and hardware.topology else None


def _pci_stats(hosts: Candidates, row: int) -> PoolsView | None:
    hardware: Hardware | None = hosts.rare(row, HARDWARE)
    return PoolsView(hardware.pools) if hardware and hardware.pools else None


class CpuInfo(str):
    """JSON text, as nova of Liberty has it; ``get`` reads it, as a dict of later releases is read."""

    def get(self, name: str, default: object = None) -> object:
        try:
            found = json.loads(self)
        except ValueError:
            return default
        return found.get(name, default) if isinstance(found, dict) else default


def _cpu_info(hosts: Candidates, row: int) -> CpuInfo | None:
    text = hosts.shared(row, "capabilities").cpu_info
    return text if text is None else CpuInfo(text)


def _no_cell(hosts: Candidates, row: int) -> None:
    return None


def _capability(name: str) -> View:
    def view(hosts: Candidates, row: int) -> object:
        return hosts.shared(row, "capabilities").shown(name)

    return view


VIEWS: Mapping[str, View] = {
    "aggregates": Candidates.aggregates,
    "instances": Candidates.instances,
    "service": _service,
    "updated": _updated,
    "host_ip": _host_ip,
    "numa_topology": _numa_topology,
    "pci_stats": _pci_stats,
    **{name: _capability(name) for name in Capabilities._fields},
    "cpu_info": _cpu_info,
    "cell_uuid": _no_cell,
}
