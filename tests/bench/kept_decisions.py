# SPDX-License-Identifier: Apache-2.0
"""What keeping decisions costs: time of the deciding thread, and processor time with the thread that writes."""

from __future__ import annotations

import pathlib
import statistics
import tempfile
import time

from fleet.context import RequestContext
from scheduler.compute.drivers.kept_decisions import KeptDecisions
from scheduler.why.decisions.store import DecisionStore
from tests.bench import decision, figures

SIZES = (1_000, 10_000)
TURNS, DECISIONS = 10, 40


def run() -> None:
    for hosts in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            _measure(hosts, pathlib.Path(directory))


def _measure(hosts: int, directory: pathlib.Path) -> None:
    """In turns with and without; before each decision some hosts change."""
    bench = decision.Bench(hosts)
    store = DecisionStore(str(directory / "decisions.db"), 100_000, 7, time.time)
    kept, context = KeptDecisions(store, "bench"), RequestContext(overwrite=False)
    spent: dict[bool, list[float]] = {False: [], True: []}
    waited: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(2 * TURNS):
        keeps, began = bool(turn % 2), time.process_time()
        for number in range(DECISIONS):
            bench.feed.change(decision.CHANGED)
            bench.manager.refresh()
            request = bench.request(number)
            started = time.perf_counter()
            made = bench.decide(request)
            if keeps:
                kept.keep(context, request, made)
            waited[keeps].append(time.perf_counter() - started)
            bench.manager.release(request.instance_uuids)
        store.wait()
        spent[keeps].append((time.process_time() - began) / DECISIONS)
    figures.report(
        "decisions",
        hosts=hosts,
        decision_ms=round(statistics.median(waited[False]) * 1e3, 3),
        thread_ratio=round(statistics.median(waited[True]) / statistics.median(waited[False]), 2),
        cpu_ms=round(statistics.median(spent[False]) * 1e3, 3),
        cpu_ratio=round(statistics.median(spent[True]) / statistics.median(spent[False]), 2),
        bytes_each=round((directory / "decisions.db").stat().st_size / (TURNS * DECISIONS)),
    )
