# SPDX-License-Identifier: Apache-2.0
"""The parts of a conductor: what every domain is wired from, and what it contributes.

Each room has a ``wiring`` module with ``wire(common) -> Part``. The objects that other rooms and tests use are further
attributes of its part.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection, Mapping, Sequence

import oslo_messaging
from oslo_config import cfg

from conductor_stub.steps import fence, hook
from conductor_stub.steps.balance_settings import BalanceSettings
from conductor_stub.steps.beside import Spawn
from conductor_stub.steps.fence import Fence
from conductor_stub.steps.group_commit import GroupCommit
from conductor_stub.steps.hook import Ended
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.local_placement import LocalPlacement
from conductor_stub.steps.maintenance_settings import MaintenanceSettings
from conductor_stub.steps.recovery_settings import RecoverySettings
from fleet import tolerance_conf
from fleet.clock import Clock
from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.domains import DOMAINS
from fleet.hardware.aliases import Aliases, parse_aliases
from fleet.json_codec import JSONObject
from fleet.ledger_identity import LedgerIdentity
from fleet.objects.flavor_mix import HALF_LIFE_S
from fleet.objects.tolerance import Tolerance
from fleet.rpc.clients import (
    ComputeAPI,
    ComputeTaskAPI,
    MigrationAPI,
    SchedulerAPI,
    VolumeAPI,
    VolumeSchedulerAPI,
    VolumeTaskAPI,
)
from fleet.rpc.notifier import Notifier, get_notifier
from fleet.rpc.pins import Pins
from fleet.rpc.trust import signing

#: Sends a notification: its event, and what it is about.
Tell = Callable[[RequestContext, str, JSONObject], object]


@dataclasses.dataclass(frozen=True)
class Clients:
    """The clients of a conductor: for schedulers, agents (``compute``, ``backends``), and other conductors."""

    scheduler: SchedulerAPI
    compute: ComputeAPI
    volume_scheduler: VolumeSchedulerAPI
    backends: VolumeAPI
    builds: ComputeTaskAPI
    moves: MigrationAPI
    volumes: VolumeTaskAPI
    notifier: Notifier

    @classmethod
    def connect(
        cls,
        conf: cfg.ConfigOpts,
        rpc_transport: oslo_messaging.RPCTransport,
        host_transport: oslo_messaging.RPCTransport,
        pins: Pins,
        ledger: LedgerIdentity,
        clock: Clock,
    ) -> Clients:
        """:param clock: gives the requests of a scheduler their deadlines"""
        scheduler = SchedulerAPI(rpc_transport, conf, pins, ledger)
        scheduler.clock = clock
        return cls(
            scheduler,
            ComputeAPI(host_transport, conf, pins, ledger),
            VolumeSchedulerAPI(rpc_transport, conf, pins, ledger),
            VolumeAPI(host_transport, conf, pins, ledger),
            ComputeTaskAPI(rpc_transport, conf, pins, ledger),
            MigrationAPI(rpc_transport, conf, pins, ledger),
            VolumeTaskAPI(rpc_transport, conf, pins, ledger),
            get_notifier(conf, f"compute_task.{conf.host}"),
        )


@dataclasses.dataclass(frozen=True)
class Settings:
    """Options that single domains read. The options of the same names describe them.

    :param default_zone: ``default_availability_zone``
    :param waits: ``wait_for_capacity``
    :param same_host: ``allow_resize_to_same_host``
    :param tolerance: what ``[tolerance]`` promises for the fleet
    """

    host: str = "conductor"
    domains: Collection[str] = DOMAINS
    default_zone: str = "nova"
    default_schedule_zone: str | None = None
    aliases: Aliases = dataclasses.field(default_factory=dict)
    waits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    same_host: bool = False
    enable_new_services: bool = True
    sweep_interval_s: float = 5
    flavor_mix_half_life_s: float = HALF_LIFE_S
    recovery: RecoverySettings = RecoverySettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    balance: BalanceSettings = BalanceSettings()
    tolerance: Tolerance | None = None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Settings:
        return cls(
            host=conf.host,
            domains=conf.conductor_domains,
            default_zone=conf.default_availability_zone,
            default_schedule_zone=conf.default_schedule_zone,
            aliases=parse_aliases(conf.pci.alias),
            waits=conf.conductor.wait_for_capacity,
            same_host=conf.allow_resize_to_same_host,
            enable_new_services=enables_new_services(conf),
            sweep_interval_s=conf.conductor.sweep_interval,
            flavor_mix_half_life_s=conf.conductor.flavor_mix_half_life,
            recovery=RecoverySettings.from_conf(conf),
            maintenance=MaintenanceSettings.from_conf(conf),
            balance=BalanceSettings.from_conf(conf),
            tolerance=tolerance_conf.of_fleet(conf),
        )


def enables_new_services(conf: cfg.ConfigOpts) -> bool:
    """Return whether an agent that registers for the first time may take builds at once.

    By default it may not if messages are signed: the administrator enables it first.
    """
    if conf.enable_new_services is None:
        return signing.keys_of(conf) is None
    return bool(conf.enable_new_services)


def in_thread(work: Callable[[], object]) -> None:
    """Run it beside the caller. The thread does not keep a daemon from stopping."""
    threading.Thread(target=work, daemon=True).start()


def _always_in_step() -> None:
    """The clock of this machine is right."""


@dataclasses.dataclass(frozen=True)
class Common:
    """Parts that the wiring of every domain receives.

    :param clock: the database's time, at most some seconds old
    :param fresh: the database's time, read for each call
    :param local: threads that place what this process accepts; None: it hands everything out
    :param grouped: makes a group commit; the simulation has its own, because it has no threads
    :param require_in_step: raises if the clock of this machine is wrong
    :param draining: set while the process handles its last messages
    :param fence: switches a host off
    :param hook: runs the command of a maintenance
    :param spawn: runs what takes long beside the caller
    """

    database: Database
    clients: Clients
    limits: StepLimits
    settings: Settings
    clock: Clock
    fresh: Clock
    pins: Pins
    ledger: LedgerIdentity = dataclasses.field(default_factory=LedgerIdentity)
    local: LocalPlacement | None = None
    grouped: Callable[..., GroupCommit[object, object]] = GroupCommit
    require_in_step: Callable[[], None] = _always_in_step
    draining: threading.Event = dataclasses.field(default_factory=threading.Event)
    fence: Fence = fence.run
    hook: Callable[[Sequence[str], Mapping[str, str], float, str], Ended] = hook.run
    spawn: Spawn = in_thread


@dataclasses.dataclass(frozen=True)
class Run:
    """Work that is called every ``every_s`` seconds, unless the clock of this machine is wrong."""

    name: str
    work: Callable[[], object]
    every_s: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """The contribution of one domain to a conductor.

    :param endpoints: of the conductor's queue
    :param for_agents: those of ``endpoints`` that agents call
    """

    endpoints: Sequence[object]
    for_agents: Sequence[object] = ()
    runs: Sequence[Run] = ()
