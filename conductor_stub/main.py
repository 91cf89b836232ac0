# SPDX-License-Identifier: Apache-2.0
"""fleet-conductor: wires the conductor together."""

from __future__ import annotations

import functools
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence

import oslo_messaging
from oslo_config import cfg

from conductor_stub import conf as conductor_conf
from conductor_stub.agents.api import Records
from conductor_stub.builds.intake import Intake
from conductor_stub.builds.local_placement import OwnBuilds
from conductor_stub.builds.placement import Builder
from conductor_stub.builds.sweeper import Sweeper
from conductor_stub.builds.termination import Termination
from conductor_stub.manager import AgentTaskManager, ComputeTaskManager, ConductorManager, OperatorManager
from conductor_stub.moves.manager import MigrationManager, OperatorMoves
from conductor_stub.moves.mover import Mover
from conductor_stub.moves.placement import Placer
from conductor_stub.moves.sweeper import MoveSweeper
from conductor_stub.operators.announcements import Announcements
from conductor_stub.operators.api import OperatorAPI
from conductor_stub.operators.catalog import Catalog
from conductor_stub.operators.catalog_manager import OperatorCatalog
from conductor_stub.operators.diagnosis import Examination
from conductor_stub.operators.dry_run import DryRun
from conductor_stub.steps.limits import Limits
from fleet import conf as fleet_conf
from fleet import errors, service
from fleet.checks import required
from fleet.clock.skew import ClockSkew
from fleet.db import ledger as ledger_row
from fleet.db import schema, signatures
from fleet.db.clock import LedgerClock
from fleet.db.engine import Database
from fleet.db.services import Beat
from fleet.hardware.aliases import parse_aliases
from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import ledger_queue, server, transport, versions
from fleet.rpc.clients import ComputeAPI, ComputeTaskAPI, MigrationAPI, SchedulerAPI
from fleet.rpc.pins import Pins
from fleet.rpc.trust import signing
from fleet.service import probes

BINARY = "fleet-conductor"
TOPIC = "conductor"
#: Of the pool, which users' calls leave free.
CONNECTIONS_FOR_AGENTS = 8
#: Seconds between two looks for signatures that are good no more.
PRUNE_EVERY_S = 60


def build_servers(
    conf: cfg.ConfigOpts,
    rpc_transport: oslo_messaging.RPCTransport,
    database: Database | None = None,
    skew: ClockSkew | None = None,
) -> list[service.Server]:
    """Everything that a conductor process runs. The trio in one process uses it as the daemon does."""
    database = database or Database(conf)
    schema.check(database)
    skew = skew or ClockSkew(conf.max_clock_skew)
    clock = LedgerClock(database, skew)
    limits = Limits.from_conf(conf)
    host_transport = transport.get_host_transport(conf, rpc_transport)
    ledger = LedgerIdentity(TOPIC, database.read(ledger_row.identity))
    records = Records(database, limits, conf.enable_new_services, clock, ledger=ledger)
    pins = Pins(conf)
    pins.learn(records.lowest_versions())
    compute = ComputeAPI(host_transport, conf, pins, ledger)
    draining = threading.Event()
    scheduler = SchedulerAPI(rpc_transport, conf, pins, ledger)
    scheduler.clock = clock
    builder = Builder(
        database,
        scheduler,
        compute,
        ComputeTaskAPI(rpc_transport, conf, pins, ledger),
        transport.get_notifier(conf, f"compute_task.{conf.host}"),
        limits,
        clock,
    )
    termination = Termination(database, compute, limits, clock.fresh)
    aliases = parse_aliases(conf.pci.alias)
    own = OwnBuilds()
    intake = Intake(database, builder, limits, conf.default_schedule_zone, clock, aliases, own)
    migrations = MigrationAPI(rpc_transport, conf, pins, ledger)
    placer = Placer(database, scheduler, compute, migrations, limits, conf.allow_resize_to_same_host, clock)
    mover = Mover(database, placer, limits, aliases, clock.fresh, skew.require_in_step)
    announcements = Announcements(database, scheduler)
    agents, moves = ConductorManager(records, pins), MigrationManager(mover)
    endpoints = [
        agents,
        ComputeTaskManager(intake, builder, termination, draining),
        OperatorManager(
            OperatorAPI(database, conf.service_down_time, clock=clock),
            DryRun(database, intake, builder),
            announcements,
            Examination(database, conf.host, clock.fresh),
        ),
        OperatorCatalog(Catalog(database, conf.service_down_time, clock=clock), announcements),
        OperatorMoves(mover),
        moves,
    ]
    for_agents = [agents, AgentTaskManager(builder), moves]
    move_sweeper = MoveSweeper(database, placer, limits, clock.fresh)
    sweeper = Sweeper(database, builder, termination, limits, clock.fresh)
    taken = signatures.Taken(database, clock)
    keeper_name = f"{conf.host}-{os.getpid()}"
    return [
        server.get_keeper(host_transport, transport.host_exchange(conf), keeper_name),
        server.get_server(rpc_transport, ledger_queue.TOPIC, conf.host, for_agents, ledger=ledger, signatures=taken),
        server.get_server(
            *(rpc_transport, TOPIC, conf.host, endpoints),
            draining=draining,
            ledger=ledger,
            threads=_threads(conf),
            signatures=taken,
        ),
        *([service.Periodic("signatures", taken.prune, PRUNE_EVERY_S)] if signing.keys_of(conf) else []),
        own,
        *(
            service.Periodic(name, functools.partial(_in_step, skew, sweep), conf.conductor.sweep_interval)
            for name, sweep in (
                ("deadlines", sweeper.end_overdue),
                ("sweeper", sweeper.retry_lost),
                ("moves", move_sweeper.sweep),
            )
        ),
        _heartbeat(conf, records, pins, skew),
    ]


