# SPDX-License-Identifier: Apache-2.0
"""Measures the hosts of a fleet at one moment. :mod:`fleet.utilization.history` keeps one for each moment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy

from fleet.json_codec import JSONObject
from fleet.objects.flavor_mix import Shape


@dataclasses.dataclass(frozen=True)
class Hosts:
    """Capacity and use of the hosts: arrays with one element per host.

    :param free: vcpus, memory in MB and disk in MB that may still be sold: ratios and reserved amounts are counted.
        Below 0 on a host above its limit. What is used and what is free are the limit together
    :param instances: number of instances
    """

    vcpus_used: numpy.ndarray
    memory_mb_used: numpy.ndarray
    free: tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]
    instances: numpy.ndarray


@dataclasses.dataclass(frozen=True)
class Sample:
    """A fleet at one moment.

    :param at: seconds of the trace, or the number of requests if the trace has no times
    :param vcpus_used: share of the limits of all hosts, as ``memory_used``
    :param free_vcpus: what may still be sold; ``stranded_vcpus`` is the part on hosts where a request does not fit,
        averaged over the sizes that are requested
    :param largest: the largest requested size that fits on a host; None if none does
    :param placed: instances until now, as ``refused``
    """

    at: float
    vcpus_used: float
    memory_used: float
    hosts_empty: int
    free_vcpus: float
    free_memory_mb: float
    stranded_vcpus: float
    stranded_memory_mb: float
    largest: Shape | None
    placed: int
    refused: int

    def to_json(self) -> JSONObject:
        found = dataclasses.asdict(self)
        return {**found, "largest": str(self.largest) if self.largest else None}


def measure(at: float, hosts: Hosts, shares: Mapping[Shape, float], placed: int, refused: int) -> Sample:
    """Measure the hosts.

    The stranded amount is the expected free amount that the next request cannot use: the measure of fragmentation of Weng
    et al., "Beware of Fragmentation", USENIX ATC 2023.

    :param shares: share of each size among the requested instances
    """
    free_vcpus, free_memory_mb, free_disk_mb = (numpy.maximum(each, 0.0) for each in hosts.free)
    stranded_vcpus = stranded_memory_mb = 0.0
    largest = None
    for shape, share in shares.items():
        fits = (
            (free_vcpus >= shape.vcpus) & (free_memory_mb >= shape.memory_mb) & (free_disk_mb >= shape.disk_gb * 1024)
        )
        stranded_vcpus += share * float(free_vcpus[~fits].sum())
        stranded_memory_mb += share * float(free_memory_mb[~fits].sum())
        if fits.any() and (largest is None or shape > largest):
            largest = shape
    return Sample(
        at=at,
        vcpus_used=_ratio(hosts.vcpus_used.sum(), (hosts.vcpus_used + hosts.free[0]).sum()),
        memory_used=_ratio(hosts.memory_mb_used.sum(), (hosts.memory_mb_used + hosts.free[1]).sum()),
        hosts_empty=int(numpy.count_nonzero(hosts.instances == 0)),
        free_vcpus=float(free_vcpus.sum()),
        free_memory_mb=float(free_memory_mb.sum()),
        stranded_vcpus=round(stranded_vcpus, 1),
        stranded_memory_mb=round(stranded_memory_mb, 1),
        largest=largest,
        placed=placed,
        refused=refused,
    )


def use_of(names: Sequence[str], hosts: Hosts) -> list[JSONObject]:
    """Return the share of each host's limit that is used: the larger one of vcpus and memory."""
    vcpus, memory_mb = hosts.vcpus_used + hosts.free[0], hosts.memory_mb_used + hosts.free[1]
    shares = numpy.maximum(
        hosts.vcpus_used / numpy.maximum(vcpus, 1), hosts.memory_mb_used / numpy.maximum(memory_mb, 1)
    )
    return [{"host": name, "used": round(share, 4)} for name, share in zip(names, shares.tolist(), strict=True)]


def _ratio(used: float, of: float) -> float:
    return round(float(used) / float(of), 4) if of else 0.0
