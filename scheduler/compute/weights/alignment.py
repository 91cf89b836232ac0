# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts whose free room has the proportions of the instance. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

from collections.abc import Hashable

import numpy

from fleet import capacity
from fleet.objects import RequestSpec
from scheduler.compute.weights.base import ColumnWeigher
from scheduler.compute.weights.mean_host import MeanHosts
from scheduler.engine.hosts.candidates import Candidates

#: The cosine is rounded to such parts, so that hosts of one proportion are equal whatever their sizes.
_PARTS = 2**20


class AlignmentWeigher(ColumnWeigher):
    """The cosine of the angle between the requested and the free vcpus and memory, with overcommit.

    Both are measured in mean hosts. It is a variant of the alignment of Grandl et al. ("Multi-resource packing for
    cluster schedulers", SIGCOMM 2014), without the length of what is free. Off while the multiplier is 0.
    """

    minval = 0
    outranks_share = False
    reads_fleet = True
    option = "alignment_weight_multiplier"

    def __init__(self, multiplier: float = 0.0) -> None:
        super().__init__(multiplier)
        self._means = MeanHosts()

    def applies(self, request: RequestSpec) -> bool:
        return self._multiplier != 0

    def of_fleet(self, hosts: Candidates) -> Hashable:
        return self._means.of(hosts) if self._multiplier else None

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        cores, memory_mb = self._means.of(hosts)
        asked = request.vcpus / cores, request.memory_mb / memory_mb
        free_cores = capacity.usable(hosts.column("vcpu_limit"), hosts.column("vcpus_used")) / cores
        free_memory = (hosts.column("free_ram_mb") + hosts.column("ram_headroom_mb")) / memory_mb
        lengths = numpy.sqrt((free_cores**2 + free_memory**2) * (asked[0] ** 2 + asked[1] ** 2))
        product = free_cores * asked[0] + free_memory * asked[1]
        cosine = numpy.divide(product, lengths, out=numpy.zeros(len(hosts)), where=lengths > 0)
        rounded: numpy.ndarray = numpy.round(cosine * _PARTS) / _PARTS
        return rounded
