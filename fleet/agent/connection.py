# SPDX-License-Identifier: Apache-2.0
"""The connection of an agent's process to the broker: its conductor client, and the servers that receive its messages.

All hosts or backends of the process share it. Called by :mod:`compute_agent.main` and :mod:`volume_agent.main`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, TypeVar

import oslo_messaging
from oslo_config import cfg

from fleet import service
from fleet.agent import identity
from fleet.agent.patience import Patience
from fleet.clock.skew import ClockSkew
from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import server
from fleet.rpc import transport as rpc_transport
from fleet.rpc.clients.api import API
from fleet.rpc.pins import Pins
from fleet.rpc.rabbit import host_queues
from fleet.service import probes

ClientT = TypeVar("ClientT", bound=API)


class Connection:
    """:param option: names the directory in which the identities of ``names`` are held

    :raises errors.HostTaken: another process on this machine serves one of ``names``
    :raises errors.ConfigError: the identities cannot be written, or belong to different ledgers
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        transport: oslo_messaging.RPCTransport,
        topic: str,
        names: Sequence[str],
        option: str,
        skew: ClockSkew | None = None,
    ) -> None:
        self.identities = identity.hold(conf[option], names, option)
        self.incarnation = service.new_incarnation()
        self.stopping = threading.Event()
        self.patience = Patience(self.stopping)
        self.skew = skew or ClockSkew(conf.max_clock_skew)
        self._conf = conf
        self._transport = transport
        self._topic = topic
        self._pins = Pins(conf)
        self._ledger = LedgerIdentity(topic, self.identities.ledger())
        self._host_transport = rpc_transport.get_host_transport(conf, transport)
        self._exchange = rpc_transport.host_exchange(conf)
        self._queues = host_queues.of(self._host_transport, topic, self._exchange)

    def client(self, kind: type[ClientT], **options: Any) -> ClientT:
        """Return a client whose messages carry the ledger of the agent."""
        return kind(self._transport, self._conf, self._pins, self._ledger, **options)

    def server(self, name: str, manager: object) -> server.Server:
        """Return the server of one host or backend."""
        options = server.Options(exchange=self._exchange, queues=self._queues, ledger=self._ledger)
        return server.get_server(self._host_transport, self._topic, name, [manager], options)

    def belongs_to(self, ledger: str) -> None:
        """Store the ledger that a conductor has answered with."""
        self._ledger.learn(ledger)
        self.identities.remember_ledger(ledger)


def through_broker(conf: cfg.ConfigOpts, transport: oslo_messaging.RPCTransport, topic: str, name: str) -> probes.Probe:
    """Return a probe through the queue of one host or backend; all are served by the same threads."""
    host_transport, exchange = rpc_transport.get_host_transport(conf, transport), rpc_transport.host_exchange(conf)
    return probes.through_broker(conf, host_transport, topic, name, exchange)
