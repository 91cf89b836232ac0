# SPDX-License-Identifier: Apache-2.0
"""Opens the notifier, which sends notifications in a thread of its own. Each program that sends some calls it once."""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

from fleet.context import RequestContext
from fleet.rpc import serializer, transport
from fleet.rpc.rabbit import broker_refusals, defaults
from fleet.telemetry import metrics, rate_limited_log

LOG = logging.getLogger(__name__)
#: Notifications that wait for the broker at most. More are dropped.
MOST = 5000
#: How long a process that stops waits until all are sent.
END_S = 5.0
_GROUP = "oslo_messaging_notifications"


class Notifier(Protocol):
    """oslo.messaging's, as far as it is used."""

    def prepare(self, *, publisher_id: str) -> Notifier:
        """Return a notifier with another publisher."""

    def info(self, context: object, event_type: str, payload: object) -> None: ...
    def error(self, context: object, event_type: str, payload: object) -> None: ...


class Silence:
    """A notifier that sends nothing. oslo.messaging's own would prepare each notification before it drops it."""

    def prepare(self, *, publisher_id: str) -> Silence:
        return self

    def info(self, context: object, event_type: str, payload: object) -> None:
        """Send nothing."""

    def error(self, context: object, event_type: str, payload: object) -> None:
        """Send nothing."""


def get_notifier(
    conf: cfg.ConfigOpts, publisher_id: str, topics: Sequence[str] | None = ("notifications",)
) -> Notifier:
    """Return the notifier that ``[oslo_messaging_notifications]`` configures; by default it sends nothing.

    :param topics: None for those of the configuration
    """
    broker_refusals.limit_notification_logs()
    defaults.register_group(conf, _GROUP)
    url = transport.parse_url(conf, conf[_GROUP].transport_url)
    notifier = oslo_messaging.Notifier(
        oslo_messaging.get_notification_transport(conf, url),
        publisher_id=publisher_id,
        serializer=serializer.ContextSerializer(),
        topics=None if topics is None else list(topics),
    )
    drivers = conf[_GROUP].driver
    return BackgroundNotifier(notifier, Outbox()) if set(drivers) - {"noop"} else Silence()


@dataclasses.dataclass(frozen=True)
class _Notification:
    #: Method of oslo.messaging's notifier, by its level.
    emit: Callable[[object, str, object], object]
    context: object
    event_type: str
    payload: object

    def send(self) -> None:
        if isinstance(self.context, RequestContext):
            self.context.update_store()  # log lines about it have the id of its request
        self.emit(self.context, self.event_type, self.payload)


class Outbox:
    """Sends notifications one after the other, in the order in which they were put in.

    By default oslo.messaging tries without end to send a notification while its broker is away (``retry``). A decision
    and a build must not wait for that: it may be another broker than that of the calls.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._waiting: collections.deque[_Notification] = collections.deque()
        self._changed = threading.Condition()
        self._is_sending = False
        self._dropped = rate_limited_log.RateLimit()
        _outboxes.add(self)

    def put(self, notification: _Notification) -> None:
        """Return at once. The notification is dropped, and counted, if too many wait."""
        with self._changed:
            is_full = len(self._waiting) >= self._most
            if not is_full:
                self._waiting.append(notification)
            begins, self._is_sending = not self._is_sending, True
        if begins:
            # It ends when all are sent: most processes send few.
            threading.Thread(target=self._send_all, name="notifications", daemon=True).start()
        if is_full:
            self._tell_dropped(notification)

    def _tell_dropped(self, notification: _Notification) -> None:
        metrics.NOTIFICATIONS_DROPPED.inc()
        left_out = self._dropped.due()
        if left_out is not None:
            said = "Notification %s is dropped: %d wait for their broker (%d more since the last such line)"
            LOG.warning(said, notification.event_type, self._most, left_out)

    def _send_all(self) -> None:
        while (notification := self._next()) is not None:
            try:
                notification.send()
            except Exception:
                # No caller receives the error, because the work that the notification reports has ended.
                LOG.warning("Notification %s was not sent", notification.event_type, exc_info=True)

    def _next(self) -> _Notification | None:
        with self._changed:
            if self._waiting:
                return self._waiting.popleft()
            self._is_sending = False
            self._changed.notify_all()
            return None

    def wait(self, timeout_s: float) -> bool:
        """Wait until all are sent; return False if they are not after so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_sending, timeout_s)


#: Those of this process.
_outboxes: weakref.WeakSet[Outbox] = weakref.WeakSet()


def wait_until_sent(timeout_s: float = END_S) -> None:
    """Let the notifications of a process that stops be sent, if that takes no longer."""
    deadline = time.monotonic() + timeout_s
    for each in list(_outboxes):
        each.wait(deadline - time.monotonic())


class BackgroundNotifier:
    """Puts notifications into an outbox. :ivar notifier: oslo.messaging's, which sends them"""

    def __init__(self, notifier: oslo_messaging.Notifier, outbox: Outbox) -> None:
        self.notifier = notifier
        self.outbox = outbox

    def prepare(self, *, publisher_id: str) -> BackgroundNotifier:
        return BackgroundNotifier(self.notifier.prepare(publisher_id=publisher_id), self.outbox)

    def info(self, context: object, event_type: str, payload: object) -> None:
        self.outbox.put(_Notification(self.notifier.info, context, event_type, payload))

    def error(self, context: object, event_type: str, payload: object) -> None:
        self.outbox.put(_Notification(self.notifier.error, context, event_type, payload))
