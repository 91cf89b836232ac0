# SPDX-License-Identifier: Apache-2.0
"""Many agents that send heartbeats and reports: whether all stay up, and what they cost the broker and the database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet.clock import seconds, utcnow
from fleet.db import models
from fleet.rpc.rabbit import broker
from tests.bench import daemons, figures
from tests.bench.daemons import Daemon, Site

AGENTS = int(os.environ.get("FLEET_BENCH_AGENTS", "10000"))
SECONDS = float(os.environ.get("FLEET_BENCH_AGENTS_SECONDS", "600"))
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
    with daemons.site() as here:
        config = here.config("agents", default=_OPTIONS)
        with here.daemon("conductor", "conductor_stub.main", config) as conductor:
            _measure(here, config, conductor)


def _measure(here: Site, config: str, conductor: Daemon) -> None:
    command = [sys.executable, "-m", "tests.bench.agent_load", "--config-file", config, "--first", "0"]
    command += ["--agents", str(AGENTS), "--seconds", str(SECONDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        began = time.monotonic()
        said = load.stdout.readline()
        assert said == "begun\n", said
        registered_s = time.monotonic() - began
        parts = {"conductor": conductor.process.pid, "load": load.pid, "postgresql": here.server.pid}
        parts["rabbitmq"] = here.broker.pid
        before = _activity(here), {name: daemons.cpu_s(pid) for name, pid in parts.items()}
        began = time.monotonic()
        load.stdin.write("go\n")
        load.stdin.flush()
        looks = _look_on(here, config, began)
        took_s = time.monotonic() - began
        after = _activity(here), {name: daemons.cpu_s(pid) for name, pid in parts.items()}
        answer = json.loads(load.stdout.readline())
    figures.report(
        "agents",
        agents=AGENTS,
        seconds=round(took_s),
        registered_s=round(registered_s, 1),
        down_at_worst=max(look["down"] for look in looks),
        queue_at_worst=max(look["queue"] for look in looks),
        queue_at_end=looks[-1]["queue"],
        late_p99_s=answer["late_p99_s"],
        calls_per_s=round(answer["done"] / took_s, 1),
        **{f"{name}_per_s": round((after[0][name] - before[0][name]) / took_s, 1) for name in before[0]},
        **{f"{name}_cores": round((after[1][name] - before[1][name]) / took_s, 2) for name in parts},
    )


def _look_on(here: Site, config: str, began: float) -> list[dict[str, int]]:
    """How many agents are down, and how many messages wait for a conductor, every few seconds to the end."""
    conf = fleet_conf.load_config(["--config-file", config], prog="look", setup_logging=False, conf=cfg.ConfigOpts())
    looks = []
    with broker.connected(conf) as connection:
        # Who was registered first has waited for the last: all have spoken by then.
        time.sleep(REPORT_INTERVAL_S)
        while time.monotonic() - began < SECONDS - LOOK_EVERY_S:
            time.sleep(LOOK_EVERY_S)
            depth = broker.depths(connection, ["conductor"])["conductor"]
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
