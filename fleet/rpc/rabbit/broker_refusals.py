# SPDX-License-Identifier: Apache-2.0
"""A broker that refuses, at the start or later: back off, log one line a minute, and stay up.

oslo.messaging retries a connection that is lost. But a broker that answers and refuses (a changed password, a limit of
connections) is no lost connection to it: the refusal leaves its loop as an exception of py-amqp or kombu. Its thread for
answers then tries again without a pause, with a traceback each time.
"""

from __future__ import annotations

import logging as standard_logging
import threading
from typing import Any

import amqp
import kombu.exceptions
import oslo_messaging
from oslo_log import log as logging
from oslo_messaging._drivers import common, impl_rabbit

from fleet.rpc import backoff
from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)

#: What the libraries below oslo.messaging raise when the broker is away or refuses.
REFUSALS = (
    amqp.exceptions.AMQPError,
    kombu.exceptions.KombuError,
    kombu.exceptions.OperationalError,
    common.RPCException,
)
#: And what oslo.messaging makes of that.
AWAY = (*REFUSALS, oslo_messaging.MessagingException)
#: oslo.log names a library's logger in either way.
_LIBRARIES = [f"oslo{mark}messaging._drivers.{name}" for mark in "._" for name in ("impl_rabbit", "amqpdriver")]
_LONGEST = 200
#: Messages to all servers of a topic are hints, and old ones are worth nothing. Milliseconds, and messages.
FANOUT_BOUNDS = {"x-message-ttl": 60_000, "x-max-length": 10_000}
_refused = rate_limited_log.Seldom()


def reason(refused: BaseException) -> str:
    """In one short line."""
    said = " ".join(str(refused).split()) or type(refused).__name__
    return said[:_LONGEST]


def log_refusal(what: str, refused: BaseException) -> None:
    """One line a minute for each thing that cannot be done."""
    left_out = _refused.due(what)
    if left_out is not None:
        said = "The broker refuses or is away, %s: %s (%d more since the last such line)"
        LOG.warning(said, what, reason(refused), left_out)


class PatientDriver(impl_rabbit.RabbitDriver):
    """oslo.messaging's driver, but for how its thread for answers deals with a broker that refuses."""

    def _get_connection(self, purpose: str = common.PURPOSE_SEND, retry: int | None = None) -> Any:
        borrowed = super()._get_connection(purpose, retry)
        if purpose == common.PURPOSE_LISTEN and type(borrowed.connection) is impl_rabbit.Connection:
            borrowed.connection.__class__ = _BoundingFanouts
        return borrowed

    def _get_reply_q(self) -> str:
        queue: str = super()._get_reply_q()
        waiter = self._waiter
        if waiter is not None and not isinstance(waiter.conn, _BackingOff):
            waiter.conn = _BackingOff(waiter.conn, waiter._thread_exit_event)
        return queue


class _BoundingFanouts(impl_rabbit.Connection):
    """A connection of oslo.messaging's whose fanout queues hold little after their process was killed."""

    def declare_consumer(self, consumer: impl_rabbit.Consumer) -> None:
        # A queue manager's queues outlive their process, and may be there already with other arguments.
        if consumer.type == "fanout" and not self.rabbit_stream_fanout and not self._q_manager:
            consumer.queue_arguments = {**(consumer.queue_arguments or {}), **FANOUT_BOUNDS}
        super().declare_consumer(consumer)


class _BackingOff:
    """A connection that pauses after a refusal before its user tries again."""

    def __init__(self, connection: Any, ending: threading.Event) -> None:
        self._connection = connection
        self._ending = ending
        self._backoff = backoff.Backoff()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def consume(self, timeout: float) -> None:
        """:raises oslo_messaging._drivers.common.Timeout: there was nothing, or the broker refuses"""
        try:
            self._connection.consume(timeout=timeout)
        except common.Timeout:
            self._backoff.reset()
            raise
        except Exception as refused:
            # Also what a half-closed connection raises, such as an AttributeError of py-amqp.
            trouble = refused
        else:
            self._backoff.reset()
            return
        log_refusal("answers cannot be received", trouble)
        self._ending.wait(self._backoff.pause_s())
        raise common.Timeout


def calm(transport: oslo_messaging.RPCTransport) -> oslo_messaging.RPCTransport:
    """The same transport, with a driver that backs off; other drivers than RabbitMQ's are left as they are."""
    if type(transport._driver) is impl_rabbit.RabbitDriver:
        transport._driver.__class__ = PatientDriver
    for name in _LIBRARIES:
        logger = standard_logging.getLogger(name)
        if _one_a_minute not in logger.filters:
            logger.addFilter(_one_a_minute)
    return transport


_library_said = rate_limited_log.Seldom()


def _one_a_minute(record: standard_logging.LogRecord) -> bool:
    """Of what oslo.messaging warns of, one line a minute for each kind, and no traceback of a broker's refusal."""
    if record.levelno < standard_logging.WARNING:
        return True
    left_out = _library_said.due(f"{record.name} {record.msg}")
    if left_out is None:
        return False
    if record.exc_info and isinstance(record.exc_info, tuple) and isinstance(record.exc_info[1], AWAY):
        record.msg, record.args = f"{record.getMessage()}: {reason(record.exc_info[1])}", ()
        record.exc_info = None
    if left_out:
        record.msg, record.args = f"{record.getMessage()} ({left_out} more since the last such line)", ()
    return True
