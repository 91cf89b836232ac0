# SPDX-License-Identifier: Apache-2.0
"""Writes messages to one connection: on which channel, and what it declares first.

:mod:`fleet.rpc.rabbit.lean.outgoing` has one for each connection that it opens.
"""

from __future__ import annotations

import threading

from fleet.rpc.rabbit.lean import frames, topology
from fleet.rpc.rabbit.lean.confirms import Confirms
from fleet.rpc.rabbit.lean.link import Link
from fleet.rpc.rabbit.lean.publication import Publication
from fleet.rpc.rabbit.lean.settings import Settings


class Publisher:
    """The lock of the link guards the connection, ``_lock`` guards the list of channels.

    Make one with the link's lock, while the link asks (:meth:`.link.Link.asking`).

    :raises LOST: the connection is lost
    """

    def __init__(self, link: Link, settings: Settings) -> None:
        self.link = link
        self._settings = settings
        self._lock = threading.Lock()
        #: The last one is written to, the others wait for confirmations.
        self._channels = [Confirms(link.connection)]
        self._has_ended = False
        #: Names of exchanges, and names of exchanges with routing keys of queues.
        self._declared: set[str] = set()
        self._queues: set[tuple[str, str]] = set()

    @property
    def is_idle(self) -> bool:
        """True if nothing is left to confirm."""
        with self._lock:
            return all(each.is_idle for each in self._channels)

    def waits_s(self) -> float:
        """Return the seconds for which nothing was confirmed on a channel, while something was to be."""
        with self._lock:
            return max(each.waits_s() for each in self._channels)

    def end(self) -> list[Publication]:
        """Write nothing more: the connection is lost. Return the publications that were not confirmed."""
        with self._lock:
            self._has_ended = True
            return [each for channel in self._channels for each in channel.end()]

    def write(self, publication: Publication, with_queue: bool) -> bool:
        """Declare what the message needs, and write it. Return False if the connection is lost.

        Call it with the link's lock.

        :param with_queue: declare the queue of the routing key too, so that the message waits for a consumer
        :raises amqp.exceptions.IrrecoverableChannelError: the broker refuses a declaration
        :raises LOST:
        """
        link, exchange = self.link, publication.exchange
        channel = self._channel()
        place = exchange.name, publication.key
        if (with_queue and place not in self._queues) or exchange.name not in self._declared:
            with link.asking():
                if with_queue:
                    queue_of_it = topology.topic_queue(self._settings, exchange.name, publication.key)
                    topology.declare_queue(link.connection, queue_of_it)
                    self._queues.add(place)
                else:
                    topology.declare_exchange(link.connection, exchange)
            self._declared.add(exchange.name)
            link.wake()  # the caller that waits for the connection may have its reply now
        expiration_s = publication.expiration_s
        made = frames.publication(
            channel.channel,
            exchange.name,
            publication.key,
            publication.body,
            mandatory=publication.mandatory,
            persistent=self._settings.persistent,
            message_id=publication.message_id,
            expiration_ms=None if expiration_s is None else int(expiration_s * 1000),
            frame_max=link.frame_max,
        )
        if not channel.add(publication):
            return False
        link.write(made)
        return True

    def _channel(self) -> Confirms:
        """Return the channel to write to; in place of a worn one, another is opened."""
        newest = self._channels[-1]
        return self._another_channel() if newest.is_worn else newest

    def _another_channel(self) -> Confirms:
        """Open another channel, and close those that have nothing left to confirm."""
        link = self.link
        with link.asking():
            kept = [each for each in self._channels if not each.closed()]
            channel = Confirms(link.connection)
        with self._lock:
            if self._has_ended:
                channel.end()
            else:
                self._channels = [*kept, channel]
        link.wake()  # the caller that waits for the connection may have its reply now
        return channel
