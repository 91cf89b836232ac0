# SPDX-License-Identifier: Apache-2.0
"""The mean host of the fleet, the unit in which the weighers of packing add vcpus and memory.

Called by :mod:`scheduler.compute.weights.fragmentation` and :mod:`scheduler.compute.weights.alignment`.
"""

from __future__ import annotations

from scheduler.engine.hosts.candidates import Candidates

#: vcpus and memory in MB.
Means = tuple[float, float]


class MeanHosts:
    """Measured anew when a host has changed."""

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
    values = hosts.column(name)[hosts.present()]
    return float(values.mean()) or 1.0 if len(values) else 1.0
