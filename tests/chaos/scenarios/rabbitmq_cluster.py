# SPDX-License-Identifier: Apache-2.0
"""A RabbitMQ cluster of three nodes loses one of them, is cut in two, blocks, or loses its definitions."""

from __future__ import annotations

import contextlib
import functools
import random
import time
from collections.abc import Callable, Iterator

from fleet_trial.private_servers import RabbitMQ
from tests.chaos.load import Load
from tests.chaos.run import Scenario
from tests.chaos.servers import RABBITMQ_CLUSTER
from tests.chaos.world import HOSTS, ChaosWorld
from tests.clusters.rabbitmq import cut_off, join

#: Seconds for which a fault lasts; a node that stands still does so for longer than the others wait for it. Faults of the
#: scenario in random order.
_LASTS_S = 10.0
_STANDS_STILL_S = 40.0
_FAULTS = 7
#: What may be unread for a while: queues that RabbitMQ deletes some time after their process has gone.
_EXPIRES = "x-expires"
#: Queues of requests, and the beginnings of those of hosts.
_SHARED = ("conductor", "conductor_ledger", "scheduler")
_OF_HOSTS = tuple(f"compute.{host}_" for host in HOSTS)

Fault = Callable[[ChaosWorld, random.Random], contextlib.AbstractContextManager[None]]


def _any(world: ChaosWorld, chance: random.Random) -> RabbitMQ:
    return chance.choice(world.cluster.nodes)


@contextlib.contextmanager
def _kill(world: ChaosWorld, chance: random.Random) -> Iterator[None]:
    """kill -9 of a node; it comes back."""
    node = _any(world, chance)
    node.kill()
    yield
    node.start()


@contextlib.contextmanager
def _stop(world: ChaosWorld, chance: random.Random) -> Iterator[None]:
    """A node stands still (SIGSTOP) for 40 s, goes on, and is restarted."""
    node = _any(world, chance)
    node.hang()
    time.sleep(_STANDS_STILL_S)
    node.resume()
    yield


@contextlib.contextmanager
def _partition(world: ChaosWorld, chance: random.Random) -> Iterator[None]:
    """A node is cut off from the others, not from its clients, and finds them again."""
    node = _any(world, chance)
    cut_off(node)
    yield
    join(node)


@contextlib.contextmanager
def _drain(world: ChaosWorld, chance: random.Random) -> Iterator[None]:
    """A node is put into maintenance, and revived."""
    node = _any(world, chance)
    node.tool("rabbitmq-upgrade", "drain")
    yield
    node.tool("rabbitmq-upgrade", "revive")


@contextlib.contextmanager
def _restart(world: ChaosWorld, chance: random.Random) -> Iterator[None]:
    """A node is drained, stopped and started, as for an upgrade."""
    node = _any(world, chance)
    node.tool("rabbitmq-upgrade", "await_online_quorum_plus_one")
    node.tool("rabbitmq-upgrade", "drain")
    node.stop()
    yield
    node.start()
    node.tool("rabbitmq-upgrade", "revive")


@contextlib.contextmanager
def _minority(world: ChaosWorld, chance: random.Random) -> Iterator[None]:
    """Two of three nodes are killed: the third one pauses until another is back."""
    for node in chance.sample(world.cluster.nodes, 2):
        node.kill()
    yield
    world.servers.heal()


@contextlib.contextmanager
def _blocked(world: ChaosWorld, chance: random.Random) -> Iterator[None]:
    """The memory alarm of a node blocks all connections that publish, on all nodes (connection.blocked)."""
    node = _any(world, chance)
    node.ctl("set_vm_memory_high_watermark", "absolute", "1")
    yield
    node.ctl("set_vm_memory_high_watermark", "0.4")


@contextlib.contextmanager
def _definitions(world: ChaosWorld, chance: random.Random) -> Iterator[None]:
    """The virtual host is lost with all queues and exchanges, and made anew; users are kept."""
    node = _any(world, chance)
    node.ctl("delete_vhost", "/")
    node.ctl("add_vhost", "/")
    node.ctl("set_permissions", "-p", "/", "guest", ".*", ".*", ".*")
    yield


