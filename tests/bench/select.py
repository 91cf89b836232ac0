# SPDX-License-Identifier: Apache-2.0
"""``select_destinations`` through a real broker, beside an echo that oslo.messaging answers with the same payloads."""

from __future__ import annotations

import itertools
import json
import os
import random
import statistics

from tests.bench import echo, figures, ledger
from tests.bench.callers import Caller, crowd
from tests.bench.daemons import Daemon, Site, site

SIZES = (100, 1_000, 10_000, 100_000)
#: Calls of the scheduler or the echo, one after the other, before it is the other's turn; the first ones warm the caches.
ROUNDS, CALLS, WARM = 30, 15, 3
WORKERS = (1, 2)
#: As many callers as keep every part busy, on few processors.
CALLER_PROCESSES, CALLER_THREADS = 2, 4
TURNS, TURN_S = 5, 2.0


def run() -> None:
    for hosts in SIZES:
        with site() as here:
            ledger.fill(here.database, hosts)
            for workers in WORKERS:
                _measure(here, hosts, workers)


def _measure(here: Site, hosts: int, workers: int) -> None:
    config = here.config(f"select{workers}", default=f"scheduler_workers = {workers}")
    caller = Caller(config)
    with here.daemon("scheduler", "scheduler.main", config, workers=workers) as scheduler:
        answer = caller.ask("scheduler")
        path = here.directory / "answer.json"
        path.write_text(json.dumps(answer))
        os.environ[echo.ANSWER] = str(path)
        with here.daemon("echo", "tests.bench.echo", config, workers=workers) as echoing:
            if workers == 1:
                _latency(here, hosts, caller, scheduler, echoing)
            _throughput(config, hosts, workers, scheduler, echoing)
            figures.report("select_memory", hosts=hosts, workers=workers, rss_mb=round(scheduler.worker_rss_mb(), 1))
    caller.close()


def _latency(here: Site, hosts: int, caller: Caller, scheduler: Daemon, echoing: Daemon) -> None:
    """In turns, and in turns the first; before each call one host in the database changes, as a build would change it."""
    times: dict[str, list[float]] = {"scheduler": [], "echo": []}
    orders = itertools.cycle((list(times), list(times)[::-1]))
    chance = random.Random(1)
    for _warming in range(20):
        caller.ask("scheduler")
        caller.ask("echo")
    used = {"scheduler": -scheduler.cpu_s(), "echo": -echoing.cpu_s()}
    for _round in range(ROUNDS):
        for whom in next(orders):
            took_s = []
            for _call in range(CALLS):
                ledger.change(here.database, [chance.randrange(hosts)])
                took_s.append(caller.timed(whom))
            times[whom] += took_s[WARM:]
    used["scheduler"] += scheduler.cpu_s()
    used["echo"] += echoing.cpu_s()
    asked, echoed = figures.Times(times["scheduler"]), figures.Times(times["echo"])
    figures.report(
        "select",
        hosts=hosts,
        **asked.to_line(),
        **{f"echo_{name}": value for name, value in echoed.to_line().items()},
        ratio_median=round(asked.median_s / echoed.median_s, 2),
        ratio_p95=round(asked.p95_s / echoed.p95_s, 2),
        **{f"{whom}_cpu_ms": round(spent / ROUNDS / CALLS * 1e3, 3) for whom, spent in used.items()},
    )


def _throughput(config: str, hosts: int, workers: int, scheduler: Daemon, echoing: Daemon) -> None:
    """In turns, so that whatever else the machine does meets both."""
    with crowd(config, CALLER_PROCESSES, CALLER_THREADS) as callers:
        for whom in ("scheduler", "echo"):
            callers.per_second(whom, 0.5)
        turns = [
            (callers.per_second("scheduler", TURN_S), callers.per_second("echo", TURN_S)) for _turn in range(TURNS)
        ]
    figures.report(
        "select_throughput",
        hosts=hosts,
        workers=workers,
        per_s=round(statistics.median(asked for asked, _echoed in turns), 1),
        echo_per_s=round(statistics.median(echoed for _asked, echoed in turns), 1),
        ratio=round(statistics.median(asked / echoed for asked, echoed in turns), 2),
    )
