# SPDX-License-Identifier: Apache-2.0
"""fleet-conductor: wires the conductor together. The console script of this name calls :func:`main`."""

from __future__ import annotations

import dataclasses
import functools
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

import oslo_messaging
from oslo_config import cfg

from conductor_stub import conf as conductor_conf
from conductor_stub import wiring
from conductor_stub.agents.api import AgentAPI
from conductor_stub.operators.tenancy import Tenancy
from conductor_stub.parts import Clients, Common, Part, Settings
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.local_placement import LocalPlacement
from conductor_stub.steps.recovery_settings import RecoverySettings
from fleet import conf as fleet_conf
from fleet import domains, errors, service
from fleet.checks import required
from fleet.clock.skew import ClockSkew
from fleet.context import new_context
from fleet.db.engine.database import Database
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.instances import outcomes, signatures
from fleet.db.schema import identity, schema
from fleet.db.upkeep.clock import LedgerClock
from fleet.domains import COMPUTE, VOLUME, VOLUME_CONDUCTOR
from fleet.hardware.aliases import parse_aliases
from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import ledger_queue, server, transport, versions
from fleet.rpc.pins import Pins
from fleet.rpc.trust import signing
from fleet.service import probes

BINARY = "fleet-conductor"
TOPIC = "conductor"
#: Database connections that calls of users leave free for agents.
CONNECTIONS_FOR_AGENTS = 8
#: Seconds between two removals of expired signatures and outcomes.
PRUNE_EVERY_S = 60

#: Makes a server from a topic, endpoints, and more of ``server.Options``.
Receive = Callable[..., server.Server]


def build_servers(
    conf: cfg.ConfigOpts,
    rpc_transport: oslo_messaging.RPCTransport,
    database: Database | None = None,
    skew: ClockSkew | None = None,
) -> list[service.Runnable]:
    """Build everything that a conductor process runs. The daemon and the trio in one process use it."""
    database, skew = database or Database(conf), skew or ClockSkew(conf.max_clock_skew)
    schema.check(database)
    host_transport = transport.get_host_transport(conf, rpc_transport)
    common = _common(conf, rpc_transport, host_transport, database, skew)
    parts = wiring.wire(common)
    common.pins.learn(parts.agents.api.lowest_versions())
    taken = signatures.TakenSignatures(database, common.clock)
    options = server.Options(ledger=common.ledger, signatures=taken)
    receive = functools.partial(_server, rpc_transport, conf.host, options)
    return [
        server.get_keeper(host_transport, transport.host_exchange(conf), f"{conf.host}-{os.getpid()}"),
        *([service.Periodic("signatures", taken.prune, PRUNE_EVERY_S)] if signing.keys_of(conf) else []),
        _heartbeat(conf, parts.agents.api, common.pins, skew),
        *(_volume_servers(parts.volumes, receive, skew) if VOLUME in conf.conductor_domains else []),
        *(_servers(conf, common, parts, receive, skew) if COMPUTE in conf.conductor_domains else []),
    ]


def _server(
    rpc_transport: oslo_messaging.RPCTransport,
    host: str,
    options: server.Options,
    topic: str,
    endpoints: Sequence[object],
    **more: Any,
) -> server.Server:
    """:param more: further options"""
    return server.get_server(rpc_transport, topic, host, endpoints, dataclasses.replace(options, **more))


def _common(
    conf: cfg.ConfigOpts,
    rpc_transport: oslo_messaging.RPCTransport,
    host_transport: oslo_messaging.RPCTransport,
    database: Database,
    skew: ClockSkew,
) -> Common:
    clock, pins = LedgerClock(database, skew), Pins(conf)
    ledger = LedgerIdentity(TOPIC, database.read(identity.read))
    return Common(
        database,
        Clients.connect(conf, rpc_transport, host_transport, pins, ledger, clock),
        StepLimits.from_conf(conf),
        Settings.from_conf(conf),
        clock,
        clock.fresh,
        pins,
        ledger,
        LocalPlacement(),
        require_in_step=skew.require_in_step,
    )


def _volume_servers(volumes: Part, receive: Receive, skew: ClockSkew) -> list[service.Runnable]:
    return [receive(VOLUME_CONDUCTOR, volumes.for_agents), *_periodic(volumes, skew)]


