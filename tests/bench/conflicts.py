# SPDX-License-Identifier: Apache-2.0
"""How many claims hosts refuse because several schedulers have chosen the same room, on a fleet that is nearly full.

Each scheduler is a thread with a cache, a pipeline and a change feed of its own; claims are the hosts' trackers and the
ledger's, in PostgreSQL. Only the messages are left out: a pause stands for their way.
"""

from __future__ import annotations

import collections
import functools
import itertools
import queue
import random
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from compute_agent.node.resource_tracker import ResourceTracker
from conductor_stub.agents.api import AgentAPI
from conductor_stub.steps.limits import StepLimits
from fleet import errors, states
from fleet.clock import utcnow
from fleet.context import RequestContext, new_context
from fleet.db.engine.database import Database, Transaction
from fleet.db.feed.feed import ChangeFeed
from fleet.db.hosts import hosts as db_hosts
from fleet.db.tables import models
from fleet.objects import BuildRequest, Claim, Finish, Flavor, HostLimits, HostReport, Instance, RequestSpec
from fleet.objects.flavor_mix import Counts, FlavorMix, Shape
from fleet_trial import private_servers
from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine import decide, decision, pipeline
from scheduler.engine.request_cache import RequestCache
from scheduler.peers.neighbours import Neighbours
from scheduler.state import hints
from tests import factories
from tests.bench import figures
from tests.configuration import of_scheduler
from tests.functional import databases

HOSTS, BUILDS = 200, 1_200
VCPUS, MEMORY_MB = 64, 256 * 1024
#: Of each host something between is taken for good, 86 % on average; and builds fill the fleet up to so much of it.
TAKEN = 0.72, 1.0
FULLNESS = 0.90, 0.97
SCHEDULERS = 4, 8
FLAVORS = tuple(Flavor(vcpus=vcpus, memory_mb=vcpus * 4096) for vcpus in (1, 2, 4))
#: From the decision to the host and from there to the ledger.
WAY_S = 0.02
RESERVATION, INCARNATION = "r-conflicts", "one"
PACK = {"ram_weight_multiplier": -1.0, "cpu_weight_multiplier": -1.0}
FRAGMENTATION = {
    "ram_weight_multiplier": 0.1,
    "cpu_weight_multiplier": 0.1,
    "disk_weight_multiplier": 0.0,
    "fragmentation_weight_multiplier": 1.0,
}
SETTINGS: Mapping[str, Mapping[str, Any]] = {"spread (default)": {}, "pack": PACK, "fragmentation": FRAGMENTATION}
#: What is asked for.
MIX = FlavorMix(1, counts={Shape(each.vcpus, each.memory_mb): Counts(requests=1.0) for each in FLAVORS})


def run() -> None:
    """Each setting with and without own shares of the hosts."""
    with private_servers.postgresql() as url, databases.open_database(url).disposed() as database:
        for (name, options), schedulers, full, own in itertools.product(
            SETTINGS.items(), SCHEDULERS, FULLNESS, (False, True)
        ):
            databases.empty(database)
            found = _TrackedHosts(database, full).run(options, schedulers, own)
            figures.report("conflicts", setting=name, hosts=HOSTS, schedulers=schedulers, own_hosts=own, **found)


