# SPDX-License-Identifier: Apache-2.0
"""Which page size an instance cell gets."""

from __future__ import annotations

from fleet.objects.numa import ANY_PAGES, LARGE_PAGES, SMALL_PAGES, HostCell, InstanceCell, Pages

KB_PER_MB = 1024


def choose(host: HostCell, cell: InstanceCell) -> int | None:
    """The size in KiB to use for a cell that asks for one; None if none of the allowed sizes has room."""
    memory_kb = cell.memory * KB_PER_MB
    for pages in _allowed(host, cell.pagesize):
        if memory_kb % pages.size_kb == 0 and memory_kb <= pages.free * pages.size_kb:
            return pages.size_kb
    return None


def room_without_size(host: HostCell, cell: InstanceCell) -> bool:
    """Whether a cell that asks for no size has room in the smallest pages: huge ones are set aside, and not for it."""
    smallest = min(host.mempages, key=lambda pages: pages.size_kb, default=None)
    if smallest is None:
        return True
    # Floating vcpus share memory up to the ratio, which is tested elsewhere; here none may exceed all there is.
    count = smallest.free if cell.pcpuset else smallest.total
    return cell.memory * KB_PER_MB <= count * smallest.size_kb


def smallest_mb(host: HostCell, cell: InstanceCell) -> float:
    """What a cell that asks for no size could have; 0 where no pages are known."""
    smallest = min(host.mempages, key=lambda pages: pages.size_kb, default=None)
    if smallest is None:
        return 0
    return (smallest.free if cell.pcpuset else smallest.total) * smallest.size_kb / KB_PER_MB


def most_mb(host: HostCell, cell: InstanceCell) -> float:
    """What is free in pages of the one size that has most, of those that are allowed and divide the cell's memory."""
    sizes = (pages for pages in _allowed(host, cell.pagesize) if cell.memory * KB_PER_MB % pages.size_kb == 0)
    return max((pages.free * pages.size_kb / KB_PER_MB for pages in sizes), default=0)


def said(pagesize: int) -> str:
    """A page size as asked for, in words."""
    named = {SMALL_PAGES: "small pages", LARGE_PAGES: "large pages", ANY_PAGES: "pages of one size"}
    return named.get(pagesize, f"pages of {pagesize} KiB")


def _allowed(host: HostCell, asked: int | None) -> list[Pages]:
    """In the order to try them: the largest first."""
    ordered = sorted(host.mempages, key=lambda pages: pages.size_kb, reverse=True)
    if asked == SMALL_PAGES:
        return ordered[-1:]
    if asked == LARGE_PAGES:
        return ordered[:-1]
    return ordered if asked == ANY_PAGES else [pages for pages in ordered if pages.size_kb == asked]
