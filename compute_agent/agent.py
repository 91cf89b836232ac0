# SPDX-License-Identifier: Apache-2.0
"""The life of one agent process: register, recover, serve, report, stop."""

from __future__ import annotations

import dataclasses
import functools
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures

from oslo_log import log as logging

from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.instance_info import InstanceInfo
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.ledger.reporter import Reporter
from compute_agent.node.host import Host
from compute_agent.work import comparison, recovery
from compute_agent.work.power_sync import PowerSync
from fleet import context as fleet_context
from fleet.agent import beginning
from fleet.agent.work_queues import WorkQueues
from fleet.rpc import server as rpc_server
from fleet.service import Periodic

LOG = logging.getLogger(__name__)

#: Threads of a host's server. One is enough, because an order is only put into a queue.
SERVER_THREADS = 1
STOP_THREADS = 32
#: Calls to the conductor at a time that hand back builds not yet begun.
HAND_BACK_THREADS = 8


@dataclasses.dataclass
class ServedHost:
    """A host with its server and its queues."""

    host: Host
    server: rpc_server.Server
    queues: WorkQueues
    serving: bool = False


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Seconds between heartbeats, between audits and between instance syncs, and for running builds to end after a stop.

    The next agent, or the sweeper, finds builds that have not ended by then. Without a sync interval there is one
    sync at start.
    """

    heartbeat_s: float
    audit_s: float
    stop_s: float = 30.0
    sync_s: float = 0.0


class Agent:
    """Serves several hosts with one pool of threads and one reporter.

    The start may take as long as the conductor is away, so it has a thread of its own; ``ready`` is set at its end.
    The lock guards the set of served hosts.
    """

    def __init__(
        self,
        served: Sequence[ServedHost],
        reporter: Reporter,
        calls: BuildCalls,
        executor: futures.Executor,
        stopping: threading.Event,
        intervals: Intervals,
        chance: random.Random,
        released: Callable[[], object] = lambda: None,
        told: InstanceInfo | None = None,
        moves: MoveCalls | None = None,
        guests: PowerSync | None = None,
    ) -> None:
        """``released`` is called when the process serves no host any more."""
        self.ready = threading.Event()
        self._served = {entry.host.name: entry for entry in served}
        self._reporter = reporter
        self._calls = calls
        self._moves = moves
        self._guests = guests
        self._executor = executor
        self._stopping = stopping
        self._stop_s = intervals.stop_s
        self._left = False
        self._released = released
        self._handing_back = futures.ThreadPoolExecutor(HAND_BACK_THREADS, "hand-back")
        # Jitter: agents started at the same time must not report at the same time for ever.
        self._periodics = [
            Periodic("heartbeat", reporter.heartbeat, intervals.heartbeat_s, chance.uniform(0, intervals.heartbeat_s)),
            Periodic("audit", self._audit, intervals.audit_s, chance.uniform(0, intervals.audit_s)),
        ]
        self._told = told or InstanceInfo()
        if intervals.sync_s > 0:
            first = chance.uniform(0, intervals.sync_s)
            self._periodics.append(Periodic("instance sync", self._sync, intervals.sync_s, first))
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
            # First, so that a build handed back now is not sent here again.
            self._reporter.leave(idle=False)
        # In parallel: a listener may take a second to stop, and many hosts would exceed any stop limit.
        with futures.ThreadPoolExecutor(min(len(self._served), STOP_THREADS), "agent-stop") as together:
            list(together.map(self._stop_serving, list(self._served)))
        # The heartbeats go on while builds do, so that the conductor does not treat them as lost.
        self._left = all(entry.queues.wait(0) for entry in self._served.values())
        if self._left:
            self._reporter.leave(idle=True)

    def wait(self) -> None:
        end = time.monotonic() + self._stop_s
        self._beginning.join(self._stop_s)
        for entry in self._served.values():
            if not entry.queues.wait(max(0.0, end - time.monotonic())):
                LOG.warning("Builds on host %s have not ended after %s s", entry.host.name, self._stop_s)
        self._handing_back.shutdown(wait=True)
        if not self._left:
            self._reporter.leave(idle=True)
        for periodic in self._periodics:
            periodic.wait()
        self._executor.shutdown(wait=False, cancel_futures=True)
        for name, entry in self._served.items():
            entry.host.driver.cleanup_host(name)
        self._released()

    def superseded(self, host: str, reason: str) -> None:
        """Stop serving ``host`` at once: another process serves it now. Its guests stay as they are."""
        if self._stop_serving(host):
            LOG.error("%s This process stops serving it.", reason)
        self._reporter.forget(host)

    def _begin_once(self) -> None:
        self._reporter.register()
        for entry in self._served.values():
            recovery.recover(fleet_context.new_context(), entry.host, self._calls, self._moves, self._guests)
        reports = self._reporter.audit()
        # Queues before reports: a reported host may be chosen, and an order without a queue fails.
        for name in self._served:
            self._serve(name)
        self._reporter.send(reports)
        for periodic in self._periodics:
            periodic.start()
        if self._guests is not None:
            for entry in self._served.values():
                changed = functools.partial(comparison.notice, entry.host, entry.queues, self._guests)
                entry.host.driver.register_event_listener(changed)
        self._sync()
        LOG.info("Serving %d hosts", len(self._served))
        self.ready.set()

    def _sync(self) -> None:
        """Send to the schedulers what is on the served hosts."""
        self._told.sync(entry.host for entry in self._served.values() if entry.serving)

    def _audit(self) -> None:
        self._reporter.report()
        served = [(entry.host, entry.queues) for entry in self._served.values() if entry.serving]
        comparison.compare(served, self._calls, self._moves, self._guests)

    def _serve(self, name: str) -> None:
        with self._lock:
            entry = self._served[name]
            if self._stopping.is_set() or entry.serving:
                return
            entry.server.start(override_pool_size=SERVER_THREADS)
            entry.serving = True

    def _stop_serving(self, name: str) -> bool:
        """Return True if ``name`` was served until now."""
        with self._lock:
            entry = self._served[name]
            was_serving, entry.serving = entry.serving, False
        dropped = entry.queues.close()
        if dropped:
            LOG.info("Handing back %d builds that have not begun on host %s", len(dropped), name)
        for hand_back in dropped:
            self._handing_back.submit(hand_back)
        if was_serving:
            entry.server.stop()
            entry.server.wait()
        return was_serving
