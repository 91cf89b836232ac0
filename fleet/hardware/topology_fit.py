# SPDX-License-Identifier: Apache-2.0
"""Assigns the cells of an instance to host cells.

Filters ask whether an assignment exists, and claims take the one that it finds. Called by :mod:`fleet.hardware.node`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

from fleet.hardware import pools
from fleet.hardware.cell_fit import fit_cell, fits_cell
from fleet.objects.numa import HostCell, HostTopology, InstanceCell, InstanceTopology, Limits, NetworkMetadata
from fleet.objects.pci import PciRequest


@dataclasses.dataclass(frozen=True)
class Fit:
    """The topology as the host would hold it, and its devices."""

    topology: InstanceTopology
    devices: pools.Allocation


def fit_topology(
    host: HostTopology,
    instance: InstanceTopology,
    limits: Limits | None = None,
    free: pools.Pools = (),
    requests: Sequence[PciRequest] = (),
    packing: bool = False,
) -> Fit | None:
    """Return the first arrangement, in the order of the host's cells, in which every cell fits and the devices are near.

    If the host has more cells than needed, they are sorted first: see :func:`ordered_cells`.
    """
    cells = instance.cells
    if len(cells) > len(host.cells):
        return None
    order = ordered_cells(host, instance, free, requests, packing) if len(host.cells) > len(cells) else host.cells
    beside = instance.emulator_cpus
    fits = functools.cache(lambda number, place: fit_cell(order[place], cells[number], limits, beside(number)))

    def devices(places: Sequence[int]) -> pools.Allocation | None:
        chosen = [order[place] for place in places]
        return pools.allocate(free, requests, chosen, host.cells) if _near_networks(host, chosen, instance) else None

    places = _arrange(len(cells), len(order), lambda number, place: fits(number, place) is not None, devices)
    if places is None:
        return None
    held = [cell for number, place in enumerate(places) if (cell := fits(number, place)) is not None]
    allocation = devices(places)
    assert allocation is not None
    return Fit(dataclasses.replace(instance, cells=tuple(held)), allocation)


def fits_topology(
    host: HostTopology,
    instance: InstanceTopology,
    limits: Limits | None = None,
    free: pools.Pools = (),
    requests: Sequence[PciRequest] = (),
) -> bool:
    """Return True if any arrangement exists. The order of the cells does not matter for that."""
    cells, places = instance.cells, host.cells
    plain = not requests and not instance.network_metadata
    if len(cells) == 1 and plain:  # what most ask for
        return any(fits_cell(place, cells[0], limits, instance.emulator_cpus(0)) for place in places)
    if len(cells) > len(places):
        return False
    if plain:
        return most_placed(host, instance, limits) == len(cells)
    beside = instance.emulator_cpus
    fits = functools.cache(lambda number, place: fits_cell(places[place], cells[number], limits, beside(number)))

    def near(numbers: Sequence[int]) -> pools.Allocation | None:
        chosen = [places[place] for place in numbers]
        return pools.allocate(free, requests, chosen, places) if _near_networks(host, chosen, instance) else None

    return _arrange(len(cells), len(places), fits, near) is not None


def _near_networks(host: HostTopology, chosen: Sequence[HostCell], instance: InstanceTopology) -> bool:
    """Return True if one of the ``chosen`` cells is a cell of each network of the instance that has cells on the host."""
    asked = instance.network_metadata
    if not asked:
        return True
    there, here = _networks(host.cells), _networks(chosen)
    tunnel_is_near = here.tunneled or not there.tunneled or not asked.tunneled
    return tunnel_is_near and asked.physnets & there.physnets <= here.physnets


def _networks(cells: Sequence[HostCell]) -> NetworkMetadata:
    known = [cell.network_metadata for cell in cells if cell.network_metadata]
    return NetworkMetadata(frozenset().union(*(each.physnets for each in known)), any(each.tunneled for each in known))


def most_placed(host: HostTopology, instance: InstanceTopology, limits: Limits | None = None) -> int:
    """Return how many of the instance's cells the host could take at the same time, without devices."""
    holder: dict[int, int] = {}

    def place(number: int, allowed: Sequence[Sequence[int]], seen: set[int]) -> bool:
        """Place a cell, and move cells that are in the way to other host cells where they fit."""
        for where in allowed[number]:
            if where not in seen:
                seen.add(where)
                if where not in holder or place(holder[where], allowed, seen):
                    holder[where] = number
                    return True
        return False

    allowed = [
        [
            where
            for where, there in enumerate(host.cells)
            if fits_cell(there, cell, limits, instance.emulator_cpus(number))
        ]
        for number, cell in enumerate(instance.cells)
    ]
    return sum(place(number, allowed, set()) for number in range(len(allowed)))


