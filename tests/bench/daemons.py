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
from collections.abc import Callable, Iterator

import psutil

from fleet.db.engine.database import Database
from fleet_trial import private_servers
from tests.amqp.daemons import eventually
from tests.bench import databases

STOP_S = 20
#: Many processes may start at the same time.
READY_S = 180
#: Each worker logs it when it serves.
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
    """Broker and database ``server`` of one measurement, and a directory for configuration files and logs."""

    directory: pathlib.Path
    broker: private_servers.RabbitMQ
    server: databases.Server

    @property
    def database(self) -> Database:
        return self.server.database

    def config(self, name: str, default: str = "", more: str = "") -> str:
        """Write a configuration file; returns its path."""
        path = self.directory / f"{name}.conf"
        urls = {"transport_url": self.broker.url, "database_url": self.server.url}
        path.write_text(_CONFIG.format(default=default, more=more, **urls))
        return str(path)

    @contextlib.contextmanager
    def daemon(self, name: str, module: str, config: str, *arguments: str, workers: int = 1) -> Iterator[Daemon]:
        """Run ``python -m module`` in a session of its own; yield it when all its workers serve."""
        with self.starting(name, module, config, *arguments) as daemon:
            daemon.await_ready(workers)
            yield daemon

    @contextlib.contextmanager
    def starting(self, name: str, module: str, config: str, *arguments: str) -> Iterator[Daemon]:
        """As :meth:`daemon`, but yield it at once."""
        command = [sys.executable, "-m", module, "--config-file", config, *arguments]
        path = self.directory / f"{name}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield Daemon(name, process, path)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@dataclasses.dataclass(frozen=True)
class Daemon:
    name: str
    process: subprocess.Popen
    log: pathlib.Path

    def await_ready(self, workers: int = 1) -> None:
        """Return when ``workers`` of the daemon serve. :raises RuntimeError: the daemon has ended"""
        eventually(lambda: self._is_ready(workers), READY_S)

    def _is_ready(self, workers: int) -> bool:
        written = self.log.read_text(errors="replace")
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} has ended before it was ready:\n{written[-2000:]}")
        return written.count(_READY) >= workers

    def family(self) -> list[psutil.Process]:
        """The process and all that it has started."""
        return family(self.process.pid)

    def cpu_s(self) -> float:
        """Of the whole family so far."""
        return cpu_s(self.process.pid)

    def worker_rss_mb(self) -> float:
        """Of the largest worker; of the process itself, if it has none."""
        parent, *workers = self.family()
        return max(each.memory_info().rss for each in workers or [parent]) / 2**20

    def pss_mb(self) -> float:
        """Of the whole family. A page that several processes share counts in parts."""
        return sum(each.memory_full_info().pss for each in self.family()) / 2**20


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
def site(
    kind: str = "postgresql", database: Callable[[], contextlib.AbstractContextManager[databases.Server]] | None = None
) -> Iterator[Site]:
    """:param kind: of the database, from ``databases.SERVERS``
    :param database: runs one that is not among them
    """
    with (
        tempfile.TemporaryDirectory(prefix="fleet-bench-") as directory,
        private_servers.rabbitmq_node() as broker,
        (database or databases.SERVERS[kind])() as server,
    ):
        yield Site(pathlib.Path(directory), broker, server)
