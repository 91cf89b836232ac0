# SPDX-License-Identifier: Apache-2.0
"""Sends the requests of a trace in their order, and deletes what is placed when its life in the trace is over.

The replays of instances and of volumes send by it.
"""

from __future__ import annotations

import abc
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from typing import Generic, Protocol, TypeVar


class Request(Protocol):
    @property
    def at_s(self) -> int: ...

    @property
    def lifetimes_s(self) -> Sequence[float | None]: ...


RequestT = TypeVar("RequestT", bound=Request)


class Replay(abc.ABC, Generic[RequestT]):
    """One replay. ``lock`` guards the results, which several senders update."""

    def __init__(self, concurrency: int) -> None:
        self.lock = threading.Lock()
        self.requests: Sequence[RequestT] = []
        self.duration_s = 0.0
        self._concurrency = concurrency
        self._placed: set[str] = set()
        #: Records of what was accepted and found no place, or none yet.
        self._others: set[str] = set()
        self._deaths: list[tuple[float, str]] = []
        self._gone = 0

    @abc.abstractmethod
    def send(self, number: int, request: RequestT) -> None:
        """Send a request and wait for its end."""

    @abc.abstractmethod
    def delete(self, uuids: set[str]) -> int:
        """Delete and wait, so that later requests find the room. Return how many are gone."""

    def replay(self, requests: Sequence[RequestT], on_done: Callable[[int], object]) -> None:
        """Send all requests. Those of one time are sent in parallel, after the deletions due by then.

        After a failure, those that are on their way end, and no others are sent.

        :param on_done: called with the number of requests that have ended
        """
        self.requests = requests
        started, count = time.monotonic(), 0
        with futures.ThreadPoolExecutor(self._concurrency) as senders:
            try:
                for at_s, together in _moments(requests):
                    self._delete_due(at_s)
                    sent = [senders.submit(self.send, number, request) for number, request in together]
                    for done in futures.as_completed(sent):
                        done.result()
                        count += 1
                        on_done(count)
            except BaseException:
                senders.shutdown(wait=False, cancel_futures=True)
                raise
        self.duration_s = time.monotonic() - started

    def accept(self, uuids: Iterable[str]) -> None:
        """Note what will be placed, or refused."""
        with self.lock:
            self._others.update(uuids)

    def place(self, uuid: str, request: RequestT, life_s: float | None) -> None:
        """Record what was placed. Called with the lock held."""
        self._others.discard(uuid)
        self._placed.add(uuid)
        if life_s is not None:
            heapq.heappush(self._deaths, (request.at_s + life_s, uuid))

    def forget(self, uuid: str) -> None:
        """Note that others have deleted it before it was placed. Called with the lock held."""
        self._others.discard(uuid)

    @property
    def gone(self) -> int:
        """The number that were deleted, at the end of their lives or at the end of the replay."""
        return self._gone

    def delete_all(self) -> None:
        """Delete what is there still, and all else that was accepted, which does not count as deleted."""
        self._delete(set(self._placed))
        if self._others:
            self.delete(self._others)

    def _delete_due(self, now_s: float) -> None:
        due = set()
        while self._deaths and self._deaths[0][0] <= now_s:
            due.add(heapq.heappop(self._deaths)[1])
        self._delete(due)

    def _delete(self, uuids: set[str]) -> None:
        if uuids:
            self._gone += self.delete(uuids)
            self._placed -= uuids


def _moments(requests: Sequence[RequestT]) -> Iterator[tuple[int, list[tuple[int, RequestT]]]]:
    """Group numbered requests by their time. That matters only if something is deleted in between."""
    numbered = list(enumerate(requests))
    if all(end is None for request in requests for end in request.lifetimes_s):
        yield 0, numbered
        return
    for at_s, together in itertools.groupby(numbered, key=lambda pair: pair[1].at_s):
        yield at_s, list(together)
