# SPDX-License-Identifier: Apache-2.0
"""Opens the RPC transport and the notifier."""

from __future__ import annotations

import oslo_messaging
from oslo_config import cfg

from fleet.rpc import serializer

#: Modules whose errors are rebuilt on the calling side; anything else arrives as RemoteError.
ALLOWED_REMOTE_EXMODS = ["fleet.errors"]


def get_transport(conf: cfg.ConfigOpts) -> oslo_messaging.RPCTransport:
    return oslo_messaging.get_rpc_transport(conf, allowed_remote_exmods=ALLOWED_REMOTE_EXMODS)


def get_notifier(conf: cfg.ConfigOpts, publisher_id: str) -> oslo_messaging.Notifier:
    """Notifications go where ``[oslo_messaging_notifications]`` says; by default nowhere."""
    transport = oslo_messaging.get_notification_transport(conf)
    return oslo_messaging.Notifier(
        transport, publisher_id=publisher_id, serializer=serializer.ContextSerializer(), topics=["notifications"]
    )
