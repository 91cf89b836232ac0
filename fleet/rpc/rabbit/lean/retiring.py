# SPDX-License-Identifier: Apache-2.0
"""A connection that is written to no more: it is read until all on it has ended, and closed.

Called by :mod:`fleet.rpc.rabbit.lean.outgoing`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from oslo_log import log as logging

from fleet.rpc.rabbit.lean.link import LOST
from fleet.rpc.rabbit.lean.publication import Outcome
from fleet.rpc.rabbit.lean.publisher import Publisher

LOG = logging.getLogger(__name__)
#: Seconds of one wait for the broker, and seconds until the connection is closed, whatever is still to come.
_LOOK_S = 0.1
_LONGEST_S = 300.0


class Retiring(threading.Thread):
    """The connection for sending after its successor was opened at another node.

    Publications that are not confirmed in time end as lost, so that their senders publish them again.

    :param publisher: of the connection
    :param reply_queue: the queue for replies to the calls before; it is deleted in the end. Empty if there is none
    :param waiting: returns the callers that wait for a reply in it
    :param replies_lost: is called if the connection is lost meanwhile, with the replies that were to come
    """

    def __init__(
        self,
        publisher: Publisher,
        reply_queue: str,
        waiting: Callable[[], bool],
        replies_lost: Callable[[], object],
    ) -> None:
        super().__init__(name="rpc-retiring", daemon=True)
        self._publisher = publisher
        self._link = publisher.link
        self._reply_queue = reply_queue
        self._waiting = waiting
        self._replies_lost = replies_lost
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()
        self._link.wake()

    def run(self) -> None:
        link, end = self._link, time.monotonic() + _LONGEST_S
        link.wake()
        # A caller that still reads this connection takes the wake-up, and reads the new one.
        self._stopping.wait(_LOOK_S)
        try:
            while self._is_needed() and not self._stopping.is_set() and time.monotonic() < end:
                if link.wait(_LOOK_S):
                    link.read()
                link.heartbeat()
            if self._reply_queue:
                with link.lock, link.asking():
                    link.connection.channel().queue_delete(self._reply_queue)
        except LOST as lost:
            LOG.info("The former connection for sending is lost: %s", lost)
        self.end()

    def end(self) -> None:
        """Close the connection. What has not ended on it is lost."""
        if self._waiting():
            self._replies_lost()
        for each in self._publisher.end():
            each.ended(Outcome.LOST)
        self._link.close()

    def _is_needed(self) -> bool:
        return self._waiting() or not self._publisher.is_idle
