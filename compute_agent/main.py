# SPDX-License-Identifier: Apache-2.0
"""Builds a compute agent from its configuration. ``fleet-compute`` calls it."""

from __future__ import annotations

import dataclasses
import functools
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent import futures

import oslo_messaging
import psutil
from oslo_config import cfg
from oslo_log import log as logging

from compute_agent import conf as agent_conf
from compute_agent import drivers, wiring
from compute_agent.agent import Agent, Calls, Intervals, ServedHost
from compute_agent.drivers.base import ComputeDriver
from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.instance_info import InstanceInfo
from compute_agent.ledger.last_report import LastReports
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.ledger.notifications import Notifications
from compute_agent.ledger.reporter import BINARY, TOPIC, Reporter
from compute_agent.monitors import Monitors
from compute_agent.node.host import Host
from compute_agent.node.inventory import HostPolicy
from compute_agent.work.power_sync import PowerSync
from compute_agent.work.restarts import Restarts
from fleet import conf as fleet_conf
from fleet import context, errors, service
from fleet.agent import connection, host_names, identity, presence
from fleet.agent.life import Process
from fleet.agent.patience import Patience
from fleet.agent.work_queues import WorkQueues
from fleet.checks import required
from fleet.clock.skew import ClockSkew
from fleet.ledger_identity import LedgerIdentity
from fleet.objects.guest_restarts import RestartLimits
from fleet.rpc import transport as rpc_transport
from fleet.rpc.clients import ComputeTaskAPI, ConductorAPI, MigrationAPI, SchedulerAPI
from fleet.rpc.notifier import get_notifier
from fleet.service import probes

