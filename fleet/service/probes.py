# SPDX-License-Identifier: Apache-2.0
"""The probes of a daemon (round trips through broker and database), its watchdog, and its health page.

The ``main`` of each daemon makes them.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence

import oslo_messaging
from oslo_config import cfg

from fleet.context import new_context
from fleet.rpc import serializer
from fleet.rpc.rabbit import broker
from fleet.service import Process, Runnable
from fleet.telemetry.health import HealthServer
from fleet.telemetry.watchdog import Probe, Watchdog

BROKER = "broker"
DATABASE = "database"
CLOCK = "clock"
#: The daemons, in the order of their ports.
DAEMONS = ("fleet-conductor", "fleet-scheduler", "fleet-compute", "fleet-volume", "fleet-api")


def process(
    conf: cfg.ConfigOpts,
    daemon: str,
    number: int,
    probes: Mapping[str, Probe],
    serving: Callable[[], Sequence[Runnable]],
    host: str | None = None,
) -> Process:
    """Return worker ``number`` of ``daemon``: its watchdog, its health page if a port is configured, and its servers.

    :param host: shown on the page, if it is not the configured one
    """
    started = threading.Event()
    name = {"service": daemon, "host": host or conf.host, "worker": number, "pid": os.getpid()}
    watchdog = _watchdog(conf, probes, started)
    if not conf.health.port:
        return Process([watchdog], serving, started)
    page = HealthServer(watchdog, str(conf.health.bind_host), port_of(conf, daemon) + number, name)
    return Process([watchdog, page], serving, started)


def port_of(conf: cfg.ConfigOpts, daemon: str) -> int:
    """Return the port of the daemon's first worker."""
    return int(conf.health.port) + conf.health.service_offset * DAEMONS.index(daemon)


def _watchdog(conf: cfg.ConfigOpts, probes: Mapping[str, Probe], started: threading.Event) -> Watchdog:
    # A daemon that still waits for its database has no queue to answer from. It is not stuck.
    def broker_answers() -> bool:
        return started.is_set() and broker_reachable(conf)

    options = conf.health
    when_served = once_served(probes[BROKER], started, options.round_trip_interval)
    return Watchdog(
        {**probes, BROKER: when_served},
        options.round_trip_interval,
        options.round_trip_limit,
        options.stuck_limit,
        reachable={BROKER: broker_answers},
    )


def once_served(probe: Probe, started: threading.Event, patience_s: float) -> Probe:
    """Return ``probe`` with a wait until the daemon serves its queue: earlier messages would never be answered."""

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
    """Return a probe that sends a ``ping`` to this daemon's own queue."""
    target = oslo_messaging.Target(exchange=exchange, topic=topic, namespace="baseapi", version="1.1")
    client = oslo_messaging.get_rpc_client(transport, target, serializer=serializer.ContextSerializer())
    to_myself = client.prepare(server=server, timeout=conf.health.round_trip_limit)

    def ping() -> None:
        said = uuid.uuid4().hex
        answer = to_myself.call(new_context(), "ping", arg=said)
        if answer.get("arg") != said:
            raise RuntimeError(f"the answer to a ping was {answer!r:.80}")

    return ping


def broker_reachable(conf: cfg.ConfigOpts) -> bool:
    """Return True if any node of the broker answers a handshake, or there is no broker."""
    if not broker.is_there(conf):
        return True
    try:
        with broker.connected(conf):
            return True
    except broker.BrokerAway:
        return False
