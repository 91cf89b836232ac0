# SPDX-License-Identifier: Apache-2.0
"""From starting a process to its first answer, with 10,000 hosts in PostgreSQL."""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from fleet.cli import private_servers
from fleet.clock import utcnow
from fleet.db import models
from fleet.db.engine import Database
from tests.bench import figures, fleets
from tests.factories import Node
from tests.functional import databases

HOSTS = 10_000
ROUNDS = 5


def run() -> None:
    with private_servers.postgresql() as url, databases.open_database(url).disposed() as database:
        _fill(database)
        totals, inside = [], []
        for _round in range(ROUNDS):
            began = time.perf_counter()
            answer = _first_answer(url)
            totals.append(time.perf_counter() - began)
            inside.append(answer["ready_s"])
        figures.report(
            "startup",
            hosts=HOSTS,
            process_to_answer_s=round(figures.Times(totals).median_s, 2),
            load_and_answer_s=round(figures.Times(inside).median_s, 2),
            considered=answer["considered"],
        )


def _first_answer(url: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory) / "fleet.conf"
        config.write_text(f"[database]\nconnection = {url}\n")
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.first_answer", "--config-file", str(config)],
            check=True,
            capture_output=True,
            text=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def _fill(database: Database) -> None:
    chance, now = random.Random(1), utcnow()
    nodes = [fleets.make_node(number, chance) for number in range(HOSTS)]
    with database.engine.begin() as connection:
        connection.execute(models.compute_nodes.insert(), list(_node_rows(nodes, now)))
        connection.execute(models.services.insert(), list(_service_rows(nodes, now)))
        connection.execute(models.generations.update().values(value=2))


def _node_rows(nodes: list[Node], now: Any) -> Iterator[dict[str, Any]]:
    columns = set(models.compute_nodes.columns.keys()) - {"id"}
    for node in nodes:
        values = {name: value for name, value in vars(node).items() if name in columns}
        yield {**values, "created_at": now, "updated_at": now, "generation": 2, "deleted": False}


def _service_rows(nodes: list[Node], now: Any) -> Iterator[dict[str, Any]]:
    for node in nodes:
        yield {
            "host": node.host,
            "binary": "fleet-compute",
            "topic": "compute",
            "disabled": False,
            "last_seen_up": now,
            "created_at": now,
            "generation": 2,
        }
