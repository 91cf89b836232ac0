# SPDX-License-Identifier: Apache-2.0
"""Retries replies whose caller has no queue: one thread, for one second; then they are dropped and counted.

After a failover of the broker, a caller may get its queue back a moment later. But the queue may also be gone for
good, and its name comes from the sender. oslo.messaging would block the worker for 60 s, so a few hundred small
messages could block all workers of a server.
"""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_log import log as logging

from fleet.telemetry import metrics, rate_limited_log

LOG = logging.getLogger(__name__)

#: Seconds from the first try to the last one.
PATIENCE_S = 1.0
#: Seconds between two tries of one reply.
PAUSE_S = 0.25
#: Replies that may wait at a time. Further ones are dropped at once.
MOST = 1000
_SHOWN = 60
_said = rate_limited_log.RateLimit()


def dropped(queue: object) -> None:
    """Count a dropped reply, and log one line a minute."""
    metrics.ANSWERS_DROPPED.inc()
    left_out = _said.due()
    if left_out is not None:
        LOG.warning(
            "A reply is dropped: its caller has no queue %s (%d more since the last such line)",
            str(queue)[:_SHOWN],
            left_out,
        )


@dataclasses.dataclass
class _Answer:
    incoming: Any
    send: Callable[[], None]
    due_at: float
    end: float


class LateReplies:
    """The thread exists while replies wait.

    :param clock: as ``time.monotonic``
    :param pause: as ``time.sleep``
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, pause: Callable[[float], object] = time.sleep
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._lock = threading.Lock()
        self._waiting: collections.deque[_Answer] = collections.deque()
        self._running = False

    def take(self, incoming: Any, send: Callable[[], None]) -> None:
        """Schedule another ``send``. It raises ``MessageUndeliverable`` while the queue does not exist."""
        now = self._clock()
        with self._lock:
            full = len(self._waiting) >= MOST
            if not full:
                self._waiting.append(_Answer(incoming, send, now + PAUSE_S, now + PATIENCE_S))
            begins = not full and not self._running
            self._running = self._running or begins
        if full:
            _abandon(incoming)
        elif begins:
            threading.Thread(target=self._run, name="late-answers", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                answer = self._waiting.popleft()
            # Replies are in the order in which they are due; each goes to the end for its next try.
            self._pause(max(0.0, answer.due_at - self._clock()))
            if not _is_over(answer, self._clock()):
                answer.due_at = self._clock() + PAUSE_S
                with self._lock:
                    self._waiting.append(answer)


def _is_over(answer: _Answer, now: float) -> bool:
    """Try to send once. Return True if the reply was sent or given up."""
    if is_abandoned(answer.incoming):
        dropped(answer.incoming.reply_q)
        return True
    try:
        answer.send()
    except oslo_messaging.MessageUndeliverable:
        if now < answer.end:
            return False
        _abandon(answer.incoming)
    except Exception as trouble:
        # The connection may raise anything. The caller repeats the call, as after any lost reply.
        LOG.debug("A late answer is lost with the connection: %s", trouble)
        _abandon(answer.incoming)
    return True


def is_abandoned(incoming: Any) -> bool:
    """Return True if a reply to the same queue was given up within the last 60 s."""
    return incoming.reply_q in incoming._obsolete_reply_queues._cache


def _abandon(incoming: Any) -> None:
    """Give up: further replies to this queue are tried once, while oslo.messaging remembers the queue (60 s).

    They are still tried, because a caller that lost its queue in a failover declares it again under the same name.
    """
    cache = incoming._obsolete_reply_queues
    with cache._lock:
        cache._cache.update({incoming.reply_q: incoming.msg_id})
    dropped(incoming.reply_q)


LATE = LateReplies()
