# SPDX-License-Identifier: Apache-2.0
"""A host state: one host in the form that nova's filters and weighers read.

The domain of virtual machines makes one for each host on which such a plugin is called.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from fleet.json_codec import JSONObject
from scheduler.engine.hosts.claim_limits import ClaimLimits
from scheduler.engine.hosts.table import Key


class Source(Protocol):
    """The owner of a row's attributes: :class:`scheduler.engine.hosts.candidates.Candidates`."""

    @property
    def limits(self) -> ClaimLimits: ...
    def key(self, row: int) -> Key: ...
    def attribute(self, row: int, name: str) -> Any: ...


#: Attributes and what they are on a host of which nothing is known (nova's initial values).
DEFAULTS: JSONObject = {
    "total_usable_ram_mb": 0,
    "free_ram_mb": 0,
    "reserved_ram_mb": 0,
    "total_usable_disk_gb": 0,
    "disk_mb_used": 0,
    "free_disk_mb": 0,
    "reserved_disk_mb": 0,
    "vcpus_total": 0,
    "vcpus_used": 0,
    "reserved_vcpus": 0,
    "num_instances": 0,
    "num_io_ops": 0,
    "failed_builds": 0,
    "cpu_allocation_ratio": None,
    "ram_allocation_ratio": None,
    "disk_allocation_ratio": None,
    "host_ip": None,
    "hypervisor_type": None,
    "hypervisor_version": None,
    "cpu_info": None,
    "supported_instances": None,
    "numa_topology": None,
    "pci_stats": None,
    "updated": None,
}
CONTAINERS: dict[str, type] = {
    "aggregates": list,
    "instances": dict,
    "limits": dict,
    "metrics": list,
    "service": dict,
    "stats": dict,
}


class Capabilities(NamedTuple):
    """Values that many hosts share. ``supported_instances`` holds (architecture, hypervisor type, vm mode) triples."""

    hypervisor_type: str | None = None
    cpu_info: str | None = None
    supported_instances: tuple[tuple[str, ...], ...] = ()

    def shown(self, name: str) -> Any:
        """Return a value in nova's form, with lists in place of tuples."""
        value = getattr(self, name)
        return [list(kind) for kind in value] if name == "supported_instances" else value


class HostState:
    """nova's attribute names and units: MB of memory and free disk, GB of total disk.

    Built by hand in a plugin's tests: ``HostState("host1", "node1", free_ram_mb=2048)``. What a filter writes into
    ``limits`` goes with the answer if this host is chosen, unless a later filter sets the same limit; anything else that
    it writes is forgotten after the request.
    """

    host: str
    nodename: str
    limits: JSONObject

    def __init__(self, host: str, node: str, **attributes: Any) -> None:
        self.host = host
        self.nodename = node
        for name, value in DEFAULTS.items():
            setattr(self, name, attributes.pop(name, value))
        for name, container in CONTAINERS.items():
            setattr(self, name, attributes.pop(name, None) or container())
        vars(self).update(attributes)

    @property
    def hypervisor_hostname(self) -> str:
        return self.nodename

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __repr__(self) -> str:
        return (
            f"({self.host}, {self.nodename}) ram:{self.free_ram_mb} disk:{self.free_disk_mb}"
            f" io_ops:{self.num_io_ops} instances:{self.num_instances}"
        )


class RowState(HostState):
    """A host state over one row of the candidates. Attributes are read from the columns on access."""

    def __init__(self, source: Source, row: int) -> None:
        self.row = row
        self.host, self.nodename = source.key(row)
        self._source = source

    @property
    def limits(self) -> JSONObject:
        """The claim limits that the filters before the running filter have set."""
        return self._source.limits.of(self.row)

    @limits.setter
    def limits(self, limits: JSONObject) -> None:
        self._source.limits.replace(self.row, limits)

    @property
    def source(self) -> Source:
        return self._source

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._source.attribute(self.row, name)
