# SPDX-License-Identifier: Apache-2.0
"""Builds a second, and the latency of one build, by the latency of a commit.

``commit_delay`` with ``commit_siblings = 0`` makes each flush of PostgreSQL's write-ahead log wait. It stands for a disk,
or for a synchronous standby, of this latency: transactions that commit meanwhile share the flush. ``commit_ms`` of a line
is the latency of a commit that was measured alone. Two real clusters follow: a synchronous standby, and Galera with a
conductor on each of two nodes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator

import sqlalchemy as sa

from tests.bench import builds, databases
from tests.bench.daemons import site

#: Milliseconds that each flush waits, separated by commas.
DELAYS_MS = os.environ.get("FLEET_BENCH_COMMIT_MS", "0,2,5,10,20")
#: Conductors, separated by commas.
CONDUCTORS = os.environ.get("FLEET_BENCH_CONDUCTORS", "1,2")
#: ``delay`` and clusters, separated by commas.
SERVERS = os.environ.get("FLEET_BENCH_COMMIT_SERVERS", "delay,synchronous,galera")
AGENTS = 24
_ALONE = 50

Opening = Callable[[], contextlib.AbstractContextManager[databases.Server]]


def run() -> None:
    for name, opened, shape in _cases():
        with site(database=opened) as here:
            builds.measure(here, shape, server=name, commit_ms=_commit_ms(here.server))


def _cases() -> Iterator[tuple[str, Opening, builds.Shape]]:
    chosen, numbers = SERVERS.split(","), [int(each) for each in CONDUCTORS.split(",")]
    if "delay" in chosen:
        for conductors in numbers:
            for delay_ms in map(float, DELAYS_MS.split(",")):
                settings = {"fsync": "on", "commit_siblings": "0", "commit_delay": str(int(delay_ms * 1_000))}
                opened = functools.partial(databases.postgresql, settings)
                yield f"delay of {delay_ms:g} ms", opened, builds.Shape(AGENTS, conductors=conductors)
    clusters = (("synchronous", databases.synchronous, "postgresql"), ("galera", databases.galera, "mariadb"))
    for name, opened, kind in clusters:
        if name in chosen:
            for conductors in numbers:
                yield name, opened, builds.Shape(AGENTS, server=kind, conductors=conductors)


def _commit_ms(server: databases.Server) -> float:
    """Return the median latency of a commit of one row, with nothing else under way, in milliseconds."""
    took = []
    with server.database.engine.connect() as connection:
        connection.execute(sa.text("CREATE TABLE bench_commits (id INTEGER PRIMARY KEY, value INTEGER)"))
        connection.execute(sa.text("INSERT INTO bench_commits VALUES (1, 0)"))
        connection.commit()
        for number in range(_ALONE):
            connection.execute(sa.text("UPDATE bench_commits SET value = :number WHERE id = 1"), {"number": number})
            began = time.perf_counter()
            connection.commit()
            took.append(time.perf_counter() - began)
    return round(statistics.median(took) * 1e3, 2)
