# SPDX-License-Identifier: Apache-2.0
"""Volumes in the simulated world: their part of schedulers, agents of storage backends, and a client."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import oslo_messaging
import sqlalchemy as sa

from fleet import errors, volume_states
from fleet.agent.batching import Batcher
from fleet.agent.identity import Identity
from fleet.agent.patience import Patience
from fleet.agent.presence import Presence
from fleet.agent.work_queues import WorkQueues
from fleet.context import new_context
from fleet.db.feed import feed_queries
from fleet.db.feed.feed import ChangeFeed
from fleet.db.tables import models
from fleet.objects import Volume
from fleet.rpc.clients import ConductorAPI, OperatorAPI, VolumeTaskAPI
from scheduler.volumes import conf as volume_conf
from scheduler.volumes import service
from scheduler.volumes.manager import VolumeSchedulerManager
from tests.configuration import of_scheduler
from tests.simulation.bus import Bus
from tests.simulation.database import SimulatedDatabase
from tests.simulation.world import Process, SimulatedWorld
from volume_agent.backends.backend import Backend, Policy
from volume_agent.drivers.base import Stored, VolumeDriver
from volume_agent.ledger.reporter import BINARY, TOPIC, Reporter
from volume_agent.ledger.volume_calls import SEVERAL, VolumeCalls
from volume_agent.manager import BackendManager
from volume_agent.work import recovery
from volume_agent.work.volume import VolumeWorker

#: The backend that each serves, and its pools.
BACKENDS = {"v1": ("m1@x", ("p", "q")), "v2": ("m2@y", ("r",))}
CAPACITY_GB = 10
REQUESTS = 3

VOLUMES = models.volumes
POOLS = models.storage_pools
_ALL, _POOLS = sa.select(VOLUMES), sa.select(POOLS).where(sa.not_(POOLS.c.deleted))
_LIVE = _ALL.where(sa.not_(VOLUMES.c.deleted))


class Disks(VolumeDriver):
    """Volumes of one backend, which outlive its agent."""

    def __init__(self, options: Any) -> None:
        self._world, self.host, self._pools = options
        self._stored: dict[tuple[str, str], Stored] = {}
        #: What guests have written to each.
        self._data: dict[tuple[str, str], int] = {}
        #: All backends, by name.
        self.others: dict[str, Disks] = {}

    def init_backend(self) -> None:
        """What is half-made is not stored."""

    def stats(self) -> dict[str, Any]:
        return {"pools": [self._stats_of(pool) for pool in self._pools]}

    def _stats_of(self, pool: str) -> dict[str, Any]:
        held = sum(each.size_gb for each in self.volumes() if each.pool == pool)
        space = {"total_capacity_gb": CAPACITY_GB, "free_capacity_gb": max(0, CAPACITY_GB - held)}
        thin = {"thin_provisioning_support": True, "provisioned_capacity_gb": held}
        return {"pool_name": pool, **space, **thin, "location_info": f"disks:{self.host}"}

    def volumes(self) -> Collection[Stored]:
        return list(self._stored.values())

    def create(self, volume: Volume) -> None:
        assert volume.pool is not None, "the ledger has given the volume its pool"
        self._work()
        if volume.source_uuid is not None and (volume.source_uuid, volume.pool) not in self._stored:
            raise OSError(f"there is no volume {volume.source_uuid} to copy")
        self._stored.setdefault((volume.uuid, volume.pool), Stored(volume.uuid, volume.pool, volume.size_gb))
        self._flush()

    def receive(self, volume: Volume, pool: str) -> None:
        there = (volume.uuid, pool) in self._stored
        if there and not volume.old_copy:
            return
        assert volume.copy_from is not None, "each backend reports its location"
        source = self.others[volume.copy_from.removeprefix("disks:")]
        assert volume.pool is not None, "the volume is on a pool"
        if not source.has(volume.uuid, volume.pool):
            raise OSError(f"there is no volume {volume.uuid} to copy")
        data = source.data(volume.uuid, volume.pool)
        self._work()
        self._data[volume.uuid, pool] = data
        self._stored[volume.uuid, pool] = Stored(volume.uuid, pool, volume.size_gb)
        self._flush()

    def has(self, uuid: str, pool: str) -> bool:
        return (uuid, pool) in self._stored

    def data(self, uuid: str, pool: str) -> int:
        return self._data.get((uuid, pool), 0)

    def write(self, uuid: str, pool: str) -> int:
        """A guest writes to a volume; what it has written."""
        self._data[uuid, pool] = self.data(uuid, pool) + 1
        return self.data(uuid, pool)

    def extend(self, volume: Volume, size_gb: int) -> None:
        assert volume.pool is not None, "the ledger has given the volume its pool"
        self._work()
        if (volume.uuid, volume.pool) not in self._stored:
            raise OSError(f"there is no volume {volume.uuid}")
        self._stored[volume.uuid, volume.pool] = Stored(volume.uuid, volume.pool, size_gb)
        self._flush()

    def delete(self, uuid: str, pool: str) -> None:
        self._world.pause()
        self._stored.pop((uuid, pool), None)
        self._data.pop((uuid, pool), None)

    def _work(self) -> None:
        hangs = self._world.happens("backend hangs", 0.03)
        self._world.sleep(200.0 if hangs else self._world.chance.choice([0.0, 0.5, 3.0]))
        if self._world.happens("backend fails", 0.1):
            raise OSError("the disk said no")

    def _flush(self) -> None:
        """The agent may be killed when it has done its work, and has not reported it."""
        self._world.sleep(self._world.chance.choice([0.0, 0.0, 2.0]))


def scheduler(world: SimulatedWorld, database: SimulatedDatabase, limits: Any) -> VolumeSchedulerManager:
    """The endpoint of a scheduler for volumes."""
    feeds = [ChangeFeed(database, world.clock, of=feed_queries.STORAGE) for _use in range(2)]
    conf = of_scheduler(service_down_time=limits.service_down_time_s)
    volume_conf.register_opts(conf)
    return VolumeSchedulerManager(service.build_driver(conf, *feeds, world.clock), _none, _none, world.clock)


def _none(_name: str) -> Any:
    """Nothing is looked up by name here."""


def start_agent(
    world: SimulatedWorld,
    bus: Bus,
    disks: Disks,
    name: str,
    life: int,
    pauses: Any,
    executor: Any,
    every: Callable[..., None],
    signal: Any,
) -> Process:
    """The agent of one backend. ``pauses``, ``executor``, ``every`` and ``signal``: see ``processes``."""
    process = Process(name)
    patience = Patience(pauses, world.seconds)
    tasks = bus.client(VolumeTaskAPI)
    calls = VolumeCalls(tasks, patience, batcher=Batcher(tasks, world.seconds, signal, SEVERAL))
    backend = Backend(disks.host, disks, Policy(disks.host, "nova", max_over_subscription_ratio="1"))
    queues = WorkQueues(executor(process), slots=0)
    manager = BackendManager(VolumeWorker(backend, calls), queues)
    process.of_queue[f"volume.{disks.host}"] = [manager]

    def superseded(_name: str, reason: str) -> None:
        world.log("%s was superseded: %s", name, reason)
        world.kill(process)

    identities = {disks.host: Identity(str(uuid.uuid5(uuid.NAMESPACE_DNS, disks.host)), life)}
    presence = Presence(bus.client(ConductorAPI), patience, BINARY, TOPIC, f"{name}-{life}", identities)
    reporter = Reporter(bus.client(VolumeTaskAPI), presence, [backend], superseded)

    def begin() -> None:
        reporter.register()
        recovery.recover(new_context(), backend, calls, manager.order)
        bus.serve(process, process.of_queue)
        reporter.report()
        process.serving = True  # type: ignore[attr-defined]
        every(world, process, "heartbeat", reporter.heartbeat)
        every(world, process, "report", reporter.report)
        every(world, process, "compare", lambda: recovery.remove_left(new_context(), backend, calls, queues))

    world.spawn(process, "begin", begin)
    return process


class Client:
    """Creates, copies, extends, migrates and deletes volumes, takes snapshots, and writes to what it may attach."""

    def __init__(
        self, world: SimulatedWorld, bus: Bus, database: SimulatedDatabase, disks: Mapping[str, Disks]
    ) -> None:
        self._world, self._database, self._disks = world, database, disks
        #: What was written last, by volume.
        self._written: dict[str, int] = {}
        self._operator = bus.client(OperatorAPI)

    def work(self) -> None:
        chance = self._world.chance
        for _request in range(REQUESTS):
            self._world.sleep(chance.choice([0.0, 1.0, 15.0]))
            self._ask("create_volumes", request={"size": chance.choice([1, 2, 4]), "count": chance.choice([1, 2, 3])})
            for _act in range(chance.choice([0, 1, 2])):
                self._world.sleep(chance.choice([0.3, 3.0, 8.0]))
                self._write()
                self._act()

    def _write(self) -> None:
        """To all volumes that may be attached now."""
        for row in self._database.rows(_LIVE):
            if (row.status, row.step, row.snapshot_of) == (volume_states.AVAILABLE, None, None):
                self._written[row.uuid] = self._disks[row.host].write(row.uuid, row.pool)

    def at_the_end(self) -> list[str]:
        """I18: each volume has what was written to it."""
        rows = [row for row in self._database.rows(_LIVE) if row.uuid in self._written and row.host]
        there = {row.uuid: self._disks[row.host].data(row.uuid, row.pool) for row in rows}
        return [
            f"I18: volume {uuid} has {data} and should have {self._written[uuid]}"
            for uuid, data in there.items()
            if data != self._written[uuid]
        ]

    def _act(self) -> None:
        chance = self._world.chance
        known = sorted((row.uuid, row.size_gb) for row in self._database.rows(_LIVE) if row.snapshot_of is None)
        if not known:
            return
        uuid, size_gb = chance.choice(known)
        act = chance.choice(["delete", "delete", "extend", "extend", "migrate", "copy", "snapshot"])
        if act == "extend":
            self._ask("extend_volume", name=uuid, size=size_gb + chance.choice([1, 4]))
        elif act == "copy":
            self._ask("create_volumes", request={"source": uuid})
        elif act == "snapshot":
            self._ask("create_snapshot", volume=uuid)
        else:
            self._ask(f"{act}_volume", name=uuid)

    def _ask(self, method: str, **arguments: Any) -> None:
        try:
            self._operator.call(new_context(), method, **arguments)
        except (oslo_messaging.MessagingTimeout, errors.FleetError) as trouble:
            self._world.log("the client is told %r", trouble)


def at_any_moment(database: SimulatedDatabase) -> list[str]:
    """I13: no pool has promised more than it has, and each counts what volumes claim of it."""
    rows, wrong = database.rows(_LIVE), []
    for pool in database.rows(_POOLS):
        claimed = sum(row.claimed_gb for row in rows if (row.host, row.pool) == (pool.host, pool.pool))
        claimed += sum(row.held_gb for row in rows if (row.held_host, row.held_pool) == (pool.host, pool.pool))
        if pool.allocated_capacity_gb != claimed or claimed > CAPACITY_GB:
            counted = f"counts {pool.allocated_capacity_gb} GiB, volumes claim {claimed} of {CAPACITY_GB}"
            wrong.append(f"I13: pool {pool.host}#{pool.pool} {counted}")
    return wrong


def unsettled(database: SimulatedDatabase, disks: Mapping[str, Disks]) -> Iterator[bool]:
    """Whether a volume is on its way, or a backend has what the ledger has not, or counts otherwise."""
    yield bool(at_the_end(database, disks))


def at_the_end(database: SimulatedDatabase, disks: Mapping[str, Disks]) -> list[str]:
    """I14, I15: every volume is over, and the ledger, the agents' counts and the backends are of one mind."""
    rows = database.rows(_LIVE)
    wrong = [f"I14: volume {row.uuid} is {row.status}/{row.step}" for row in rows if row.step is not None]
    wrong += [
        f"I14: volume {row.uuid} has no failure"
        for row in rows
        if row.status.startswith(volume_states.ERROR) and not row.failure
    ]
    for pool in database.rows(_POOLS):
        name = f"{pool.host}#{pool.pool}"
        there = {each.uuid: each.size_gb for each in disks[pool.host].volumes() if each.pool == pool.pool}
        meant = {row.uuid: row.claimed_gb for row in rows if (row.host, row.pool) == (pool.host, pool.pool)}
        sure = {row.uuid for row in rows if not row.status.startswith(volume_states.ERROR)}
        if {uuid: size for uuid, size in there.items() if uuid in sure or uuid not in meant} != {
            uuid: size for uuid, size in meant.items() if uuid in sure
        }:
            wrong.append(f"I15: {name} has {there}, the ledger {meant}")
        counted = pool.capabilities["allocated_capacity_gb"]
        if counted != sum(there.values()):
            wrong.append(f"I15: the agent of {name} counts {counted} GiB, it has {sum(there.values())}")
    return wrong
