# SPDX-License-Identifier: Apache-2.0
"""Sends heartbeats to callers whose calls are still being processed: one thread for all calls of a server.

oslo.messaging starts a thread for each such call and joins it at the end. That costs more than many calls do. Called by
:mod:`fleet.rpc.dispatching`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from oslo_log import log as logging

from fleet.rpc import threads

LOG = logging.getLogger(__name__)

#: Seconds between two looks for due heartbeats. Timeouts are whole seconds, and each gets two heartbeats.
LOOK_S = 0.25
#: The thread ends after this time without a call.
IDLE_S = 30.0
#: A caller with a longer timeout gets no heartbeats.
MOST_S = 86_400.0


class _Call:
    def __init__(self, incoming: Any, period_s: float, now: float) -> None:
        self.incoming = incoming
        self.period_s = period_s
        self.due_at = now + period_s
        self.is_over = False
        #: Held while a heartbeat is sent: none may follow the reply.
        self.sending = threading.Lock()


class CallMonitor:
    """``with monitor.watching(incoming)`` surrounds the processing of a call. ``incoming`` is a message of
    oslo.messaging.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: dict[int, _Call] = {}
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watching(self, incoming: Any) -> Iterator[None]:
        """Send a heartbeat after each half of the caller's timeout, if the caller asked for heartbeats."""
        period_s = _period_s(incoming.client_timeout)
        if not period_s:
            yield
            return
        call = _Call(incoming, period_s, self._clock())
        with self._lock:
            self._calls[id(call)] = call
            if self._thread is None:
                self._thread = threads.started(
                    self._run, "call-monitor", "Callers get no heartbeats until the next call begins"
                )
        try:
            yield
        finally:
            with self._lock:
                del self._calls[id(call)]
            with call.sending:
                call.is_over = True

    def send_due(self) -> None:
        """Send a heartbeat to each caller whose period is over."""
        now = self._clock()
        with self._lock:
            due = [call for call in self._calls.values() if call.due_at <= now]
        for call in due:
            call.due_at = now + call.period_s
            with call.sending:
                if not call.is_over:
                    _send(call.incoming)

    def _run(self) -> None:
        busy_at = self._clock()
        while True:
            time.sleep(LOOK_S)
            self.send_due()
            with self._lock:
                if self._calls:
                    busy_at = self._clock()
                elif self._clock() - busy_at > IDLE_S:
                    self._thread = None
                    return


def _send(incoming: Any) -> None:
    try:
        incoming.heartbeat()
    except Exception as failure:
        # The transport may raise anything. A caller that still exists notices the missing heartbeat.
        LOG.debug("Cannot send a heartbeat to a caller: %s", failure)


def _period_s(patience_s: Any) -> float:
    """Return the seconds between two heartbeats; 0 if the caller wants none, or sent a timeout that is no number."""
    try:
        period_s = int(patience_s or 0) / 2
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return period_s if 1 <= period_s <= MOST_S else 0.0
