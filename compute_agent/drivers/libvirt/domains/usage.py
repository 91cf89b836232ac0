# SPDX-License-Identifier: Apache-2.0
"""Processor time and memory of all running domains, with one call to libvirt. The driver asks for them with each audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from compute_agent.drivers.base import GuestUse
from compute_agent.drivers.libvirt.domains.connection import library

if TYPE_CHECKING:
    import libvirt

_KIB_PER_MIB = 1024


def of_running(connection: libvirt.virConnect) -> dict[str, GuestUse]:
    """Return the use of each running domain by its uuid. Waits for no domain that another job or its QEMU holds up.

    :raises libvirt.libvirtError:
    """
    module = library()
    wanted = module.VIR_DOMAIN_STATS_CPU_TOTAL | module.VIR_DOMAIN_STATS_BALLOON
    running = module.VIR_CONNECT_GET_ALL_DOMAINS_STATS_RUNNING | module.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
    found = connection.getAllDomainStats(wanted, running)
    return {domain.UUIDString(): GuestUse(stats.get("cpu.time", 0), memory_mb(stats)) for domain, stats in found}


def memory_mb(stats: Mapping[str, int]) -> int | None:
    """Return the memory that the guest itself counts as used, else what its process occupies; None if neither is known.

    A guest tells it if its operating system has the driver of the balloon, and if statistics are collected.
    """
    available, usable = stats.get("balloon.available"), stats.get("balloon.usable")
    if available is not None and usable is not None:
        return max(0, available - usable) // _KIB_PER_MIB
    occupied = stats.get("balloon.rss")
    return None if occupied is None else occupied // _KIB_PER_MIB