def _servers(
    conf: cfg.ConfigOpts, common: Common, parts: wiring.Parts, receive: Receive, skew: ClockSkew
) -> list[service.Runnable]:
    """The servers of the conductor's queues. Without those of volumes it still accepts volumes, and hands them out."""
    assert common.local is not None, "a daemon places what it accepts"
    for_agents = [endpoint for part in parts for endpoint in part.for_agents]
    endpoints = [endpoint for part in parts for endpoint in part.endpoints]
    guard, kept = Tenancy(common.database), outcomes.KeptOutcomes(common.database, common.clock)
    return [
        receive(ledger_queue.TOPIC, for_agents),
        receive(TOPIC, endpoints, draining=common.draining, threads=_threads(conf), guard=guard, outcomes=kept),
        service.Periodic("outcomes", kept.prune, PRUNE_EVERY_S),
        common.local,
        *(run for part in parts if part is not parts.volumes for run in _periodic(part, skew)),
    ]


def _periodic(part: Part, skew: ClockSkew) -> list[service.Periodic]:
    """Return the periodic tasks of a part. While this machine's clock is wrong, they leave the work to other conductors."""

    def in_step(work: Callable[[], object]) -> None:
        if not skew.problem:
            # Otherwise its log lines would have the instance that the last run ended with.
            new_context()
            work()

    return [service.Periodic(run.name, functools.partial(in_step, run.work), run.every_s) for run in part.runs]


def _topic(conf: cfg.ConfigOpts) -> str:
    return TOPIC if COMPUTE in conf.conductor_domains else VOLUME_CONDUCTOR


def _threads(conf: cfg.ConfigOpts) -> int:
    """Threads for calls of users: so few that they leave database connections to the agents."""
    pool, overflow, threads = conf.database.max_pool_size, conf.database.max_overflow, conf.executor_thread_pool_size
    bounded = pool and overflow is not None and overflow >= 0
    return int(max(1, min(threads, pool + overflow - CONNECTIONS_FOR_AGENTS)) if bounded else threads)


def _heartbeat(conf: cfg.ConfigOpts, agent_api: AgentAPI, pins: Pins, skew: ClockSkew) -> service.Periodic:
    """Report all conductors of a host as one service, and read the API versions of the other services."""
    process = {"pid": os.getpid(), "hostname": socket.gethostname()}
    spoken = versions.spoken(TOPIC)

    def beat() -> None:
        if agent_api.report_state(Heartbeat(BINARY, [conf.host], **spoken, clock_skew_s=skew.reported_s)).superseded:
            agent_api.register_services([{"host": conf.host, "binary": BINARY, "topic": TOPIC, **process, **spoken}])
        pins.learn(agent_api.lowest_versions())
        agent_api.learn_ledger()

    return service.Periodic("heartbeat", beat, conf.report_interval)


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    register = [conductor_conf.register_opts]
    try:
        conf = fleet_conf.load_config(argv, BINARY, "Accepts build requests and drives each to an end.", register)
        required.broker(conf)
        required.database(conf)
        # A bad alias stops the daemon here, before it starts workers that would each fail.
        parse_aliases(conf.pci.alias)
        RecoverySettings.from_conf(conf)
        domains.require(conf, "conductor_domains")
        signing.keys_of(conf)
        with Database(conf).disposed() as database:
            schema.check_if_there(database)
    except errors.FleetError as refusal:
        print(f"{BINARY}: {refusal.message}", file=sys.stderr)
        return 1

    def build(number: int) -> service.Process:
        rpc_transport, database = transport.get_transport(conf), Database(conf)
        skew = ClockSkew(conf.max_clock_skew)
        through = {
            probes.BROKER: probes.through_broker(conf, rpc_transport, _topic(conf), conf.host),
            probes.DATABASE: database.ping,
            probes.CLOCK: skew.require_in_step,
        }
        return probes.process(conf, BINARY, number, through, lambda: build_servers(conf, rpc_transport, database, skew))

    check = functools.partial(fleet_conf.check_files, argv, register)
    return service.launch(conf, BINARY, build, conf.conductor.workers, check)


if __name__ == "__main__":
    sys.exit(main())
