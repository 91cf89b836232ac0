# SPDX-License-Identifier: Apache-2.0
"""The mean host of the fleet, the unit in which the weighers of packing add vcpus and memory.

Two digits of a mean are enough, and stay the same while hosts come and go: the tables of fragmentation depend on it.

Called by :mod:`scheduler.compute.weights.fragmentation` and :mod:`scheduler.compute.weights.alignment`.
"""

from __future__ import annotations

from scheduler.engine.hosts.candidates import Candidates

#: vcpus and memory in MB.
Means = tuple[float, float]


class MeanHosts:
    """Measures them anew when a host has changed."""

    def __init__(self) -> None:
        #: The means, and the epoch and the version at which they were measured.
        self._measured: tuple[tuple[int, int], Means] | None = None

    def of(self, hosts: Candidates) -> Means:
        """Return the mean vcpus and memory of all hosts, of which ``hosts`` are some."""
        measured, now = self._measured, (hosts.epoch, hosts.version)
        if measured is None or measured[0] != now:
            whole = hosts.whole()
            means = _mean(whole, "vcpus_total"), _mean(whole, "total_usable_ram_mb")
            self._measured = measured = now, means
        return measured[1]


def _mean(hosts: Candidates, name: str) -> float:
    values, present = hosts.column(name), hosts.present()
    values = values if present.all() else values[present]
    return float(f"{values.mean():.2g}") or 1.0 if len(values) else 1.0