class _TrackedHosts:
    """The hosts' trackers, and the ledger; what is placed leaves again, oldest first, as more comes."""

    def __init__(self, database: Database, full: float) -> None:
        self._database = database
        self._full = full
        self._agents = AgentAPI(database, StepLimits())
        self._lock = threading.Lock()
        self._counts: collections.Counter[str] = collections.Counter()
        self._placed: collections.deque[tuple[str, str, int]] = collections.deque()
        self._vcpus_used = 0
        self._numbers = iter(range(BUILDS))
        self._trackers: dict[str, ResourceTracker] = {}
        database.write(self._fill)

    def run(self, options: Mapping[str, Any], count: int, own: bool) -> dict[str, Any]:
        schedulers = [_Scheduler(self._database, options, seed) for seed in range(count)]
        fanout = _Fanout(schedulers)
        for each in schedulers if own else ():
            each.divide(fanout, count)
        began = time.perf_counter()
        # The program ends although they would go on trying to reach a database that is gone.
        threads = [threading.Thread(target=self._work, args=(each,), daemon=True) for each in schedulers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        fanout.stop()
        return {
            "builds": BUILDS,
            "no_valid_host": self._counts["no host"],
            "claims": self._counts["claims"],
            "refused": self._counts["refused"],
            "refused_share": round(self._counts["refused"] / self._counts["claims"], 4),
            "asked_again": self._counts["none left"],
            "full": round(self._vcpus_used / (HOSTS * VCPUS), 3),
            "builds_per_s": round(BUILDS / (time.perf_counter() - began), 1),
        }

    def _fill(self, tx: Transaction) -> None:
        chance, now, numbers = random.Random(1), utcnow(), itertools.count(1)
        request = {"reservation_id": RESERVATION, "created_at": now}
        tx.insert(models.build_requests, {**request, "spec": BuildRequest(FLAVORS[0]).to_wire()})
        for number in range(HOSTS):
            host, taken = f"host{number:04}", int(VCPUS * chance.uniform(*TAKEN))
            node = factories.node(host, id=number + 1, vcpus=VCPUS, memory_mb=MEMORY_MB, local_gb=1000)
            columns = {name: value for name, value in vars(node).items() if name in models.compute_nodes.columns}
            tx.insert(models.compute_nodes, {**columns, "created_at": now})
            service = {"host": host, "binary": "fleet-compute", "topic": "compute", "incarnation": INCARNATION}
            key = tx.insert(models.services, {**service, "last_seen_up": now, "created_at": now})
            tx.touch(models.services, key)
            guest = str(uuid.UUID(int=next(numbers)))
            claimed = {"claimed_vcpus": taken, "claimed_memory_mb": taken * 4096}
            row = {"uuid": guest, "name": guest, "reservation_id": RESERVATION, "created_at": now, "attempt": 1}
            tx.insert(models.instances, {**row, "vm_state": "active", "host": host, "node": host, **claimed})
            tx.touch(models.instances, guest)
            db_hosts.refresh_usage(tx, host, host, now)
            tracker = self._trackers[host] = ResourceTracker(host, host)
            tracker.set_report(HostReport(host=host, node=host, vcpus=VCPUS, memory_mb=MEMORY_MB, local_gb=1000))
            tracker.track(Instance(guest, FLAVORS[0], host=host, node=host, **claimed))
            self._vcpus_used += taken

    def _work(self, scheduler: _Scheduler) -> None:
        while True:
            with self._lock:
                number = next(self._numbers, None)
            if number is None:
                return
            self._build(scheduler, FLAVORS[number % len(FLAVORS)])
            while (leaving := self._surplus()) is not None:
                self._database.write(self._leave, *leaving)

    def _build(self, scheduler: _Scheduler, flavor: Flavor) -> None:
        instance = Instance(str(uuid.uuid4()), flavor, attempt=1)
        self._database.write(_accept, instance)
        made = scheduler.decide(instance)
        if not made.complete:
            self._count("no host")
            return
        (selection,) = made.selections()
        for place in (selection, *selection.alternates):
            time.sleep(WAY_S)
            self._count("claims")
            try:
                claim = self._trackers[place.host].instance_claim(instance, HostLimits.from_wire(place.limits))
            except errors.ComputeResourcesUnavailable:
                self._count("refused")
                continue
            time.sleep(WAY_S)
            where = (instance.uuid, 1, place.host)
            self._agents.take(new_context(), Claim(*where, place.nodename, INCARNATION, claim.claimed()))
            self._agents.take(new_context(), Finish(*where, 1))
            with self._lock:
                self._placed.append((instance.uuid, place.host, flavor.vcpus))
                self._vcpus_used += flavor.vcpus
            return
        self._count("none left")

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def _surplus(self) -> tuple[str, str] | None:
        with self._lock:
            if self._vcpus_used <= self._full * HOSTS * VCPUS or not self._placed:
                return None
            guest, host, vcpus = self._placed.popleft()
            self._vcpus_used -= vcpus
            return guest, host

    def _leave(self, tx: Transaction, guest: str, host: str) -> None:
        now = utcnow()
        tx.update(models.instances, guest, {"deleted": True, "vm_state": states.DELETED, "updated_at": now})
        tx.touch(models.instances, guest)
        db_hosts.refresh_usage(tx, host, host, now)
        self._trackers[host].release(guest)


class _Fanout:
    """In place of the broker: brings bookings to all schedulers after the time that a message takes."""

    def __init__(self, schedulers: Sequence[_Scheduler]) -> None:
        self._schedulers = schedulers
        self._sent: queue.SimpleQueue[tuple[float, str, list[dict[str, Any]]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._deliver, daemon=True)
        self._thread.start()

    def note_bookings(self, context: RequestContext, sender: str, bookings: list[dict[str, Any]]) -> None:
        self._sent.put((time.monotonic() + WAY_S, sender, bookings))

    def stop(self) -> None:
        self._sent.put(None)
        self._thread.join()

    def _deliver(self) -> None:
        while (message := self._sent.get()) is not None:
            due, sender, bookings = message
            time.sleep(max(due - time.monotonic(), 0))
            for each in self._schedulers:
                each.hear(sender, bookings)


class _Scheduler:
    def __init__(self, database: Database, options: Mapping[str, Any], seed: int) -> None:
        self._number = seed
        feed, audit = ChangeFeed(database), ChangeFeed(database)
        self._manager = HostManager(feed, audit, service_down_time_s=86400)
        self._manager.hint(lambda cache: cache.learn_demand(MIX))
        self._pipeline = loading.load_pipeline(of_scheduler(**options))
        self._chance, self._cache = random.Random(seed), RequestCache()

    def divide(self, fanout: _Fanout, count: int) -> None:
        """Prefer an own share of the hosts, and send bookings to the other schedulers."""
        live = [f"scheduler{number}" for number in range(count)]
        neighbours = Neighbours(self._manager, fanout, lambda: live, live[self._number], "")  # type: ignore[arg-type]
        self._manager.tell_booked = neighbours.tell
        self._name = neighbours.name
        neighbours.follow()

    def hear(self, sender: str, bookings: list[dict[str, Any]]) -> None:
        if sender != self._name:
            columns = self._manager.domain.layout.columns
            self._manager.hint_bookings(functools.partial(hints.bookings, bookings, columns, TrackedInstance))

    def decide(self, instance: Instance) -> decision.Decision:
        flavor = instance.flavor
        wire = {"instance_type": flavor.to_wire(), "num_instances": 1, "instance_uuids": [instance.uuid]}
        request = RequestSpec.from_wire({**wire, "instance_properties": {"uuid": instance.uuid}}, {})
        self._manager.refresh()

        work = functools.partial(
            decide.decide,
            self._pipeline,
            pipeline.prepare(self._pipeline, request),
            chance=self._chance,
            log=False,
            cache=self._cache,
        )
        return self._manager.decide(work, request.instance_uuids)


def _accept(tx: Transaction, instance: Instance) -> None:
    row = {"uuid": instance.uuid, "name": instance.uuid, "reservation_id": RESERVATION, "created_at": utcnow()}
    building = {"vm_state": states.BUILDING, "task_state": states.PLACING, "attempt": 1}
    tx.insert(models.instances, {**row, **building})
