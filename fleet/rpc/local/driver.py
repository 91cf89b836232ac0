# SPDX-License-Identifier: Apache-2.0
"""The ``local://`` driver: connects oslo.messaging to a hub. Called by :mod:`fleet.rpc.local`."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
import uuid
from collections.abc import Callable

import oslo_messaging
from oslo_serialization import jsonutils

from fleet.json_codec import JSONObject
from fleet.rpc import oslo_drivers
from fleet.rpc.local import bridge, hub

#: Waits for the next frame of an answer; returns None after that many seconds without one.
Receive = Callable[[float | None], str | None]


class _Hubs:
    """The hubs of this process, by URL. A hub exists from the first driver that opens it to the last that closes it, so
    services with separate transports share one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[hub.Hub, bridge.SocketFront | None, set[int]]] = {}

    def find(self, address: str) -> hub.Hub | None:
        entry = self._open.get(address)
        return entry[0] if entry else None

    def open(self, address: str, user: object) -> hub.Hub:
        """:raises bridge.AddressInUse: another process hosts the hub
        :raises OSError: the socket cannot be created
        """
        with self._lock:
            if address not in self._open:
                new = hub.Hub()
                front = bridge.SocketFront(new, address) if address.startswith("/") else None
                self._open[address] = (new, front, set())
            hosted, _, users = self._open[address]
            users.add(id(user))
            return hosted

    def close(self, address: str, user: object) -> None:
        with self._lock:
            _, front, users = self._open.get(address, (None, None, set()))
            if id(user) not in users:
                return
            users.discard(id(user))
            if users:
                return
            del self._open[address]
        if front is not None:
            front.close()


_HUBS = _Hubs()


class LocalDriver(oslo_drivers.BaseDriver):
    """A process that listens hosts the hub. A process that only sends uses the hub of another process."""

    def __init__(
        self,
        conf: object,
        url: oslo_messaging.TransportURL,
        default_exchange: str | None = None,
        allowed_remote_exmods: list[str] | None = None,
    ) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        self._address = address(url)

    def send(
        self,
        target: oslo_messaging.Target,
        ctxt: JSONObject,
        message: JSONObject,
        wait_for_reply: bool | None = None,
        timeout: float | None = None,
        call_monitor_timeout: float | None = None,
        retry: int | None = None,
        transport_options: oslo_messaging.TransportOptions | None = None,
    ) -> object:
        """:raises oslo_messaging.MessageDeliveryFailure: no process hosts the hub, or it died during the call"""
        delivery = hub.Delivery(
            exchange=target.exchange or self._default_exchange or "",
            key=_key(target),
            body=jsonutils.dumps({"ctxt": ctxt, "message": message}),
            mandatory=bool(transport_options and transport_options.at_least_once),
            monitor_s=call_monitor_timeout,
        )
        try:
            answer = self._send(delivery, bool(wait_for_reply), timeout)
        except hub.Unroutable as unroutable:
            raise oslo_messaging.MessageUndeliverable(unroutable, delivery.exchange, delivery.key, message) from None
        if "failure" in answer:
            raise oslo_drivers.deserialize_remote_exception(answer["failure"], self._allowed_remote_exmods)
        return answer.get("result")

    def send_notification(
        self,
        target: oslo_messaging.Target,
        ctxt: JSONObject,
        message: JSONObject,
        version: float,
        retry: int | None = None,
    ) -> None:
        """Send a notification. It is dropped if there is no listener: an embedded fleet keeps no backlog."""
        self.send(target, ctxt, message)

    def listen(
        self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float | None
    ) -> oslo_drivers.Listener:
        exchange = target.exchange or self._default_exchange or ""
        fanout = hub.Binding(exchange, f"{target.topic}_fanout", f"{target.topic}_fanout_{uuid.uuid4().hex}")
        bindings, passing = [fanout, hub.Binding(exchange, target.topic, target.topic)], [fanout]
        if target.server:
            directed = f"{target.topic}.{target.server}"
            passing.append(hub.Binding(exchange, directed, directed))
            bindings.append(passing[-1])
        return self._listener(bindings, passing, batch_size, batch_timeout)

    def listen_for_notifications(
        self,
        targets_and_priorities: list[tuple[oslo_messaging.Target, str]],
        pool: str | None,
        batch_size: int,
        batch_timeout: float | None,
    ) -> oslo_drivers.Listener:
        bindings = []
        for target, priority in targets_and_priorities:
            key = f"{target.topic}.{priority}"
            bindings.append(hub.Binding(target.exchange or self._default_exchange or "", key, pool or key))
        return self._listener(bindings, [], batch_size, batch_timeout)

    def cleanup(self) -> None:
        _HUBS.close(self._address, self)

    def _listener(
        self, bindings: list[hub.Binding], passing: list[hub.Binding], batch_size: int, batch_timeout: float | None
    ) -> oslo_drivers.Listener:
        try:
            hosted = _HUBS.open(self._address, self)
        except (bridge.AddressInUse, OSError) as unusable:
            # Not TransportDriverError: MessageHandlingServer.start fails on it (18.3 reads a missing attribute).
            raise oslo_messaging.MessagingException(str(unusable)) from unusable
        return oslo_drivers.PollStyleListenerAdapter(_Listener(hosted, bindings, passing), batch_size, batch_timeout)

    def _send(self, delivery: hub.Delivery, wants_reply: bool, timeout: float | None) -> dict[str, object]:
        hosted = _HUBS.find(self._address)
        if hosted is None and not self._address.startswith("/"):
            hosted = _HUBS.open(self._address, self)
        if hosted is not None:
            return _send_here(hosted, delivery, wants_reply, timeout)
        try:
            with bridge.ClientCall(self._address) as call:
                call.publish(delivery, wants_reply)
                return _wait_for_answer(call.receive, delivery, timeout) if wants_reply else {}
        except (EOFError, OSError) as dead:
            reason = getattr(dead, "strerror", None) or "it has just ended"
            raise oslo_messaging.MessageDeliveryFailure(f"no fleet is running at {self._address}: {reason}") from dead


