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
from conductor_stub.agents.api import AgentAPI
from conductor_stub.attachments.intake import AttachmentIntake
from conductor_stub.attachments.progress import AttachmentManager
from conductor_stub.attachments.reservations import Reservations
from conductor_stub.attachments.sweeper import AttachmentSweeper
from conductor_stub.builds.intake import Intake
from conductor_stub.builds.placement import BuildPlacement
from conductor_stub.builds.room_queue import RoomQueue
from conductor_stub.builds.sweeper import BuildSweeper
from conductor_stub.builds.termination import Termination
from conductor_stub.manager import AgentTaskManager, ComputeTaskManager, ConductorManager
from conductor_stub.moves.intake import MoveIntake
from conductor_stub.moves.manager import MigrationManager
from conductor_stub.moves.placement import MovePlacement
from conductor_stub.moves.progress import MoveProgress
from conductor_stub.moves.sweeper import MoveSweeper
from conductor_stub.operators.announcements import Announcements
from conductor_stub.operators.catalog import CatalogManager
from conductor_stub.operators.console import ConsoleManager
from conductor_stub.operators.details import DetailsManager
from conductor_stub.operators.diagnosis import Diagnosis
from conductor_stub.operators.dry_run import DryRun
from conductor_stub.operators.events import EventsManager
from conductor_stub.operators.groups import GroupManager
from conductor_stub.operators.key_pairs import KeyPairManager
from conductor_stub.operators.manager import OperatorManager
from conductor_stub.operators.quotas import QuotaManager
from conductor_stub.operators.tenancy import Tenancy
from conductor_stub.operators.use import UseManager
from conductor_stub.power.intake import PowerIntake
from conductor_stub.power.sweeper import PowerSweeper
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.local_placement import LocalPlacement
from conductor_stub.volumes.creation import VolumeCreation
from conductor_stub.volumes.existing import ExistingIntake
from conductor_stub.volumes.intake import VolumeIntake
from conductor_stub.volumes.manager import VolumeManager
from conductor_stub.volumes.migrations import MigrationIntake
from conductor_stub.volumes.placement import VolumePlacement
from conductor_stub.volumes.progress import VolumeProgress
from conductor_stub.volumes.snapshots import SnapshotIntake
from conductor_stub.volumes.sweeper import VolumeSweeper
from fleet import conf as fleet_conf
from fleet import domains, errors, service
from fleet.checks import required
from fleet.clock import Clock
from fleet.clock.skew import ClockSkew
from fleet.db.engine.database import Database
from fleet.db.hosts import flavor_mix
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.instances import signatures
from fleet.db.schema import identity, schema
from fleet.db.upkeep.clock import LedgerClock
from fleet.domains import COMPUTE, VOLUME, VOLUME_CONDUCTOR
from fleet.hardware.aliases import parse_aliases
from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import ledger_queue, server, transport, versions
from fleet.rpc.clients import (
    ComputeAPI,
    ComputeTaskAPI,
    MigrationAPI,
    SchedulerAPI,
    VolumeAPI,
    VolumeSchedulerAPI,
    VolumeTaskAPI,
)
from fleet.rpc.pins import Pins
from fleet.rpc.trust import signing
from fleet.service import probes

BINARY = "fleet-conductor"
TOPIC = "conductor"
#: Database connections that calls of users leave free for agents.
CONNECTIONS_FOR_AGENTS = 8
#: Seconds between two removals of expired signatures.
PRUNE_EVERY_S = 60
#: Seconds between two looks at what could wake queued builds.
QUEUE_INTERVAL_S = 1


