# SPDX-License-Identifier: Apache-2.0
"""Threads that call code which may never return. A thread cannot be ended: one that hangs is abandoned, and replaced.

::

    idle ── call ──▶ calling ── return ──▶ idle
                        └──── given up ──▶ abandoned ── late return ──▶ reported, and idle

Made by :mod:`scheduler.engine.supervision.supervision`.
"""

from __future__ import annotations

import contextvars
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from oslo_context import context as oslo_context


class Question:
    """A call that runs in another thread, with the log context of the caller."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._context = contextvars.copy_context()
        self._request = oslo_context.get_current()
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._late: Callable[[], None] | None = None
        self._thread = 0
        self._answer: object = None
        self._failure: BaseException | None = None

    def run(self) -> None:
        self._thread = threading.get_ident()
        if self._request is not None:
            self._request.update_store()
        try:
            self._answer = self._context.run(self._call)
        except BaseException as failure:  # also an exit: it must end the question, not the thread
            self._failure = failure
        with self._lock:
            self._done.set()
        if self._late is not None:
            self._late()

    def wait(self, seconds: float | None) -> bool:
        """Wait for the answer, and return True if it came in time. None waits without limit."""
        return self._done.wait(seconds)

    def give_up(self, late: Callable[[], None]) -> bool:
        """Have ``late`` called when it is answered after all; False if it just was."""
        with self._lock:
            if self._done.is_set():
                return False
            self._late = late
            return True

    def answer(self) -> Any:
        """:raises Exception: what the call raised"""
        if isinstance(self._failure, Exception):
            raise self._failure
        if self._failure is not None:
            raise RuntimeError(f"{type(self._failure).__name__}: {self._failure}")
        return self._answer

    def whereabouts(self) -> str:
        """Return where the call is now, as ``file:line in function``; empty if it is not running."""
        frame = sys._current_frames().get(self._thread)
        if frame is None:
            return ""
        return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"


class Askers:
    """A pool of threads that grows with the number of concurrent calls. Its threads end with this object."""

    def __init__(self) -> None:
        self._idle = _Idle()
        weakref.finalize(self, self._idle.close)

    def ask(self, call: Callable[[], Any]) -> Question:
        question = Question(call)
        work = self._idle.take()
        if work is None:
            work = queue.SimpleQueue()
            # A daemon: what hangs must not keep the service from ending.
            threading.Thread(target=_serve, args=(work, self._idle), name="plugin", daemon=True).start()
        work.put(question)
        return question


class _Idle:
    """The threads that wait for a question, each by its queue. The lock guards the list and ``closed``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[queue.SimpleQueue[Question | None]] = []
        self._closed = False

    def take(self) -> queue.SimpleQueue[Question | None] | None:
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def put(self, work: queue.SimpleQueue[Question | None]) -> bool:
        """Return False if no more questions will come, so the thread can end."""
        with self._lock:
            if not self._closed:
                self._waiting.append(work)
            return not self._closed

    def close(self) -> None:
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, []
        for work in waiting:
            work.put(None)


def _serve(work: queue.SimpleQueue[Question | None], idle: _Idle) -> None:
    while (question := work.get()) is not None:
        question.run()
        # The next question may be long in coming, and this one holds the caller's objects.
        del question
        if not idle.put(work):
            return
