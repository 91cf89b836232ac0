# SPDX-License-Identifier: Apache-2.0
"""The numbers behind a no of NUMA cells or PCI devices: found by fitting, as no column holds them.

Called by :mod:`scheduler.compute.filters.numa_topology` and :mod:`scheduler.compute.filters.pci_passthrough`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Sequence

import numpy

from fleet.hardware import pools, topology_fit
from fleet.hardware.node import Hardware, Wanted
from fleet.hardware.shortage import Lack
from fleet.json_codec import JSONObject
from scheduler.why.shortfall import Shortfall, described, plain

#: More than this of one host is as good as no limit: a request that takes nothing is counted no further.
_MANY = 10_000


@dataclasses.dataclass(frozen=True)
class HardwareShortfall(Shortfall):
    """``lacking`` says what one host lacks, nothing if it does not; hosts that are alike are looked at once.

    ``limit``, ``used`` and ``most`` count what an instance takes of the resource, wherever on the host it is.

    :param known: of each host, its cells and devices; None where it reports neither
    :param wanted: all that an instance takes
    """

    known: Sequence[Hardware | None] = ()
    wanted: Wanted = dataclasses.field(default_factory=Wanted)
    lacking: Callable[[Hardware], Sequence[Lack]] = lambda hardware: ()
    with_cells: bool = False

    scales = False

    @property
    def rank(self) -> int:
        """Cells are fitted with the devices that must be near."""
        return 2 if self.with_cells else 1

    def lacks(self) -> numpy.ndarray:
        """The missing parts of all that a host lacks, added up, in parts of what is asked."""
        return self._lacks

    @functools.cached_property
    def _lacks(self) -> numpy.ndarray:
        # Fitted once: each near miss asks for it again, while other requests wait.
        parts = self._each(lambda hardware: sum(lack.part for lack in self.lacking(hardware or _NONE)))
        return parts * max(self.asked, 1.0)

    def never(self) -> numpy.ndarray:
        return self._never

    @functools.cached_property
    def _never(self) -> numpy.ndarray:
        return self._each(lambda hardware: bool(self.lacking((hardware or _NONE).emptied())), bool)

    def fits(self, bound: numpy.ndarray | None = None) -> numpy.ndarray:
        """Return the number of instances that would be placed one after the other."""
        bounds = numpy.full(len(self.known), math.inf) if bound is None else bound
        most: dict[int, float] = {}
        for hardware, each in zip(self.known, bounds.tolist(), strict=True):
            most[id(hardware)] = max(most.get(id(hardware), 0.0), each)
        counts = self._each(lambda hardware: self._count(hardware, most[id(hardware)]))
        return numpy.minimum(counts, bounds)

    def _count(self, hardware: Hardware | None, most: float) -> float:
        left = hardware or _NONE
        counted = self._counted(left)
        if counted is not None:
            return min(counted, most)
        if self.wanted.device_count:
            most = min(most, pools.free_devices(left.pools) // self.wanted.device_count)
        number = 0
        while number < most and not self.lacking(left):
            before, left = left, self.wanted.taken_from(left) or left
            if left is before or not self.wanted or number >= _MANY:
                return most
            number += 1
        return number

    def _counted(self, hardware: Hardware) -> float | None:
        """Return the number of instances in closed form; None if they must be fitted one by one."""
        if hardware.topology is None or self.wanted.topology is None or self.wanted.devices:
            return None
        if self.lacking(hardware):
            return 0
        return topology_fit.most_copies(hardware.topology, self.wanted.topology, hardware.limits)

    def describe(self, position: int) -> list[JSONObject]:
        """Return what the host lacks; if it would lack something even when empty, return that."""
        hardware = self.known[position] or _NONE
        for_ever = self.lacking(hardware.emptied())
        return [_described(lack, bool(for_ever)) for lack in for_ever or self.lacking(hardware)]

    def _each(self, judge: Callable[[Hardware | None], object], dtype: type = float) -> numpy.ndarray:
        found: dict[int, object] = {}
        for hardware in self.known:
            if id(hardware) not in found:
                found[id(hardware)] = judge(hardware)
        return numpy.array([found[id(hardware)] for hardware in self.known], dtype=dtype)


_NONE = Hardware()
_PLURAL = re.compile(r"\b(device|CPU|cell|vcpu|core)s\b")


def _described(lack: Lack, for_ever: bool) -> JSONObject:
    lacks = lack.asked - lack.free
    of = f"{lack.unit} of {lack.resource}" if lack.unit else lack.resource
    there = "" if lack.total is None else f" of {plain(lack.total)}"
    where = f" {lack.place}" if lack.place else ""
    if lacks == 1 and not lack.unit:
        of = _PLURAL.sub(r"\1", of, count=1)
    text = f"lacks {plain(lacks)} {of}{where}: free {plain(lack.free)}{there}, asked {plain(lack.asked)}"
    text = f"{text}; even when it is empty" if for_ever else text
    used = None if lack.total is None else lack.total - lack.free
    return described(text, lack.resource, lack.unit, lack.total, used, lack.asked, lacks, for_ever, lack.place)
