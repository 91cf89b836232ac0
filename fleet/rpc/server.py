# SPDX-License-Identifier: Apache-2.0
"""Servers: each receives the messages of one topic and calls its endpoints."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import oslo_messaging

from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import serializer
from fleet.rpc.rabbit import host_queues, rpc_server
from fleet.rpc.trust import admission, replay_protection, signing


class BaseAPI:
    """Namespace ``baseapi``: is anybody there?"""

    target = oslo_messaging.Target(namespace="baseapi", version="1.1")

    def __init__(self, service: str) -> None:
        self._service = service

    # Defined before ``endpoint``: unknown keys are ignored here as there.
    def ping(self, context: object, /, arg: object = None, **_unknown: object) -> dict[str, object]:
        return {"service": self._service, "arg": arg}


class Server:
    """Takes a message only when a thread is free for it (:mod:`fleet.rpc.rabbit.leader_followers`).

    oslo.messaging acknowledges a message when it takes it, and by itself takes all there are: a worker that dies would
    lose, and one that stops would have to work off, whatever was sent to it.
    """

    def __init__(
        self, served: rpc_server.LeaderFollowersServer, draining: threading.Event, threads: int | None = None
    ) -> None:
        self._served = served
        self._draining = draining
        self._threads = threads

    def start(self, override_pool_size: int | None = None) -> None:
        self._served.threads = override_pool_size or self._threads or self._served.conf.executor_thread_pool_size
        self._served.start(override_pool_size)

    def stop(self) -> None:
        self._served.stop()
        self._draining.set()

    def wait(self) -> None:
        self._served.wait()
        self._served.handle_strays()


def get_server(
    transport: oslo_messaging.RPCTransport,
    topic: str,
    server: str,
    endpoints: Sequence[object],
    exchange: str | None = None,
    draining: threading.Event | None = None,
    queues: host_queues.HostQueues | None = None,
    ledger: LedgerIdentity | None = None,
    threads: int | None = None,
    signatures: replay_protection.Record | None = None,
) -> Server:
    """A server for ``topic``, also reachable as ``topic.server`` and by fanout; ``baseapi`` is added.

    :param exchange: other than ``control_exchange``
    :param draining: set as soon as a stop has ended the intake, while the last messages are still handled
    :param ledger: messages of another ledger are refused
    :param signatures: of signed messages, shared with the other servers of the topic
    :param threads: how many messages are handled at once; None: ``executor_thread_pool_size``
    :param queues: what ``server`` shares with other hosts; then it is reachable as ``topic.server`` only
    """
    keys = signing.keys_of(transport.conf)
    dispatching = admission.Dispatcher(
        [*endpoints, BaseAPI(topic)],
        serializer.ContextSerializer(),
        admission.MethodsOnly,
        checker=signing.Checker(transport.conf, keys, topic, server, record=signatures) if keys else None,
        ledger=ledger,
    )
    target = oslo_messaging.Target(exchange=exchange, topic=topic, server=server)
    options = (transport, target, dispatching, "threading")
    served = (
        rpc_server.HostServer(queues, *options) if queues is not None else rpc_server.LeaderFollowersServer(*options)
    )
    return Server(served, draining or threading.Event(), threads)


def get_keeper(transport: oslo_messaging.RPCTransport, exchange: str, name: str) -> Server:
    """Holds ``exchange`` while no host is there: it goes with its last queue, and to send on it then is a broken channel.

    Whoever sends to hosts keeps one, with a ``name`` of its own.
    """
    return get_server(transport, "keeper", name, [], exchange)
