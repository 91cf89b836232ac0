# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices of simulated hosts, from the options of group [fake].

:mod:`compute_agent.drivers.fake` reports them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from oslo_config import cfg

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import pci

SMALL_PAGE_KB, HUGE_PAGE_KB = 4, 2048
_OPTION = "[fake] pci_devices"
_KB_PER_MB = 1024


def numa_topology(options: cfg.ConfigOpts) -> JSONObject | None:
    """Return ``numa_cells`` equal cells, each a socket; the last one also has the remainder. None for no cells."""
    count = options.numa_cells
    if not count:
        return None
    share, memory_mb = options.vcpus // count, options.memory_mb // count
    cells = []
    for number in range(count):
        last = number == count - 1
        cpus = list(range(number * share, options.vcpus if last else (number + 1) * share))
        cells.append(_cell(options, number, cpus, options.memory_mb - memory_mb * number if last else memory_mb))
    return {"cells": cells}


def _cell(options: cfg.ConfigOpts, number: int, cpus: list[int], memory_mb: int) -> JSONObject:
    threads = options.numa_threads_per_core
    cores = [cpus[first : first + threads] for first in range(0, len(cpus), threads)]
    cell = {
        "id": number,
        "socket": number,
        "cpuset": cpus,
        "memory": memory_mb,
        "siblings": cores if threads > 1 else [],
        "mempages": _pages(options.numa_huge_pages, memory_mb),
    }
    if options.numa_dedicated_cpus:
        shared = max(0, len(cpus) - options.numa_dedicated_cpus)
        cell.update(cpuset=cpus[:shared], pcpuset=cpus[shared:])
    return cell


def _pages(huge: int, memory_mb: int) -> list[dict[str, int]]:
    if not huge:
        return []
    small_kb = memory_mb * _KB_PER_MB - huge * HUGE_PAGE_KB
    return [
        {"size_kb": SMALL_PAGE_KB, "total": max(0, small_kb) // SMALL_PAGE_KB},
        {"size_kb": HUGE_PAGE_KB, "total": huge},
    ]


def pci_devices(texts: Sequence[str]) -> list[JSONObject]:
    """Return the devices of the option's pools, with made-up addresses. :raises errors.ConfigError: a pool is malformed"""
    devices = []
    slots = itertools.count()
    for text in texts:
        try:
            (pool,) = pci.pools_from_wire(f"[{text}]", "pool")
        except (errors.InvalidInput, ValueError):
            raise errors.ConfigError(
                option=_OPTION, reason=f"has {text}, which is no JSON object with a count"
            ) from None
        for slot in itertools.islice(slots, pool.count):
            address = f"0000:{slot // 8 // 32:02x}:{slot // 8 % 32:02x}.{slot % 8}"
            devices.append({**dict(pool.tags), "numa_node": pool.numa_node, "address": address})
    return devices


def guest_loads(options: Sequence[str]) -> list[tuple[str, float]]:
    """Parse ``[fake] guest_loads``: patterns of names with shares of vcpus. :raises errors.ConfigError:"""
    found = []
    for each in options:
        pattern, colon, share = each.rpartition(":")
        try:
            value = float(share)
        except ValueError:
            value = -1.0
        if not colon or not pattern or not 0 <= value <= 1:
            raise errors.ConfigError(
                option="[fake] guest_loads", reason=f"has {each!r}: it must be PATTERN:SHARE, with a share from 0 to 1"
            )
        found.append((pattern, value))
    return found
