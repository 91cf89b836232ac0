# SPDX-License-Identifier: Apache-2.0
"""Bounds the time of work that may hang, such as that of a hypervisor or a storage.

Agents call their drivers in it, with what is left of the step's time.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Protocol, TypeVar

from fleet.context import RequestContext

Result = TypeVar("Result")
_RUNNING = threading.local()


class Overrun(Exception):
    """The work did not end in time. It is unknown whether it ever will, and with what result."""


class NotBegun(Exception):
    """The machine has no thread for the work, which has not begun."""


def is_wanted() -> bool:
    """Return False if the caller of :func:`run_within` has abandoned the work of this thread."""
    abandoned: threading.Event | None = getattr(_RUNNING, "abandoned", None)
    return abandoned is None or not abandoned.is_set()


def require_wanted() -> None:
    """Called by a driver before each step that changes something: abandoned work must not touch what came after it.

    :raises Overrun: see :func:`is_wanted`
    """
    if not is_wanted():
        raise Overrun("it was abandoned, because it took too long")


@contextlib.contextmanager
def undone(undo: Callable[[], object]) -> Iterator[None]:
    """Call ``undo`` if the block raises, unless its work was abandoned.

    The caller of abandoned work has removed what it left. The guest that is there now is that of later work, and may run.
    """
    try:
        yield
    except BaseException:
        if is_wanted():
            undo()
        raise


class Within(Protocol):
    """Runs bounded work; a simulation without threads has its own."""

    def __call__(self, context: RequestContext, limit_s: float | None, work: Callable[[], Result]) -> Result: ...


def run_within(context: RequestContext, limit_s: float | None, work: Callable[[], Result]) -> Result:
    """Return the result of ``work``, or raise its error. It runs in its own thread, which is abandoned after ``limit_s``.

    :param limit_s: None: no limit, and no thread
    :raises Overrun: the work has not ended
    :raises NotBegun:
    """
    if limit_s is None:
        return work()
    outcome: futures.Future[Result] = futures.Future()
    abandoned = threading.Event()

    def run() -> None:
        _RUNNING.abandoned = abandoned
        # For the request id in the thread's log lines.
        context.update_store()
        try:
            outcome.set_result(work())
        except BaseException as failure:
            outcome.set_exception(failure)

    # A daemon thread: work that hangs must not keep the process from ending.
    thread = threading.Thread(target=run, name="driver", daemon=True)
    try:
        thread.start()
    except RuntimeError as none:
        raise NotBegun(str(none)) from None
    # A longer wait is refused by the system: the work would go on, and count as failed.
    futures.wait([outcome], min(limit_s, threading.TIMEOUT_MAX))
    if not outcome.done():
        abandoned.set()
        raise Overrun(f"it has not ended after {limit_s:g} s")
    return outcome.result()


class Asking:
    """Asks a driver. One thread at a time waits for its answer, however often it is asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = math.inf

    @property
    def is_overdue(self) -> bool:
        """True while the driver owes an answer whose time is over."""
        return self._lock.locked() and time.monotonic() >= self._until

    def ask(self, context: RequestContext, limit_s: float | None, question: Callable[[], Result]) -> Result:
        """Return the driver's answer.

        :raises Overrun: it does not answer in time, or owes an earlier answer
        :raises NotBegun:
        """
        if not self._lock.acquire(blocking=False):
            raise Overrun("it has not answered an earlier question")
        self._until = math.inf if limit_s is None else time.monotonic() + limit_s

        def answered() -> Result:
            try:
                return question()
            finally:
                self._lock.release()

        try:
            return run_within(context, limit_s, answered)
        except NotBegun:
            self._lock.release()
            raise
