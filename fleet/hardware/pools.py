# SPDX-License-Identifier: Apache-2.0
"""Pools of PCI devices: tests requests against them, and takes devices from them.

Called by :mod:`fleet.hardware.node` and the modules beside it, by claims of agents, and by the scheduler's filter.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence

from fleet.objects.numa import HostCell
from fleet.objects.pci import (
    LEGACY,
    PREFERRED,
    REQUIRED,
    SOCKET,
    Kind,
    PciDevice,
    PciPool,
    PciRequest,
    Tags,
)

Pools = tuple[PciPool, ...]

#: Devices of these kinds are given only to requests that ask for the kind: (property, value in lower case).
_ONLY_IF_ASKED_FOR = (("dev_type", "type-pf"), ("dev_type", "vdpa"), ("remote_managed", "true"))
#: Kinds of devices whose properties are kept in lower case.
_KINDS = 4096


@dataclasses.dataclass(frozen=True)
class Taken:
    """``count`` devices of one kind for one request."""

    kind: Kind
    count: int
    request_id: str | None = None


@dataclasses.dataclass(frozen=True)
class Allocation:
    """The devices that requests take from the pools, and the pools that are left."""

    left: Pools
    taken: tuple[Taken, ...] = ()


def allocate(
    pools: Pools,
    requests: Sequence[PciRequest],
    cells: Sequence[HostCell] | None = None,
    host_cells: Sequence[HostCell] = (),
) -> Allocation | None:
    """Meet all ``requests`` in order. Return None if one of them cannot be met.

    :param cells: the host's cells of the instance; None if it asked for no topology
    :param host_cells: all cells of the host, to find cells on the same socket
    """
    taken: list[Taken] = []
    for request in requests:
        found = _take(pools, request, cells, host_cells)
        if found is None:
            return None
        pools = found.left
        taken += found.taken
    return Allocation(pools, tuple(taken))


def pools_of(devices: Iterable[PciDevice]) -> Pools:
    """Return devices counted by kind. Pools with the fewest properties come first, so that special devices are used
    last.
    """
    counts = collections.Counter(device.kind for device in devices)
    return ordered(PciPool(count, *kind) for kind, count in counts.items())


def ordered(pools: Iterable[PciPool]) -> Pools:
    def order(pool: PciPool) -> tuple[int, list[tuple[str, str]], int]:
        return len(pool.tags), sorted(pool.tags), -1 if pool.numa_node is None else pool.numa_node

    return tuple(sorted(pools, key=order))


def less(pools: Pools, kinds: Iterable[Kind]) -> Pools:
    """Return the pools without one device for each of ``kinds``. A device that the host no longer has is ignored."""
    gone = collections.Counter(kinds)
    left = [dataclasses.replace(pool, count=max(0, pool.count - gone[pool.kind])) for pool in pools]
    return tuple(pool for pool in left if pool.count)


def more(pools: Pools, kinds: Iterable[Kind]) -> Pools:
    """Return the pools with one more device for each of ``kinds``."""
    counts = collections.Counter({pool.kind: pool.count for pool in pools})
    counts.update(kinds)
    return ordered(PciPool(count, *kind) for kind, count in counts.items())


def free_devices(pools: Pools) -> int:
    return sum(pool.count for pool in pools)


def matching_devices(pools: Iterable[PciPool], *requests: PciRequest) -> int:
    """Return the number of devices of the kinds that the requests name."""
    return sum(pool.count for pool in pools if any(_matches(pool, request) for request in requests))


def near(
    pools: Iterable[PciPool], request: PciRequest, cells: Sequence[HostCell], host_cells: Sequence[HostCell]
) -> list[PciPool]:
    """Return the pools whose devices an instance on ``cells`` may use, by the request's policy."""
    return _near(list(pools), request.numa_policy or LEGACY, cells, host_cells)


def _take(
    pools: Pools, request: PciRequest, cells: Sequence[HostCell] | None, host_cells: Sequence[HostCell]
) -> Allocation | None:
    matching = [pool for pool in pools if _matches(pool, request)]
    if cells is not None:
        matching = _near(matching, request.numa_policy or LEGACY, cells, host_cells)
    missing = request.count
    taken: list[Taken] = []
    for pool in matching:
        count = min(missing, pool.count)
        if count:
            taken.append(Taken(pool.kind, count, request.request_id))
            missing -= count
    if missing:
        return None
    return Allocation(less(pools, [each.kind for each in taken for _ in range(each.count)]), tuple(taken))


def _matches(pool: PciPool, request: PciRequest) -> bool:
    has = _lower(pool.tags)
    if pool.numa_node is not None:
        has = {**has, "numa_node": str(pool.numa_node)}
    alternatives = [{name: value and value.lower() for name, value in each.items()} for each in request.spec]
    for name, special in _ONLY_IF_ASKED_FOR:
        if has.get(name) == special and not any(wanted.get(name) == special for wanted in alternatives):
            return False
    return any(all(has.get(name) == value for name, value in wanted.items()) for wanted in alternatives)


@functools.lru_cache(_KINDS)
def _lower(tags: Tags) -> Mapping[str, str]:
    return {name: value.lower() for name, value in tags}


def _near(
    pools: list[PciPool], policy: str, cells: Sequence[HostCell], host_cells: Sequence[HostCell]
) -> list[PciPool]:
    """Return the pools that ``policy`` allows for an instance on ``cells``."""
    here = {cell.id for cell in cells}
    if policy == PREFERRED:
        return sorted(pools, key=lambda pool: (pool.numa_node not in here, pool.numa_node is not None))
    if policy == SOCKET:
        return _within(pools, _on_same_sockets(cells, host_cells))
    return _within(pools, here if policy == REQUIRED else {*here, None})


def _within(pools: list[PciPool], cell_ids: Collection[int | None]) -> list[PciPool]:
    return [pool for pool in pools if pool.numa_node in cell_ids]


def _on_same_sockets(cells: Sequence[HostCell], host_cells: Sequence[HostCell]) -> set[int | None]:
    """Return the ids of the host's cells on the sockets of ``cells``; none if a socket is unknown."""
    sockets = {cell.socket for cell in cells}
    return set() if None in sockets else {cell.id for cell in host_cells if cell.socket in sockets}
