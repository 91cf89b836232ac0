# SPDX-License-Identifier: Apache-2.0
"""The three services, wired as their ``main`` wires them, but to the simulated world."""

from __future__ import annotations

import collections
import functools
import uuid
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_db import exception as db_exception

from compute_agent import wiring as agent_wiring
from compute_agent.agent import Calls
from compute_agent.drivers.base import ComputeDriver, GuestInfo, SpawnFailed
from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.instance_info import InstanceInfo
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.ledger.notifications import Notifications
from compute_agent.ledger.reporter import Reporter
from compute_agent.node.host import Host
from compute_agent.node.inventory import HostPolicy
from compute_agent.work import comparison, power_sync, recovery
from compute_agent.work.restarts import Restarts
from conductor_stub import wiring
from conductor_stub.parts import Clients, Common, Settings
from conductor_stub.steps.fence import Fence, Order, Outcome
from conductor_stub.steps.group_commit import GroupCommit
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.local_placement import LocalPlacement
from conductor_stub.steps.recovery_settings import RecoverySettings
from fleet import domains, errors, states
from fleet.agent.batching import Batcher
from fleet.agent.identity import Identity
from fleet.agent.patience import Patience
from fleet.agent.work_queues import WorkQueues
from fleet.context import RequestContext, new_context
from fleet.db.feed.feed import ChangeFeed
from fleet.objects import Flavor, Image, Instance, host_report
from fleet.objects.guest_restarts import RestartLimits
from fleet.rpc.clients import (
    ComputeAPI,
    ComputeTaskAPI,
    ConductorAPI,
    MigrationAPI,
    SchedulerAPI,
    VolumeAPI,
    VolumeSchedulerAPI,
    VolumeTaskAPI,
)
from scheduler.compute.drivers import driver_loading
from scheduler.compute.manager import SchedulerManager
from tests.configuration import of_scheduler
from tests.simulation import storage
from tests.simulation.bus import Bus, unpinned
from tests.simulation.database import SimulatedDatabase
from tests.simulation.world import Process, SimulatedWorld
from tests.worlds.neighbours import FakeNotifier

LIMITS = StepLimits(
    max_attempts=3,
    build_timeout_s=200,
    placing_timeout_s=30,
    spawn_timeout_s=60,
    move_timeout_s=150,
    volume_timeout_s=200,
    power_timeout_s=100,
    shelved_offload_time_s=0,
    retry_interval_s=3,
    service_down_time_s=60,
)
#: Requests that a conductor places itself at a time; it hands out the others.
OWN_BUILDS = 1
MEMORY_MB = 4096
NO_RECOVERY = RecoverySettings()
HEARTBEAT_S, REPORT_S, SWEEP_S = 25.0, 100.0, 20.0


def no_fence(order: Order) -> Outcome:
    raise AssertionError("nothing is recovered in this world")


class Notifier(FakeNotifier):
    def info(self, context: RequestContext, event_type: str, payload: dict[str, Any]) -> None:
        """Nobody listens."""