def _send_here(hosted: hub.Hub, delivery: hub.Delivery, wants_reply: bool, timeout: float | None) -> dict[str, object]:
    if not wants_reply:
        hosted.publish(delivery)
        return {}
    box = _ReplyBox()
    hosted.publish(dataclasses.replace(delivery, reply_to=box))
    return _wait_for_answer(box.receive, delivery, timeout)


def _wait_for_answer(receive: Receive, delivery: hub.Delivery, timeout: float | None) -> dict[str, object]:
    """Wait for ``result`` or ``failure``: ``timeout`` seconds in all, ``monitor_s`` between two heartbeats.

    :raises oslo_messaging.MessagingTimeout: it is unknown whether the call was executed
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        patience = min((limit for limit in (left, delivery.monitor_s) if limit is not None), default=None)
        frame = receive(patience)
        if frame is None:
            raise oslo_messaging.MessagingTimeout(f"No reply on topic {delivery.key}")
        answer = jsonutils.loads(frame)
        if answer:
            return answer


class _ReplyBox:
    """The caller's end of a call inside this process."""

    def __init__(self) -> None:
        self._frames: queue.SimpleQueue[str] = queue.SimpleQueue()

    def send(self, frame: str, final: bool = False) -> None:
        self._frames.put(frame)

    def receive(self, timeout_s: float | None) -> str | None:
        try:
            return self._frames.get(timeout=timeout_s)
        except queue.Empty:
            return None


class _Listener(oslo_drivers.PollStyleListener):
    def __init__(self, hosted: hub.Hub, bindings: list[hub.Binding], passing: list[hub.Binding]) -> None:
        super().__init__()
        self._hub = hosted
        self._subscription = hosted.subscribe(bindings, passing)

    def poll(
        self, timeout: float | None = None, batch_size: int = 1, batch_timeout: float | None = None
    ) -> list[oslo_drivers.IncomingMessage]:
        deliveries = self._subscription.take(batch_size, timeout, batch_timeout)
        return [_Incoming(delivery) for delivery in deliveries]

    def stop(self) -> None:
        self._subscription.stop()
        self._hub.unsubscribe(self._subscription)


class _Incoming(oslo_drivers.RpcIncomingMessage):
    def __init__(self, delivery: hub.Delivery) -> None:
        body = jsonutils.loads(delivery.body)
        super().__init__(body["ctxt"], body["message"])
        self.client_timeout = delivery.monitor_s
        self._delivery = delivery

    def reply(self, reply: object = None, failure: tuple | None = None) -> None:
        if self._delivery.reply_to is None:
            return
        answer = {"failure": oslo_drivers.serialize_remote_exception(failure)} if failure else {"result": reply}
        self._delivery.reply_to.send(jsonutils.dumps(answer), final=True)

    def heartbeat(self) -> None:
        if self._delivery.reply_to is not None:
            self._delivery.reply_to.send("{}")

    def requeue(self) -> None:
        raise NotImplementedError("this transport does not take messages back")


def address(url: oslo_messaging.TransportURL) -> str:
    """Return an absolute socket path, or a name without a slash."""
    if url.virtual_host:
        return "/" + url.virtual_host.lstrip("/")
    return url.hosts[0].hostname if url.hosts else ""


def _key(target: oslo_messaging.Target) -> str:
    if target.fanout:
        return f"{target.topic}_fanout"
    return f"{target.topic}.{target.server}" if target.server else target.topic
