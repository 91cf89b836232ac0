# SPDX-License-Identifier: Apache-2.0
"""The hub: named queues in memory, with RabbitMQ's rules and condition variables.

Called by :mod:`fleet.rpc.local.bridge` and :mod:`fleet.rpc.local.driver`.

::

    publish(exchange, key) ──▶ every queue bound to (exchange, key) ──▶ one of the queue's listeners
                               none: the message vanishes, or is refused when it was mandatory

A queue exists from its first listener on, and keeps messages while there is no listener. A passing queue (of a
fanout, or of one server) is deleted with its last listener.
"""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol


class ReplyTo(Protocol):
    """Receives the heartbeats and the answer (``final``) of a call. Never raises, because the caller may be gone."""

    def send(self, frame: str, final: bool = False) -> None: ...


class Binding(NamedTuple):
    """A queue, and the exchange and routing key whose messages it receives."""

    exchange: str
    key: str
    queue: str


@dataclasses.dataclass(frozen=True)
class Delivery:
    """One message. ``body`` is JSON, ``monitor_s`` is how often the caller wants heartbeats."""

    exchange: str
    key: str
    body: str
    mandatory: bool = False
    reply_to: ReplyTo | None = None
    monitor_s: float | None = None


class Unroutable(Exception):
    """No queue exists for a mandatory message."""


class _Queue:
    def __init__(self) -> None:
        self.messages: collections.deque[Delivery] = collections.deque()
        self.listeners: collections.deque[Subscription] = collections.deque()

    def put(self, delivery: Delivery) -> None:
        self.messages.append(delivery)
        # Listeners take turns. A busy one checks the queue when it is done, so waking it would waste the turn.
        for _ in range(len(self.listeners)):
            self.listeners.rotate(-1)
            if self.listeners[0].wake():
                return


class Hub:
    """All exchanges of one transport. ``lock`` guards every queue and binding; nothing blocks while holding it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._queues: dict[Binding, _Queue] = {}
        self._bound: dict[tuple[str, str], list[_Queue]] = collections.defaultdict(list)

    def publish(self, delivery: Delivery) -> None:
        """:raises Unroutable: the delivery is mandatory and there is no queue"""
        with self.lock:
            queues = self._bound.get((delivery.exchange, delivery.key), [])
            for queue in queues:
                queue.put(delivery)
        if delivery.mandatory and not queues:
            raise Unroutable(delivery.key)

    def subscribe(self, bindings: Sequence[Binding], passing: Iterable[Binding] = ()) -> Subscription:
        """Listen on ``bindings``. Passing queues are deleted with their last listener."""
        with self.lock:
            queues = [self._declare(binding) for binding in bindings]
            subscription = Subscription(self, queues, list(passing))
            for queue in queues:
                queue.listeners.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        with self.lock:
            for queue in subscription.queues:
                if subscription in queue.listeners:
                    queue.listeners.remove(subscription)
            for binding in subscription.passing:
                queue_left = self._queues.get(binding)
                if queue_left is not None and not queue_left.listeners:
                    del self._queues[binding]
                    self._bound[binding.exchange, binding.key].remove(queue_left)

    def _declare(self, binding: Binding) -> _Queue:
        if binding not in self._queues:
            self._queues[binding] = queue = _Queue()
            self._bound[binding.exchange, binding.key].append(queue)
        return self._queues[binding]


class Subscription:
    """One listener of its queues."""

    def __init__(self, hub: Hub, queues: list[_Queue], passing: list[Binding]) -> None:
        self.queues = queues
        self.passing = passing
        self._lock = hub.lock
        self._news = threading.Condition(hub.lock)
        self._waiting = False
        self._stopped = False

    def wake(self) -> bool:
        """Wake this listener if it waits, and return whether it did; called under the hub's lock. One message wakes one
        listener, once.
        """
        waited, self._waiting = self._waiting, False
        if waited:
            self._news.notify()
        return waited

    def stop(self) -> None:
        """Wake all waiters. Queued messages stay for other listeners."""
        with self._lock:
            self._stopped = True
            self._news.notify_all()

    def take(self, count: int, timeout_s: float | None = None, batch_timeout_s: float | None = None) -> list[Delivery]:
        """Wait ``timeout_s`` (None: for ever) for a first message, then ``batch_timeout_s`` for up to ``count``
        messages.
        """
        taken: list[Delivery] = []
        with self._lock:
            deadline = _deadline(timeout_s)
            while not self._stopped and len(taken) < count:
                delivery = self._next()
                if delivery is not None:
                    taken.append(delivery)
                    if len(taken) == 1:
                        deadline = _deadline(batch_timeout_s or 0)
                elif not self._wait(deadline):
                    break
        return taken

    def _next(self) -> Delivery | None:
        for queue in self.queues:
            if queue.messages:
                return queue.messages.popleft()
        return None

    def _wait(self, deadline: float | None) -> bool:
        """Return True if there may be a message before ``deadline``."""
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        self._waiting = True
        self._news.wait(left)
        self._waiting = False
        return True


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s
