# SPDX-License-Identifier: Apache-2.0
"""Many agents that send heartbeats and reports: whether all stay up, what they cost, and how soon all are up again after the
conductor was away.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet.clock import seconds, utcnow
from fleet.db.tables import models
from fleet.rpc import ledger_queue
from fleet.rpc.rabbit import broker
from tests.amqp.daemons import eventually
from tests.bench import daemons, figures
from tests.bench.daemons import Daemon, Site

AGENTS = int(os.environ.get("FLEET_BENCH_AGENTS", "10000"))
SECONDS = float(os.environ.get("FLEET_BENCH_AGENTS_SECONDS", "600"))
#: That speak for the agents.
PROCESSES = 4
DOWN_TIME_S = 60
REPORT_INTERVAL_S = 30
LOOK_EVERY_S = 5.0
_OPTIONS = f"""\
service_down_time = {DOWN_TIME_S}
report_interval = {REPORT_INTERVAL_S}
update_resources_interval = 60
"""
_ACTIVITY = sa.text(
    "SELECT xact_commit AS commits, tup_updated + tup_inserted AS rows FROM pg_stat_database "
    "WHERE datname = current_database()"
)


def run() -> None:
    with daemons.site() as here, contextlib.ExitStack() as running:
        config = here.config("agents", default=_OPTIONS)
        conductor = running.enter_context(here.daemon("conductor", "conductor_stub.main", config))
        began = time.monotonic()
        loads = [running.enter_context(_load(config, number)) for number in range(PROCESSES)]
        for load in loads:
            _expect(load, "begun\n")
        figures.report("agents_register", agents=AGENTS, registered_s=round(time.monotonic() - began, 1))
        _measure(here, config, conductor, loads)
        _measure_storm(here, config, conductor)


@contextlib.contextmanager
def _load(config: str, number: int) -> Iterator[subprocess.Popen[str]]:
    """Run a process that speaks for its share of the agents, until the end of the block."""
    share = AGENTS // PROCESSES
    command = [sys.executable, "-m", "tests.bench.agent_load", "--config-file", config, "--first", str(number * share)]
    command += ["--agents", str(share), "--seconds", str(SECONDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _expect(load: subprocess.Popen[str], line: str) -> None:
    assert load.stdout is not None
    said = load.stdout.readline()
    assert said == line, said


def _measure(here: Site, config: str, conductor: Daemon, loads: Sequence[subprocess.Popen[str]]) -> None:
    """While all is well."""
    parts = {"conductor": [conductor.process.pid], "load": [load.pid for load in loads]}
    parts |= {"postgresql": [here.server.pid], "rabbitmq": [here.broker.pid]}
    before = _activity(here), _cpu_s(parts)
    began = time.monotonic()
    for load in loads:
        assert load.stdin is not None
        load.stdin.write("go\n")
        load.stdin.flush()
    looks = _look_on(here, config, began)
    took_s = time.monotonic() - began
    after = _activity(here), _cpu_s(parts)
    answers = [json.loads(load.stdout.readline()) for load in loads if load.stdout is not None]
    worker = conductor.family()[-1]
    figures.report(
        "agents",
        agents=AGENTS,
        seconds=round(took_s),
        down_at_worst=max(look["down"] for look in looks),
        queue_at_worst=max(look["queue"] for look in looks),
        queue_at_end=looks[-1]["queue"],
        late_p99_s=max(answer["late_p99_s"] for answer in answers),
        calls_per_s=round(sum(answer["done"] for answer in answers) / took_s, 1),
        **{f"{name}_per_s": round((after[0][name] - before[0][name]) / took_s, 1) for name in before[0]},
        **{f"{name}_cores": round((after[1][name] - before[1][name]) / took_s, 2) for name in parts},
        conductor_rss_mb=round(conductor.worker_rss_mb(), 1),
        conductor_threads=worker.num_threads(),
    )


def _measure_storm(here: Site, config: str, conductor: Daemon) -> None:
    """A conductor is killed until all agents are down; another one starts, to which all of them speak at once."""
    os.killpg(conductor.process.pid, signal.SIGKILL)
    eventually(lambda: _down(here) == AGENTS, timeout_s=3 * DOWN_TIME_S)
    began = time.monotonic()
    with here.daemon("conductor-2", "conductor_stub.main", config) as following:
        ready_s = time.monotonic() - began
        eventually(lambda: _down(here) == 0, timeout_s=600)
        figures.report(
            "agents_storm",
            agents=AGENTS,
            conductor_ready_s=round(ready_s, 1),
            nobody_down_s=round(time.monotonic() - began, 1),
            conductor_rss_mb=round(following.worker_rss_mb(), 1),
            conductor_threads=following.family()[-1].num_threads(),
        )


def _cpu_s(parts: Mapping[str, Sequence[int]]) -> dict[str, float]:
    return {name: sum(daemons.cpu_s(pid) for pid in pids) for name, pids in parts.items()}


def _look_on(here: Site, config: str, began: float) -> list[dict[str, int]]:
    """How many agents are down, and how many messages wait for a conductor, every few seconds to the end."""
    conf = fleet_conf.load_config(["--config-file", config], prog="look", setup_logging=False, conf=cfg.ConfigOpts())
    looks = []
    with broker.connected(conf) as connection:
        # Who was registered first has waited for the last: all have spoken by then.
        time.sleep(REPORT_INTERVAL_S)
        while time.monotonic() - began < SECONDS - LOOK_EVERY_S:
            time.sleep(LOOK_EVERY_S)
            depth = broker.depths(connection, [ledger_queue.TOPIC])[ledger_queue.TOPIC]
            looks.append({"down": _down(here), "queue": depth.messages if depth else -1})
    return looks


def _down(here: Site) -> int:
    services = models.services
    alive = sa.select(sa.func.count()).where(
        services.c.binary == "fleet-compute", services.c.last_seen_up >= utcnow() - seconds(DOWN_TIME_S)
    )
    with here.database.engine.connect() as connection:
        return AGENTS - connection.execute(alive).scalar_one()


def _activity(here: Site) -> dict[str, Any]:
    """Transactions and rows written so far. The server counts with a delay of up to a second."""
    with here.database.engine.connect() as connection:
        return dict(connection.execute(_ACTIVITY).mappings().one())
