# SPDX-License-Identifier: Apache-2.0
"""Opens the RPC transport and the notifier."""

from __future__ import annotations

import oslo_messaging
from oslo_config import cfg

from fleet.rpc import serializer
from fleet.rpc.rabbit import driver

#: Modules whose errors are rebuilt on the calling side; anything else arrives as RemoteError.
ALLOWED_REMOTE_EXMODS = ["fleet.errors"]
_RABBIT = "oslo_messaging_rabbit"
#: A host's queue lives as long as its agent listens: what is sent to a dead agent fails at once instead of waiting for
#: nobody. Its messages are hints to rows, so it need not outlive the broker either.
_HOST_QUEUES = {"amqp_auto_delete": "true", "amqp_durable_queues": "false", "rabbit_quorum_queue": "false"}


def get_transport(conf: cfg.ConfigOpts) -> oslo_messaging.RPCTransport:
    """The transport that ``transport_url`` names."""
    return driver.adopt(oslo_messaging.get_rpc_transport(conf, allowed_remote_exmods=ALLOWED_REMOTE_EXMODS), conf)


def get_host_transport(conf: cfg.ConfigOpts, transport: oslo_messaging.RPCTransport) -> oslo_messaging.RPCTransport:
    """What is sent to one host travels by this, on :func:`host_exchange`; ``transport`` itself where there is no broker.

    The brokerless transport lets every directed queue go with its last listener.
    """
    url = oslo_messaging.TransportURL.parse(conf)
    if _RABBIT not in conf:
        return transport
    url.query.update(_HOST_QUEUES)
    made = oslo_messaging.get_rpc_transport(conf, url, allowed_remote_exmods=ALLOWED_REMOTE_EXMODS)
    return driver.adopt(made)


def host_exchange(conf: cfg.ConfigOpts) -> str:
    """An exchange of its own: RabbitMQ refuses one that is declared in two ways."""
    return f"{conf.control_exchange}_hosts"


class Silence:
    """The notifier where nobody is to be told: oslo.messaging's own prepares each notification before it finds that out."""

    def prepare(self, **_changed: object) -> Silence:
        return self

    def info(self, context: object, event_type: str, payload: object) -> None:
        """Not told."""

    def error(self, context: object, event_type: str, payload: object) -> None:
        """Not told either."""


def get_notifier(conf: cfg.ConfigOpts, publisher_id: str) -> oslo_messaging.Notifier | Silence:
    """Notifications go where ``[oslo_messaging_notifications]`` says; by default nowhere."""
    transport = oslo_messaging.get_notification_transport(conf)
    notifier = oslo_messaging.Notifier(
        transport, publisher_id=publisher_id, serializer=serializer.ContextSerializer(), topics=["notifications"]
    )
    drivers = conf.oslo_messaging_notifications.driver
    return notifier if set(drivers) - {"noop"} else Silence()
