# SPDX-License-Identifier: Apache-2.0
"""Builds a second, and the latency of one build, by the latency of a commit of PostgreSQL.

``commit_delay`` with ``commit_siblings = 0`` makes each flush of the write-ahead log wait. It stands for a disk or for a
synchronous standby of this latency: transactions that commit meanwhile share the flush.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tests.bench import builds, databases
from tests.bench.daemons import site

#: Milliseconds that each flush waits, separated by commas.
DELAYS_MS = os.environ.get("FLEET_BENCH_COMMIT_MS", "0,2,5,10")
#: Conductors, separated by commas.
CONDUCTORS = os.environ.get("FLEET_BENCH_CONDUCTORS", "1,2")
AGENTS = 24


def run() -> None:
    for delay_ms, shape in _cases():
        settings = {"fsync": "on", "commit_siblings": "0", "commit_delay": str(int(delay_ms * 1_000))}
        with site(database=lambda settings=settings: databases.postgresql(settings)) as here:
            builds.measure(here, shape, commit_ms=delay_ms)


def _cases() -> Iterator[tuple[float, builds.Shape]]:
    for conductors in map(int, CONDUCTORS.split(",")):
        for delay_ms in map(float, DELAYS_MS.split(",")):
            yield delay_ms, builds.Shape(AGENTS, conductors=conductors)
