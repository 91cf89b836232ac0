# SPDX-License-Identifier: Apache-2.0
"""Tells callers who want signs of life that their calls are being worked on: one thread for all of a server's calls.

oslo.messaging starts a thread for each such call, and waits for its end, which costs more than many a call.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: How often it is looked who is due. Callers' patience is counted in whole seconds, and has twice as many signs as it needs.
LOOK_S = 0.25
#: The thread ends when there was no call for so long.
IDLE_S = 30.0
#: A caller that claims to wait for longer is sent no signs.
MOST_S = 86_400.0


class _Call:
    def __init__(self, incoming: Any, period_s: float, now: float) -> None:
        self.incoming = incoming
        self.period_s = period_s
        self.due_at = now + period_s
        self.is_over = False
        #: Held while a sign is sent: none may follow the answer.
        self.sending = threading.Lock()


class CallMonitor:
    """``with monitor.watching(incoming)`` around the work on a call; ``incoming`` is oslo.messaging's."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: dict[int, _Call] = {}
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watching(self, incoming: Any) -> Iterator[None]:
        """Sends a sign of life every half of the caller's patience, if it has told that. It is taken off ``incoming``."""
        patience_s, incoming.client_timeout = incoming.client_timeout, None
        period_s = _period_s(patience_s)
        if not period_s:
            yield
            return
        call = _Call(incoming, period_s, self._clock())
        with self._lock:
            self._calls[id(call)] = call
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="call-monitor", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._calls[id(call)]
            with call.sending:
                call.is_over = True

    def send_due(self) -> None:
        """To each caller who has waited for its period."""
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
        # Whatever the transport raises. A caller that is still there will find out by itself.
        LOG.debug("A caller cannot be told that its call is being worked on: %s", failure)


def _period_s(patience_s: Any) -> float:
    """0: it wants no signs, or says so in a way that is not understood."""
    try:
        period_s = int(patience_s or 0) / 2
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return period_s if 1 <= period_s <= MOST_S else 0.0
