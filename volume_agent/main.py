# SPDX-License-Identifier: Apache-2.0
"""Builds a volume agent from its configuration."""

from __future__ import annotations

import functools
import random
import sys
import threading
from collections.abc import Sequence
from concurrent import futures

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

from fleet import conf as fleet_conf
from fleet import errors, service
from fleet.agent import identity
from fleet.agent.patience import Patience
from fleet.agent.presence import Presence
from fleet.agent.work_queues import WorkQueues
from fleet.checks import required
from fleet.clock.skew import ClockSkew
from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import server
from fleet.rpc import transport as rpc_transport
from fleet.rpc.clients import ConductorAPI, VolumeTaskAPI
from fleet.rpc.pins import Pins
from fleet.rpc.rabbit import host_queues
from fleet.service import probes
from volume_agent import conf as volume_conf
from volume_agent.agent import Intervals, ServedBackend, VolumeAgent
from volume_agent.backends import backend as backends
from volume_agent.backends.backend import Backend
from volume_agent.ledger.reporter import BINARY, TOPIC, Reporter
from volume_agent.ledger.volume_calls import VolumeCalls
from volume_agent.manager import BackendManager
from volume_agent.work.volume import VolumeWorker

LOG = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon ``fleet-volume``."""
    argv = sys.argv[1:] if argv is None else argv
    register = [volume_conf.register_opts]
    conf = fleet_conf.load_config(argv, BINARY, "Serves storage backends: makes and removes volumes.", register)
    try:
        required.broker(conf)
        names = backends.names(conf)
        if not names:
            raise errors.ConfigError(option="enabled_backends", reason="names no backend to serve")
        backends.load(conf)
        with identity.held(conf.volume_state_path, names, "volume_state_path"):
            pass
    except (errors.ConfigError, errors.ClassNotFound, errors.HostTaken) as wrong:
        raise SystemExit(f"{BINARY}: {wrong.message}") from None

    def build(number: int) -> service.Process:
        transport = rpc_transport.get_transport(conf)
        skew = ClockSkew(conf.max_clock_skew)
        host_transport, exchange = rpc_transport.get_host_transport(conf, transport), rpc_transport.host_exchange(conf)
        through_broker = probes.through_broker(conf, host_transport, TOPIC, names[0], exchange)
        through = {probes.BROKER: through_broker, probes.CLOCK: skew.require_in_step}
        return probes.process(conf, BINARY, number, through, lambda: servers(conf, transport, skew), conf.host)

    return service.launch(conf, BINARY, build, check=functools.partial(fleet_conf.check_files, argv, register))


def servers(
    conf: cfg.ConfigOpts, transport: oslo_messaging.RPCTransport, skew: ClockSkew | None = None
) -> Sequence[service.Runnable]:
    """Return what one agent process runs; nothing if no backend is configured."""
    return [build_agent(conf, transport, skew)] if conf.enabled_backends else []


def build_agent(
    conf: cfg.ConfigOpts, transport: oslo_messaging.RPCTransport, skew: ClockSkew | None = None
) -> VolumeAgent:
    """Return this process's agent. Its event ``ready`` is set when it serves.

    :raises errors.ConfigError:
    :raises errors.HostTaken: another process on this machine serves one of the backends
    """
    loaded = backends.load(conf)
    _warn_of_simulated(loaded)
    identities = identity.hold(conf.volume_state_path, [each.name for each in loaded], "volume_state_path")
    stopping = threading.Event()
    patience, pins = Patience(stopping), Pins(conf)
    mine = LedgerIdentity(TOPIC, identities.ledger())
    tasks = VolumeTaskAPI(transport, conf, pins, mine, for_agents=True)
    host_transport, exchange = rpc_transport.get_host_transport(conf, transport), rpc_transport.host_exchange(conf)
    message_queues = host_queues.of(host_transport, TOPIC, exchange)
    executor = futures.ThreadPoolExecutor(conf.volume_threads, thread_name_prefix="volume")
    calls = VolumeCalls(tasks, patience)

    def belongs_to(ledger: str) -> None:
        mine.learn(ledger)
        identities.remember_ledger(ledger)

    def superseded(name: str, reason: str) -> None:
        agent.superseded(name, reason)

    def serve(backend: Backend) -> ServedBackend:
        queues = WorkQueues(executor, slots=0)
        manager = BackendManager(VolumeWorker(backend, calls), queues)
        served = server.get_server(
            host_transport, TOPIC, backend.name, [manager], exchange, queues=message_queues, ledger=mine
        )
        return ServedBackend(backend, manager, served, queues)

    presence = Presence(
        ConductorAPI(transport, conf, pins, mine),
        patience,
        BINARY,
        TOPIC,
        service.new_incarnation(),
        identities,
        belongs_to,
        skew or ClockSkew(conf.max_clock_skew),
    )
    agent = VolumeAgent(
        [serve(backend) for backend in loaded],
        Reporter(tasks, presence, loaded, superseded),
        calls,
        executor,
        stopping,
        Intervals(conf.report_interval, conf.backend_stats_polling_interval, conf.stop_timeout),
        random.Random(),
        identities.release,
    )
    return agent


def _warn_of_simulated(loaded: Sequence[Backend]) -> None:
    """Warn of simulated backends: they must not be mistaken for real ones."""
    simulated = [each.name for each in loaded if each.driver.simulated]
    if simulated:
        LOG.warning("%d backends are SIMULATED (%s …): volumes there are not stored", len(simulated), simulated[0])


if __name__ == "__main__":
    sys.exit(main())
