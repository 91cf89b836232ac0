# SPDX-License-Identifier: Apache-2.0
"""The weights of all instances that fit into free vcpus and memory, added up beforehand.

Called by :mod:`scheduler.compute.weights.fragmentation`. The k-th instance of a shape fits if the vcpus and the memory both
allow k. So the sum of all weights up to a class of vcpus and a class of memory is a prefix sum over both, and each
instance of each shape is one point of it. Disk bounds a host only if it has less than its vcpus or its memory allow to
take; such hosts are left to the caller.
"""

from __future__ import annotations

import numpy

from scheduler.compute.domain.slots import Slots

#: A larger table takes more memory (16 MiB) and time to build (some 20 ms) than it saves.
_MOST_SUMS = 2**21


class WorthTable:
    """:param weights: one of each shape, whole numbers

    :param disk_mb: what each shape takes of disk; None if none takes any
    """

    def __init__(self, vcpus: Slots, memory: Slots, weights: numpy.ndarray, disk_mb: numpy.ndarray | None) -> None:
        assert vcpus.counts is not None
        assert memory.counts is not None
        self._vcpus, self._memory = vcpus, memory
        sums = numpy.zeros((len(vcpus.counts), len(memory.counts)))
        for weight, by_vcpus, by_memory in zip(weights, vcpus.counts.T, memory.counts.T, strict=True):
            each = numpy.arange(1, int(min(by_vcpus[-1], by_memory[-1])) + 1)
            # The first class that allows so many. Several instances of a shape that takes neither are one point.
            numpy.add.at(sums, (numpy.searchsorted(by_vcpus, each), numpy.searchsorted(by_memory, each)), weight)
        numpy.cumsum(sums, axis=0, out=sums)
        self._sums = numpy.cumsum(sums, axis=1, out=sums)
        self._disk_mb = None if disk_mb is None else [(each.counts * disk_mb).max(axis=1) for each in (vcpus, memory)]

    @staticmethod
    def fits(vcpus: Slots, memory: Slots) -> bool:
        """Return False if a table of these resources would be too large."""
        counts = vcpus.counts, memory.counts
        return counts[0] is not None and counts[1] is not None and len(counts[0]) * len(counts[1]) <= _MOST_SUMS

    def of(self, vcpus: numpy.ndarray, memory: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray | None]:
        """Return the sum of each host, and the disk in MB from which on it is right; None if all are."""
        rows, columns = self._vcpus.classes(vcpus), self._memory.classes(memory)
        enough_mb = None
        if self._disk_mb is not None:
            enough_mb = numpy.minimum(self._disk_mb[0].take(rows), self._disk_mb[1].take(columns))
        return self._sums.take(rows * self._sums.shape[1] + columns), enough_mb
