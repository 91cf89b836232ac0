# SPDX-License-Identifier: Apache-2.0
"""Leader/Followers: a server's threads take turns at receiving. The thread that received a message handles it.

oslo.messaging receives in one thread and handles in others. Waking another thread is a large part of the time of a
short call. (The pattern: Schmidt and others, Leader/Followers, PLoP 2000.)

::

    ┌──▶ waits for its turn ──▶ listens ── takes a message, and leaves the turn to another ──▶ handles it ──┐
    └───────────────────────────────────────────────────────────────────────────────────────────────────────┘

Threads of the lean driver need no turn: they wait for the connection at the same time, and the kernel wakes one of them.

A message is therefore received only when a thread is free to handle it; the rest of a backlog stays at the broker for
other processes. While no thread is free, nothing is received and no heartbeat is sent: a broker closes the connection
after two minutes without heartbeats, and the connection is then opened again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from oslo_log import log as logging

from fleet.rpc import backoff, oslo_drivers
from fleet.rpc.rabbit import broker_refusals

LOG = logging.getLogger(__name__)

#: Seconds of the first and of the longest pause after an error that is not the broker's.
BEGIN_AGAIN_S = 1.0
LONGEST_PAUSE_S = 30.0

_OnIncoming = Callable[[list[oslo_drivers.RpcIncomingMessage]], object]


class Listener(oslo_drivers.Listener):
    """Replaces oslo.messaging's adapter, and uses the driver's own listener.

    ``_guard`` guards the list of threads and the number of threads that receive or wait for their turn.

    :param threads: messages handled at a time; each thread is started when it is first needed
    :param turn: held by the thread that polls the driver's listener
    """

    def __init__(
        self,
        adapter: oslo_drivers.PollStyleListenerAdapter,
        threads: int,
        turn: contextlib.AbstractContextManager[object],
    ) -> None:
        super().__init__(adapter.batch_size, adapter.batch_timeout, adapter.prefetch_size)
        self.polled = oslo_drivers.polled_by(adapter)
        self._most = threads
        self._turn = turn
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._free = 0
        self._ending = False
        self._stopped = threading.Event()
        self._backoff = backoff.Backoff(BEGIN_AGAIN_S, LONGEST_PAUSE_S)

    def start(self, on_incoming_callback: _OnIncoming) -> None:
        super().start(on_incoming_callback)
        with self._guard:
            thread = self._one_more()
        thread.start()

    def stop(self) -> None:
        """End the intake. When this returns, nothing is received any more; messages already received may still be
        handled.
        """
        with self._guard:
            self._ending = True
            self._stopped.set()
            # All threads may be busy for an unknown time, and one must see that no more messages come.
            thread = self._one_more() if not self._free else None
        self._begin(thread)
        self.polled.stop()

    def cleanup(self) -> None:
        """Release the listener when all received messages have been handled."""
        while self._threads:  # one may have begun another
            self._threads[0].join()
            del self._threads[0]
        super().stop()  # which forgets who handles
        self.polled.cleanup()

    def _one_more(self) -> threading.Thread:
        """Create a thread. The caller starts it after it has released the guard."""
        thread = threading.Thread(target=self._run, name="rpc", daemon=True)
        self._free += 1
        self._threads.append(thread)
        return thread

    def _begin(self, thread: threading.Thread | None) -> None:
        if thread is None:
            return
        try:
            thread.start()
        except RuntimeError as failure:
            with self._guard:
                self._free -= 1
                self._threads.remove(thread)
            LOG.error("Messages wait until one is handled: %s", failure)

    def _run(self) -> None:
        while taken := self._take():
            try:
                self.on_incoming_callback(taken)
            except BaseException:
                # BaseException as well: an exception that ends a thread would reduce the number of threads for good.
                LOG.exception("A message was received but not handled")
            with self._guard:
                self._free += 1

    def _take(self) -> list[oslo_drivers.RpcIncomingMessage] | None:
        """Wait for this thread's turn and return the next message; None when the intake has ended."""
        with self._turn:
            taken = self._listen()
            with self._guard:
                self._free -= 1
                nobody_listens = bool(taken) and not self._free
                may_begin = self._ending or len(self._threads) < self._most
                thread = self._one_more() if nobody_listens and may_begin else None
        self._begin(thread)
        return taken

    def _listen(self) -> list[oslo_drivers.RpcIncomingMessage] | None:
        while True:
            # Read before the poll: messages that came until then must still be received.
            ending = self._ending
            try:
                taken = self.polled.poll(batch_size=self.batch_size, batch_timeout=self.batch_timeout)
            except Exception as failure:
                # oslo.messaging waits for a broker that is away, but not for one that refuses.
                pause_s = self._backoff.pause_s()
                if isinstance(failure, broker_refusals.AWAY):
                    refused = failure
                else:
                    LOG.exception("Cannot receive messages; next try in %.1f s", pause_s)
                    refused = None
            else:
                self._backoff.reset()
                if taken or ending:
                    return taken or None
                continue
            if refused is not None:
                broker_refusals.log_refusal("messages cannot be received", refused)
            # A stop ends the pause; the driver's listener must be polled once more then.
            self._stopped.wait(pause_s)
