# SPDX-License-Identifier: Apache-2.0
"""Opens the RPC transport. Each program that exchanges messages calls it once."""

from __future__ import annotations

import oslo_messaging
from oslo_config import cfg

from fleet import errors
from fleet.rpc import nova_broker, oslo_drivers
from fleet.rpc.rabbit import broker_refusals, defaults
from fleet.rpc.rabbit.conf import LEAN, OPTIONS

#: Errors of these modules are rebuilt on the calling side; others arrive as RemoteError.
ALLOWED_REMOTE_EXMODS = ["fleet.errors"]
#: A host's queue lives as long as its agent listens, so a message to a dead agent fails at once. Orders only point to
#: rows: they need not survive a restart of the broker.
_HOST_QUEUES = {"amqp_auto_delete": "true", "amqp_durable_queues": "false", "rabbit_quorum_queue": "false"}
#: The schemes of ``transport_url`` that mean RabbitMQ, and the entry point of the lean driver.
_RABBIT_SCHEMES = ("rabbit", "kombu", "amqp")
_LEAN_SCHEME = "fleet-rabbit"


def get_transport(conf: cfg.ConfigOpts) -> oslo_messaging.RPCTransport:
    """Return the transport that ``transport_url`` names. :raises errors.ConfigError: it names none"""
    try:
        return oslo_messaging.get_rpc_transport(conf, parse_url(conf), allowed_remote_exmods=ALLOWED_REMOTE_EXMODS)
    except (oslo_messaging.InvalidTransportURL, oslo_messaging.DriverLoadFailure, ImportError):
        scheme, is_url, _rest = str(conf.transport_url).partition("://")
        which = f"is for {scheme}, of which no driver is installed" if is_url else "is no URL"
        reason = f"{which}; it begins with rabbit://, or with local:// for one machine"
        raise errors.ConfigError(option="[DEFAULT] transport_url", reason=reason) from None


def parse_url(conf: cfg.ConfigOpts, text: str | None = None) -> oslo_messaging.TransportURL:
    """Return a URL, or ``transport_url``, with the driver that is to be used.

    The driver's options have this project's defaults then.
    """
    conf.register_opts(OPTIONS)
    url = oslo_messaging.TransportURL.parse(conf, text)
    if url.transport in _RABBIT_SCHEMES:
        defaults.register_opts(conf)
        if nova_broker.is_active(conf):
            nova_broker.use_its_queues(conf)
        broker_refusals.limit_library_logs()
        if conf.rabbit_driver == LEAN:
            url.transport = _LEAN_SCHEME
    return url


def get_host_transport(conf: cfg.ConfigOpts, transport: oslo_messaging.RPCTransport) -> oslo_messaging.RPCTransport:
    """Return the transport for messages to one host, on :func:`host_exchange`; ``transport`` itself without a broker.

    The local transport deletes every directed queue with its last listener anyway.
    """
    url = parse_url(conf)
    if url.transport not in (*_RABBIT_SCHEMES, _LEAN_SCHEME):
        return transport
    url.query.update(_HOST_QUEUES)
    return oslo_messaging.get_rpc_transport(conf, url, allowed_remote_exmods=ALLOWED_REMOTE_EXMODS)


def refusal(transport: oslo_messaging.RPCTransport) -> str:
    """Return why the broker accepts no connection now; "" if it does, or if that is not known.

    A caller that does not want to wait for the broker reads it first. The stock driver does not report it.
    """
    return str(getattr(oslo_drivers.driver_of(transport), "refusal", ""))


def host_exchange(conf: cfg.ConfigOpts) -> str:
    """Return the exchange of hosts' queues. RabbitMQ refuses an exchange that is declared with two sets of arguments."""
    return f"{conf.control_exchange}_hosts"
