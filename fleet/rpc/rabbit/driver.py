# SPDX-License-Identifier: Apache-2.0
"""oslo.messaging's RabbitMQ driver, with back-off while the broker refuses and with bounded fanout queues.

oslo.messaging reconnects after a lost connection. A broker that answers and refuses (changed password, connection
limit) is not a lost connection to it: the refusal leaves its loop as an exception of py-amqp or kombu. The thread
that receives replies would then retry without a pause, with a traceback each time.
"""

from __future__ import annotations

import os
import ssl
import threading
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_messaging._drivers import common, impl_rabbit

from fleet.rpc import backoff
from fleet.rpc.rabbit.broker_refusals import limit_library_logs, log_refusal
from fleet.rpc.rabbit.lean.topology import FANOUT_BOUNDS

#: Messages that the broker may send to one consumer before they are handled. oslo.messaging's default is unlimited:
#: one process would receive a whole backlog, and the others nothing.
PREFETCH = 8
#: Seconds after which the broker deletes the fanout and reply queues of a process that was killed. oslo.messaging's
#: default is half an hour, in which they fill.
UNUSED_QUEUES_S = 120
#: Seconds that oslo.messaging's own reply waits for the caller's queue, which blocks a worker; its default is 60.
ANSWER_PATIENCE_S = 1
_RABBIT = "oslo_messaging_rabbit"


class BackOffDriver(impl_rabbit.RabbitDriver):
    """oslo.messaging's driver. Its thread that receives replies backs off while the broker refuses."""

    def _get_connection(self, purpose: str = common.PURPOSE_SEND, retry: int | None = None) -> Any:
        borrowed = super()._get_connection(purpose, retry)
        if purpose == common.PURPOSE_LISTEN and type(borrowed.connection) is impl_rabbit.Connection:
            borrowed.connection.__class__ = _BoundedFanoutConnection
        return borrowed

    def _get_reply_q(self) -> str:
        queue: str = super()._get_reply_q()
        waiter = self._waiter
        if waiter is not None and not isinstance(waiter.conn, _BackOffConnection):
            waiter.conn = _BackOffConnection(waiter.conn, waiter._thread_exit_event)
        return queue


class _BoundedFanoutConnection(impl_rabbit.Connection):
    """A connection whose fanout queues hold few messages after their process was killed."""

    def declare_consumer(self, consumer: impl_rabbit.Consumer) -> None:
        # With a queue manager, queues outlive their process and may exist with other arguments.
        if consumer.type == "fanout" and not self.rabbit_stream_fanout and not self._q_manager:
            consumer.queue_arguments = {**(consumer.queue_arguments or {}), **FANOUT_BOUNDS}
        super().declare_consumer(consumer)


class _BackOffConnection:
    """A connection that pauses after a refusal, before its user retries."""

    def __init__(self, connection: Any, ending: threading.Event) -> None:
        self._connection = connection
        self._ending = ending
        self._backoff = backoff.Backoff()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def consume(self, timeout: float) -> None:
        """:raises oslo_messaging._drivers.common.Timeout: no message arrived, or the broker refuses"""
        try:
            self._connection.consume(timeout=timeout)
        except common.Timeout:
            self._backoff.reset()
            raise
        except Exception as refused:
            # A half-closed connection raises other errors, such as an AttributeError of py-amqp.
            trouble = refused
        else:
            self._backoff.reset()
            return
        log_refusal("answers cannot be received", trouble)
        self._ending.wait(self._backoff.pause_s())
        raise common.Timeout


def adopt(transport: oslo_messaging.RPCTransport, conf: cfg.ConfigOpts | None = None) -> oslo_messaging.RPCTransport:
    """Make a RabbitMQ transport use this driver. Other transports are returned unchanged.

    :param conf: gets this project's defaults of RabbitMQ's options
    """
    if type(transport._driver) is impl_rabbit.RabbitDriver:
        transport._driver.__class__ = BackOffDriver
    limit_library_logs()
    if conf is not None and _RABBIT in conf:
        conf.set_default("kombu_missing_consumer_retry_timeout", ANSWER_PATIENCE_S, group=_RABBIT)
        conf.set_default("rabbit_transient_queues_ttl", UNUSED_QUEUES_S, group=_RABBIT)
        conf.set_default("rabbit_qos_prefetch_count", PREFETCH, group=_RABBIT)
        # Brokers since RabbitMQ 4.3 refuse queues that are transient and shared.
        conf.set_default("amqp_durable_queues", True, group=_RABBIT)
        # Without a file of authorities, oslo.messaging would accept any certificate.
        conf.set_default("ssl_ca_file", system_authorities(), group=_RABBIT)
        # The driver read this option before it could be set.
        transport._driver.missing_destination_retry_timeout = conf[_RABBIT].kombu_missing_consumer_retry_timeout
    return transport


def system_authorities() -> str | None:
    """Return the file of the certificate authorities that this machine trusts."""
    paths = ssl.get_default_verify_paths()
    known = [each for each in (paths.cafile, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/cert.pem") if each]
    return next((each for each in known if os.path.exists(each)), None)
