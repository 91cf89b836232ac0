# SPDX-License-Identifier: Apache-2.0
"""A channel for publications, which the broker confirms by their numbers on it.

:mod:`fleet.rpc.rabbit.lean.outgoing` publishes by it.
"""

from __future__ import annotations

import threading
import time

import amqp

from fleet.rpc.rabbit.lean.publication import Outcome, Publication

#: Seconds that a channel is used at least, so that rejections do not open a channel for each message.
_LEAST_S = 0.1


class Confirms:
    """Publications that the broker has not confirmed yet. The lock of the link guards the channel, ``_lock`` the rest.

    RabbitMQ keeps state of each quorum queue to which a channel publishes. A channel that first publishes while the node of
    the queue's leader is dead, and no other leader is known yet, remembers the dead node, and rejects all that it is given
    for this queue as long as the node is dead. So a channel that has rejected a message is *worn*, and another one takes
    its place.
    """

    def __init__(self, connection: amqp.Connection) -> None:
        self.channel = connection.channel()
        self.channel.confirm_select()
        self.channel.events["basic_ack"].add(self._acked)
        self.channel.events["basic_nack"].add(self._nacked)
        self.channel.events["basic_return"].add(self._returned)
        self._opened_at = time.monotonic()
        self._lock = threading.Lock()
        self._rejected = self._ended = False
        #: By delivery tag, in order. A tag is the number of the message on its channel.
        self._pending: dict[int, Publication] = {}
        self._next_tag = 1
        #: When the first of them was written, or another one was confirmed since.
        self._waits_since = 0.0

    @property
    def is_worn(self) -> bool:
        return self._rejected and time.monotonic() - self._opened_at >= _LEAST_S

    @property
    def is_idle(self) -> bool:
        """True if nothing is left to confirm."""
        return not self._pending

    def waits_s(self) -> float:
        """Return the seconds for which nothing was confirmed, while something was to be."""
        with self._lock:
            return time.monotonic() - self._waits_since if self._pending else 0.0

    def add(self, publication: Publication) -> bool:
        """Expect the confirmation of the message that is written next. Return False if the channel is lost."""
        with self._lock:
            if not self._ended:
                if not self._pending:
                    self._waits_since = time.monotonic()
                self._pending[self._next_tag] = publication
                self._next_tag += 1
            return not self._ended

    def end(self) -> list[Publication]:
        """Expect no more confirmations: the channel is lost. Return the publications that were not confirmed."""
        with self._lock:
            self._ended = True
            pending, self._pending = list(self._pending.values()), {}
            return pending

    def closed(self) -> bool:
        """Close the channel if nothing is left to confirm; return True then. :raises LOST:"""
        if not self.is_idle:
            return False
        self.channel.close()
        return True

    def _acked(self, tag: int, multiple: bool) -> None:
        for each in self._settled(tag, multiple):
            each.ended(Outcome.UNDELIVERABLE if each.undeliverable else Outcome.ACCEPTED)

    def _nacked(self, tag: int, multiple: bool) -> None:
        self._rejected = True
        for each in self._settled(tag, multiple):
            each.reject()

    def _settled(self, tag: int, multiple: bool) -> list[Publication]:
        with self._lock:
            self._waits_since = time.monotonic()
            tags = [each for each in self._pending if each <= tag] if multiple else [tag]
            return [found for each in tags if (found := self._pending.pop(each, None)) is not None]

    def _returned(self, _error: Exception, _exchange: str, _key: str, message: amqp.Message) -> None:
        """Mark a publication as undeliverable; its confirmation follows."""
        returned = message.properties.get("message_id")
        with self._lock:
            for each in self._pending.values():
                if each.message_id == returned:
                    each.undeliverable = True
                    return
