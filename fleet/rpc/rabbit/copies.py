# SPDX-License-Identifier: Apache-2.0
"""Receives copies of the messages that others are sent: a queue of its own, bound to their exchange and routing key.

Called by :mod:`scheduler.nova.shadow.service`. The broker puts a copy into each bound queue, so the receivers go on as
before. No reply is sent. The queue lives as long as its connection; it keeps the newest messages only, and none for
long.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from fleet.json_codec import JSONObject
from fleet.rpc.rabbit import broker, message_body
from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)
#: Messages that wait at most; the oldest are dropped.
MOST_WAITING = 1000
#: Milliseconds after which a message that waits is dropped: the hosts are others by then.
LONGEST_WAIT_MS = 30_000
_RETRY_S = 5.0
_PREFETCH = 20


class Copies:
    """:param handle: gets the content of each message, in one thread. An exception is logged, once a minute for each kind"""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        exchange: str,
        routing_key: str,
        queue: str,
        handle: Callable[[JSONObject], object],
    ) -> None:
        self._conf = conf
        self._exchange = exchange
        self._routing_key = routing_key
        self._queue = queue
        self._handle = handle
        self._stopping = threading.Event()
        self._log = rate_limited_log.RateLimit()
        self._thread = threading.Thread(target=self._run, name=f"copies of {routing_key}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def wait(self) -> None:
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._receive()
            except broker.BrokerAway as away:
                self._warn("no copies are received: %s", str(away))
            self._stopping.wait(_RETRY_S)

    def _receive(self) -> None:
        with broker.connected(self._conf) as connection:
            lost = (*connection.connection_errors, *connection.channel_errors, OSError)
            try:
                channel = connection.channel()
                # The exchange is the receivers' own: it is not declared, so its arguments need not be known.
                limits = {"x-max-length": MOST_WAITING, "x-message-ttl": LONGEST_WAIT_MS}
                channel.queue_declare(self._queue, durable=False, exclusive=True, auto_delete=True, arguments=limits)
                channel.queue_bind(self._queue, self._exchange, self._routing_key)
                channel.basic_qos(0, _PREFETCH, False)
                channel.basic_consume(self._queue, callback=lambda raw: self._take(channel, raw))
                LOG.info("Copies of the messages to %s are received in queue %s", self._routing_key, self._queue)
                while not self._stopping.is_set():
                    with contextlib.suppress(TimeoutError):
                        connection.drain_events(timeout=1)
            except lost as failure:
                raise broker.BrokerAway(f"{type(failure).__name__}: {str(failure)[:200]}") from None

    def _take(self, channel: Any, raw: Any) -> None:
        try:
            content, _text = message_body.decoded(raw)
            self._handle(content)
        except message_body.Unreadable as unreadable:
            self._warn("a copy is left out: %s", str(unreadable))
        except Exception as failure:
            if self._log.due(type(failure).__name__) is not None:
                LOG.exception("A copy could not be handled")
        channel.basic_ack(raw.delivery_tag)

    def _warn(self, line: str, said: str) -> None:
        if self._log.due(line) is not None:
            LOG.warning(line, said)
