# SPDX-License-Identifier: Apache-2.0
"""The life of one agent process: register, recover, serve, report, stop."""

from __future__ import annotations

import dataclasses
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures

from oslo_log import log as logging

from fleet import context as fleet_context
from fleet.agent import beginning
from fleet.agent.work_queues import WorkQueues
from fleet.rpc import server as rpc_server
from fleet.service import Periodic
from volume_agent.backends.backend import Backend
from volume_agent.ledger.reporter import Reporter
from volume_agent.ledger.volume_calls import VolumeCalls
from volume_agent.manager import BackendManager
from volume_agent.work import recovery

LOG = logging.getLogger(__name__)

#: Threads of a backend's server. One is enough, because an order is only put into a queue.
SERVER_THREADS = 1
#: Seconds between two messages about copies under way. Users look at them; nothing else depends on them.
COPIES_S = 5.0


@dataclasses.dataclass
class ServedBackend:
    """A backend with its server and its queues."""

    backend: Backend
    manager: BackendManager
    server: rpc_server.Server
    queues: WorkQueues
    serving: bool = False


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Seconds between heartbeats, between reports (and comparisons), and for work to end after a stop."""

    heartbeat_s: float
    report_s: float
    stop_s: float = 30.0


class VolumeAgent:
    """Serves several backends with one pool of threads and one reporter.

    The start may take as long as the conductor is away, so it has a thread of its own; ``ready`` is set at its end. A
    backend that cannot be used at the start is tried again at each report, and served from then on. The lock guards the
    set of served backends.
    """

    def __init__(
        self,
        served: Sequence[ServedBackend],
        reporter: Reporter,
        calls: VolumeCalls,
        executor: futures.Executor,
        stopping: threading.Event,
        intervals: Intervals,
        chance: random.Random,
        released: Callable[[], object] = lambda: None,
    ) -> None:
        """``released`` is called when the process serves no backend any more."""
        self.ready = threading.Event()
        self._served = {entry.backend.name: entry for entry in served}
        self._reporter = reporter
        self._calls = calls
        self._executor = executor
        self._stopping = stopping
        self._stop_s = intervals.stop_s
        self._released = released
        # Jitter: agents started at the same time must not report at the same time for ever.
        self._periodics = [
            Periodic("heartbeat", reporter.heartbeat, intervals.heartbeat_s, chance.uniform(0, intervals.heartbeat_s)),
            Periodic("report", self._report, intervals.report_s, chance.uniform(0, intervals.report_s)),
            Periodic("comparison", self._compare, intervals.report_s, chance.uniform(0, intervals.report_s)),
            Periodic("copies", reporter.report_copies, COPIES_S, chance.uniform(0, COPIES_S)),
        ]
        self._lock = threading.Lock()
        self._beginning = threading.Thread(
            target=beginning.begin, args=(self._begin_once, stopping), name="agent-begin", daemon=True
        )

    def start(self) -> None:
        self._beginning.start()

    def stop(self) -> None:
        self._stopping.set()
        for periodic in self._periodics:
            periodic.stop()
        if self.ready.is_set():
            self._reporter.leave()
        for name in list(self._served):
            self._stop_serving(name)

    def wait(self) -> None:
        end = time.monotonic() + self._stop_s
        self._beginning.join(self._stop_s)
        for entry in self._served.values():
            if not entry.queues.wait(max(0.0, end - time.monotonic())):
                LOG.warning("Work on backend %s has not ended after %s s", entry.backend.name, self._stop_s)
        for periodic in self._periodics:
            periodic.wait()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._released()

    def superseded(self, name: str, reason: str) -> None:
        """Stop serving a backend at once: another process serves it now."""
        if self._stop_serving(name):
            LOG.error("%s This process stops serving it.", reason)
        self._reporter.forget(name)

    def _begin_once(self) -> None:
        self._reporter.register()
        self._report()
        for periodic in self._periodics:
            periodic.start()
        LOG.info("Serving %d backends", sum(entry.serving for entry in self._served.values()))
        self.ready.set()

    def _report(self) -> None:
        """Serve backends that were not usable until now, and report all pools.

        Queues before reports: a reported pool may be chosen, and an order without a queue fails.
        """
        for entry in list(self._served.values()):
            if not entry.serving and not self._stopping.is_set():
                self._serve(entry)
        self._reporter.report()

    def _compare(self) -> None:
        for entry in list(self._served.values()):
            if entry.serving:
                recovery.remove_left(fleet_context.new_context(), entry.backend, self._calls, entry.queues)

    def _serve(self, entry: ServedBackend) -> None:
        backend = entry.backend
        try:
            recovery.recover(fleet_context.new_context(), backend, self._calls, entry.manager.order)
        except OSError as failure:
            LOG.error("Backend %s cannot be used: %s", backend.name, failure)
            return
        with self._lock:
            if not self._stopping.is_set():
                entry.server.start(override_pool_size=SERVER_THREADS)
                entry.serving = True

    def _stop_serving(self, name: str) -> bool:
        """Return True if the backend was served until now."""
        with self._lock:
            entry = self._served[name]
            was_serving, entry.serving = entry.serving, False
        entry.queues.close()
        if was_serving:
            entry.server.stop()
            entry.server.wait()
        return was_serving
