# SPDX-License-Identifier: Apache-2.0
"""A server's threads take turns at listening: who has taken a message handles it, and another one listens meanwhile.

oslo.messaging listens in one thread and handles in others; to wake one of those is a good part of what a short call takes.
(The pattern has a name, Leader/Followers: Schmidt and others, PLoP 2000.)

::

    ┌──▶ waits for its turn ──▶ listens ── takes a message, and leaves the turn to another ──▶ handles it ──┐
    └───────────────────────────────────────────────────────────────────────────────────────────────────────┘

So a message is taken only when a thread is free for it; the rest of a backlog stays with the broker, for others. While
none is free nobody listens, and no heartbeat is sent: a broker that waits in vain for two minutes closes the connection,
and it is made anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from oslo_log import log as logging
from oslo_messaging._drivers import base

from fleet.rpc import backoff
from fleet.rpc.rabbit import broker_refusals

LOG = logging.getLogger(__name__)

#: After something that no broker explains, and at most.
BEGIN_AGAIN_S = 1.0
LONGEST_PAUSE_S = 30.0

_OnIncoming = Callable[[list[base.RpcIncomingMessage]], object]


class Listener(base.Listener):
    """In the place of oslo.messaging's adapter, of which it takes the driver's own listener.

    The lock ``_guard`` guards the list of threads and the number of those that listen, or wait for their turn.

    :param threads: how many messages may be handled at once; each is started when it is first needed
    """

    def __init__(self, adapter: base.PollStyleListenerAdapter, threads: int) -> None:
        super().__init__(adapter.batch_size, adapter.batch_timeout, adapter.prefetch_size)
        self.polled: base.PollStyleListener = adapter._poll_style_listener
        self._most = threads
        self._turn = threading.Lock()
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
        """Nothing is taken any more when this returns; what was taken may still be handled."""
        with self._guard:
            self._ending = True
            self._stopped.set()
            # All may be busy, for who knows how long; and someone must see that nothing more comes.
            thread = self._one_more() if not self._free else None
        self._begin(thread)
        self.polled.stop()

    def cleanup(self) -> None:
        """When all that was taken has been handled."""
        while self._threads:  # one may have begun another
            self._threads[0].join()
            del self._threads[0]
        super().stop()  # which forgets who handles
        self.polled.cleanup()

    def _one_more(self) -> threading.Thread:
        """To begin as soon as the guard is left."""
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
        while incoming := self._take():
            try:
                self.on_incoming_callback(incoming)
            except BaseException:
                # Also one that is to end a thread: this one's place would be lost with it.
                LOG.exception("A message was taken, and not handled")
            with self._guard:
                self._free += 1

    def _take(self) -> list[base.RpcIncomingMessage] | None:
        """The next message, as soon as it is this thread's turn and there is one; None if none is to come."""
        with self._turn:
            incoming = self._listen()
            with self._guard:
                self._free -= 1
                nobody_listens = bool(incoming) and not self._free
                may_begin = self._ending or len(self._threads) < self._most
                thread = self._one_more() if nobody_listens and may_begin else None
        self._begin(thread)
        return incoming

    def _listen(self) -> list[base.RpcIncomingMessage] | None:
        while True:
            # Read before: what came until then is still to be taken.
            ending = self._ending
            try:
                incoming = self.polled.poll(batch_size=self.batch_size, batch_timeout=self.batch_timeout)
            except Exception as failure:
                # A broker that is away is waited for by oslo.messaging; one that refuses is not.
                pause_s = self._backoff.pause_s()
                if isinstance(failure, broker_refusals.AWAY):
                    refused = failure
                else:
                    LOG.exception("Messages cannot be taken; next try in %.1f s", pause_s)
                    refused = None
            else:
                self._backoff.reset()
                if incoming or ending:
                    return incoming or None
                continue
            if refused is not None:
                broker_refusals.log_refusal("messages cannot be taken", refused)
            # A stop ends the pause; the driver's listener is to be polled once more then.
            self._stopped.wait(pause_s)