LOG = logging.getLogger(__name__)
#: Hosts named in one log line.
_NAMED = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon ``fleet-compute``."""
    argv = sys.argv[1:] if argv is None else argv
    register = [agent_conf.register_opts]
    conf = fleet_conf.load_config(argv, BINARY, "Serves one or more hosts: claims, spawns and reports.", register)
    try:
        required.broker(conf)
        hosts = names(conf)
        with identity.held(conf.instances_path, hosts) as identities:
            for host, driver in load_drivers(conf, hosts).items():
                # The worker is forked later and has its own.
                driver.cleanup_host(host)
            Monitors.from_conf(conf)
            require_free(conf, identities, hosts)
    except (errors.ConfigError, errors.HostTaken, errors.NotTrusted) as wrong:
        raise SystemExit(f"{BINARY}: {wrong.message}") from None

    def build(number: int) -> service.Process:
        transport = rpc_transport.get_transport(conf)
        skew = ClockSkew(conf.max_clock_skew)
        through = {
            probes.BROKER: connection.through_broker(conf, transport, TOPIC, hosts[0]),
            probes.CLOCK: skew.require_in_step,
        }
        named = ",".join(conf.hosts) if conf.hosts else conf.host
        return probes.process(conf, BINARY, number, through, lambda: servers(conf, transport, skew), named)

    return service.launch(conf, BINARY, build, check=functools.partial(fleet_conf.check_files, argv, register))


def require_free(conf: cfg.ConfigOpts, identities: identity.Identities, hosts: Sequence[str]) -> None:
    """Ask a conductor whether this process may serve ``hosts``. :raises errors.HostTaken:

    If the broker cannot be reached, the registration answers it later.
    """
    if not probes.broker_reachable(conf):
        LOG.warning("The broker does not answer; starting without it")
        return
    transport = rpc_transport.get_transport(conf)
    ledger = LedgerIdentity(TOPIC, identities.ledger())
    conductor, wanted = (
        ConductorAPI(transport, conf, ledger=ledger),
        presence.registrations(BINARY, TOPIC, hosts, identities, service.new_incarnation()),
    )
    try:
        Patience(threading.Event()).until_answered(
            "require_free", lambda: conductor.require_free(context.new_context(), wanted), limit_s=None
        )
    finally:
        # The worker is forked later and opens its own.
        transport.cleanup()


def servers(
    conf: cfg.ConfigOpts, transport: oslo_messaging.RPCTransport, skew: ClockSkew | None = None
) -> Sequence[service.Runnable]:
    """Return the servers and tasks of one agent process."""
    return [build_agents(conf, transport, skew=skew)]


def names(conf: cfg.ConfigOpts) -> list[str]:
    """Return the hosts that this process is to serve. :raises errors.ConfigError:"""
    return host_names.expand(conf.hosts or [conf.host])


def load_drivers(conf: cfg.ConfigOpts, hosts: Sequence[str]) -> dict[str, ComputeDriver]:
    """Return one initialised driver for each host. :raises errors.ConfigError:"""
    if drivers.driver_class(conf.compute_driver).one_host_only and len(hosts) > 1:
        raise errors.ConfigError(
            option="hosts", reason=f"names {len(hosts)} hosts, and the driver {conf.compute_driver} serves one"
        )
    loaded = {host: drivers.load(conf) for host in hosts}
    for host, driver in loaded.items():
        driver.init_host(host)
    return loaded


def warn_of_simulated(loaded: Mapping[str, ComputeDriver]) -> None:
    """Warn of simulated hosts: a simulated fleet must not be mistaken for a real one."""
    simulated = sorted(host for host, driver in loaded.items() if driver.simulated)
    if simulated:
        LOG.warning(
            "compute_driver is %s: %d hosts are SIMULATED (%s), and their instances do not really run. "
            "Set compute_driver = local to run instances on this machine",
            type(loaded[simulated[0]]).__name__,
            len(simulated),
            ", ".join(simulated[:_NAMED]) + (", …" if len(simulated) > _NAMED else ""),
        )


def build_agents(
    conf: cfg.ConfigOpts,
    transport: oslo_messaging.RPCTransport,
    hosts: Sequence[str] | None = None,
    skew: ClockSkew | None = None,
) -> Agent:
    """Return this process's agent for ``hosts``, or for the hosts that ``conf`` names.

    An embedded trio runs it beside the other services. Its event ``ready`` is set when it serves.

    :raises errors.ConfigError:
    :raises errors.HostTaken: another process on this machine serves one of the hosts
    """
    hosts = names(conf) if hosts is None else host_names.expand(hosts)
    here = connection.Connection(conf, transport, TOPIC, hosts, "instances_path", skew)
    calls = _calls(conf, here)
    notifications = Notifications(get_notifier(conf, publisher_id=TOPIC))
    executor = futures.ThreadPoolExecutor(conf.agent_threads, thread_name_prefix="build")

    def superseded(name: str, reason: str) -> None:
        agent.superseded(name, reason)

    loaded = load_drivers(conf, hosts)
    warn_of_simulated(loaded)
    # Read once: a clock that is set changes it by a second, and each change is a report to all schedulers.
    policy = dataclasses.replace(HostPolicy.from_conf(conf), booted_at=int(psutil.boot_time()))
    served_hosts = [Host(name, each, policy, here.incarnation, superseded) for name, each in loaded.items()]
    served = [
        _serve(host, here, calls, notifications, WorkQueues(executor, conf.max_concurrent_builds))
        for host in served_hosts
    ]

    def release() -> None:
        for name, driver in loaded.items():
            driver.cleanup_host(name)
        here.identities.release()

    agent = Agent(
        served,
        _reporter(conf, here, served_hosts, notifications),
        calls,
        PowerSync(
            calls.builds,
            notifications,
            conf.lost_guest_action,
            _restarts(conf),
            conf.guest_restart_exhausted == agent_conf.MOVE,
        ),
        Intervals(conf.report_interval, conf.update_resources_interval, conf.scheduler_instance_sync_interval),
        Process(executor, here.stopping, conf.stop_timeout, release),
    )
    return agent


def _restarts(conf: cfg.ConfigOpts) -> Restarts:
    return Restarts(RestartLimits(conf.guest_restart_limit, conf.guest_restart_window, conf.guest_restart_wait))


def _calls(conf: cfg.ConfigOpts, here: connection.Connection) -> Calls:
    told = InstanceInfo(here.client(SchedulerAPI) if conf.scheduler_tracks_instance_changes else None)
    conductor, tasks = here.client(ConductorAPI), here.client(ComputeTaskAPI, for_agents=True)
    moves = here.client(MigrationAPI, for_agents=True)
    return Calls(
        BuildCalls(conductor, tasks, here.patience, conf.claim_timeout, told),
        MoveCalls(moves, here.patience, conf.claim_timeout),
        told,
    )


def _serve(
    host: Host, here: connection.Connection, calls: Calls, notifications: Notifications, queues: WorkQueues
) -> ServedHost:
    """One host with all that works on it."""
    manager = wiring.manager_of(host, calls, notifications, queues)
    return ServedHost(host.name, here.server(host.name, manager), queues, host)


def _reporter(
    conf: cfg.ConfigOpts, here: connection.Connection, hosts: Sequence[Host], notifications: Notifications
) -> Reporter:
    return Reporter(
        *(here.client(ConductorAPI), here.patience, hosts, here.incarnation, here.identities),
        Monitors.from_conf(conf),
        notifications,
        LastReports(conf.inventory_resend_interval),
        here.belongs_to,
        here.skew,
    )


if __name__ == "__main__":
    sys.exit(main())
