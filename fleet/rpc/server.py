# SPDX-License-Identifier: Apache-2.0
"""Servers: each receives the messages of one topic and calls its endpoints.

The ``main`` module of each service opens them; agents do so through :mod:`fleet.agent.connection`.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Collection, Sequence

import oslo_messaging

from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import serializer
from fleet.rpc.rabbit import rpc_server
from fleet.rpc.rabbit.lean.shared_queues import SharedQueues
from fleet.rpc.trust import admission, repeated_changes, replay_protection, signing


class BaseAPI:
    """Namespace ``baseapi``: answers a ping."""

    target = oslo_messaging.Target(namespace="baseapi", version="1.1")

    def __init__(self, service: str) -> None:
        self._service = service

    # Defined without the ``endpoint`` decorator, and ignores unknown arguments as that does.
    def ping(self, context: object, /, arg: object = None, **_unknown: object) -> dict[str, object]:
        return {"service": self._service, "arg": arg}


class Server:
    """Receives a message only when a thread is free to handle it (:mod:`fleet.rpc.rabbit.leader_followers`).

    oslo.messaging acknowledges a message when it receives it, and by default receives all there are. A worker that
    dies would lose them all, and a worker that stops would have to handle them all.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a server: its queues, its threads, and the checks of its messages.

    :param exchange: if it is not ``control_exchange``
    :param draining: set when a stop has ended the intake, while the last messages are still handled
    :param queues: connection shared with other hosts; the server then receives messages to ``topic.server`` only
    :param ledger: messages of another ledger are refused
    :param threads: messages handled at a time; None: ``executor_thread_pool_size``
    :param signatures: record of signed messages, shared with the other servers of the topic
    :param outcomes: record of changes, shared with the other servers of the topic; None: each copy of a message is handled
    :param serializer: reads the context of messages
    :param guard: decides what callers may ask for
    :param acknowledged_late: methods whose messages another server gets if this process is killed while it handles them;
        so they must do no harm if they are handled twice
    """

    exchange: str | None = None
    draining: threading.Event = dataclasses.field(default_factory=threading.Event)
    queues: SharedQueues | None = None
    ledger: LedgerIdentity | None = None
    threads: int | None = None
    signatures: replay_protection.Record | None = None
    outcomes: repeated_changes.Record | None = None
    serializer: serializer.ContextSerializer = dataclasses.field(default_factory=serializer.ContextSerializer)
    guard: admission.Guard | None = None
    acknowledged_late: Collection[str] = ()


def get_server(
    transport: oslo_messaging.RPCTransport,
    topic: str,
    server: str,
    endpoints: Sequence[object],
    options: Options | None = None,
) -> Server:
    """Return a server for ``topic``. It also receives messages to ``topic.server`` and fanouts, and serves ``baseapi``."""
    options = options or Options()
    keys = signing.keys_of(transport.conf)
    dispatching = admission.Dispatcher(
        [*endpoints, BaseAPI(topic)],
        options.serializer,
        admission.MethodsOnly,
        checker=signing.Checker(transport.conf, keys, topic, server, record=options.signatures) if keys else None,
        ledger=options.ledger,
        guard=options.guard,
        changes=repeated_changes.RepeatedChanges(options.outcomes) if options.outcomes else None,
    )
    target = oslo_messaging.Target(exchange=options.exchange, topic=topic, server=server)
    parts = (transport, target, dispatching, "threading")
    served = (
        rpc_server.of(frozenset(options.acknowledged_late), *parts)
        if options.queues is None
        else rpc_server.HostServer(options.queues, *parts)
    )
    return Server(served, options.draining, options.threads)


def get_keeper(transport: oslo_messaging.RPCTransport, exchange: str, name: str) -> Server:
    """Return a server that keeps ``exchange`` alive while no host is served.

    The exchange is deleted with its last queue, and a message to a deleted exchange breaks the sender's channel. Each
    sender to hosts runs one keeper, with a ``name`` of its own.
    """
    return get_server(transport, "keeper", name, [], Options(exchange=exchange))
