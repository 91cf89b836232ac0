# SPDX-License-Identifier: Apache-2.0
"""Opens the RPC transport and the notifier."""

from __future__ import annotations

import os
import ssl

import oslo_messaging
from oslo_config import cfg

from fleet.rpc import serializer
from fleet.rpc.rabbit import broker_refusals

#: Modules whose errors are rebuilt on the calling side; anything else arrives as RemoteError.
ALLOWED_REMOTE_EXMODS = ["fleet.errors"]


#: Messages that the broker may hand to one listener before it takes them up. oslo.messaging's own default is no bound:
#: then one process would be given a whole backlog, and the others nothing.
PREFETCH = 8
_RABBIT = "oslo_messaging_rabbit"
#: Seconds after which the broker deletes the fanout and answer queues of a process that was killed. oslo.messaging's own
#: default is half an hour, in which they fill.
UNUSED_QUEUES_S = 120
#: Seconds that oslo.messaging's own way of answering waits for a caller's queue, with a worker; its default is 60.
ANSWER_PATIENCE_S = 1
#: A host's queue lives as long as its agent listens: what is sent to a dead agent fails at once instead of waiting for
#: nobody. Its messages are hints to rows, so it need not outlive the broker either.
_HOST_QUEUES = {"amqp_auto_delete": "true", "amqp_durable_queues": "false", "rabbit_quorum_queue": "false"}


def get_transport(conf: cfg.ConfigOpts) -> oslo_messaging.RPCTransport:
    transport = broker_refusals.calm(
        oslo_messaging.get_rpc_transport(conf, allowed_remote_exmods=ALLOWED_REMOTE_EXMODS)
    )
    if _RABBIT in conf:
        conf.set_default("kombu_missing_consumer_retry_timeout", ANSWER_PATIENCE_S, group=_RABBIT)
        conf.set_default("rabbit_transient_queues_ttl", UNUSED_QUEUES_S, group=_RABBIT)
        conf.set_default("rabbit_qos_prefetch_count", PREFETCH, group=_RABBIT)
        # Without a file of authorities, oslo.messaging would take any certificate at all.
        conf.set_default("ssl_ca_file", system_authorities(), group=_RABBIT)
        # The driver read this one when it was made, before there was an option to set.
        transport._driver.missing_destination_retry_timeout = conf[_RABBIT].kombu_missing_consumer_retry_timeout
    return transport


def system_authorities() -> str | None:
    """The certificates that this machine trusts."""
    paths = ssl.get_default_verify_paths()
    known = [each for each in (paths.cafile, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/cert.pem") if each]
    return next((each for each in known if os.path.exists(each)), None)


def get_host_transport(conf: cfg.ConfigOpts, transport: oslo_messaging.RPCTransport) -> oslo_messaging.RPCTransport:
    """What is sent to one host travels by this, on :func:`host_exchange`; ``transport`` itself where there is no broker.

    The brokerless transport lets every directed queue go with its last listener.
    """
    url = oslo_messaging.TransportURL.parse(conf)
    if _RABBIT not in conf:
        return transport
    url.query.update(_HOST_QUEUES)
    return broker_refusals.calm(
        oslo_messaging.get_rpc_transport(conf, url, allowed_remote_exmods=ALLOWED_REMOTE_EXMODS)
    )


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
