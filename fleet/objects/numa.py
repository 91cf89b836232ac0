# SPDX-License-Identifier: Apache-2.0
"""NUMA topologies, of a host and of an instance.

Agents report them, and claims and filters compare them (:mod:`fleet.hardware`). Memory in MB, page sizes in KiB.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Final, Literal

import pydantic

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import fields, structure

SHARED: Final = "shared"
DEDICATED: Final = "dedicated"
MIXED: Final = "mixed"
PREFER, ISOLATE, REQUIRE = "prefer", "isolate", "require"
CpuPolicy = Literal["shared", "dedicated", "mixed"]
ThreadPolicy = Literal["prefer", "isolate", "require"]
EmulatorThreadsPolicy = Literal["share", "isolate"]

#: Page sizes without a number: the smallest, any but the smallest, any.
SMALL_PAGES, LARGE_PAGES, ANY_PAGES = -1, -2, -3

#: Fields that are on the wire only if they are set.
_ONLY_NOVAS = ("emulator_threads_policy", "network_metadata")
Cpus = frozenset[fields.Natural]
_NONE: frozenset[int] = frozenset()
#: JSON turns numeric keys into text.
_Cpu = Annotated[int, pydantic.Field(ge=0, le=fields.INT32_MAX)]
_PageSize = Annotated[int, pydantic.Field(ge=ANY_PAGES, le=fields.INT32_MAX)]


@dataclasses.dataclass(frozen=True)
class Pages:
    """Memory pages of one size in a cell; ``reserved`` pages are the host's own."""

    size_kb: fields.Positive
    total: fields.Natural
    used: fields.Natural = 0
    reserved: fields.Natural = 0

    @property
    def free(self) -> int:
        return self.total - self.used - self.reserved


@dataclasses.dataclass(frozen=True)
class NetworkMetadata:
    """Networks of an instance, or those whose cards are in a cell of a host. Only nova sends them.

    :param physnets: names of physical networks
    :param tunneled: True if a tunnelled network is among them
    """

    physnets: frozenset[fields.Text] = frozenset()
    tunneled: bool = False

    def __bool__(self) -> bool:
        return self.tunneled or bool(self.physnets)

    def to_wire(self) -> JSONObject:
        return {"physnets": sorted(self.physnets), "tunneled": self.tunneled}

    @property
    def named(self) -> list[str]:
        """Names for operators, sorted."""
        return [*sorted(self.physnets), *(["tunnelled networks"] if self.tunneled else [])]


@dataclasses.dataclass(frozen=True)
class HostCell:
    """A cell of a host, with what instances hold of it.

    ``cpuset`` is for floating vcpus, ``pcpuset`` for pinned ones. If ``pcpuset`` is None, the host reserves no CPUs
    for pinning: both kinds use ``cpuset``, and ``cpu_usage`` counts both. ``siblings`` are the threads of each core,
    empty without hyperthreading.
    """

    id: fields.Natural
    cpuset: Cpus
    memory: fields.Natural
    pcpuset: Cpus | None = None
    cpu_usage: fields.Natural = 0
    memory_usage: fields.Natural = 0
    pinned_cpus: Cpus = _NONE
    siblings: tuple[Cpus, ...] = ()
    mempages: tuple[Pages, ...] = ()
    socket: int | None = None
    network_metadata: NetworkMetadata | None = None

    @property
    def dedicated_cpus(self) -> frozenset[int]:
        """The CPUs that may be pinned, free or not."""
        return self.cpuset if self.pcpuset is None else self.pcpuset

    @property
    def free_cpus(self) -> frozenset[int]:
        return self.dedicated_cpus - self.pinned_cpus

    @property
    def avail_memory(self) -> int:
        return self.memory - self.memory_usage

    @property
    def has_threads(self) -> bool:
        return any(len(threads) > 1 for threads in self.siblings)


@dataclasses.dataclass(frozen=True)
class HostTopology:
    """The cells of a host, in its order."""

    cells: tuple[HostCell, ...]

    @classmethod
    def from_wire(cls, data: object, field: str = "numa_topology") -> HostTopology | None:
        """Parse a dict with ``cells``, or its JSON. No data or no cells is no topology. :raises errors.InvalidInput:"""
        known = fields.parse_text(cls, data) if isinstance(data, str) else None
        data = structure.plain(data or None, field) if known is None else None
        topology = known or (fields.parse(cls, data, field) if data else cls(()))
        ids = [cell.id for cell in topology.cells]
        if len(set(ids)) < len(ids):
            raise errors.InvalidInput(field=f"{field}.cells", reason="has two cells with the same id")
        return topology if topology.cells else None

    def to_wire(self) -> JSONObject:
        return {"cells": [_wire(cell) for cell in self.cells]}

    def emptied(self) -> HostTopology:
        """Return the same host without instances."""
        return HostTopology(
            tuple(
                dataclasses.replace(
                    cell,
                    cpu_usage=0,
                    memory_usage=0,
                    pinned_cpus=_NONE,
                    mempages=tuple(dataclasses.replace(pages, used=0) for pages in cell.mempages),
                )
                for cell in self.cells
            )
        )


@dataclasses.dataclass(frozen=True)
class CpuTopology:
    """The guest's view of its vcpus."""

    sockets: fields.Positive = 1
    cores: fields.Positive = 1
    threads: fields.Positive = 1


