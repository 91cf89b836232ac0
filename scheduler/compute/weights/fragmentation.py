# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts where an instance takes little room from the flavors that the fleet is asked for.

:mod:`scheduler.engine.weighing.weighers` calls it.
"""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, Self

import numpy
from oslo_config import cfg

from fleet import capacity, errors
from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec
from fleet.objects.flavor_mix import FlavorMix, Shape
from scheduler.compute.domain.slots import Slots
from scheduler.compute.domain.worth_table import WorthTable
from scheduler.compute.weights.base import ColumnWeigher
from scheduler.compute.weights.mean_host import MeanHosts, Means
from scheduler.engine.hosts.candidates import Candidates

#: The largest weight of a shape. Weights are whole numbers, so that sums are exact in any order.
_LARGEST = 2**20
#: Hosts at a time: their tables stay in the processor's cache.
_AT_A_TIME = 4096
_NUMBERS = itertools.count()
MIX_OPTION = "fragmentation_flavor_mix_file"


class _Tables(NamedTuple):
    """Built for one mix.

    :ivar number: identifies these tables; later ones have other numbers
    :ivar resources: vcpus, memory in MB, and disk in MB if a shape has any
    :ivar table: None if it would be too large
    """

    number: int
    shapes: Sequence[Shape]
    shares: Sequence[float]
    weights: numpy.ndarray
    resources: Sequence[Slots]
    table: WorthTable | None

    def slots(self, free: Sequence[numpy.ndarray]) -> numpy.ndarray:
        """Return how many instances of each shape fit: a row per host, a column per shape."""
        found = self.resources[0].of(free[0])
        for table, amounts in zip(self.resources[1:], free[1:], strict=False):
            numpy.minimum(found, table.of(amounts), out=found)
        return found

    def worth(self, free: Sequence[numpy.ndarray]) -> numpy.ndarray:
        """Return the sum of the weights of all instances that fit: one whole number per host."""
        if self.table is None:
            return self._counted(free)
        found, enough_mb = self.table.of(free[0], free[1])
        if enough_mb is not None:
            short = numpy.flatnonzero(free[2] < enough_mb)
            found[short] = self._counted([each[short] for each in free])
        return found

    def _counted(self, free: Sequence[numpy.ndarray]) -> numpy.ndarray:
        found = numpy.empty(len(free[0]))
        for start in range(0, len(found), _AT_A_TIME):
            some = slice(start, start + _AT_A_TIME)
            numpy.dot(self.slots([each[some] for each in free]), self.weights, out=found[some])
        return found


class FragmentationWeigher(ColumnWeigher):
    """Minus the instances of other flavors that no longer fit on the host when it takes this one.

    The flavors are those of the flavor mix. Each counts by its share of the core-hours that the fleet is asked for, times
    its size in mean hosts. It is a variant of fragmentation gradient descent (Weng et al., USENIX ATC 2023). Off while the
    multiplier is 0.
    """

    outranks_share = False
    reads_fleet = True
    option = "fragmentation_weight_multiplier"

    def __init__(self, multiplier: float = 0.0, mix: FlavorMix | None = None) -> None:
        """:param mix: in place of the mix that the conductors learn"""
        super().__init__(multiplier)
        self._fixed = mix
        #: The tables, and the mix and the means of the hosts for which they were built.
        self._built: tuple[FlavorMix, Means, _Tables | None] | None = None
        self._means = MeanHosts()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """:raises errors.ConfigError: the file of the mix cannot be used"""
        path = conf[MIX_OPTION]
        return cls(conf[cls.option], read_mix(path) if path else None)

    def applies(self, request: RequestSpec) -> bool:
        return self._multiplier != 0

    def of_fleet(self, hosts: Candidates) -> Hashable:
        return self._means.of(hosts) if self._multiplier else None

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        tables = self._tables(hosts)
        if tables is None:
            return numpy.zeros(len(hosts))
        asked = _asked(request)

        def worth(some: Candidates) -> numpy.ndarray:
            return tables.worth(_free(some, tables))

        def difference(some: Candidates) -> numpy.ndarray:
            left = [each - size for each, size in zip(_free(some, tables), asked, strict=False)]
            return tables.worth(left) - some.remembered((tables.number,), worth)

        return hosts.remembered((tables.number, asked), difference)

    def terms(self, hosts: Candidates, request: RequestSpec) -> Iterator[list[JSONObject]]:
        """Yield, per host, the shapes of which fewer fit afterwards, the most important first."""
        tables = self._tables(hosts)
        if tables is None:
            return
        free, asked = _free(hosts, tables), _asked(request)
        before = tables.slots(free)
        after = tables.slots([each - size for each, size in zip(free, asked, strict=False)])
        order = numpy.argsort(-tables.weights, kind="stable").tolist()
        for fit, left in zip(before.tolist(), after.tolist(), strict=True):
            yield [
                {
                    "shape": str(tables.shapes[number]),
                    "share": tables.shares[number],
                    "weight": float(tables.weights[number]),
                    "before": fit[number],
                    "after": left[number],
                }
                for number in order
                if fit[number] != left[number]
            ]

    def _tables(self, hosts: Candidates) -> _Tables | None:
        mix = self._fixed or hosts.demand
        if mix is None:
            return None
        built, means = self._built, self._means.of(hosts)
        if built is None or built[0] is not mix or built[1] != means or self._outgrown(built[2], hosts):
            self._built = built = mix, means, _build(mix, means, hosts.whole())
        return built[2]

    @staticmethod
    def _outgrown(tables: _Tables | None, hosts: Candidates) -> bool:
        """Return True if a host has more than the tables cover."""
        return tables is not None and any(
            bool(len(limit)) and float(limit.max()) > table.most
            for table, limit in zip(tables.resources, _limits(hosts, len(tables.resources)), strict=False)
        )


def read_mix(path: str) -> FlavorMix:
    """Read a fixed mix: a JSON list of ``vcpus``, ``memory_mb``, ``disk_gb``, ``requests``, ``ended`` and ``hours``.

    :raises errors.ConfigError:
    """
    try:
        return FlavorMix.from_wire(json.loads(pathlib.Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, errors.InvalidInput) as wrong:
        raise errors.ConfigError(option=MIX_OPTION, reason=f"names {path}, which cannot be used: {wrong}") from None


def _build(mix: FlavorMix, means: Means, hosts: Candidates) -> _Tables | None:
    """Return the tables; None if the mix has no shape that is asked for.

    :param means: the unit of a shape's size
    :param hosts: all of them
    """
    cores, memory_mb = means
    shares = mix.shares()
    if not shares:
        return None
    sized = [share * (shape.vcpus / cores + shape.memory_mb / memory_mb) for shape, share in shares.items()]
    weights = numpy.round(numpy.array(sized) * (_LARGEST / max(sized)))
    shapes = list(shares)
    sizes = [
        [shape.vcpus for shape in shapes],
        [shape.memory_mb for shape in shapes],
        [shape.disk_gb * capacity.MB_PER_GB for shape in shapes],
    ]
    limits = [float(limit.max()) for limit in _limits(hosts)]
    resources = [Slots(each, most) for each, most in zip(sizes, limits, strict=True) if any(each)]
    vcpus, memory, *disk = resources
    table = (
        WorthTable(vcpus, memory, weights, disk[0].sizes if disk else None) if WorthTable.fits(vcpus, memory) else None
    )
    return _Tables(next(_NUMBERS), shapes, list(shares.values()), weights, resources, table)


def _limits(hosts: Candidates, number: int = 3) -> list[numpy.ndarray]:
    """:param number: of resources"""
    found = [hosts.column("vcpu_limit"), hosts.column("ram_limit_mb")]
    return [*found, hosts.column("disk_limit_gb") * capacity.MB_PER_GB] if number > len(found) else found


def _free(hosts: Candidates, tables: _Tables) -> list[numpy.ndarray]:
    """Return the amount of each resource of the tables that is still free within the limits."""
    found = [
        capacity.usable(hosts.column("vcpu_limit"), hosts.column("vcpus_used")),
        hosts.column("free_ram_mb") + hosts.column("ram_headroom_mb"),
    ]
    if len(tables.resources) > len(found):
        found.append(hosts.column("free_disk_mb") + hosts.column("disk_headroom_mb"))
    return found


def _asked(request: RequestSpec) -> tuple[float, ...]:
    disk_gb = capacity.claimed_disk_gb(request.root_gb, request.ephemeral_gb)
    return request.vcpus, request.memory_mb, disk_gb * capacity.MB_PER_GB
