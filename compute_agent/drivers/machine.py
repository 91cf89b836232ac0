# SPDX-License-Identifier: Apache-2.0
"""Reads this machine's inventory from psutil and /sys. The drivers whose guests run on this machine report it."""

from __future__ import annotations

import json
import pathlib
import platform
import re

import psutil

from fleet.json_codec import JSONObject

_MIB = 2**20
_GIB = 2**30
SYSFS = pathlib.Path("/sys/devices/system")
CPUINFO = pathlib.Path("/proc/cpuinfo")
SMALL_PAGE_KB = 4


def inventory(path: str) -> JSONObject:
    """Return CPUs, memory, NUMA cells, and the disk of ``path``'s file system."""
    disk = psutil.disk_usage(path)
    memory = psutil.virtual_memory()
    return {
        "vcpus": psutil.cpu_count() or 1,
        "memory_mb": memory.total // _MIB,
        "memory_mb_used": (memory.total - memory.available) // _MIB,
        "local_gb": disk.total // _GIB,
        "local_gb_used": disk.used // _GIB,
        "free_disk_gb": disk.free // _GIB,
        "cpu_info": json.dumps(cpu_info()),
        "numa_topology": numa_topology(),
    }


def cpu_info(cpuinfo: pathlib.Path = CPUINFO) -> JSONObject:
    """Return architecture, vendor, model, features and topology, as nova's drivers do."""
    first: dict[str, str] = {}
    for line in cpuinfo.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        first.setdefault(key.strip(), value.strip())
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    return {
        "arch": platform.machine(),
        "vendor": first.get("vendor_id", ""),
        "model": first.get("model name", ""),
        "features": first.get("flags", "").split(),
        "topology": {"sockets": 1, "cores": cores, "threads": max(1, (psutil.cpu_count() or 1) // cores)},
    }


def kernel_version() -> int:
    """Return the kernel's release as nova's base-1000 integer."""
    parts = [int(number) for number in re.findall(r"\d+", platform.release())[:3]]
    major, minor, patch = (parts + [0, 0, 0])[:3]
    return major * 1_000_000 + minor * 1_000 + patch


def numa_topology(sysfs: pathlib.Path = SYSFS) -> JSONObject | None:
    """Return the NUMA cells; None if the kernel shows none."""
    nodes = sorted((sysfs / "node").glob("node[0-9]*"), key=lambda node: int(node.name[4:]))
    cells = [_cell(sysfs, node) for node in nodes]
    return {"cells": cells} if cells else None


def _cell(sysfs: pathlib.Path, node: pathlib.Path) -> JSONObject:
    cpus = cpu_list(_text(node / "cpulist"))
    total_kb = int(re.search(r"MemTotal:\s+(\d+) kB", _text(node / "meminfo"))[1])  # type: ignore[index]
    return {
        "id": int(node.name[4:]),
        "cpuset": cpus,
        "memory": total_kb // 1024,
        "socket": _socket(sysfs, cpus),
        "siblings": _siblings(sysfs, cpus),
        "mempages": _pages(node, total_kb),
    }


def _siblings(sysfs: pathlib.Path, cpus: list[int]) -> list[list[int]]:
    """Return sets of threads of one core; empty without hyperthreading."""
    files = [sysfs / "cpu" / f"cpu{cpu}" / "topology" / "thread_siblings_list" for cpu in cpus]
    sets = {tuple(cpu_list(_text(file))) for file in files if file.exists()}
    return sorted(list(threads) for threads in sets) if any(len(threads) > 1 for threads in sets) else []


def _socket(sysfs: pathlib.Path, cpus: list[int]) -> int | None:
    """Return the cell's package; None if the kernel does not show it."""
    file = sysfs / "cpu" / f"cpu{cpus[0]}" / "topology" / "physical_package_id" if cpus else None
    number = int(_text(file)) if file and file.exists() else -1
    return number if number >= 0 else None


def _pages(node: pathlib.Path, total_kb: int) -> list[dict[str, int]]:
    """Return page sizes with their counts; small pages are what huge pages leave.

    Huge pages in use belong to other programs, because guests here are processes that use none. They are reserved,
    not used.
    """
    huge = []
    for directory in sorted((node / "hugepages").glob("hugepages-*kB")):
        size_kb = int(directory.name.removeprefix("hugepages-").removesuffix("kB"))
        total = int(_text(directory / "nr_hugepages"))
        huge.append({"size_kb": size_kb, "total": total, "reserved": total - int(_text(directory / "free_hugepages"))})
    left_kb = total_kb - sum(pages["size_kb"] * pages["total"] for pages in huge)
    return [{"size_kb": SMALL_PAGE_KB, "total": max(0, left_kb) // SMALL_PAGE_KB}, *huge]


def cpu_list(text: str) -> list[int]:
    """Parse the kernel's ``0-3,8``."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="ascii")
