# SPDX-License-Identifier: Apache-2.0
"""I9: what the daemons take of the machine, and what lies in the broker's queues."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import psutil

from tests.chaos.world import ChaosWorld

#: What the pools of a daemon with two workers may still add, and what the allocator keeps of a message of 30 MiB (once,
#: however many come). Each worker has 16 threads for users' messages, 16 for those of agents, and 16 for builds of its own
#: (``world``). Each thread may hold one connection to the database and one to the broker, which has a heartbeat thread. A
#: warm-up needs few of them. A leak of one thread a build is far more in one run.
SLACK = {"threads": 160, "descriptors": 160, "resident_mb": 192}
#: Queues of one process's life: answers and fanouts end with it.
_OF_A_LIFE = ("reply_", "scheduler_fanout", "conductor_fanout", "compute_fanout", "amq.gen")


@dataclasses.dataclass(frozen=True)
class Figures:
    """Of one daemon, all its processes together."""

    threads: int
    descriptors: int
    resident_mb: int


def of_all(world: ChaosWorld) -> dict[str, Figures]:
    return {name: _of(world.trio.pid(name)) for name in world.trio.names() if world.trio.is_running(name)}


def back_to(baseline: Mapping[str, Figures], now: Mapping[str, Figures]) -> Iterator[str]:
    """I9: threads, descriptors and memory are what they were, give or take a pool's slack."""
    for name, before in baseline.items():
        for figure, slack in SLACK.items():
            was, found = getattr(before, figure), getattr(now[name], figure) if name in now else 0
            if found > was + slack:
                yield f"{name}: {figure} {found}, at first {was}"


def waiting(world: ChaosWorld, queues: Iterable[str]) -> list[int]:
    """How many messages wait in each of the queues."""
    with world.wire.channel() as channel:
        return [channel.queue_declare(name, passive=True).message_count for name in queues]


def queues_are_empty(world: ChaosWorld) -> Iterator[str]:
    """I9: nothing waits for a consumer that will not come."""
    world.notifications()
    for line in world.cluster.serving().ctl("list_queues", "name", "messages", "--no-table-headers").splitlines():
        name, _tab, messages = line.partition("\t")
        if messages.strip().isdigit() and int(messages) and not name.startswith(_OF_A_LIFE):
            yield f"queue {name} holds {messages.strip()} messages"


def _of(pid: int) -> Figures:
    threads = descriptors = resident = 0
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        try:
            threads += process.num_threads()
            descriptors += process.num_fds()
            resident += process.memory_info().rss
        except psutil.Error:
            continue
    return Figures(threads, descriptors, resident // 2**20)
