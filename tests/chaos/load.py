# SPDX-License-Identifier: Apache-2.0
"""Users and operators at work while a cluster is hurt, and for how long each part of the fleet did not answer them."""

from __future__ import annotations

import contextlib
import functools
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from fleet import errors
from fleet.context import new_context
from tests.chaos.disks import Disks
from tests.chaos.world import NO_ANSWER, ChaosWorld
from tests.invariants import rest

LARGER = {"vcpus": 1, "memory_mb": 96, "root_gb": 1}
#: Instances that live at a time, and seconds between two orders of one thread.
_MOST = 24
_PAUSE_S = 0.3
#: A host of each agent's process; and all parts that are probed.
_PROBED = ("a1", "b1")
PARTS = ("conductor", "scheduler", *(f"agent of {host}" for host in _PROBED))


class Load:
    """Boots, moves, deletions and volumes go on in threads; probes call the conductor, the scheduler and every agent.

    Orders are repeated as users do. In the end all has come to rest, and ``world.measured`` has the seconds of the longest
    silence of each part, how many builds were accepted, how many of them took another attempt, and how many are lost.
    """

    def __init__(self, world: ChaosWorld, chance: random.Random, more: bool = True) -> None:
        """:param more: with moves and volumes; without, only builds"""
        self._world = world
        self._chance = random.Random(chance.random())
        self._disks = Disks(world, ("p", "q")) if more else None
        self._stop = threading.Event()
        probes = [
            self._probe_conductor,
            self._probe_scheduler,
            *(functools.partial(self._probe_agent, host) for host in _PROBED),
        ]
        jobs: list[Callable[[], object]] = [self._build, *probes]
        if more:
            jobs += [self._move, self._use_volumes]
        self._threads = [threading.Thread(target=self._run, args=(job,), daemon=True) for job in jobs]
        self._wrong: list[BaseException] = []
        self._since = time.monotonic()
        #: By part: seconds of the longest silence, and when it answered last.
        self._silences: dict[str, float] = {}
        self._answered_at: dict[str, float] = {}

    def __enter__(self) -> Load:
        self._world.unruly({"host": "*", "do": "hang", "seconds": 0.3})
        if self._disks is not None:
            self._disks.start()
            self._disks.made(6)
        for each in self._threads:
            each.start()
        self._world.until(lambda: len(self._world.builds()) >= 4, timeout_s=60)
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()
        if failed is None:
            self._judge()

    def begin(self) -> None:
        """Measure from now on."""
        self._since = time.monotonic()
        self._silences, self._answered_at = {}, {}

    def silences(self) -> dict[str, float]:
        """Wait until every part answers; return the seconds of the longest silence of each part since :meth:`begin`."""
        at = time.monotonic()
        self._world.until(lambda: all(self._answered_at.get(part, 0) > at for part in PARTS), timeout_s=120)
        return {part: self._silences[part] for part in PARTS}

    def _judge(self) -> None:
        world = self._world
        world.servers.heal()
        world.unruly()
        world.settle()
        if self._disks is not None:
            self._disks.end()
        mine = [row for row in world.ledger().instances if row["name"].startswith(world.name)]
        lost = [row for row in mine if row["vm_state"] in ("error", "building")]
        world.measured |= {
            "builds": len(mine),
            "lost": len(lost),
            "repeated": sum(row["attempt"] > 1 for row in mine),
        }
        stuck = [name for name in world.trio.names() if "stuck, exiting" in world.trio.log(name)]
        assert not stuck, f"the watchdog has ended a worker of {', '.join(stuck)}"
        assert not lost, [(row["uuid"], world.ledger().faults.get(row["uuid"])) for row in lost]
        assert not self._wrong, self._wrong

    # -- what the threads do ----------------------------------------------------------------------------------------

    def _run(self, job: Callable[[], object]) -> None:
        while not self._stop.wait(_PAUSE_S):
            try:
                job()
            except (*NO_ANSWER, errors.FleetError):
                continue  # it is ordered again
            except BaseException as failure:
                self._wrong.append(failure)
                return

    def _build(self) -> None:
        world = self._world
        world.boot(2)
        idle = [row["uuid"] for row in world.builds() if row["vm_state"] == "active" and row["task_state"] is None]
        if len(idle) > _MOST:
            world.terminate(idle[:4])

    def _move(self) -> None:
        rows = [row for row in self._world.builds() if row["task_state"] is None]
        if not rows:
            return
        row = self._chance.choice(rows)
        order: tuple[str, dict[str, Any]] = self._chance.choice(
            [("live_migrate_instance", {}), ("resize_instance", {"flavor": LARGER})]
        )
        if row["vm_state"] == "resized":
            order = (self._chance.choice(["confirm_resize", "revert_resize"]), {})
        self._world.trio.operator_at_once(order[0], name=row["uuid"], **order[1])

    def _use_volumes(self) -> None:
        assert self._disks is not None
        if len(self._disks.volumes()) < _MOST:
            self._disks.use()

    def _probe_conductor(self) -> None:
        with self._noted("conductor"):
            self._world.trio.operator_at_once("list_services")

    def _probe_scheduler(self) -> None:
        with self._noted("scheduler"):
            request = {"num_instances": 1, "instance_type": rest.PROBE}
            self._world.trio.scheduler.capacity(new_context(), request, {})

    def _probe_agent(self, host: str) -> None:
        with self._noted(f"agent of {host}"):
            self._world.trio.describe_host(host)

    @contextlib.contextmanager
    def _noted(self, part: str) -> Iterator[None]:
        """Note how long the part has not answered, if it does now."""
        yield
        now = time.monotonic()
        silent_s = now - self._answered_at.get(part, self._since)
        self._silences[part] = max(silent_s, self._silences.get(part, 0.0))
        self._answered_at[part] = now
