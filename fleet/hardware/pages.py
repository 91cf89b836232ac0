# SPDX-License-Identifier: Apache-2.0
"""Chooses the page size of an instance cell. :mod:`fleet.hardware.cell_fit` calls it for each pair of cells."""

from __future__ import annotations

from fleet.objects.numa import ANY_PAGES, LARGE_PAGES, SMALL_PAGES, HostCell, InstanceCell, Pages

KB_PER_MB = 1024


def choose(host: HostCell, cell: InstanceCell) -> int | None:
    """Return the size in KiB for a cell that asks for one; None if no allowed size has room."""
    memory_kb = cell.memory * KB_PER_MB
    for pages in _allowed(host, cell.pagesize):
        if memory_kb % pages.size_kb == 0 and memory_kb <= pages.free * pages.size_kb:
            return pages.size_kb
    return None


def smallest(host: HostCell) -> Pages | None:
    """Return the smallest pages of a cell; None if none are known."""
    return min(host.mempages, key=lambda pages: pages.size_kb, default=None)


def room_without_size(host: HostCell, cell: InstanceCell) -> bool:
    """Return True if a cell that asks for no size fits into the smallest pages. Huge pages are reserved for requests
    that ask.
    """
    small = smallest(host)
    if small is None:
        return True
    # Floating vcpus share memory up to the ratio, which is tested elsewhere. No cell may exceed the total.
    count = small.free if cell.pcpuset else small.total
    return cell.memory * KB_PER_MB <= count * small.size_kb


def smallest_mb(host: HostCell, cell: InstanceCell) -> float:
    """Return the MB that a cell without a page size could have; 0 if no pages are known."""
    small = smallest(host)
    if small is None:
        return 0
    return (small.free if cell.pcpuset else small.total) * small.size_kb / KB_PER_MB


def most_mb(host: HostCell, cell: InstanceCell) -> float:
    """Return the MB free in the allowed page size that has most, among sizes that divide the cell's memory."""
    sizes = (pages for pages in _allowed(host, cell.pagesize) if cell.memory * KB_PER_MB % pages.size_kb == 0)
    return max((pages.free * pages.size_kb / KB_PER_MB for pages in sizes), default=0)


def said(pagesize: int) -> str:
    """Return the requested page size in words."""
    named = {SMALL_PAGES: "small pages", LARGE_PAGES: "large pages", ANY_PAGES: "pages of one size"}
    return named.get(pagesize, f"pages of {pagesize} KiB")


def _allowed(host: HostCell, asked: int | None) -> list[Pages]:
    """Return the sizes that may be used, in the order to try them: the largest first."""
    ordered = sorted(host.mempages, key=lambda pages: pages.size_kb, reverse=True)
    if asked == SMALL_PAGES:
        return ordered[-1:]
    if asked == LARGE_PAGES:
        return ordered[:-1]
    return ordered if asked == ANY_PAGES else [pages for pages in ordered if pages.size_kb == asked]