@dataclasses.dataclass(frozen=True)
class InstanceCell:
    """A cell of an instance: as asked for, or as a host holds it (with the host cell's ``id``, size and pinning).

    ``cpuset`` are all its vcpus, ``pcpuset`` the pinned ones; ``cpu_pinning`` maps these to the host's CPUs.
    ``cpuset_reserved`` are CPUs of the host that stay idle for it. ``pagesize`` is in KiB, or one of the three
    negative names above; None: not asked for.
    """

    id: fields.Natural
    cpuset: Cpus
    memory: fields.Natural
    pagesize: _PageSize | None = None
    cpu_topology: CpuTopology | None = None
    cpu_pinning: dict[_Cpu, _Cpu] | None = None
    cpu_policy: CpuPolicy | None = None
    cpu_thread_policy: ThreadPolicy | None = None
    pcpuset: Cpus = _NONE
    cpuset_reserved: Cpus = _NONE

    @property
    def shared_vcpus(self) -> frozenset[int]:
        return self.cpuset - self.pcpuset

    @property
    def held_cpus(self) -> frozenset[int]:
        """The host's CPUs that only this cell uses."""
        return frozenset((self.cpu_pinning or {}).values()) | self.cpuset_reserved


@dataclasses.dataclass(frozen=True)
class InstanceTopology:
    """The cells of an instance. With the policy ``isolate``, threads of its emulator have a CPU beside its first cell.

    If cards of its networks are in cells of the host, it must have one of the cells of each network.
    """

    cells: tuple[InstanceCell, ...]
    emulator_threads_policy: EmulatorThreadsPolicy | None = None
    network_metadata: NetworkMetadata | None = None

    @classmethod
    def from_wire(cls, data: object, field: str = "numa_topology") -> InstanceTopology | None:
        """Parse a dict with ``cells``, its JSON, or nova's object. No data is no topology. :raises errors.InvalidInput:"""
        data = structure.plain(data or None, field)
        if not data:
            return None
        if isinstance(data, Mapping) and isinstance(data.get("cells"), list):
            data = {**data, "cells": [_one_form(cell) for cell in data["cells"]]}
        topology = fields.parse(cls, data, field)
        cells = tuple(_completed(cell) for cell in topology.cells)
        return dataclasses.replace(topology, cells=cells) if cells else None

    def to_wire(self) -> JSONObject:
        wire = _wire(self)
        assert isinstance(wire, dict)
        return wire

    def emulator_cpus(self, number: int) -> int:
        """Return how many CPUs of its host cell a cell needs beside its pinned ones. :param number: index of the cell"""
        has_own = number == 0 and self.emulator_threads_policy == ISOLATE and self.cells[0].pcpuset
        return 1 if has_own else 0


@dataclasses.dataclass(frozen=True)
class Limits:
    """Overcommit ratios of a host's cells for floating vcpus; pinned vcpus are never overcommitted.

    ``network_metadata`` is the instance's, for nova's compute service.
    """

    cpu_allocation_ratio: fields.Ratio
    ram_allocation_ratio: fields.Ratio
    network_metadata: NetworkMetadata | None = None

    @classmethod
    def from_wire(cls, data: object, field: str = "limits.numa_topology") -> Limits | None:
        """Parse the two ratios, or an older form with the ratios in its first cell. :raises errors.InvalidInput:"""
        data = structure.plain(data or None, field)
        if not data:
            return None
        if isinstance(data, Mapping) and data.get("cells"):
            data = _ratios(fields.parse(list[_CellLimit], data["cells"], f"{field}.cells")[0])
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        wire = _wire(self)
        assert isinstance(wire, dict)
        return wire


@dataclasses.dataclass(frozen=True)
class _MemoryLimit:
    total: fields.Positive
    limit: fields.Ratio | fields.Natural


@dataclasses.dataclass(frozen=True)
class _CellLimit:
    cpus: list[int] | tuple[int, ...]
    mem: _MemoryLimit
    cpu_limit: fields.Ratio


def _ratios(first: _CellLimit) -> dict[str, float]:
    return {
        "cpu_allocation_ratio": first.cpu_limit / max(1, len(first.cpus)),
        "ram_allocation_ratio": first.mem.limit / first.mem.total,
    }


def _one_form(cell: object) -> object:
    """Rename nova's ``cpu_pinning_raw``."""
    if isinstance(cell, Mapping) and "cpu_pinning_raw" in cell:
        return {"cpu_pinning": cell["cpu_pinning_raw"], **cell}
    return cell


def _completed(cell: InstanceCell) -> InstanceCell:
    """Convert all forms of pinning to one: Liberty's ``cpu_pinning``, even an empty one, and the CPU policy."""
    vcpus = cell.cpuset | cell.pcpuset
    policy: CpuPolicy | None = cell.cpu_policy or (DEDICATED if cell.cpu_pinning is not None else None)
    own = {DEDICATED: vcpus, MIXED: cell.pcpuset}.get(policy or SHARED, _NONE)
    return dataclasses.replace(cell, cpuset=vcpus, pcpuset=own, cpu_policy=policy)


def _wire(value: object) -> object:
    """Return sets as sorted lists: equal topologies have equal JSON."""
    if dataclasses.is_dataclass(value):
        named = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return {name: _wire(each) for name, each in named.items() if each is not None or name not in _ONLY_NOVAS}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_wire(each) for each in value]
    # JSON has text keys only, and a topology read from a database must equal the one written.
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else value