def most_copies(host: HostTopology, instance: InstanceTopology, limits: Limits | None) -> int | None:
    """Return how many such instances the host could take one after the other, as :func:`fit_topology` would place them.

    With k cells for each, of which host cell i takes b_i, it is the smallest of (sum of b - the r largest b) // (k - r) for
    r < k: the cells beside the r largest hold k - r parts of each instance at least. None if only fitting can tell: other
    cells than equal ones with floating vcpus, or an order of the host's cells that may miss the best arrangement.
    """
    first = instance.cells[0]
    alike = {(len(each.cpuset), each.memory) for each in instance.cells}
    simple = all(not each.pcpuset and each.pagesize is None for each in instance.cells)
    simple = simple and not instance.network_metadata
    if limits is None or not simple or len(alike) > 1 or not first.memory or not first.cpuset:
        return None
    parts, wanted = [_parts(cell, first, limits) for cell in host.cells], len(instance.cells)
    if wanted > len(parts):
        return 0
    # Cells with the fewest busy CPUs come first: those are the ones with the most parts if CPUs bind, and no cell has more.
    in_order = len({len(cell.cpuset) for cell in host.cells}) == 1 and all(cpus <= memory for cpus, memory in parts)
    if wanted not in (1, len(parts)) and not in_order:
        return None
    most = sorted(map(min, parts), reverse=True)
    return min(sum(most[left_out:]) // (wanted - left_out) for left_out in range(wanted))


def _parts(host: HostCell, cell: InstanceCell, limits: Limits) -> tuple[int, int]:
    """Return how many such cells with floating vcpus a host cell takes: by its CPUs, and by its memory."""
    if not fits_cell(dataclasses.replace(host, cpu_usage=0, memory_usage=0), cell, limits):
        return 0, 0
    cpus = _times(len(host.cpuset) * limits.cpu_allocation_ratio, host.cpu_usage, len(cell.cpuset))
    return cpus, _times(host.memory * limits.ram_allocation_ratio, host.memory_usage, cell.memory)


def _times(limit: float, used: int, each: int) -> int:
    """Return how many times ``each`` can be added to ``used`` within ``limit``, in the floats that a claim compares."""
    number = max(int((limit - used) // each), 0)
    while used + (number + 1) * each <= limit:
        number += 1
    while number and used + number * each > limit:
        number -= 1
    return number


def ordered_cells(
    host: HostTopology, instance: InstanceTopology, free: pools.Pools, requests: Sequence[PciRequest], packing: bool
) -> tuple[HostCell, ...]:
    """Sort the host's cells: with PCI devices first if some are asked for, else last; then by most free CPUs; then by
    most free memory. ``packing`` reverses the last two.
    """
    dedicated = any(cell.pcpuset for cell in instance.cells)
    near: dict[int | None, int] = {}
    for pool in free:
        near[pool.numa_node] = near.get(pool.numa_node, 0) + pool.count

    def order(cell: HostCell) -> tuple[int, int, int]:
        busy = -len(cell.free_cpus) if dedicated else cell.cpu_usage
        full = -cell.avail_memory
        devices = near.get(cell.id, 0)
        return (-devices if requests else devices, -busy if packing else busy, -full if packing else full)

    return tuple(sorted(host.cells, key=order))


def _arrange(
    count: int, places: int, fits: Callable[[int, int], bool], accept: Callable[[Sequence[int]], object | None]
) -> list[int] | None:
    """Return a different place for each of ``count`` cells: the first accepted list in lexical order.

    The rest of a search depends only on which places are taken. A set of places is therefore tried once, which bounds
    the search by the number of subsets instead of permutations.
    """
    hopeless: set[frozenset[int]] = set()
    chosen: list[int] = []

    def place_rest() -> bool:
        taken = frozenset(chosen)
        if taken in hopeless:
            return False
        if len(chosen) == count:
            if accept(chosen) is not None:
                return True
        else:
            for place in range(places):
                if place not in taken and fits(len(chosen), place):
                    chosen.append(place)
                    if place_rest():
                        return True
                    chosen.pop()
        hopeless.add(taken)
        return False

    return chosen if place_rest() else None
