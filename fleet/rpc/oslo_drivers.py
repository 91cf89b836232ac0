# SPDX-License-Identifier: Apache-2.0
"""oslo.messaging's interface for drivers, which it keeps private: the one module that takes it from there.

:mod:`fleet.rpc.rabbit` and :mod:`fleet.rpc.local` use it; a test names the releases that it was tested with.
"""

from __future__ import annotations

import oslo_messaging
from oslo_messaging._drivers.base import (
    BaseDriver,
    IncomingMessage,
    Listener,
    PollStyleListener,
    PollStyleListenerAdapter,
    RpcIncomingMessage,
)
from oslo_messaging._drivers.common import (
    ConfigOptsProxy,
    RPCException,
    deserialize_remote_exception,
    serialize_remote_exception,
)

__all__ = [
    "BaseDriver",
    "ConfigOptsProxy",
    "IncomingMessage",
    "Listener",
    "PollStyleListener",
    "PollStyleListenerAdapter",
    "RPCException",
    "RpcIncomingMessage",
    "deserialize_remote_exception",
    "driver_of",
    "polled_by",
    "serialize_remote_exception",
]


def driver_of(transport: oslo_messaging.RPCTransport) -> BaseDriver:
    return transport._driver


def polled_by(adapter: PollStyleListenerAdapter) -> PollStyleListener:
    """Return the driver's own listener."""
    return adapter._poll_style_listener