@contextlib.contextmanager
def _queue(world: ChaosWorld, chance: random.Random) -> Iterator[None]:
    """A queue that is in use is deleted: one that services share, or that of a host."""
    node = _any(world, chance)
    listed = node.ctl("list_queues", "name", "--no-table-headers").split()
    in_use = [name for name in listed if name in _SHARED or name.startswith(_OF_HOSTS)]
    assert len(in_use) > len(_SHARED), listed
    node.ctl("delete_queue", chance.choice(in_use))
    yield


FAULTS: dict[str, Fault] = {
    "kill": _kill,
    "stop": _stop,
    "partition": _partition,
    "drain": _drain,
    "restart": _restart,
    "minority": _minority,
    "blocked": _blocked,
    "definitions": _definitions,
    "queue": _queue,
}


def hurt_once(world: ChaosWorld, chance: random.Random, fault: Fault) -> None:
    """Builds, moves, live migrations and volumes go on meanwhile; nothing is lost."""
    with Load(world, chance) as load:
        _measured(world, chance, load, fault)
    _no_queue_is_left(world)


def hurt_at_random(world: ChaosWorld, chance: random.Random) -> None:
    """One fault after the other in random order, while builds, moves, live migrations and volumes go on."""
    with Load(world, chance) as load:
        for name in chance.choices(list(FAULTS), k=_FAULTS):
            _measured(world, chance, load, FAULTS[name], f"{name}: ")
    _no_queue_is_left(world)


def kill_each(world: ChaosWorld, chance: random.Random) -> None:
    """Each node is killed once while builds are under way, and comes back before the next one is."""
    with Load(world, chance, more=False) as load:
        for number, node in enumerate(chance.sample(world.cluster.nodes, len(world.cluster.nodes)), start=1):
            load.begin()
            node.kill()
            _note(world, load, f"node {number}: ")
            world.servers.heal()
    _no_queue_is_left(world)


def _measured(world: ChaosWorld, chance: random.Random, load: Load, fault: Fault, prefix: str = "") -> None:
    load.begin()
    with fault(world, chance):
        time.sleep(_LASTS_S)
    world.servers.heal()
    _note(world, load, prefix)


def _note(world: ChaosWorld, load: Load, prefix: str) -> None:
    """Wait until every part answers, and keep the seconds of the longest silences."""
    for part, silent_s in load.silences().items():
        world.measured[f"{prefix}{part} silent for s"] = round(silent_s, 1)


def _no_queue_is_left(world: ChaosWorld) -> None:
    """Every queue has a reader, or ends by itself; notifications are for others to read."""

    def unread() -> list[str]:
        listed = world.cluster.serving().ctl("list_queues", "name", "consumers", "arguments", "--no-table-headers")
        rows = [line.split("\t") for line in listed.splitlines()]
        return [
            name
            for name, consumers, arguments in rows
            if not int(consumers or 0) and _EXPIRES not in arguments and not name.startswith("notifications.")
        ]

    with contextlib.suppress(AssertionError):
        world.until(lambda: not unread(), timeout_s=30)
    left = unread()
    assert not left, f"no process reads {', '.join(left)}"


def _scenario(name: str, fault: Fault) -> Scenario:
    hurt = functools.wraps(fault)(functools.partial(hurt_once, fault=fault))
    return Scenario(f"cluster:rabbitmq-{name}", hurt, servers=RABBITMQ_CLUSTER)


SCENARIOS = [
    Scenario("cluster:rabbitmq-kill-each", kill_each, servers=RABBITMQ_CLUSTER),
    *(_scenario(name, fault) for name, fault in FAULTS.items()),
    Scenario("cluster:rabbitmq-random", hurt_at_random, servers=RABBITMQ_CLUSTER),
]
