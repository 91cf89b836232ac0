# SPDX-License-Identifier: Apache-2.0
"""One seed: a small fleet, a handful of builds, whatever goes wrong, then calm; and the verdict."""

from __future__ import annotations

import collections
import dataclasses
import traceback
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from unittest import mock

import oslo_messaging
import sqlalchemy as sa
from oslo_utils import uuidutils

from compute_agent.node.host import Host
from fleet import errors, states
from fleet.context import new_context
from fleet.db.catalog import groups, networks
from fleet.db.hosts import services
from fleet.db.tables import models
from fleet.objects.network import Network
from fleet.rpc.clients import ComputeTaskAPI, OperatorAPI
from tests.simulation import invariants, processes, storage
from tests.simulation.bus import Bus
from tests.simulation.database import SimulatedDatabase
from tests.simulation.world import Process, SimulatedWorld

#: The hosts that each serves.
AGENTS = {"a1": ("h1", "h2"), "a2": ("h3",)}
HOSTS = tuple(host for hosts in AGENTS.values() for host in hosts)
REQUESTS = 3
#: Long enough for every deadline, and for every message that was very late.
CALM_S = 1200.0
MOST_STEPS = 200_000

_INSTANCES = models.instances
_UNSETTLED = sa.select(_INSTANCES.c.uuid).where(sa.not_(_INSTANCES.c.deleted), _INSTANCES.c.task_state.is_not(None))
_UUIDS = sa.select(_INSTANCES.c.uuid)
_HOST = sa.select(_INSTANCES.c.host).where(_INSTANCES.c.uuid == sa.bindparam("wanted"))
_MIGRATIONS = models.migrations
_STATES = sa.select(_INSTANCES.c.vm_state)
_VOLUMES = sa.select(models.volumes.c.status)
_MOVES = sa.select(_MIGRATIONS.c.migration_type, _MIGRATIONS.c.status)
_PLACED = (
    sa.select(_INSTANCES.c.uuid, _INSTANCES.c.host)
    .where(sa.not_(_INSTANCES.c.deleted), _INSTANCES.c.host != "")
    .union(sa.select(_MIGRATIONS.c.instance_uuid, _MIGRATIONS.c.held_host).where(_MIGRATIONS.c.held_host != ""))
)
_AT_REST = sa.select(_INSTANCES.c.uuid, _INSTANCES.c.host).where(
    sa.not_(_INSTANCES.c.deleted), _INSTANCES.c.vm_state == states.ACTIVE, _INSTANCES.c.task_state.is_(None)
)
_WATCHED = sa.select(_INSTANCES.c["uuid", "host", "power_state"]).where(
    sa.not_(_INSTANCES.c.deleted),
    _INSTANCES.c.host != "",
    _INSTANCES.c.vm_state.in_(states.WATCHED),
    _INSTANCES.c.task_state.is_(None),
)
#: After these an agent may hold what the ledger knows nothing of, until its next audit.
_EXCUSES = {"answer lost", "message lost", "message late", "commit unknown", "death"}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """``wrong`` is empty when all invariants held; ``ended`` counts instances by their last state, ``met`` the troubles."""

    seed: int
    wrong: list[str]
    ended: dict[str, int]
    met: dict[str, int]
    steps: int
    history: list[str] = dataclasses.field(repr=False)


