# SPDX-License-Identifier: Apache-2.0
"""The round trips of a daemon, and the two servers that make and show them."""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence

import oslo_messaging
import sqlalchemy as sa
from oslo_config import cfg

from fleet.context import new_context
from fleet.db.engine import Database
from fleet.rpc import broker, serializer
from fleet.service import Process, Server
from fleet.telemetry.health import HealthServer
from fleet.telemetry.watchdog import Probe, Watchdog

BROKER = "broker"
DATABASE = "database"
CLOCK = "clock"


def process(
    conf: cfg.ConfigOpts, number: int, probes: Mapping[str, Probe], serving: Callable[[], Sequence[Server]]
) -> Process:
    """Worker ``number``: its watchdog, its health page if a port is configured, and what it serves."""
    started = threading.Event()
    return Process(_servers(conf, number, probes, started), serving, started)


def _servers(
    conf: cfg.ConfigOpts, number: int, probes: Mapping[str, Probe], started: threading.Event
) -> Sequence[Server]:
    # A daemon that still waits for its database has no queue to answer from: it is not stuck.
    def broker_answers() -> bool:
        return started.is_set() and broker_reachable(conf)

    options = conf.health
    when_served = once_served(probes[BROKER], started, options.round_trip_interval)
    watchdog = Watchdog(
        {**probes, BROKER: when_served},
        options.round_trip_interval,
        options.round_trip_limit,
        options.stuck_limit,
        reachable={BROKER: broker_answers},
    )
    if not options.port:
        return [watchdog]
    return [watchdog, HealthServer(watchdog, str(options.bind_host), options.port + number)]


def once_served(probe: Probe, started: threading.Event, patience_s: float) -> Probe:
    """As ``probe``, but not before the daemon serves its queue: an answer to what is sent earlier never comes."""

    def probe_when_served() -> None:
        if not started.wait(patience_s):
            raise RuntimeError("nothing is served yet")
        probe()

    return probe_when_served


def through_broker(
    conf: cfg.ConfigOpts,
    transport: oslo_messaging.RPCTransport,
    topic: str,
    server: str,
    exchange: str | None = None,
) -> Probe:
    """A ``ping`` to this daemon's own queue and back."""
    target = oslo_messaging.Target(exchange=exchange, topic=topic, namespace="baseapi", version="1.1")
    client = oslo_messaging.get_rpc_client(transport, target, serializer=serializer.ContextSerializer())
    to_myself = client.prepare(server=server, timeout=conf.health.round_trip_limit)

    def ping() -> None:
        said = uuid.uuid4().hex
        answer = to_myself.call(new_context(), "ping", arg=said)
        if answer.get("arg") != said:
            raise RuntimeError(f"the answer to a ping was {answer!r:.80}")

    return ping


def through_database(database: Database) -> Probe:
    """A query, without trying again."""
    return functools.partial(
        database.read_once, lambda connection: connection.execute(sa.text("SELECT 1")).scalar_one()
    )


def broker_reachable(conf: cfg.ConfigOpts) -> bool:
    """Whether any of the broker's nodes answers a handshake; true where there is no broker."""
    if not broker.is_there(conf):
        return True
    try:
        with broker.connected(conf):
            return True
    except broker.BrokerAway:
        return False
