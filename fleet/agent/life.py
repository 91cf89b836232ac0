# SPDX-License-Identifier: Apache-2.0
"""The life of an agent's process, whether it serves hosts or storage backends.

Called by :mod:`compute_agent.agent` and :mod:`volume_agent.agent`.

::

    start ──▶ begin: register, recover, serve, report ──▶ ready: heartbeats, reports ──▶ stop ──▶ wait ──▶ released
                │                         ▲                                               │
                └─ refused: again in 10 s ┘      leave, close the queues, hand back what has not begun

``begin`` may take as long as the conductor is away, so it has a thread of its own. Another process may take a host or
backend over at any time: it is then never served here again (``superseded``).
"""

from __future__ import annotations

import abc
import dataclasses
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import ClassVar, Generic, Protocol, TypeVar

from oslo_log import log as logging

from fleet.agent import beginning
from fleet.agent.work_queues import WorkQueues
from fleet.rpc import server as rpc_server
from fleet.service import Periodic

LOG = logging.getLogger(__name__)

#: Threads of a host's server. One is enough, because an order is only put into a queue.
SERVER_THREADS = 1
STOP_THREADS = 32
#: Calls to the conductor at a time that hand back work not yet begun.
HAND_BACK_THREADS = 8


@dataclasses.dataclass
class Served:
    """A host or backend with its server and its queues.

    ``superseded``: another process serves it now. Its queues are closed, so an order that came here would be lost.
    """

    name: str
    server: rpc_server.Server
    queues: WorkQueues
    serving: bool = dataclasses.field(default=False, init=False)
    superseded: bool = dataclasses.field(default=False, init=False)

    @property
    def waits(self) -> bool:
        """True if it is still to be served."""
        return not self.serving and not self.superseded


ServedT = TypeVar("ServedT", bound=Served)


class Reports(Protocol):
    """The calls to the conductor that every agent makes."""

    def register(self) -> None:
        """Repeat until the conductor has answered."""

    def forget(self, name: str, /) -> None:
        """Send nothing more for a host or backend."""

    def leave(self, idle: bool) -> None:
        """The process stops. :param idle: whether all work has ended"""


@dataclasses.dataclass(frozen=True)
class Repeated:
    """Work that is done every ``every_s`` seconds once the agent is ready.

    :param early: from the registration on: the beginning may take minutes
    """

    name: str
    work: Callable[[], object]
    every_s: float
    early: bool = False


def _nothing() -> None:
    """Release nothing."""


@dataclasses.dataclass(frozen=True)
class Process:
    """Parts that all services of one process share.

    :param stopping: set when the process stops
    :param stop_s: seconds for running work to end after a stop. The next agent, or the sweeper, finds work that has not.
    :param released: called when the process serves nothing any more
    """

    executor: futures.Executor
    stopping: threading.Event
    stop_s: float
    released: Callable[[], object] = _nothing
    chance: random.Random = dataclasses.field(default_factory=random.Random)


class Life(abc.ABC, Generic[ServedT]):
    """Serves several hosts or backends with one pool of threads. ``ready`` is set when the start has succeeded.

    The lock guards what is served.
    """

    #: In log lines.
    noun: ClassVar[str]

    def __init__(
        self, served: Sequence[ServedT], reporter: Reports, repeated: Sequence[Repeated], process: Process
    ) -> None:
        self.ready = threading.Event()
        self._served = {entry.name: entry for entry in served}
        self._reporter = reporter
        self._process = process
        self._left = False
        self._handing_back = futures.ThreadPoolExecutor(HAND_BACK_THREADS, "hand-back")
        # Jitter: agents started at the same time must not report at the same time for ever.
        made = [
            (each.early, Periodic(each.name, each.work, each.every_s, process.chance.uniform(0, each.every_s)))
            for each in repeated
        ]
        self._early, self._late = ([each for early, each in made if early is wanted] for wanted in (True, False))
        self._periodics = [*self._early, *self._late]
        self._lock = threading.Lock()
        self._beginning = threading.Thread(
            target=beginning.begin, args=(self._begin_once, process.stopping), name="agent-begin", daemon=True
        )

    @abc.abstractmethod
    def _begin(self) -> None:
        """Recover, serve and report everything. It is called after the registration, and again if it raises."""

    def _begun(self) -> None:
        """Called before the agent is ready. By default nothing happens; an exception lets it begin again."""

    def start(self) -> None:
        self._beginning.start()

    def stop(self) -> None:
        self._process.stopping.set()
        for periodic in self._periodics:
            periodic.stop()
        if self.ready.is_set():
            # First, so that work handed back now is not sent here again.
            self._reporter.leave(idle=False)
        # In parallel: a listener may take a second to stop, and many hosts would exceed any stop limit.
        with futures.ThreadPoolExecutor(min(len(self._served), STOP_THREADS), "agent-stop") as together:
            list(together.map(self._stop_serving, list(self._served)))
        # Otherwise `wait` reports it, when the running work has ended.
        self._left = all(entry.queues.wait(0) for entry in self._served.values())
        if self._left:
            self._reporter.leave(idle=True)

    def wait(self) -> None:
        end = time.monotonic() + self._process.stop_s
        self._beginning.join(self._process.stop_s)
        for entry in self._served.values():
            if not entry.queues.wait(max(0.0, end - time.monotonic())):
                LOG.warning("Work on %s %s has not ended after %s s", self.noun, entry.name, self._process.stop_s)
        self._handing_back.shutdown(wait=True)
        if not self._left:
            self._reporter.leave(idle=True)
        for periodic in self._periodics:
            periodic.wait()
        self._process.executor.shutdown(wait=False, cancel_futures=True)
        self._process.released()

    def superseded(self, name: str, reason: str) -> None:
        """Stop serving a host or backend at once: another process serves it now. What is on it stays as it is."""
        with self._lock:
            self._served[name].superseded = True
        if self._stop_serving(name):
            LOG.error("%s This process stops serving it.", reason)
        self._reporter.forget(name)

    def _begin_once(self) -> None:
        self._reporter.register()
        # A beginning that raises is repeated, and each start of these is one more thread.
        for periodic in self._early:
            if not periodic.alive:
                periodic.start()
        self._begin()
        self._begun()
        for periodic in self._late:
            periodic.start()
        LOG.info("Serving %d %ss", sum(entry.serving for entry in self._served.values()), self.noun)
        self.ready.set()

    def _serve(self, entry: ServedT) -> None:
        with self._lock:
            if not self._process.stopping.is_set() and entry.waits:
                entry.server.start(override_pool_size=SERVER_THREADS)
                entry.serving = True

    def _stop_serving(self, name: str) -> bool:
        """Return True if ``name`` was served until now."""
        with self._lock:
            entry = self._served[name]
            was_serving, entry.serving = entry.serving, False
        dropped = entry.queues.close()
        if dropped:
            LOG.info("Handing back %d tasks that have not begun on %s %s", len(dropped), self.noun, name)
        for hand_back in dropped:
            self._handing_back.submit(hand_back)
        if was_serving:
            entry.server.stop()
            entry.server.wait()
        return was_serving