class Hypervisor(ComputeDriver):
    """Guests of one host, which outlive its agent."""

    def __init__(self, world: SimulatedWorld, host: str) -> None:
        self._world = world
        self._host = host
        self.guests: dict[str, dict[str, Any]] = {}
        self.spawned: collections.Counter[tuple[str, int]] = collections.Counter()
        #: How often guests die again after they are started here.
        self._dies_again: collections.Counter[str] = collections.Counter()

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        return [self._host]

    def get_available_resource(self, node: str) -> dict[str, Any]:
        stats = {host_report.SHELF: "shelf"}
        return {"vcpus": 8, "memory_mb": MEMORY_MB, "local_gb": 100, "numa_topology": None, "stats": stats}

    def shelve(self, context: RequestContext, instance: Instance) -> None:
        self._work()

    def spawn(self, context: RequestContext, instance: Instance, image_meta: Image) -> None:
        if instance.task_state == states.SPAWNING:
            # An evacuated instance may be spawned again where its build once was.
            self.spawned[instance.uuid, instance.attempt] += 1
        self._run(instance)
        hangs = self._world.happens("driver hangs", 0.03)
        self._world.sleep(200.0 if hangs else self._world.chance.choice([0.0, 0.5, 3.0]))
        if self._world.happens("driver fails", 0.1):
            del self.guests[instance.uuid]
            raise SpawnFailed("the hypervisor said no")

    def migrate_disk_and_power_off(
        self, context: RequestContext, instance: Instance, dest: str, flavor: Flavor
    ) -> None:
        self._work()
        if instance.uuid not in self.guests:
            raise errors.NotFound(kind="Guest", name=instance.uuid)
        self.guests[instance.uuid]["switched_off"] = True

    def finish_migration(self, context: RequestContext, instance: Instance, image_meta: Image) -> None:
        self._work()
        self._run(instance)

    def finish_revert_migration(self, context: RequestContext, instance: Instance) -> None:
        self._work()
        if instance.uuid not in self.guests:
            raise errors.NotFound(kind="Guest", name=instance.uuid)
        self._run(instance)

    def _work(self) -> None:
        hangs = self._world.happens("driver hangs", 0.03)
        self._world.sleep(200.0 if hangs else self._world.chance.choice([0.0, 0.5, 3.0]))
        if self._world.happens("driver fails", 0.1):
            raise SpawnFailed("the hypervisor said no")

    def _run(self, instance: Instance) -> None:
        guest = {"uuid": instance.uuid, "memory_mb": instance.flavor.memory_mb, "node": self._host}
        plugs = [plug["address"] for plug in instance.interfaces or ()]
        self.guests[instance.uuid] = {**guest, "attempt": instance.attempt, "addresses": plugs}
        if self._dies_again[instance.uuid]:
            self._dies_again[instance.uuid] -= 1
            self._world.after(self._world.chance.choice([5.0, 40.0]), lambda: self._end(instance.uuid))

    def destroy(self, context: RequestContext, instance_uuid: str) -> None:
        self._world.pause()
        self.guests.pop(instance_uuid, None)

    def get_info(self, instance_uuid: str) -> GuestInfo:
        if instance_uuid not in self.guests:
            raise errors.NotFound(kind="Guest", name=instance_uuid)
        return GuestInfo(state=self.power_state(instance_uuid))

    def power_state(self, instance_uuid: str) -> int:
        guest = self.guests.get(instance_uuid)
        if guest is None:
            return states.NOSTATE
        if guest.get("dead"):
            return states.CRASHED
        if guest.get("suspended"):
            return states.SUSPENDED
        return states.SHUTDOWN if guest.get("switched_off") or guest.get("stopped") else states.RUNNING

    def die(self) -> None:
        """One of the guests that are on ends by itself, some of them again after each start."""
        running = sorted(uuid for uuid in self.guests if self.power_state(uuid) == states.RUNNING)
        if running:
            uuid = self._world.chance.choice(running)
            self._dies_again[uuid] += self._world.chance.choice([0, 3])
            self._end(uuid)

    def _end(self, uuid: str) -> None:
        if self.power_state(uuid) == states.RUNNING:
            self.guests[uuid]["dead"] = True

    def power_off(self, context: RequestContext, instance: Instance) -> None:
        self._work()
        if instance.uuid not in self.guests:
            raise errors.NotFound(kind="Guest", name=instance.uuid)
        self.guests[instance.uuid] = {**self.guests[instance.uuid], "stopped": True, "dead": False}

    def suspend(self, context: RequestContext, instance: Instance) -> None:
        self._work()
        if instance.uuid not in self.guests:
            raise errors.NotFound(kind="Guest", name=instance.uuid)
        self.guests[instance.uuid] = {**self.guests[instance.uuid], "suspended": True}

    def power_on(self, context: RequestContext, instance: Instance) -> None:
        self.finish_revert_migration(context, instance)

    def get_per_instance_usage(self) -> dict[str, dict[str, Any]]:
        return dict(self.guests)


class Executor(futures.Executor):
    """Runs what is submitted as coroutines of a process."""

    def __init__(self, world: SimulatedWorld, process: Process) -> None:
        self._world = world
        self._process = process

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        self._world.spawn(self._process, "lane", lambda: fn(*args, **kwargs))
        return futures.Future()


class Signal:
    """A threading.Event for the coroutines of a process."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        # Less than the world's clock can tell would be no time at all.
        return self._world.wait(lambda: self._is_set, timeout and max(timeout, 0.001))


class Pauses:
    """A threading.Event that nobody sets, for code that waits on it between tries."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world

    def wait(self, timeout: float) -> bool:
        self._world.sleep(timeout)
        return False


def start_conductor(
    world: SimulatedWorld,
    bus: Bus,
    database: SimulatedDatabase,
    name: str,
    recovery: RecoverySettings = NO_RECOVERY,
    fence: Fence = no_fence,
) -> Process:
    """The product's own parts, whose repeated work is done only while there is something to do."""
    process = Process(name)
    neighbours = SchedulerAPI, ComputeAPI, VolumeSchedulerAPI, VolumeAPI, ComputeTaskAPI, MigrationAPI, VolumeTaskAPI
    clients = Clients(*(bus.client(each) for each in neighbours), Notifier())  # type: ignore[arg-type]
    grouped = functools.partial(GroupCommit, clock=world.seconds, signal=lambda: Signal(world))
    local = LocalPlacement(OWN_BUILDS, Executor(world, process))
    settings = Settings(name, same_host=True, recovery=recovery)
    parts = wiring.wire(
        Common(
            *(database, clients, LIMITS, settings, world.clock, world.clock, unpinned()),
            local=local,
            grouped=grouped,
            fence=fence,
            spawn=lambda work: world.spawn(process, "beside", work),
        )
    )
    process.endpoints = [endpoint for part in parts for endpoint in part.endpoints]
    bus.serve(process, ["conductor", domains.VOLUME_CONDUCTOR])
    for part in parts:
        of_volumes = part is parts.volumes
        is_needed = database.is_any_volume_under_way if of_volumes else database.is_anything_under_way
        for run in part.runs:
            needed = (lambda: recovery.enabled) if part is parts.recovery else is_needed
            _every(world, process, SWEEP_S, run.name, _if(needed, run.work))
    return process


