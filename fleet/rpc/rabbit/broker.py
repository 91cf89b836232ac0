# SPDX-License-Identifier: Apache-2.0
"""Asks the broker directly, without oslo.messaging: whether it accepts a connection, and how long its queues are.

Called by :mod:`fleet.service.probes`, ``fleet doctor``, ``fleet top`` and the checks of the configuration.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ssl
from collections.abc import Iterable, Iterator

import oslo_messaging
from kombu import Connection
from oslo_config import cfg

#: Seconds for the broker to answer a handshake.
CONNECT_TIMEOUT_S = 5
DEFAULT_PORT = 5672


class BrokerAway(Exception):
    """No node of the broker accepted a connection. The message has the reason of each node."""


@dataclasses.dataclass(frozen=True)
class Depth:
    """The length of one queue: messages that no consumer has received, and the number of consumers."""

    messages: int
    consumers: int


@dataclasses.dataclass(frozen=True)
class Node:
    """A node of the broker: the name of its cluster, or the ``problem`` why it accepts no connection."""

    address: str
    cluster: str = ""
    problem: str = ""


def is_there(conf: cfg.ConfigOpts) -> bool:
    """Return True if the configured transport uses a broker."""
    return oslo_messaging.TransportURL.parse(conf).transport in ("rabbit", "amqp")


def has_tls(conf: cfg.ConfigOpts) -> bool:
    """Return True if connections to the broker are encrypted and the broker's certificate is checked."""
    if "oslo_messaging_rabbit" not in conf:
        # The driver is not loaded yet; loading it registers its options.
        oslo_messaging.get_rpc_transport(conf)
    return "oslo_messaging_rabbit" in conf and bool(conf.oslo_messaging_rabbit.ssl)


@contextlib.contextmanager
def connected(conf: cfg.ConfigOpts) -> Iterator[Connection]:
    """Open a connection to the first node that accepts one. :raises BrokerAway:"""
    refusals = []
    for address, connection in _connections(conf):
        with connection:
            try:
                connection.connect()
            except _refusals(connection) as refused:
                refusals.append(f"{address} ({_reason(refused)})")
            else:
                yield connection
                return
    raise BrokerAway("; ".join(refusals))


def nodes(conf: cfg.ConfigOpts) -> list[Node]:
    """Open a connection to each node that ``transport_url`` names."""
    return [_node(address, connection) for address, connection in _connections(conf)]


def _node(address: str, connection: Connection) -> Node:
    with connection:
        try:
            connection.connect()
        except _refusals(connection) as refused:
            return Node(address, problem=_reason(refused))
        return Node(address, cluster=connection.connection.server_properties.get("cluster_name", ""))


def _connections(conf: cfg.ConfigOpts) -> Iterator[tuple[str, Connection]]:
    """Yield the address of each node, and a connection to it that is not open."""
    url = oslo_messaging.TransportURL.parse(conf)
    for host in url.hosts or [oslo_messaging.TransportHost(hostname="localhost", username="guest", password="guest")]:
        port = host.port or DEFAULT_PORT
        yield (
            f"{host.hostname}:{port}",
            Connection(
                hostname=host.hostname,
                port=port,
                userid=host.username,
                password=host.password,
                virtual_host=url.virtual_host or "/",
                connect_timeout=CONNECT_TIMEOUT_S,
                ssl=_ssl(conf, host.hostname),
            ),
        )


def _refusals(connection: Connection) -> tuple[type[BaseException], ...]:
    return (*connection.connection_errors, *connection.channel_errors, OSError)


def answers(port: int, password: str) -> bool:
    """Return True if a broker on this machine accepts a connection of its user ``guest``."""
    url = f"amqp://guest:{password}@127.0.0.1:{port}//"
    with Connection(url, connect_timeout=1) as connection:
        try:
            connection.connect()
        except _refusals(connection):
            return False
    return True


def depths(connection: Connection, queues: Iterable[str]) -> dict[str, Depth | None]:
    """Return the length of each queue by name; None for a queue that does not exist.

    Nothing is declared or consumed, and no management plugin is needed.

    :raises BrokerAway: the broker does not let this user look at a queue
    """
    return {name: _depth(connection, name) for name in queues}


def _depth(connection: Connection, name: str) -> Depth | None:
    # The broker closes the channel if the queue does not exist.
    channel = connection.channel()
    try:
        found = channel.queue_declare(name, passive=True)
        return Depth(found.message_count, found.consumer_count)
    except connection.channel_errors as refused:
        if getattr(refused, "reply_code", None) == 404:
            return None
        raise BrokerAway(f"queue {name} ({_reason(refused)})") from None
    finally:
        with contextlib.suppress(*connection.connection_errors, *connection.channel_errors):
            channel.close()


def _reason(refused: BaseException) -> str:
    return str(getattr(refused, "reply_text", "") or getattr(refused, "strerror", "") or refused)


def _ssl(conf: cfg.ConfigOpts, hostname: str) -> bool | dict[str, object]:
    """Return kombu's TLS arguments from oslo.messaging's options. The certificate must be for the host and from a
    trusted authority.
    """
    if "oslo_messaging_rabbit" not in conf or not conf.oslo_messaging_rabbit.ssl:
        return False
    options = conf.oslo_messaging_rabbit
    given = {"ca_certs": options.ssl_ca_file, "keyfile": options.ssl_key_file, "certfile": options.ssl_cert_file}
    checked = {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": hostname}
    return {**checked, **{name: value for name, value in given.items() if value}}
