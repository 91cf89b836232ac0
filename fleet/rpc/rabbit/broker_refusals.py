# SPDX-License-Identifier: Apache-2.0
"""The errors of a broker that cannot be reached or refuses, and rate-limited log lines about them.

Clients, servers and the lean driver call it where a call to the broker has failed.
"""

from __future__ import annotations

import logging as standard_logging
from collections.abc import Mapping

import amqp
import kombu.exceptions
import oslo_messaging
from oslo_log import log as logging

from fleet.rpc import oslo_drivers
from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)

#: Errors that amqp and kombu raise when the broker cannot be reached or refuses.
REFUSALS = (
    amqp.exceptions.AMQPError,
    kombu.exceptions.KombuError,
    kombu.exceptions.OperationalError,
    oslo_drivers.RPCException,
)
#: The same, and the errors that oslo.messaging raises in their place.
AWAY = (*REFUSALS, oslo_messaging.MessagingException)
#: oslo.log may name a library's logger in either way.
_LIBRARIES = [f"oslo{mark}messaging._drivers.{name}" for mark in "._" for name in ("impl_rabbit", "amqpdriver")]
#: Logs the whole of a notification that it cannot send: an instance's metadata may be a secret.
_NOTIFICATIONS = "oslo_messaging.notify.messaging"
_LONGEST = 200
_refused = rate_limited_log.RateLimit()


def reason(refused: BaseException) -> str:
    """Return the error as one short line."""
    said = " ".join(str(refused).split()) or type(refused).__name__
    return said[:_LONGEST]


def log_refusal(what: str, refused: BaseException) -> None:
    """Log the refusal: one line a minute for each ``what``."""
    left_out = _refused.due(what)
    if left_out is not None:
        said = "The broker refuses or is away, %s: %s (%d more since the last such line)"
        LOG.warning(said, what, reason(refused), left_out)


_library_said = rate_limited_log.RateLimit()


def limit_library_logs() -> None:
    """Limit the warnings of oslo.messaging's loggers to one line a minute of each kind."""
    for name in _LIBRARIES:
        standard_logging.getLogger(name).addFilter(_one_a_minute)  # which adds it once


def limit_notification_logs() -> None:
    """Limit what oslo.messaging logs of notifications that it cannot send: one line a minute, without their content."""
    logger = standard_logging.getLogger(_NOTIFICATIONS)
    logger.addFilter(_without_payload)
    logger.addFilter(_one_a_minute)


def _without_payload(record: standard_logging.LogRecord) -> bool:
    """A logging filter: a line about a notification names its event and message id only."""
    args = record.args
    if isinstance(args, Mapping) and isinstance(message := args.get("message"), Mapping):
        record.msg = "Notification %s, message id %s, was not sent to %s"
        record.args = (message.get("event_type"), message.get("message_id"), args.get("topic"))
    return True


def _one_a_minute(record: standard_logging.LogRecord) -> bool:
    """A logging filter: one line a minute of each kind, and no traceback of a broker's refusal."""
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
