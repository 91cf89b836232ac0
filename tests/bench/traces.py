# SPDX-License-Identifier: Apache-2.0
"""Guests of a published trace (Azure Public Dataset V1, CC BY 4.0, prepared as sequences of flavors): read, and replayed.

``flav_map.txt`` has the flavors, ``v1.dev.txt`` a line of tokens for each five minutes, ``v1.dev.c2100000.txt`` their
lifetimes, and ``v1.interval_map.txt`` the seconds of these. The benches for losses and for admission use it.
"""

from __future__ import annotations

import heapq
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy

from tests.bench.snapshots import Guest, Snapshot

#: vcpus and memory of a host. Memory is counted in quarters of a GB: the smallest flavor has three of them.
HOST = (64, 4 * 256)
_QUARTERS = 4
_BATCH = "|"


class Request(NamedTuple):
    """:param ends_s: when the guest ends; infinity: it runs at the end of the trace"""

    at_s: int
    ends_s: float
    vcpus: int
    quarters: int


def requests(directory: pathlib.Path) -> Iterator[Request]:
    """The requests in their order."""
    flavors = {}
    for line in (directory / "flav_map.txt").read_text().splitlines():
        size, letter = line.split()
        vcpus, gigabytes = size.split(",")
        flavors[letter] = int(vcpus), round(float(gigabytes) * _QUARTERS)
    begins = [int(line.split()[0]) for line in (directory / "v1.interval_map.txt").read_text().splitlines()]
    lifetimes = [(begin + end) / 2 for begin, end in zip(begins, [*begins[1:], begins[-1]], strict=True)]
    with (directory / "v1.dev.txt").open() as tokens, (directory / "v1.dev.c2100000.txt").open() as lives:
        for line, life in zip(tokens, lives, strict=True):
            at, rest = line.split(" ", 1)
            ends = life.split(" ", 1)[1].strip().split(",")
            for token, end in zip(rest.strip().split(","), ends, strict=True):
                if token and token != _BATCH:
                    last = math.inf if end.startswith("C") else int(at) + lifetimes[int(end[1:])]
                    yield Request(int(at), last, *flavors[token])


def peak(asked: Sequence[Request]) -> tuple[int, int]:
    """Return the most vcpus that run at once, and the number of the request that makes them so."""
    running: list[tuple[float, int]] = []
    most = used = when = 0
    for number, each in enumerate(asked):
        while running and running[0][0] <= each.at_s:
            used -= heapq.heappop(running)[1]
        heapq.heappush(running, (each.ends_s, each.vcpus))
        used += each.vcpus
        if used > most:
            most, when = used, number
    return most, when


def at_its_peak(directory: pathlib.Path, share: float) -> Snapshot:
    """Replay the trace, until most vcpus run, on hosts of which these are this share. Each guest goes to the fullest host.

    Guests of the fullest fleets that find no host are counted, not placed.
    """
    asked = list(requests(directory))
    most, last = peak(asked)
    hosts = math.ceil(most / share / HOST[0])
    found = Snapshot(
        f"trace {share:.0%}",
        {f"host-{number}": [list(HOST)] for number in range(hosts)},
        {f"host-{number}": f"r{number // 20}" for number in range(hosts)},
    )
    free = numpy.tile(numpy.array(HOST), (hosts, 1))
    running: list[tuple[float, int, int]] = []
    placed: dict[int, tuple[Guest, str, tuple[int, ...]]] = {}
    for number, each in enumerate(asked[: last + 1]):
        while running and running[0][0] <= each.at_s:
            _ends, gone, host = heapq.heappop(running)
            free[host] += placed[gone][0].vcpus, placed[gone][0].memory_gb
            del placed[gone]
        size = each.vcpus, each.quarters
        able = numpy.flatnonzero((free >= size).all(axis=1))
        if not len(able):
            found.refused += 1
            continue
        host = int(able[numpy.lexsort((free[able, 1], free[able, 0]))[0]])
        free[host] -= size
        placed[number] = Guest(str(number), 1, *size), f"host-{host}", (0,)
        heapq.heappush(running, (each.ends_s, number, host))
    found.placed.extend(placed.values())
    return found
