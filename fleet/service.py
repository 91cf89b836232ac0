# SPDX-License-Identifier: Apache-2.0
"""Daemon life: start, serve, heartbeat, bounded stop. One worker process is one ``Service``."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Protocol

from oslo_config import cfg
from oslo_log import log as logging
from oslo_service import opts as oslo_service_opts
from oslo_service import service as oslo_service

LOG = logging.getLogger(__name__)

#: Longer than stop_timeout by this, a process that cannot end by itself is killed.
KILL_MARGIN_S = 5


class Server(Protocol):
    """What a service runs: an RPC server, a periodic loop, anything that starts and stops."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def wait(self) -> None: ...


class Periodic:
    """Calls ``work`` every ``interval_s`` seconds in a thread of its own, the first time after ``initial_s``.

    An exception is logged and the next round comes all the same.
    """

    def __init__(self, name: str, work: Callable[[], object], interval_s: float, initial_s: float = 0.0) -> None:
        self._name = name
        self._work = work
        self._interval_s = interval_s
        self._initial_s = initial_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join(timeout=10)

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        delay = self._initial_s
        while not self._stopping.wait(delay):
            try:
                self._work()
            except Exception:
                LOG.exception("Periodic task %s failed; next try in %s s", self._name, self._interval_s)
            delay = self._interval_s


class FleetService(oslo_service.Service):
    """Runs ``servers`` that ``build`` returns; ``build`` is called in the worker process, after the fork."""

    def __init__(self, name: str, build: Callable[[], Sequence[Server]]) -> None:
        super().__init__()
        self._name = name
        self._build = build
        self._servers: list[Server] = []
        self._stopped = threading.Event()

    def start(self) -> None:
        LOG.info("Starting %s", self._name)
        self._servers = list(self._build())
        for server in self._servers:
            server.start()
        LOG.info("%s is ready", self._name)

    def stop(self, graceful: bool = True) -> None:
        LOG.info("Stopping %s", self._name)
        for server in self._servers:
            server.stop()
        # Side by side: an idle executor takes up to a second to notice, each server's in turn.
        with futures.ThreadPoolExecutor(max(len(self._servers), 1)) as waiters:
            list(waiters.map(lambda server: server.wait(), self._servers))
        self._stopped.set()
        super().stop(graceful)

    def wait(self) -> None:
        self._stopped.wait()


def launch(conf: cfg.ConfigOpts, name: str, build: Callable[[], Sequence[Server]], workers: int = 1) -> int:
    """Run the daemon until it is told to stop, and then ends within ``stop_timeout``; returns its exit status."""
    oslo_service_opts.register_service_opts(conf)
    conf.set_default("graceful_shutdown_timeout", conf.stop_timeout + KILL_MARGIN_S)
    launcher = oslo_service.launch(conf, FleetService(name, build), workers=workers, restart_method="mutate")
    return launcher.wait() or 0


def new_incarnation() -> str:
    """Names one life of a process: a message from an earlier life of the same host is recognised by it."""
    return uuid.uuid4().hex