class Scenario:
    TROUBLE_S = 45.0
    #: The chance that a guest dies, in each step of the world.
    GUEST_DIES = 0.002
    #: Moves that users ask for.
    ACTS: Sequence[str] = ("resize", "resize", "evacuate")

    def __init__(self, seed: int, database: SimulatedDatabase) -> None:
        self._seed = seed
        self._world = SimulatedWorld(seed)
        chance = self._world.chance
        # Some seeds are quiet in one respect, so that other troubles show alone.
        self._bus = Bus(self._world, *(chance.choice([0.0, 0.02, 0.1]) for _kind in ("loss", "repetition", "delay")))
        database.begin(self._world, failure=chance.choice([0.0, 0.01, 0.05]))
        self._death = chance.choice([0.0, 0.001, 0.004])
        self._database = database
        self._hypervisors = {host: processes.Hypervisor(self._world, host) for host in HOSTS}
        self._disks = {
            name: storage.Disks((self._world, host, pools)) for name, (host, pools) in storage.BACKENDS.items()
        }
        for disks in self._disks.values():
            disks.others.update(self._backends())
        self._processes: dict[str, Process] = {}
        self._lives: collections.Counter[str] = collections.Counter()
        self._client = Process("client")
        self._calm_until = 0.0
        self._forced: set[str] = set()
        self._forgotten: list[str] = []
        #: A host is gone until somebody brings it back.
        self._lost = False
        self._addresses = invariants.Addresses()

    def play(self) -> Verdict:
        """The same seed plays the same: names are drawn from it too. What nobody expects is wrong."""
        with mock.patch.object(uuidutils, "generate_uuid", self._name):
            try:
                steps, wrong = self._play()
            except Exception:
                steps, wrong = 0, [traceback.format_exc()]
        return Verdict(self._seed, wrong, self._ended(), dict(self._world.met), steps, self._world.history)

    def _name(self, dashed: bool = True) -> str:
        name = uuid.UUID(int=self._world.chance.getrandbits(128), version=4)
        return str(name) if dashed else name.hex

    def _play(self) -> tuple[int, list[str]]:
        for name in ("conductor-1", "conductor-2", "scheduler-1", "scheduler-2", *AGENTS, *self._disks):
            self._start(name)
        self._world.spawn(self._client, "client", self._workload)
        client = self._writer = storage.Client(self._world, self._bus, self._database, self._backends())
        self._world.spawn(self._client, "storage client", client.work)
        steps, wrong = self._run(self.TROUBLE_S, 0)
        if not wrong:
            self._calm_down()
            steps, wrong = self._run(CALM_S, steps)
            wrong = wrong or self._forgotten
        if not wrong:
            hosts = {name: host for agent in AGENTS for name, host in self._hosts(agent)}
            wrong = invariants.at_the_end(self._database, self._hypervisors, hosts, REQUESTS)
            wrong += storage.at_the_end(self._database, self._backends()) + self._addresses.wrong(self._database)
            wrong += self._writer.at_the_end()
        return steps, wrong

    def _run(self, seconds: float, steps: int) -> tuple[int, list[str]]:
        world = self._world
        end = world.seconds() + seconds
        while world.seconds() < end and not self._healed(steps) and world.step():
            steps += 1
            if steps > MOST_STEPS:
                return steps, ["the world does not come to rest"]
            if world.happens("death", self._death):
                self._die(world.chance.choice(sorted(self._processes)))
            if world.happens("guest dies", self.GUEST_DIES):
                self._hypervisors[world.chance.choice(HOSTS)].die()
            if steps % 100 == 0:
                wrong = self._wrong_now()
                if wrong:
                    return steps, wrong
        return steps, []

    def _wrong_now(self) -> list[str]:
        wrong = invariants.at_any_moment(self._database, self._hypervisors)
        return wrong + storage.at_any_moment(self._database) + self._addresses.wrong(self._database)

    def _served(self) -> dict[str, Host]:
        alive = [agent for agent in AGENTS if self._processes[agent].alive and self._serves(agent)]
        return {name: host for agent in alive for name, host in self._hosts(agent)}

    def _serves(self, agent: str) -> bool:
        return getattr(self._processes[agent], "serving", False)

    def _hosts(self, agent: str) -> Iterable[tuple[str, Host]]:
        return self._processes[agent].hosts.items()  # type: ignore[attr-defined]

    def _healed(self, steps: int) -> bool:
        """Whether nothing is left that could still change anything."""
        if not self._world.calm or steps % 5 or self._world.works() or not self._bus.idle():
            return False
        self._forgotten = self._kept_for_nothing()
        return bool(self._forgotten) or not any(self._unsettled()) and self._world.seconds() > self._calm_until

    def _kept_for_nothing(self) -> list[str]:
        """What agents hold that nobody has placed there, and that no trouble excuses: they have forgotten to let go."""
        if self._forced or _EXCUSES & self._world.met.keys():
            return []
        placed = {(row.host, row.uuid) for row in self._database.rows(_PLACED)}
        held = [(name, uuid) for name, host in self._served().items() for uuid in host.tracker(name).view().instances]
        return [f"I4: {name} holds {uuid} for nothing" for name, uuid in held if (name, uuid) not in placed]

    def _unsettled(self) -> Iterator[bool]:
        yield bool(self._database.rows(_UNSETTLED))
        placed = self._database.rows(_PLACED)
        for agent in AGENTS:
            yield not self._serves(agent)
            for name, host in self._hosts(agent):
                # What an agent holds for a claim whose answer was lost, its next audit lets go.
                held = host.tracker(name).view().instances
                yield held != {row.uuid for row in placed if row.host == name}
        # A driver that hung may switch a guest off after its move is over; the next audit switches it on.
        for row in self._database.rows(_AT_REST):
            yield bool(self._hypervisors[row.host].guests.get(row.uuid, {}).get("switched_off"))
        for row in self._database.rows(_WATCHED):
            yield row.power_state != self._hypervisors[row.host].power_state(row.uuid)

        yield not all(self._serves(name) for name in self._disks)
        yield from storage.unsettled(self._database, self._backends())

    def _backends(self) -> dict[str, storage.Disks]:
        return {disks.host: disks for disks in self._disks.values()}

    def _start(self, name: str) -> None:
        self._lives[name] += 1
        self._world.log("%s starts", name)
        if name.startswith("conductor"):
            process = self._conductor(name)
        elif name.startswith("scheduler"):
            process = processes.start_scheduler(self._world, self._bus, self._database, name)
        elif name in self._disks:
            disks, life = self._disks[name], self._lives[name]
            process = processes.start_storage(self._world, self._bus, disks, name, life)
        else:
            served = {host: self._hypervisors[host] for host in AGENTS[name]}
            process = processes.start_agent(self._world, self._bus, served, name, self._lives[name])
        self._processes[name] = process

    def _conductor(self, name: str) -> Process:
        return processes.start_conductor(self._world, self._bus, self._database, name)

    def _returns(self, name: str) -> bool:
        """Whether a process that has died starts again."""
        return True

    def _die(self, name: str) -> None:
        process = self._processes[name]
        if process.alive:
            self._world.kill(process)
            if name in self._disks:
                self._bus.close(process)
            self._world.after(self._world.chance.choice([0.0, 5.0, 60.0]), lambda: self._revive(process))

    def _revive(self, dead: Process) -> None:
        if self._processes[dead.name] is dead and self._returns(dead.name):
            self._start(dead.name)

    def _calm_down(self) -> None:
        self._calm_until = self._world.seconds() + processes.HEARTBEAT_S
        self._world.log("calm")
        self._world.calm = True
        for host in sorted(self._forced):
            self._database.write(services.force_down, host, services.COMPUTE, False, self._world.now)
        for process in list(self._processes.values()):
            if not process.alive:
                self._revive(process)

    def _workload(self) -> None:
        tasks, chance = self._bus.client(ComputeTaskAPI), self._world.chance
        policy = chance.choice(["affinity", "anti-affinity"])
        self._database.write(groups.create, "0" * 36, "group", policy, 1, (), None, None, self._world.now)
        # Fewer addresses than instances: some requests are refused.
        subnet = {"name": "lab", "bridge": "br0", "subnet": "192.0.2.0/24", "last": "192.0.2.5"}
        self._database.write(networks.create, "1" * 36, Network.from_wire(subnet), self._world.now)
        for _request in range(REQUESTS):
            self._world.sleep(chance.choice([0.0, 1.0, 15.0]))
            request = {
                "flavor": {"vcpus": 1, "memory_mb": chance.choice([512, 1024, 2048])},
                "count": chance.choice([1, 2, 4]),
                "group": chance.choice(["", "", "group"]),
                "wait_for_capacity_s": chance.choice([0, 0, 300]),
                "networks": chance.choice(["none", "auto", "auto"]),
            }
            try:
                self._create(tasks, request)
                if chance.random() < 0.4:
                    self._world.sleep(chance.choice([0.0, 0.3, 2.0]))
                    tasks.terminate_instances(new_context(), [self._any_instance()])
                if chance.random() < 0.6:
                    self._world.sleep(chance.choice([0.3, 3.0, 8.0]))
                    self._move()
                if chance.random() < 0.5:
                    self._switch()
            except (oslo_messaging.MessagingTimeout, errors.FleetError) as trouble:
                self._world.log("the client is told %r", trouble)

    def _create(self, tasks: ComputeTaskAPI, request: dict[str, Any]) -> None:
        """A client without an answer repeats its request, as the command line does."""
        context, token = new_context(), uuidutils.generate_uuid()
        try:
            tasks.create(context, request, token)
        except oslo_messaging.MessagingTimeout:
            tasks.create(context, request, token)

    def _move(self) -> None:
        """One instance is resized, and confirmed, reverted or left; or evacuated from a host that may well be alive."""
        operator, chance, uuid = self._bus.client(OperatorAPI), self._world.chance, self._any_instance()
        act = chance.choice(self.ACTS)
        (host,) = self._database.rows(_HOST, wanted=uuid)[0]
        if act == "resize":
            flavor = {"vcpus": 1, "memory_mb": chance.choice([256, 1024, 1536])}
            operator.call(new_context(), "resize_instance", name=uuid, flavor=flavor)
            self._world.sleep(chance.choice([0.1, 4.0, 10.0]))
            decision = chance.choice(["confirm_resize", "revert_resize", ""])
            if decision:
                operator.call(new_context(), decision, name=uuid)
        elif host is not None:
            operator.call(new_context(), "force_down", host=host, forced=True)
            self._forced.add(host)
            operator.call(new_context(), "evacuate_instance", name=uuid)
            self._world.sleep(chance.choice([0.1, 4.0]))
            operator.call(new_context(), "force_down", host=host, forced=False)

    def _switch(self) -> None:
        """One instance is stopped, started, rebooted, suspended, resumed or rebuilt, several times in a row."""
        operator, chance, uuid = self._bus.client(OperatorAPI), self._world.chance, self._any_instance()
        verbs = ("stop", "start", "reboot", "suspend", "resume", "rebuild", "shelve", "unshelve")
        acts = chance.choices([f"{verb}_instance" for verb in verbs], k=3)
        if chance.random() < 0.3:
            # It leaves its host, and is placed anew.
            acts = ["shelve_instance", "unshelve_instance", *acts]
        for act in acts:
            self._world.sleep(chance.choice([0.0, 0.3, 5.0, 40.0]))
            try:
                operator.call(new_context(), act, name=uuid, **({"request": {}} if act == "rebuild_instance" else {}))
            except errors.Conflict as refused:
                self._world.log("the client is told %r", refused)

    def _any_instance(self) -> str:
        return self._world.chance.choice(sorted(row.uuid for row in self._database.rows(_UUIDS)))

    def _ended(self) -> dict[str, int]:
        found = collections.Counter(row.vm_state for row in self._database.rows(_STATES))
        moved = [*self._database.rows(_MOVES), *(("volume", row.status) for row in self._database.rows(_VOLUMES))]
        ended = {state: count for state, count in found.items() if state != states.BUILDING}
        return {**ended, **collections.Counter(f"{kind} {status}" for kind, status in moved)}
