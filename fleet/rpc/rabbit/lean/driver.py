# SPDX-License-Identifier: Apache-2.0
"""The driver: what oslo.messaging calls. The way of a call, with the threads that touch it::

    client                                       broker                    server
    caller  send() ── publish ─────────────────▶ topic queue ─────────────▶ a free thread: poll() takes it,
       │                                                                      acknowledges and handles it
       │ reads the connection                                                 │
       ◀────── consume ───────────────────────── reply queue ◀── publish ─── reply(): written, not waited for

A process has one outgoing connection (:mod:`.outgoing`), and one connection for each listener (:mod:`.incoming`).
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from typing import Any

import orjson
import oslo_messaging
from oslo_config import cfg

from fleet.json_codec import JSONObject
from fleet.rpc import oslo_drivers
from fleet.rpc.rabbit import defaults
from fleet.rpc.rabbit.conf import OPTIONS
from fleet.rpc.rabbit.lean import topology, wire
from fleet.rpc.rabbit.lean.incoming import Listener
from fleet.rpc.rabbit.lean.outgoing import NotSent, Outgoing
from fleet.rpc.rabbit.lean.publication import Outcome, Publication
from fleet.rpc.rabbit.lean.reading import Arrivals
from fleet.rpc.rabbit.lean.settings import Settings
from fleet.rpc.rabbit.lean.shared_queues import SharedQueues

#: Seconds that a cast waits for the broker's confirmation before it is published again.
_CONFIRM_S = 30.0
#: Seconds that one of a limited number of attempts waits for a connection.
_ATTEMPT_S = 2.0
_DEAD_NODE = "the broker's node with the queue for it is dead"


class LeanDriver(oslo_drivers.BaseDriver):
    """An oslo.messaging driver. Peers with the stock RabbitMQ driver cannot tell the difference."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        url: oslo_messaging.TransportURL,
        default_exchange: str | None = None,
        allowed_remote_exmods: list[str] | None = None,
    ) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        defaults.register_opts(conf)
        conf.register_opts(OPTIONS)
        self._settings: Settings | None = None
        self._outgoing: Outgoing | None = None
        self._lock = threading.Lock()

    @property
    def settings(self) -> Settings:
        """Read when they are first needed: options may be set between making the driver and using it."""
        if self._settings is None:
            self._settings = Settings.parse(self.conf, self._url)
        return self._settings

    def _out(self) -> Outgoing:
        with self._lock:
            if self._outgoing is None:
                self._outgoing = Outgoing(self.settings)
            return self._outgoing

    @property
    def refusal(self) -> str:
        """The error of the newest attempt to connect; "" if a broker accepted it, or no attempt was made."""
        with self._lock:
            return self._outgoing.refusal if self._outgoing is not None else ""

    def require_features(self, requeue: bool = True) -> None:
        """All features are there."""

    def send(
        self,
        target: oslo_messaging.Target,
        ctxt: object,
        message: JSONObject,
        wait_for_reply: bool | None = None,
        timeout: float | None = None,
        call_monitor_timeout: float | None = None,
        retry: int | None = None,
        transport_options: Any = None,
    ) -> object:
        """Send a cast or a call.

        :raises oslo_messaging.MessagingTimeout: no reply in time
        :raises oslo_messaging.MessageUndeliverable: no queue takes a message that must be routed
        :raises oslo_messaging.MessageDeliveryFailure: the broker does not accept the message
        """
        mandatory = bool(transport_options and transport_options.at_least_once)
        if target.fanout:
            where, key = topology.fanout_exchange(self.settings, target.topic), ""
        else:
            where = topology.topic_exchange(self.settings, target.exchange or self._default_exchange)
            key = f"{target.topic}.{target.server}" if target.server else target.topic
        if wait_for_reply:
            return self._call(where, key, ctxt, message, timeout, call_monitor_timeout, mandatory)
        self._cast(where, key, wire.request_body(ctxt, message), mandatory, timeout, retry)
        return None

    def send_notification(
        self, target: oslo_messaging.Target, ctxt: object, message: Any, version: float, retry: int | None
    ) -> None:
        where = topology.topic_exchange(self.settings, target.exchange or self._default_exchange)
        body = wire.notification_body(ctxt, message, version)
        self._cast(where, target.topic, body, False, None, retry, with_queue=True)

    def _cast(
        self,
        where: topology.Exchange,
        key: str,
        body: bytes,
        mandatory: bool,
        timeout: float | None,
        retry: int | None,
        with_queue: bool = False,
    ) -> None:
        """Publish until the broker confirms. A message that is published again keeps its unique id."""
        attempts = None if retry is None or retry < 0 else retry + 1
        deadline = None if timeout is None else time.monotonic() + timeout
        ended: Arrivals = queue.SimpleQueue()
        publication = Publication(where, key, body, ended.put, mandatory, timeout)
        for _attempt in itertools.count() if attempts is None else range(attempts):
            try:
                left = None if deadline is None else deadline - time.monotonic()
                wait_s = left if attempts is None else min(_ATTEMPT_S, _ATTEMPT_S if left is None else left)
                out = self._out()
                out.publish(publication, wait_s, with_queue)
                outcome = out.receive(ended, time.monotonic() + (_CONFIRM_S if left is None else max(left, 0.001)))
            except (NotSent, queue.Empty) as not_sent:
                if deadline is not None and time.monotonic() >= deadline:
                    raise oslo_messaging.MessagingTimeout(f"Timed out sending to {key}: {not_sent}") from None
                continue
            if outcome is Outcome.ACCEPTED:
                return
            if outcome is Outcome.UNDELIVERABLE:
                raise _undeliverable(where, key)
            if outcome is Outcome.REFUSED:
                break
        raise oslo_messaging.MessageDeliveryFailure(f"The broker did not accept a message to {key}")

    def _call(
        self,
        where: topology.Exchange,
        key: str,
        ctxt: object,
        message: JSONObject,
        timeout: float | None,
        monitor_s: float | None,
        mandatory: bool,
    ) -> object:
        out, msg_id = self._out(), wire.new_id()
        unique_id, accepted = wire.new_id(), threading.Event()

        def body(reply_queue: str) -> bytes:
            return wire.request_body(ctxt, message, msg_id, reply_queue, monitor_s, unique_id)

        deadline = None if timeout is None else time.monotonic() + timeout
        alive_until = None if not monitor_s else time.monotonic() + monitor_s
        arrived = out.callers.expect(msg_id)

        def ended(outcome: Outcome) -> None:
            if outcome is Outcome.ACCEPTED:
                accepted.set()
            else:
                arrived.put(outcome)

        queue_name = out.callers.queue.name
        publication = Publication(where, key, body(queue_name), ended, mandatory, timeout)
        publication.remake, publication.reply_queue = body, queue_name
        try:
            self._publish_call(out, publication, msg_id, deadline)
            while True:
                found = self._arrival(out, arrived, msg_id, deadline, alive_until)
                if found is Outcome.UNDELIVERABLE:
                    raise _undeliverable(where, key)
                if found is Outcome.REFUSED:
                    raise oslo_messaging.MessageDeliveryFailure(f"The broker did not accept a message to {key}")
                if found is Outcome.REPLY_LOST:
                    # The message may have been published again meanwhile, and name the new queue.
                    if accepted.is_set() and publication.reply_queue != out.callers.queue.name:
                        raise oslo_messaging.MessagingTimeout(f"The reply to message ID {msg_id} is lost: {_DEAD_NODE}")
                elif isinstance(found, Outcome):  # the message was lost before the broker confirmed
                    self._publish_call(out, publication, msg_id, deadline)
                elif found.ending:
                    return self._result(found)
                elif monitor_s:
                    alive_until = time.monotonic() + monitor_s
        finally:
            out.callers.forget(msg_id)

    def _publish_call(self, out: Outgoing, publication: Publication, msg_id: str, deadline: float | None) -> None:
        """:raises oslo_messaging.MessagingTimeout: there was no connection in time"""
        try:
            out.publish(publication, None if deadline is None else deadline - time.monotonic())
        except NotSent as not_sent:
            raise oslo_messaging.MessagingTimeout(f"Timed out sending message {msg_id}: {not_sent}") from None

    @staticmethod
    def _arrival(
        out: Outgoing,
        arrived: Arrivals,
        msg_id: str,
        deadline: float | None,
        alive_until: float | None,
    ) -> wire.Reply | Outcome:
        """:raises oslo_messaging.MessagingTimeout: no reply in time, or no sign of life from the server"""
        ends = [each for each in (deadline, alive_until) if each is not None]
        try:
            return out.receive(arrived, min(ends) if ends else None)
        except queue.Empty:
            raise oslo_messaging.MessagingTimeout(f"Timed out waiting for a reply to message ID {msg_id}") from None

    def _result(self, reply: wire.Reply) -> object:
        """:raises Exception: the one of the server"""
        if reply.failure is None:
            return reply.result
        try:
            failure = oslo_drivers.deserialize_remote_exception(reply.failure, self._allowed_remote_exmods)
        except Exception as misfit:  # an error of another release may take other arguments
            kind = orjson.loads(reply.failure)["class"]
            failure = oslo_messaging.RemoteError(kind, f"an error that cannot be made here: {misfit}", [])
        raise failure

    def listen(
        self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float | None
    ) -> oslo_drivers.PollStyleListenerAdapter:
        exchange = target.exchange or self._default_exchange
        queues = [
            topology.topic_queue(self.settings, exchange, target.topic),
            topology.topic_queue(self.settings, exchange, f"{target.topic}.{target.server}"),
            topology.fanout_queue(self.settings, target.topic),
        ]
        listener = Listener(self.settings, self._out(), queues)
        return oslo_drivers.PollStyleListenerAdapter(listener, batch_size, batch_timeout)

    def listen_for_notifications(
        self, targets_and_priorities: Any, pool: str | None, batch_size: int, batch_timeout: float | None
    ) -> oslo_drivers.PollStyleListenerAdapter:
        queues = [
            topology.topic_queue(
                self.settings, target.exchange or self._default_exchange, f"{target.topic}.{priority}", pool or ""
            )
            for target, priority in targets_and_priorities
        ]
        listener = Listener(self.settings, self._out(), queues)
        return oslo_drivers.PollStyleListenerAdapter(listener, batch_size, batch_timeout)

    def shared_queues(self, topic: str, exchange: str) -> SharedQueues:
        """Return the queues of many hosts, which share one connection."""
        return SharedQueues(self.settings, self._out(), topic, exchange)

    def cleanup(self) -> None:
        with self._lock:
            outgoing, self._outgoing = self._outgoing, None
        if outgoing is not None:
            outgoing.close()


def of(transport: oslo_messaging.RPCTransport) -> LeanDriver | None:
    """Return the driver of a transport if it is this one."""
    driver = oslo_drivers.driver_of(transport)
    return driver if isinstance(driver, LeanDriver) else None


def _undeliverable(where: topology.Exchange, key: str) -> oslo_messaging.MessageUndeliverable:
    return oslo_messaging.MessageUndeliverable(None, where.name, key, None)
