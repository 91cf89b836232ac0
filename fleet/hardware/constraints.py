# SPDX-License-Identifier: Apache-2.0
"""The NUMA topology that a flavor and an image ask for.

Called by :mod:`fleet.hardware.aliases` and :mod:`conductor_stub.steps.flavor_check`.

| Extra spec                        | Image property                     | Value                                         |
|-----------------------------------|------------------------------------|-----------------------------------------------|
| hw:numa_nodes                     | hw_numa_nodes                      | number of cells                               |
| hw:numa_cpus.N, hw:numa_mem.N     | hw_numa_cpus.N, hw_numa_mem.N      | vcpus (0-3,^2) and MB of cell N               |
| hw:mem_page_size                  | hw_mem_page_size                   | small, large, any, KiB, or a size such as 2MB |
| hw:cpu_policy                     | hw_cpu_policy                      | shared, dedicated; mixed (flavor only)        |
| hw:cpu_thread_policy              | hw_cpu_thread_policy               | prefer, isolate, require                      |
| hw:cpu_dedicated_mask             |                                    | with mixed: vcpus that get CPUs of their own  |
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping

from oslo_utils import strutils

from fleet import errors
from fleet.hardware import cpu_spec
from fleet.objects import Flavor, Image
from fleet.objects.flavor import MOST_VCPUS
from fleet.objects.numa import (
    ANY_PAGES,
    DEDICATED,
    LARGE_PAGES,
    MIXED,
    PREFER,
    SHARED,
    SMALL_PAGES,
    CpuPolicy,
    InstanceCell,
    InstanceTopology,
    ThreadPolicy,
)

EXTRA_SPECS = "request.flavor.extra_specs"
PROPERTIES = "request.image.properties"

_BYTES_PER_KB = 1024
_PAGE_SIZES = {"small": SMALL_PAGES, "large": LARGE_PAGES, "any": ANY_PAGES}
_MOST_CELLS = 64


@dataclasses.dataclass(frozen=True)
class _Source:
    """The flavor's extra specs or the image's properties: the same names with different prefixes."""

    values: Mapping[str, object]
    prefix: str
    path: str

    def get(self, name: str) -> str | None:
        value = self.values.get(self.prefix + name)
        return None if value is None else str(value)

    def has_any(self, name: str) -> bool:
        return any(key.startswith(self.prefix + name) for key in self.values)

    def field(self, name: str) -> str:
        return f"{self.path}.{self.prefix}{name}"

    def choice(self, name: str, choices: tuple[str, ...]) -> str | None:
        value = self.get(name)
        if value is not None and value not in choices:
            raise self.error(name, f"{value!r} is none of {', '.join(choices)}")
        return value

    def number(self, name: str) -> int:
        value = self.get(name) or ""
        if not value.isascii() or not value.isdigit() or len(value) > 9 or int(value) == 0:
            raise self.error(name, f"{value!r} is no whole number above 0")
        return int(value)

    def error(self, name: str, reason: str) -> errors.InvalidInput:
        return errors.InvalidInput(field=self.field(name), reason=reason)


def requested_topology(flavor: Flavor, image: Image) -> InstanceTopology | None:
    """Return the topology of each instance; None if neither flavor nor image asks for cells, pages or pinning.

    :raises errors.InvalidInput: naming the extra spec or image property that is wrong or contradicts the other
    """
    specs = _Source(flavor.extra_specs, "hw:", EXTRA_SPECS)
    properties = _Source(image.properties, "hw_", PROPERTIES)
    policy = _cpu_policy(specs, properties)
    shape = _Shape(
        pagesize=_page_size(specs, properties),
        policy=policy,
        threads=_thread_policy(specs, properties, policy),
        dedicated=_dedicated_vcpus(specs, policy, flavor),
    )
    source = _source_of_cells(specs, properties)
    if source is None:
        if shape.pagesize is None and policy in (None, SHARED):
            return None
        return InstanceTopology((shape.cell(0, _vcpus(flavor), flavor.memory_mb),))
    return InstanceTopology(_cells(source, flavor, shape))


@dataclasses.dataclass(frozen=True)
class _Shape:
    """Properties that all cells share; ``dedicated`` are the pinned vcpus of the whole instance."""

    pagesize: int | None
    policy: CpuPolicy | None
    threads: ThreadPolicy | None
    dedicated: frozenset[int]

    def cell(self, number: int, vcpus: frozenset[int], memory_mb: int) -> InstanceCell:
        return InstanceCell(
            number,
            vcpus,
            memory_mb,
            pagesize=self.pagesize,
            cpu_policy=self.policy,
            cpu_thread_policy=self.threads,
            pcpuset=vcpus & self.dedicated,
        )


def _cpu_policy(specs: _Source, properties: _Source) -> CpuPolicy | None:
    flavors = specs.choice("cpu_policy", typing.get_args(CpuPolicy))
    images = properties.choice("cpu_policy", (SHARED, DEDICATED))
    if flavors == SHARED and images == DEDICATED:
        raise properties.error("cpu_policy", f"is {DEDICATED}, which {specs.field('cpu_policy')} {SHARED} forbids")
    return typing.cast(CpuPolicy | None, flavors or images)


def _thread_policy(specs: _Source, properties: _Source, policy: str | None) -> ThreadPolicy | None:
    name, choices = "cpu_thread_policy", typing.get_args(ThreadPolicy)
    flavors, images = specs.choice(name, choices), properties.choice(name, choices)
    # prefer is no requirement, so the image may ask for more.
    if flavors not in (None, PREFER) and images not in (None, flavors):
        raise properties.error(name, f"is {images}, which {specs.field(name)} {flavors} forbids")
    chosen = images if flavors in (None, PREFER) and images else flavors
    if chosen and policy not in (DEDICATED, MIXED):
        source = specs if flavors else properties
        raise source.error(name, f"needs cpu_policy {DEDICATED} or {MIXED}")
    return typing.cast(ThreadPolicy | None, chosen)


def _dedicated_vcpus(specs: _Source, policy: str | None, flavor: Flavor) -> frozenset[int]:
    mask = specs.get("cpu_dedicated_mask")
    if policy != MIXED:
        if mask is not None:
            raise specs.error("cpu_dedicated_mask", f"needs {specs.field('cpu_policy')} {MIXED}")
        return _vcpus(flavor) if policy == DEDICATED else frozenset()
    if mask is None:
        raise specs.error("cpu_policy", f"is {MIXED}, which needs {specs.field('cpu_dedicated_mask')}")
    # A mask of exceptions only (^0-1) means all other vcpus.
    text = f"0-{flavor.vcpus - 1},{mask}" if all(part.startswith("^") for part in mask.split(",")) else mask
    vcpus = cpu_spec.parse(text, specs.field("cpu_dedicated_mask"))
    if not vcpus or not vcpus < _vcpus(flavor):
        raise specs.error("cpu_dedicated_mask", f"must name some, not all, of the vcpus 0 to {flavor.vcpus - 1}")
    return vcpus


def _page_size(specs: _Source, properties: _Source) -> int | None:
    flavors, images = (_parsed_page_size(source) for source in (specs, properties))
    if images is None:
        return flavors
    if flavors not in (LARGE_PAGES, ANY_PAGES):
        reason = f"is only allowed if {specs.field('mem_page_size')} is any or large"
        raise properties.error("mem_page_size", reason)
    return images


def _parsed_page_size(source: _Source) -> int | None:
    text = source.get("mem_page_size")
    if text is None or text in _PAGE_SIZES:
        return _PAGE_SIZES[text] if text else None
    try:
        size_kb = int(text) if text.isdigit() else strutils.string_to_bytes(text, return_int=True) // _BYTES_PER_KB
    except (ValueError, OverflowError):
        size_kb = 0
    if not 0 < size_kb < 2**31:
        raise source.error("mem_page_size", f"{text!r} is none of small, large, any, KiB, or a size such as 2MB")
    return size_kb


def _source_of_cells(specs: _Source, properties: _Source) -> _Source | None:
    """Return the source of the number of cells; the details must come from the same source."""
    if specs.get("numa_nodes") is not None and properties.get("numa_nodes") is not None:
        raise properties.error("numa_nodes", f"must not be given together with {specs.field('numa_nodes')}")
    for source in (specs, properties):
        for name in ("numa_cpus.", "numa_mem."):
            if source.has_any(name) and source.get("numa_nodes") is None:
                raise source.error(f"{name}N", f"needs {source.field('numa_nodes')}")
    return next((source for source in (specs, properties) if source.get("numa_nodes") is not None), None)


def _cells(source: _Source, flavor: Flavor, shape: _Shape) -> tuple[InstanceCell, ...]:
    count = source.number("numa_nodes")
    if count > min(flavor.vcpus, _MOST_CELLS):
        raise source.error("numa_nodes", f"is {count}, more than there are vcpus or than {_MOST_CELLS}")
    listed = {name: [source.get(f"{name}.{number}") for number in range(count)] for name in ("numa_cpus", "numa_mem")}
    for name in listed:
        if source.get(f"{name}.{count}") is not None:
            raise source.error(f"{name}.{count}", f"there are only cells 0 to {count - 1}")
    given = [value for values in listed.values() for value in values if value is not None]
    if not given:
        return _equal_cells(source, count, flavor, shape)
    for name, values in listed.items():
        if None in values:
            missing = values.index(None)
            raise source.error(
                f"{name}.{missing}", "is missing: vcpus and memory are given for every cell, or for none"
            )
    return _listed_cells(source, count, flavor, shape)


def _equal_cells(source: _Source, count: int, flavor: Flavor, shape: _Shape) -> tuple[InstanceCell, ...]:
    for what, amount in (("vcpus", flavor.vcpus), ("MB of memory", flavor.memory_mb)):
        if amount % count:
            raise source.error("numa_nodes", f"{amount} {what} do not divide evenly by {count}; say who gets what")
    share, vcpus = flavor.vcpus // count, sorted(_vcpus(flavor))
    return tuple(
        shape.cell(number, frozenset(vcpus[number * share : (number + 1) * share]), flavor.memory_mb // count)
        for number in range(count)
    )


def _listed_cells(source: _Source, count: int, flavor: Flavor, shape: _Shape) -> tuple[InstanceCell, ...]:
    cells: list[InstanceCell] = []
    free = _vcpus(flavor)
    for number in range(count):
        name = f"numa_cpus.{number}"
        vcpus = cpu_spec.parse(source.get(name) or "", source.field(name))
        if not vcpus or not vcpus <= free:
            raise source.error(name, f"must name vcpus of 0 to {flavor.vcpus - 1} that no other cell has")
        free -= vcpus
        cells.append(shape.cell(number, vcpus, source.number(f"numa_mem.{number}")))
    if free:
        shown = ", ".join(map(str, sorted(free)[:8]))
        raise source.error(
            "numa_cpus.N", f"{len(free)} vcpus are in no cell: {shown}{', ...' if len(free) > 8 else ''}"
        )
    memory_mb = sum(cell.memory for cell in cells)
    if memory_mb != flavor.memory_mb:
        raise source.error("numa_mem.N", f"add up to {memory_mb} MB, the flavor has {flavor.memory_mb}")
    return tuple(cells)


def _vcpus(flavor: Flavor) -> frozenset[int]:
    """:raises errors.InvalidInput: a set of so many would take gigabytes; flavors of earlier releases may have them"""
    if flavor.vcpus > MOST_VCPUS:
        reason = f"must be a whole number from 1 to {MOST_VCPUS} with cells or pinned CPUs, got {flavor.vcpus}"
        raise errors.InvalidInput(field="request.flavor.vcpus", reason=reason)
    return frozenset(range(flavor.vcpus))
