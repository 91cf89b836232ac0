# SPDX-License-Identifier: Apache-2.0
"""Sends rejected replies again after their pauses, in a thread of its own.

No thread waits for the confirmation of a reply. The thread that reads it holds the lock of the connection, and must not
wait.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from fleet.rpc import threads
from fleet.rpc.rabbit.lean.publication import Publication

#: Seconds between two looks whether the driver closes.
_LOOK_S = 1.0


class Again:
    """Thread-safe. The thread starts with the first reply, and ends when the driver closes.

    :param send: writes a reply, or drops it; it raises nothing
    """

    def __init__(self, send: Callable[[Publication], object], closing: threading.Event) -> None:
        self._send = send
        self._closing = closing
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        #: With the times from which they may be sent. Pauses are short and nearly equal, so the order of arrival suffices.
        self._waiting: queue.SimpleQueue[tuple[float, Publication]] = queue.SimpleQueue()

    def add(self, reply: Publication) -> None:
        self._waiting.put((time.monotonic() + reply.pause_s(), reply))
        with self._lock:
            if self._thread is None:
                self._thread = threads.started(
                    self._run, "rpc-again", "Rejected replies wait until the next one is rejected"
                )

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                due, reply = self._waiting.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            self._closing.wait(max(0.0, due - time.monotonic()))
            self._send(reply)
