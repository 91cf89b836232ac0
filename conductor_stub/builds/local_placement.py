# SPDX-License-Identifier: Apache-2.0
"""Builds that the process which has accepted them also places: no order to any conductor, no second look at the rows.

::

    create ── room? ──▶ rows written as ``placing`` ──▶ a thread of this process asks the scheduler and sends the orders
                └─ no ─▶ rows written as ``scheduling`` ──▶ cast to any conductor

A process that dies with such a build leaves a row whose step becomes overdue, like any other: the sweeper finds it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent import futures

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: Requests, each for as long as the scheduler takes to answer. Who accepts more than it can place leaves them to others.
AT_A_TIME = 16

Work = Callable[[], None]


class LocalPlacement:
    """A server without a queue: it works until it is stopped, and then ends what was begun.

    :param at_a_time: 0: all are left to others
    :param threads: that do the work; its own, if that is None
    """

    def __init__(self, at_a_time: int = AT_A_TIME, threads: futures.Executor | None = None) -> None:
        self._at_a_time = at_a_time
        self._room = threading.Semaphore(at_a_time)
        self._stopping = threading.Event()
        self._threads = threads or futures.ThreadPoolExecutor(max(at_a_time, 1), "own-builds")

    @contextlib.contextmanager
    def room(self) -> Iterator[Callable[[Work], None] | None]:
        """Yields what has a request placed by a thread, or None: it is to be left to others.

        The room is taken first, as the rows say who places them; what is not begun in the block gives it back.
        """
        if self._stopping.is_set() or not self._room.acquire(blocking=False):
            yield None
            return
        begun = False

        def begin(work: Work) -> None:
            nonlocal begun
            begun = True
            self._threads.submit(self._run, work)

        try:
            yield begin
        finally:
            if not begun:
                self._room.release()

    def _run(self, work: Work) -> None:
        try:
            work()
        except Exception:
            LOG.exception("Placing builds failed; the sweeper will try again")
        finally:
            self._room.release()

    def start(self) -> None:
        """The threads come with the work."""

    def stop(self) -> None:
        self._stopping.set()

    def wait(self) -> None:
        """Until all that have room are done."""
        for _each in range(self._at_a_time):
            self._room.acquire()
        for _each in range(self._at_a_time):
            self._room.release()
        self._threads.shutdown()
