# SPDX-License-Identifier: Apache-2.0
"""Real daemons for a measurement, on a private broker and database: started, watched for what they cost, and stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import psutil

from fleet.db.engine import Database
from fleet.trial import private_servers
from tests.amqp.daemons import eventually
from tests.functional import databases

STOP_S = 20
#: What each worker says when it serves.
_READY = " is ready"

_CONFIG = """\
[DEFAULT]
transport_url = {transport_url}
# The hosts of a filled database send no heartbeats.
service_down_time = 86400
{default}
[database]
connection = {database_url}
{more}"""


@dataclasses.dataclass
class Site:
    """``broker`` and ``database`` of one measurement, and a directory for configuration files and logs."""

    directory: pathlib.Path
    broker: private_servers.RabbitMQ
    postgresql: private_servers.PostgreSQL
    database: Database

    def config(self, name: str, default: str = "", more: str = "") -> str:
        """Write a configuration file; returns its path."""
        path = self.directory / f"{name}.conf"
        urls = {"transport_url": self.broker.url, "database_url": self.postgresql.url()}
        path.write_text(_CONFIG.format(default=default, more=more, **urls))
        return str(path)

    @contextlib.contextmanager
    def daemon(self, name: str, module: str, config: str, *arguments: str, workers: int = 1) -> Iterator[Daemon]:
        """``python -m module``, in a session of its own; as soon as all its workers serve."""
        command = [sys.executable, "-m", module, "--config-file", config, *arguments]
        path = self.directory / f"{name}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            eventually(lambda: _is_ready(process, path, workers))
            yield Daemon(name, process)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _is_ready(process: subprocess.Popen, path: pathlib.Path, workers: int) -> bool:
    said = path.read_text(errors="replace")
    if process.poll() is not None:
        raise RuntimeError(f"It has ended before it was ready:\n{said[-2000:]}")
    return said.count(_READY) >= workers


@dataclasses.dataclass(frozen=True)
class Daemon:
    name: str
    process: subprocess.Popen

    def family(self) -> list[psutil.Process]:
        """The process and all that it has started."""
        return family(self.process.pid)

    def cpu_s(self) -> float:
        """Of the whole family so far."""
        return cpu_s(self.process.pid)

    def worker_rss_mb(self) -> float:
        """Of the largest of the family: a worker, where there are some."""
        return max(each.memory_info().rss for each in self.family()) / 2**20


def family(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def cpu_s(pid: int) -> float:
    """Seconds that a process and its descendants have used, those that have ended included."""
    total = 0.0
    for each in family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


@contextlib.contextmanager
def site() -> Iterator[Site]:
    with (
        tempfile.TemporaryDirectory(prefix="fleet-bench-") as directory,
        private_servers.rabbitmq_node() as broker,
        private_servers.postgresql_server() as postgresql,
        databases.open_database(postgresql.url()).disposed() as database,
    ):
        yield Site(pathlib.Path(directory), broker, postgresql, database)
