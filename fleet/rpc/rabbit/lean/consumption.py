# SPDX-License-Identifier: Apache-2.0
"""One connection of a listener, with its consumers, and the messages that it has delivered.

:mod:`fleet.rpc.rabbit.lean.incoming` opens one, and another after each loss.
"""

from __future__ import annotations

import threading
import time

import amqp

from fleet.rpc.rabbit.lean import frames
from fleet.rpc.rabbit.lean.link import Link

#: Seconds until a connection whose consumers have left is closed, whatever is still being handled.
_LONGEST_S = 300.0


class Consumption:
    """``tags`` are the consumers by the names of their queues. The lock of the link guards ``channel`` and ``tags``.

    A listener that moves to another node leaves the former connection open until each message that it has delivered is
    acknowledged: an exclusive queue, and the messages that it gave out, end with its connection.
    """

    def __init__(self, link: Link, prefetch: int) -> None:
        self.link = link
        self.channel: amqp.Channel = link.connection.channel()
        self.channel.basic_qos(0, prefetch, False)
        self.tags: dict[str, str] = {}
        self.is_lost = False
        self._lock = threading.Lock()
        self._unsettled = 0
        self._leaves_at: float | None = None

    @property
    def is_over(self) -> bool:
        """True if the consumers have left, and no message is left to acknowledge."""
        return self._leaves_at is not None and (self._unsettled == 0 or time.monotonic() > self._leaves_at)

    def deliver(self) -> None:
        """A message has arrived."""
        with self._lock:
            self._unsettled += 1

    def acknowledge(self, message: amqp.Message) -> bool:
        """Return False if the connection is lost: the message will come again. :raises LOST: it is lost now"""
        with self.link.lock:
            if self.is_lost:
                return False
            self.link.write(frames.acknowledgement(self.channel, message.delivery_tag))
        with self._lock:
            self._unsettled -= 1
        return True

    def leave(self) -> None:
        """Cancel the consumers. What has been delivered is still to be handled. :raises LOST:"""
        with self.link.lock, self.link.asking():
            for tag in self.tags.values():
                self.channel.basic_cancel(tag)  # what the broker has sent before its answer is read meanwhile
            self._leaves_at = time.monotonic() + _LONGEST_S

    def close(self) -> None:
        self.is_lost = True
        self.link.close()