def _threads(conf: cfg.ConfigOpts) -> int:
    """For users' calls: so many that they cannot take all connections to the database, for which agents would wait."""
    pool, overflow, threads = conf.database.max_pool_size, conf.database.max_overflow, conf.executor_thread_pool_size
    bounded = pool and overflow is not None and overflow >= 0
    return max(1, min(threads, pool + overflow - CONNECTIONS_FOR_AGENTS)) if bounded else threads


def _in_step(skew: ClockSkew, sweep: Callable[[], object]) -> None:
    """A conductor whose clock is wrong leaves sweeps to others, until it is mended."""
    if not skew.problem:
        sweep()


def _heartbeat(conf: cfg.ConfigOpts, records: Records, pins: Pins, skew: ClockSkew) -> service.Periodic:
    """One record for all the conductors of a host: any of them keeps it alive. Each looks what the others speak."""
    process = {"pid": os.getpid(), "hostname": socket.gethostname()}
    spoken = versions.spoken(TOPIC)

    def beat() -> None:
        if records.report_state(Beat(BINARY, [conf.host], **spoken, clock_skew_s=skew.reported_s)).superseded:
            records.register_services([{"host": conf.host, "binary": BINARY, "topic": TOPIC, **process, **spoken}])
        pins.learn(records.lowest_versions())
        records.learn_ledger()

    return service.Periodic("heartbeat", beat, conf.report_interval)


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    register = [conductor_conf.register_opts]
    try:
        conf = fleet_conf.load_config(argv, BINARY, "Accepts build requests and drives each to an end.", register)
        required.broker(conf)
        required.database(conf)
        # A bad alias must stop the daemon here, not its workers one after the other.
        parse_aliases(conf.pci.alias)
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
            probes.BROKER: probes.through_broker(conf, rpc_transport, TOPIC, conf.host),
            probes.DATABASE: probes.through_database(database),
            probes.CLOCK: skew.require_in_step,
        }
        return probes.process(conf, BINARY, number, through, lambda: build_servers(conf, rpc_transport, database, skew))

    check = functools.partial(fleet_conf.check_files, argv, register)
    return service.launch(conf, BINARY, build, conf.conductor.workers, check)


if __name__ == "__main__":
    sys.exit(main())
