# SPDX-License-Identifier: Apache-2.0
"""Shares the threads of the HTTP server among its users: their requests take turns, and no user has all threads.

Called by :mod:`fleet_api.serving.http_server`. waitress has one queue for all requests. Here each user has one, and a
thread that is free takes the next request of the user whose turn it is, unless this user has as many threads as one
may have.
"""

from __future__ import annotations

import collections
import hashlib
import threading
from collections.abc import Callable
from typing import Any

from waitress import task

#: A hash of the credential or address that identifies a user.
Key = bytes
#: Returns the credential of a request by its method, path and headers; "" if it has none, or needs none.
Credential = Callable[[str, str, dict[str, str]], str]
_current = threading.local()


def key_of(channel: Any, credential: Credential) -> Key:
    """Return the key of the request that a channel has received: that of its credential, or of its address.

    Only the credential by which the sender is identified counts. Other headers could make one user look like many.
    """
    request = channel.requests[0]
    # waitress names headers as WSGI does.
    found = credential(request.command, request.path, request.headers) if request.error is None else ""
    named = f"by {found}" if found else f"at {channel.addr[0]}"
    return hashlib.blake2b(named.encode(errors="surrogateescape"), digest_size=16).digest()


def stop_counting() -> None:
    """The request that this thread works on counts for its user no more: what it becomes is bounded elsewhere."""
    request: _Task | None = getattr(_current, "request", None)
    if request is not None:
        request.stop_counting()


class FairDispatcher(task.ThreadedTaskDispatcher):
    """:param most: threads that one user has at a time"""

    def __init__(self, threads: int, most: int, key: Callable[[Any], Key]) -> None:
        super().__init__()
        self.queue: Any = Turns(most)
        self._key = key
        self.set_thread_count(threads)

    def add_task(self, task: object) -> None:
        super().add_task(_Task(task, self._key(task), self._ended))

    def _ended(self, key: Key) -> None:
        with self.lock:
            self.queue.ended(key)
            self.queue_cv.notify()


class _Task:
    """A request that waits, with its user."""

    def __init__(self, task: Any, key: Key, ended: Callable[[Key], None]) -> None:
        self.key = key
        self._task = task
        self._ended: Callable[[Key], None] | None = ended

    def service(self) -> None:
        _current.request = self
        try:
            self._task.service()
        finally:
            _current.request = None
            self.stop_counting()

    def stop_counting(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self.key)

    def cancel(self) -> None:
        self._task.cancel()


class Turns:
    """The requests that wait. It has the methods of a deque that waitress calls, with waitress' lock held.

    :param most: requests of one user that are worked on at a time
    """

    def __init__(self, most: int) -> None:
        self._most = most
        #: The first user is the next whose turn it is.
        self._waiting: collections.OrderedDict[Key, collections.deque[_Task]] = collections.OrderedDict()
        self._running: collections.Counter[Key] = collections.Counter()

    def __len__(self) -> int:
        """The number of requests that a free thread could take now."""
        return sum(min(len(tasks), self._room(key)) for key, tasks in self._waiting.items())

    def append(self, task: _Task) -> None:
        self._waiting.setdefault(task.key, collections.deque()).append(task)

    def popleft(self) -> _Task:
        """:raises IndexError: no request may be taken"""
        free = [key for key in self._waiting if self._room(key)]
        if not free:
            raise IndexError("each user whose requests wait has all threads that one may have")
        key = free[0]
        tasks = self._waiting[key]
        taken = tasks.popleft()
        if tasks:
            self._waiting.move_to_end(key)
        else:
            del self._waiting[key]
        self._running[key] += 1
        return taken

    def ended(self, key: Key) -> None:
        """A request that was taken has been answered."""
        self._running[key] -= 1
        if self._running[key] <= 0:
            del self._running[key]

    def _room(self, key: Key) -> int:
        return max(0, self._most - self._running[key])
