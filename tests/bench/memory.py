# SPDX-License-Identifier: Apache-2.0
"""Memory of a cache: what the process grows by for each host, beyond interpreter and imports."""

from __future__ import annotations

import functools
import gc
import multiprocessing
import pathlib
import random
from multiprocessing.connection import Connection

import psutil

from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine.decide import decide
from scheduler.engine.pipeline import prepare
from scheduler.engine.request_cache import RequestCache
from tests import factories
from tests.bench import figures, fleets
from tests.bench.decision import default_pipeline
from tests.clock import FakeClock

SIZES = (10_000, 100_000)


def run() -> None:
    for hosts in SIZES:
        # A process of its own: nothing else has grown or fragmented it.
        mine, theirs = multiprocessing.get_context("spawn").Pipe()
        worker = multiprocessing.get_context("spawn").Process(target=_measure, args=(hosts, theirs))
        worker.start()
        before, after, peak = mine.recv()
        worker.join()
        figures.report(
            "memory",
            hosts=hosts,
            bytes_per_host=round((after - before) / hosts),
            rss_mb=round(after / 2**20, 1),
            peak_mb=round(peak / 2**20, 1),
        )


def _measure(hosts: int, answer: Connection) -> None:
    """The hosts are read in pages, so that the test's own copies do not count."""
    gc.collect()
    before = psutil.Process().memory_info().rss
    manager = HostManager(_Paged(hosts), _Paged(hosts), clock=FakeClock(factories.NOW))
    for _page in range(hosts // _Paged.PAGE):
        manager.refresh()
    _decide(manager)
    gc.collect()
    assert manager.counts()["nodes"] == hosts
    after = psutil.Process().memory_info().rss
    answer.send((before, after, _peak()))


def _decide(manager: HostManager) -> None:
    """Requests of several shapes: what is remembered of them counts, too."""
    pipeline, cache = default_pipeline(), RequestCache()
    for number in range(12):
        asked = factories.request({"memory_mb": 1024 * (1 + number % 4)})
        work = functools.partial(decide, pipeline, prepare(pipeline, asked), chance=random.Random(1), cache=cache)
        manager.decide(work, asked.instance_uuids)


def _peak() -> int:
    """Bytes. Of this program only: getrusage would count what the process was before it became this one."""
    status = pathlib.Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


class _Paged:
    """A feed that returns a thousand hosts at a time."""

    PAGE = 1_000

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts

    def read(self, since: int) -> object:
        import random

        chance = random.Random(since)
        numbers = range(since * self.PAGE, (since + 1) * self.PAGE)
        nodes = [fleets.make_node(number, chance) for number in numbers]
        return factories.changes(nodes, generation=since + 1)
