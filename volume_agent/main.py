# SPDX-License-Identifier: Apache-2.0
"""Builds a volume agent from its configuration. ``fleet-volume`` calls it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from concurrent import futures

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

from fleet import conf as fleet_conf
from fleet import errors, service
from fleet.agent import connection, identity
from fleet.agent.life import Process
from fleet.agent.presence import Presence
from fleet.agent.work_queues import WorkQueues
from fleet.checks import required
from fleet.clock.skew import ClockSkew
from fleet.rpc import transport as rpc_transport
from fleet.rpc.clients import ConductorAPI, VolumeTaskAPI
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
    except cfg.ConfigFileValueError as wrong_value:
        raise SystemExit(f"{BINARY}: {wrong_value}") from None

    def build(number: int) -> service.Process:
        transport = rpc_transport.get_transport(conf)
        skew = ClockSkew(conf.max_clock_skew)
        through_broker = connection.through_broker(conf, transport, TOPIC, names[0])
        through = {probes.BROKER: through_broker, probes.CLOCK: skew.require_in_step}
        return probes.process(conf, BINARY, number, through, lambda: servers(conf, transport, skew), conf.host)

    return service.launch(conf, BINARY, build, check=functools.partial(fleet_conf.check_files, argv, register))


def servers(
    conf: cfg.ConfigOpts, transport: oslo_messaging.RPCTransport, skew: ClockSkew | None = None
) -> Sequence[service.Runnable]:
    """Return the servers and tasks of one agent process; none if no backend is configured."""
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
    here = connection.Connection(conf, transport, TOPIC, [each.name for each in loaded], "volume_state_path", skew)
    tasks = here.client(VolumeTaskAPI, for_agents=True)
    calls = VolumeCalls(tasks, here.patience)
    executor = futures.ThreadPoolExecutor(conf.volume_threads, thread_name_prefix="volume")

    def superseded(name: str, reason: str) -> None:
        agent.superseded(name, reason)

    presence = Presence(
        *(here.client(ConductorAPI), here.patience, BINARY, TOPIC, here.incarnation, here.identities),
        here.belongs_to,
        here.skew,
    )
    agent = VolumeAgent(
        [_serve(backend, here, calls, WorkQueues(executor, slots=0)) for backend in loaded],
        Reporter(tasks, presence, loaded, superseded),
        calls,
        Intervals(conf.report_interval, conf.backend_stats_polling_interval),
        Process(executor, here.stopping, conf.stop_timeout, here.identities.release),
    )
    return agent


def _serve(backend: Backend, here: connection.Connection, calls: VolumeCalls, queues: WorkQueues) -> ServedBackend:
    """One backend with what works on it."""
    manager = BackendManager(VolumeWorker(backend, calls), queues)
    return ServedBackend(backend.name, here.server(backend.name, manager), queues, backend, manager)


def _warn_of_simulated(loaded: Sequence[Backend]) -> None:
    """Warn of simulated backends: they must not be mistaken for real ones."""
    simulated = [each.name for each in loaded if each.driver.simulated]
    if simulated:
        LOG.warning("%d backends are SIMULATED (%s …): volumes there are not stored", len(simulated), simulated[0])


if __name__ == "__main__":
    sys.exit(main())