def start_scheduler(world: SimulatedWorld, bus: Bus, database: SimulatedDatabase, name: str) -> Process:
    process = Process(name)
    feed = functools.partial(ChangeFeed, database, world.clock)
    driver = driver_loading.build_driver(_scheduler_conf(), feed, Notifier(), world.clock)
    process.endpoints = [SchedulerManager(driver, world.clock)]
    process.of_queue[domains.VOLUME_SCHEDULER] = [storage.scheduler(world, database, LIMITS)]
    bus.serve(process, ["scheduler", domains.VOLUME_SCHEDULER])
    return process


@functools.cache
def _scheduler_conf() -> cfg.ConfigOpts:
    return of_scheduler(service_down_time=LIMITS.service_down_time_s)


def start_agent(
    world: SimulatedWorld, bus: Bus, hypervisors: Mapping[str, Hypervisor], name: str, life: int
) -> Process:
    """:param hypervisors: by the names of the hosts that it serves"""
    process = Process(name)
    incarnation = f"{name}-{life}"
    patience = Patience(Pauses(world), world.seconds)  # type: ignore[arg-type]
    conductor = bus.client(ConductorAPI)
    together = Batcher(conductor, world.seconds, lambda: Signal(world))
    ledger = BuildCalls(conductor, bus.client(ComputeTaskAPI), patience, claim_timeout_s=20, batcher=together)
    moves = MoveCalls(bus.client(MigrationAPI), patience, limit_s=20)
    calls = Calls(ledger, moves, InstanceInfo(None))

    def superseded(_name: str, reason: str) -> None:
        world.log("%s was superseded: %s", incarnation, reason)
        world.kill(process)

    policy = HostPolicy(ram_allocation_ratio=1.0)
    hosts = {name: Host(name, each, policy, incarnation, superseded) for name, each in hypervisors.items()}
    queues = {name: WorkQueues(Executor(world, process), slots=2) for name in hosts}
    for name, host in hosts.items():
        threadless = world.seconds, _no_threads
        process.of_queue[f"compute.{name}"] = [
            agent_wiring.manager_of(host, calls, Notifications(None), queues[name], *threadless)
        ]
    identities = {name: Identity(str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), life) for name in hosts}
    reporter = Reporter(conductor, patience, list(hosts.values()), incarnation, identities)

    action = world.chance.choice([power_sync.NOTHING, power_sync.RESTART, power_sync.ERROR])
    # After so many restarts of a guest its instance moves, or is in ERROR; after any number with 0.
    limits = RestartLimits(world.chance.choice([0, 1, 2]), window_s=3600, wait_s=10)
    watch = power_sync.PowerSync(
        ledger, Notifications(None), action, Restarts(limits), moves=world.chance.random() < 0.5
    )

    def compare() -> None:
        comparison.compare([(host, queues[name]) for name, host in hosts.items()], ledger, moves, watch)

    def begin() -> None:
        reporter.register()
        for host in hosts.values():
            recovery.recover(new_context(), host, ledger, moves, watch)
        reports = reporter.audit()
        bus.serve(process, process.of_queue)
        reporter.send(reports)
        process.serving = True  # type: ignore[attr-defined]
        _every(world, process, HEARTBEAT_S, "heartbeat", reporter.heartbeat)
        _every(world, process, REPORT_S, "report", reporter.report)
        _every(world, process, REPORT_S, "compare", compare)

    world.spawn(process, "begin", begin)
    process.hosts = hosts  # type: ignore[attr-defined]
    return process


def start_storage(world: SimulatedWorld, bus: Bus, disks: storage.Disks, name: str, life: int) -> Process:
    """The agent of a storage backend."""
    seconds = {"heartbeat": HEARTBEAT_S, "report": REPORT_S, "compare": REPORT_S}

    def every(world: SimulatedWorld, process: Process, what: str, work: Callable[[], object]) -> None:
        _every(world, process, seconds[what], what, work)

    executor = functools.partial(Executor, world)
    return storage.start_agent(world, bus, disks, name, life, Pauses(world), executor, every, lambda: Signal(world))


def _no_threads(context: RequestContext, limit_s: float | None, work: Callable[[], Any]) -> Any:
    """Here a driver that hangs is a coroutine that sleeps; the sweeper is the one to notice."""
    return work()


def _if(there_is_work: Callable[[], bool], work: Callable[[], object]) -> Callable[[], object]:
    """Sweeps that find nothing are most of all that a conductor does in a seed."""
    return lambda: work() if there_is_work() else None


def _every(world: SimulatedWorld, process: Process, seconds: float, name: str, work: Callable[[], object]) -> None:
    def again() -> None:
        while True:
            world.sleep(seconds)
            try:
                work()
            except (oslo_messaging.MessagingException, errors.FleetError, db_exception.DBError) as failure:
                # fleet.service.Periodic would go on after any; here what nobody expects ends the seed.
                world.log("%s of %s failed: %r", name, process.name, failure)

    world.spawn(process, name, again, endless=True)
