# SPDX-License-Identifier: Apache-2.0
"""Threads that place the builds and volumes of this process: no cast to a conductor, no second read of the rows.

::

    create ── a thread is free ──▶ rows written as ``placing`` ──▶ the thread calls the scheduler and sends the orders
       └───── none is free ──────▶ rows written as ``scheduling`` ──▶ cast to any conductor

If the process dies, the step of the row becomes overdue like any other, and a sweeper hands it out.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent import futures

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: Requests that one process places at a time. It hands out the others.
AT_A_TIME = 32

Work = Callable[[], None]


class LocalPlacement:
    """A server without a queue. When it is stopped, it ends the work that has started.

    :param at_a_time: 0: every request is handed out
    :param threads: do the work; None: threads of its own
    """

    def __init__(self, at_a_time: int = AT_A_TIME, threads: futures.Executor | None = None) -> None:
        self._at_a_time = at_a_time
        self._room = threading.Semaphore(at_a_time)
        self._stopping = threading.Event()
        self._threads = threads or futures.ThreadPoolExecutor(max(at_a_time, 1), "own-placement")

    @contextlib.contextmanager
    def room(self) -> Iterator[Callable[[Work], None] | None]:
        """Reserve a thread. Yields a function that starts work in it; None if none is free.

        The thread is reserved before the rows are written, since the rows name the conductor that places them. If no work
        is started in the block, the thread is free again.
        """
        if self._stopping.is_set() or not self._room.acquire(blocking=False):
            yield None
            return
        started = False

        def start(work: Work) -> None:
            nonlocal started
            started = True
            self._threads.submit(self._run, work)

        try:
            yield start
        finally:
            if not started:
                self._room.release()

    def _run(self, work: Work) -> None:
        try:
            work()
        except Exception:
            LOG.exception("Placing failed; the sweeper will try again")
        finally:
            self._room.release()

    def start(self) -> None:
        """Threads start with the first work."""

    def stop(self) -> None:
        self._stopping.set()

    def wait(self) -> None:
        """Wait until all work that has started is done."""
        for _each in range(self._at_a_time):
            self._room.acquire()
        for _each in range(self._at_a_time):
            self._room.release()
        self._threads.shutdown()