def build_servers(
    conf: cfg.ConfigOpts,
    rpc_transport: oslo_messaging.RPCTransport,
    database: Database | None = None,
    skew: ClockSkew | None = None,
) -> list[service.Runnable]:
    """Build everything that a conductor process runs. The daemon and the trio in one process use it."""
    database = database or Database(conf)
    schema.check(database)
    skew = skew or ClockSkew(conf.max_clock_skew)
    clock = LedgerClock(database, skew)
    limits = StepLimits.from_conf(conf)
    host_transport = transport.get_host_transport(conf, rpc_transport)
    ledger = LedgerIdentity(TOPIC, database.read(identity.read))
    agent_api = AgentAPI(database, limits, _enables_new_services(conf), clock, ledger=ledger)
    pins = Pins(conf)
    pins.learn(agent_api.lowest_versions())
    compute = ComputeAPI(host_transport, conf, pins, ledger)
    draining = threading.Event()
    scheduler = SchedulerAPI(rpc_transport, conf, pins, ledger)
    scheduler.clock = clock
    placement = BuildPlacement(
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
    local = LocalPlacement()
    waits = conf.conductor.wait_for_capacity
    backends = VolumeAPI(host_transport, conf, pins, ledger)
    intake = Intake(
        *(database, placement, limits, conf.default_schedule_zone, clock, aliases, local),
        waits=waits,
        reserving=Reservations(database, compute, backends),
    )
    migrations = MigrationAPI(rpc_transport, conf, pins, ledger)
    move_placement = MovePlacement(
        database, scheduler, compute, migrations, limits, conf.allow_resize_to_same_host, clock.fresh
    )
    volume_placement = VolumePlacement(
        database,
        VolumeSchedulerAPI(rpc_transport, conf, pins, ledger),
        backends,
        VolumeTaskAPI(rpc_transport, conf, pins, ledger),
        limits,
        clock.fresh,
    )
    # A conductor that places no volumes hands them out.
    own = local if VOLUME in conf.conductor_domains else None
    creation = VolumeCreation(database, volume_placement, local=own, default_quota=limits.default_quota)
    power = PowerIntake(database, compute, limits, clock.fresh)
    attachments = AttachmentIntake(database, compute, backends, limits, clock.fresh)
    of_attachments = AttachmentManager(database, limits, clock.fresh)
    agents = ConductorManager(agent_api, pins)
    moves = MigrationManager(move_placement, MoveProgress(database, move_placement, limits))
    volumes = VolumeManager(volume_placement, VolumeProgress(database, volume_placement))
    endpoints = [
        agents,
        ComputeTaskManager(intake, placement, termination, draining),
        OperatorManager(
            database,
            conf.service_down_time,
            DryRun(database, intake, placement),
            Diagnosis(database, conf.host, clock.fresh),
            clock,
        ),
        CatalogManager(database, Announcements(database, scheduler), clock),
        GroupManager(database, limits.default_quota, clock),
        QuotaManager(database, limits.default_quota),
        KeyPairManager(database, clock),
        ConsoleManager(database, compute),
        DetailsManager(database, clock),
        EventsManager(database, clock),
        UseManager(database, clock),
        MoveIntake(database, move_placement, aliases, skew.require_in_step),
        power,
        attachments,
        of_attachments,
        moves,
        VolumeIntake(database, volume_placement, creation),
        SnapshotIntake(database, volume_placement),
        MigrationIntake(database, volume_placement),
        ExistingIntake(database, volume_placement, creation, backends),
        volumes,
    ]
    for_agents = [agents, of_attachments, AgentTaskManager(placement), moves, volumes]
    move_sweeper = MoveSweeper(database, move_placement, limits, clock.fresh)
    power_sweeper = PowerSweeper(database, power, limits, clock.fresh)
    attachment_sweeper = AttachmentSweeper(database, attachments, limits, clock.fresh)
    volume_sweeper = VolumeSweeper(database, volume_placement, limits, clock.fresh)
    room_queue = RoomQueue(database, placement, limits, clock)
    sweeper = BuildSweeper(database, placement, termination, limits, clock.fresh)
    taken = signatures.TakenSignatures(database, clock)
    keeper_name = f"{conf.host}-{os.getpid()}"
    runs: list[service.Runnable] = [
        server.get_keeper(host_transport, transport.host_exchange(conf), keeper_name),
        *([service.Periodic("signatures", taken.prune, PRUNE_EVERY_S)] if signing.keys_of(conf) else []),
        _heartbeat(conf, agent_api, pins, skew),
    ]
    if VOLUME in conf.conductor_domains:
        runs += [
            server.get_server(rpc_transport, VOLUME_CONDUCTOR, conf.host, [volumes], ledger=ledger, signatures=taken),
            _sweep(conf, "volumes", skew, volume_sweeper.sweep),
        ]
    if COMPUTE not in conf.conductor_domains:
        return runs
    return [
        *runs,
        server.get_server(rpc_transport, ledger_queue.TOPIC, conf.host, for_agents, ledger=ledger, signatures=taken),
        server.get_server(
            *(rpc_transport, TOPIC, conf.host, endpoints),
            draining=draining,
            ledger=ledger,
            threads=_threads(conf),
            signatures=taken,
            guard=Tenancy(database),
        ),
        local,
        _sweep(conf, "deadlines", skew, sweeper.end_overdue),
        _sweep(conf, "sweeper", skew, sweeper.retry_lost),
        _sweep(conf, "moves", skew, move_sweeper.sweep),
        _sweep(conf, "power", skew, power_sweeper.sweep),
        _sweep(conf, "attachments", skew, attachment_sweeper.sweep),
        service.Periodic("room queue", functools.partial(_in_step, skew, room_queue.look), QUEUE_INTERVAL_S),
        _flavor_mix(conf, database, clock.fresh, skew),
    ]


def _enables_new_services(conf: cfg.ConfigOpts) -> bool:
    """Where messages are signed, an agent that nobody has seen before waits for the administrator."""
    if conf.enable_new_services is None:
        return signing.keys_of(conf) is None
    return bool(conf.enable_new_services)


def _topic(conf: cfg.ConfigOpts) -> str:
    return TOPIC if COMPUTE in conf.conductor_domains else VOLUME_CONDUCTOR


def _threads(conf: cfg.ConfigOpts) -> int:
    """Threads for calls of users: so few that they leave database connections to the agents."""
    pool, overflow, threads = conf.database.max_pool_size, conf.database.max_overflow, conf.executor_thread_pool_size
    bounded = pool and overflow is not None and overflow >= 0
    return max(1, min(threads, pool + overflow - CONNECTIONS_FOR_AGENTS)) if bounded else threads


def _sweep(conf: cfg.ConfigOpts, name: str, skew: ClockSkew, sweep: Callable[[], object]) -> service.Periodic:
    return service.Periodic(name, functools.partial(_in_step, skew, sweep), conf.conductor.sweep_interval)


def _in_step(skew: ClockSkew, sweep: Callable[[], object]) -> None:
    """Sweep, unless the clock of this machine is wrong: then other conductors sweep."""
    if not skew.problem:
        sweep()


def _flavor_mix(conf: cfg.ConfigOpts, database: Database, clock: Clock, skew: ClockSkew) -> service.Periodic:
    """Count the instances that are new once a minute. All conductors try, and the first one counts."""

    def count() -> None:
        database.write(flavor_mix.count, clock(), conf.conductor.flavor_mix_half_life)

    return service.Periodic("flavor mix", functools.partial(_in_step, skew, count), flavor_mix.PERIOD_S)


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
