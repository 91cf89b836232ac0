# SPDX-License-Identifier: Apache-2.0
"""fleet-scheduler: wires the scheduler together and runs it.

The console script of this name calls :func:`main`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence

import oslo_messaging
from oslo_config import cfg

import fleet.conf
from fleet import errors, service
from fleet.checks import required
from fleet.clock.skew import ClockSkew
from fleet.db.engine.database import Database
from fleet.db.schema import identity, schema
from fleet.db.upkeep.clock import LedgerClock
from fleet.domains import COMPUTE, VOLUME
from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import nova_broker
from fleet.rpc.clients import ConductorAPI
from fleet.rpc.pins import Pins
from fleet.rpc.transport import get_transport
from fleet.rpc.trust import signing
from fleet.service import probes
from scheduler import checks
from scheduler.compute import conf as compute_conf
from scheduler.compute import service as machines
from scheduler.nova import conf as nova_conf
from scheduler.nova import service as nova
from scheduler.nova.shadow import service as nova_shadow
from scheduler.peers.registration import BINARY, TOPIC, Registration
from scheduler.volumes import conf as volume_conf
from scheduler.volumes import manager as volume_manager
from scheduler.volumes import service as volumes

#: The topic of each domain.
_TOPICS = {COMPUTE: TOPIC, VOLUME: volume_manager.TOPIC}


def servers(
    conf: cfg.ConfigOpts,
    transport: oslo_messaging.RPCTransport,
    database: Database | None = None,
    skew: ClockSkew | None = None,
    number: int | None = None,
) -> Sequence[service.Runnable]:
    """Build the servers and tasks of one scheduler process. The trio in one process runs the same.

    :param number: of this worker in the daemon, from 0; None if there is only one, whatever the configuration says
    """
    database = database or Database(conf)
    schema.check(database)
    skew = skew or ClockSkew(conf.max_clock_skew)
    # After the first reading the feed brings the time along.
    clock = LedgerClock(database, skew, reads=False)
    ledger = LedgerIdentity(TOPIC, database.read(identity.read))
    pins = Pins(conf)
    topic = _TOPICS[conf.scheduler_domains[0]] if len(conf.scheduler_domains) == 1 else TOPIC
    registration = Registration(ConductorAPI(transport, conf, pins, ledger), conf.host, skew, pins, topic)
    runs: list[service.Runnable] = []
    if COMPUTE in conf.scheduler_domains:
        runs += machines.servers(conf, transport, database, clock, ledger, pins, number)
    if VOLUME in conf.scheduler_domains:
        runs += volumes.servers(conf, transport, database, clock, ledger)
    return [*runs, service.Periodic("heartbeat", registration.beat, conf.report_interval)]


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    register = [compute_conf.register_opts, nova_conf.register_opts, volume_conf.register_opts]
    conf = fleet.conf.load_config(argv, BINARY, "Chooses hosts for instances.", [*register, _register_cli])
    if nova_broker.is_active(conf):
        check = functools.partial(fleet.conf.check_files, [each for each in argv if each != "--shadow"], register)
        return _shadow_nova(conf, check) if conf.in_shadow else _serve_nova(conf, check)
    if conf.in_shadow:
        print(f"{BINARY}: --shadow needs [nova] transport_url", file=sys.stderr)
        return 1
    try:
        required.broker(conf)
        required.database(conf)
        # In the parent, before any worker: what cannot work must end the program, and not a worker again and again.
        checks.check_domains(conf)
        signing.keys_of(conf)
        with Database(conf).disposed() as database:
            schema.check_if_there(database)
    except errors.FleetError as refusal:
        print(f"{BINARY}: {refusal.message}", file=sys.stderr)
        return 1

    def build(number: int) -> service.Process:
        transport, database = get_transport(conf), Database(conf)
        skew = ClockSkew(conf.max_clock_skew)
        through = {
            probes.BROKER: probes.through_broker(conf, transport, _TOPICS[conf.scheduler_domains[0]], conf.host),
            probes.DATABASE: database.ping,
            probes.CLOCK: skew.require_in_step,
        }
        return probes.process(conf, BINARY, number, through, lambda: servers(conf, transport, database, skew, number))

    check = functools.partial(fleet.conf.check_files, argv, register)
    return service.launch(conf, BINARY, build, conf.scheduler_workers, check)


def _register_cli(conf: cfg.ConfigOpts) -> None:
    conf.register_cli_opt(
        cfg.BoolOpt(
            "shadow",
            dest="in_shadow",
            default=False,
            help="Decide copies of the requests to nova-scheduler, and compare. Nothing is claimed, written or answered.",
        )
    )


def _shadow_nova(conf: cfg.ConfigOpts, check: Callable[[], None]) -> int:
    """Run beside nova-scheduler, as its shadow."""
    nova.adapt(conf)
    try:
        nova.check(conf)
        nova_shadow.check(conf)
    except errors.FleetError as refusal:
        print(f"{BINARY}: {refusal.message}", file=sys.stderr)
        return 1
    return service.launch(conf, BINARY, functools.partial(nova_shadow.process, conf, BINARY), 1, check)


def _serve_nova(conf: cfg.ConfigOpts, check: Callable[[], None]) -> int:
    """Run in the place of nova-scheduler."""
    nova.adapt(conf)
    try:
        nova.check(conf)
    except errors.FleetError as refusal:
        print(f"{BINARY}: {refusal.message}", file=sys.stderr)
        return 1
    return service.launch(conf, BINARY, functools.partial(nova.process, conf, BINARY), conf.scheduler_workers, check)


if __name__ == "__main__":
    sys.exit(main())
