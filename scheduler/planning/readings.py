# SPDX-License-Identifier: Apache-2.0
"""Readings of all hosts at one moment, for the figures of a plan.

The plans of waves and of ``fleet whatif`` take them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from fleet import capacity
from fleet.utilization.sample import Hosts
from scheduler.engine.decision import StateAge
from scheduler.engine.hosts.candidates import Candidates


def empty_hosts(hosts: Candidates, _state: StateAge) -> int:
    """Return how many hosts have no instance."""
    return int(numpy.count_nonzero(hosts.present() & (hosts.column("num_instances") == 0)))


def host_names(hosts: Candidates, _state: StateAge) -> Sequence[str]:
    """Return the names of the hosts in the order of :func:`utilization`."""
    return [hosts.key(row)[0] for row in hosts.rows[hosts.present()].tolist()]


def utilization(hosts: Candidates, _state: StateAge) -> Hosts:
    """Return the amounts that the hosts have, and those that are used."""
    there = hosts.present()

    def of(name: str) -> numpy.ndarray:
        return hosts.column(name)[there]

    memory_mb, free_memory_mb = of("total_usable_ram_mb"), of("free_ram_mb")
    return Hosts(
        vcpus_used=of("vcpus_used"),
        memory_mb_used=memory_mb - free_memory_mb,
        free=(
            capacity.usable(of("vcpu_limit"), of("vcpus_used")),
            free_memory_mb + of("ram_headroom_mb"),
            of("free_disk_mb") + of("disk_headroom_mb"),
        ),
        instances=of("num_instances"),
    )


def disk_gb_used(hosts: Candidates, _state: StateAge) -> numpy.ndarray:
    """Return the used disk of each host, in the order of :func:`utilization`."""
    there = hosts.present()
    return (hosts.column("total_usable_disk_gb") - hosts.column("free_disk_mb") / capacity.MB_PER_GB)[there]


def use(hosts: Candidates, _state: StateAge) -> dict[str, object]:
    """Return the used amount of each resource and the limit of all hosts, which counts ratios and reserved amounts."""
    there = hosts.present()

    def total(name: str) -> float:
        return float(numpy.add.reduce(hosts.column(name)[there]))

    ram, disk = total("total_usable_ram_mb"), total("total_usable_disk_gb")
    ram_limit, disk_limit = ram + total("ram_headroom_mb"), disk + total("disk_headroom_mb") / capacity.MB_PER_GB
    return {
        "hosts": int(numpy.count_nonzero(there)),
        "hosts_in_use": int(numpy.count_nonzero(hosts.column("num_instances")[there])),
        "vcpus_used": _share(total("vcpus_used"), total("vcpu_limit")),
        "memory_mb_used": _share(ram - total("free_ram_mb"), ram_limit),
        "disk_gb_used": _share(disk - total("free_disk_mb") / capacity.MB_PER_GB, disk_limit),
    }


def _share(used: float, of: float) -> str:
    return f"{used:.0f} of {of:.0f} ({100 * used / of if of else 0:.1f} %)"
