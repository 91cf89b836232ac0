# SPDX-License-Identifier: Apache-2.0
"""Guests of a published trace of requests, replayed until most of them run. The benches for losses and admission use it.

The environment names the trace, its lifetimes and their maps as for ``packing``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy

from tests.bench import packing
from tests.bench.snapshots import Guest, Snapshot

#: vcpus and memory of a host. Memory is counted in quarters of a GB: the smallest flavor has three of them.
HOST = (64, 4 * 256)
_QUARTER_MB = 256


class Request(NamedTuple):
    """:param ends_s: when the guest ends; infinity: it runs at the end of the trace"""

    at_s: float
    ends_s: float
    vcpus: int
    quarters: int


def requests() -> Iterator[Request]:
    """Return the requests of single guests, in their order."""
    for each in packing.demands():
        flavor = each.request_spec["instance_type"]
        for life_s in each.lifetimes_s:
            ends_s = math.inf if life_s is None else each.at_s + life_s
            yield Request(each.at_s, ends_s, flavor["vcpus"], round(flavor["memory_mb"] / _QUARTER_MB))


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


def at_its_peak(share: float) -> Snapshot:
    """Replay the trace, until most vcpus run, on hosts of which these are this share. Each guest goes to the fullest host.

    Guests that find no host are counted, not placed.
    """
    asked = list(requests())
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
