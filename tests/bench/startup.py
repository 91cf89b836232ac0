# SPDX-License-Identifier: Apache-2.0
"""From starting a process to its first answer, with 10,000 hosts in PostgreSQL."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

from fleet_trial import private_servers
from tests.bench import figures, ledger
from tests.functional import databases

HOSTS = 10_000
ROUNDS = 5


def run() -> None:
    with private_servers.postgresql() as url, databases.open_database(url).disposed() as database:
        ledger.fill(database, HOSTS)
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
