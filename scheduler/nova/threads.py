# SPDX-License-Identifier: Apache-2.0
"""The filter for pinned vcpus that are to share no core, by the rule of nova's compute service.

Called by :mod:`scheduler.nova.domain`. Placement keeps such servers off hosts with hyperthreading by a trait of their PCPU
inventories. Hosts that offer VCPU in the place of PCPU are asked for without the trait.
"""

from __future__ import annotations

import functools

import numpy

from fleet.hardware.node import Hardware
from fleet.objects import RequestSpec, request_parts
from fleet.objects.numa import ISOLATE, HostCell
from fleet.reasons import Reason
from scheduler.compute.domain.hardware import HARDWARE
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates


class IsolatedThreadsFilter(ColumnFilter):
    """Hosts pass that have enough cells in which nova-compute isolates vcpus, if the request has the thread policy.

    Those are cells without hyperthreading, and cells whose CPUs are all for pinned and floating vcpus alike (nova:
    ``vcpu_pin_set``). Hosts that report no cells pass: other filters judge them.
    """

    judges = (request_parts.NUMA,)
    reason = Reason.POLICY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        cells = request.numa_topology.cells if request.numa_topology else ()
        if not any(cell.pcpuset and cell.cpu_thread_policy == ISOLATE for cell in cells):
            return None
        has_cells = hosts.column("numa_cells") > 0
        return hosts.narrowed(has_cells, HARDWARE, functools.partial(_isolates, len(cells))) | ~has_cells

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        return "has cores of several threads, of which nova-compute isolates none without vcpu_pin_set"


def _isolates(cells: int, hardware: Hardware) -> bool:
    known = hardware.topology.cells if hardware.topology else ()
    return sum(map(_isolates_in, known)) >= cells


def _isolates_in(cell: HostCell) -> bool:
    return not cell.has_threads or cell.dedicated_cpus == cell.cpuset
