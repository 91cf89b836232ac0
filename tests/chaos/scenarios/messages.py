# SPDX-License-Identifier: Apache-2.0
"""Messages that never come, come again and again, in another order, hours late, or make no sense."""

from __future__ import annotations

import functools
import json
import random
import time
import uuid

import amqp

from fleet.context import new_context
from tests.amqp import fuzz as malformed
from tests.chaos import figures
from tests.chaos.run import Scenario
from tests.chaos.wire import Sent
from tests.chaos.world import HOSTS, ChaosWorld

#: Queues that anybody may read. That of a host belongs to its agent's connection, whose loss loses what is in it.
_ORDERS = ("conductor", "conductor_ledger", "scheduler")


def lost(world: ChaosWorld, chance: random.Random) -> None:
    """A third to a half of all messages never arrive, for six seconds."""
    with world.wire.robbed(*_ORDERS) as stolen:
        for _request in range(6):
            world.boot(3)
        world.terminate([row["uuid"] for row in world.builds()][:4])
        time.sleep(6)
    assert stolen, "nothing was lost"
    world.settle()


def repeated(world: ChaosWorld, chance: random.Random, times: int) -> None:
    """Every message about a build arrives again at once, half of the copies under another id."""
    with world.wire.tapped(echo=times - 1) as heard:
        for _request in range(3):
            world.boot(2)
        world.settle()
        world.terminate([row["uuid"] for row in world.builds()][:3])
        world.settle()
    assert heard, "nothing was repeated"


def reordered(world: ChaosWorld, chance: random.Random) -> None:
    """Many messages are held back for two seconds and arrive in any order."""
    with world.wire.robbed(*_ORDERS) as held:
        for _round in range(3):
            for _request in range(3):
                world.boot(2)
            time.sleep(2)
            late, held[:] = list(held), []
            chance.shuffle(late)
            world.wire.send(late)
    world.wire.send(held)
    world.settle()


def hours_late(world: ChaosWorld, chance: random.Random) -> None:
    """When all builds have long ended and half are deleted, everything that was ever sent about them comes once more."""
    world.unruly({"host": "a1", "do": "fail"})
    with world.wire.tapped() as heard:
        for _request in range(4):
            world.boot(3)
        world.settle()
        world.unruly()
        world.terminate([row["uuid"] for row in world.builds()][::2])
        world.settle()
    late = [sent.renamed() for sent in heard]
    chance.shuffle(late)
    before = _states(world)
    world.wire.send(late)
    time.sleep(5)
    world.settle()
    changed = {uuid: state for uuid, state in before.items() if _states(world)[uuid] != state}
    assert late, "nothing was late"
    assert not changed, f"late messages have changed {changed}"


def senseless(world: ChaosWorld, chance: random.Random) -> None:
    """Send each queue messages that are not JSON, have no envelope, are 30 MiB, are nested 100,000 deep, or name unknown
    methods.
    """
    nested = "[" * 100_000 + "]" * 100_000
    bodies = [
        b"\xff\xfe not text",
        b"{",
        b"[]",
        b'{"oslo.version": "2.0"}',
        b'{"oslo.version": "2.0", "oslo.message": "{"}',
        b'{"oslo.version": "9.9", "oslo.message": "{}"}',
        json.dumps({"oslo.version": "2.0", "oslo.message": nested}).encode(),
        json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps({"method": "x" * 30 * 2**20})}).encode(),
        *(_cast(method, arguments) for method, arguments in _NONSENSE),
    ]
    for queue in ("conductor", "conductor_ledger", "scheduler", "compute.a1"):
        world.wire.send(Sent(queue, body) for body in bodies)
    world.boot_until_told(6)
    world.settle()


def flood(world: ChaosWorld, chance: random.Random) -> None:
    """Five thousand casts that mean nothing, while builds go on."""
    for queue in ("conductor", "conductor_ledger", "scheduler", "compute.a1"):
        world.wire.send([Sent(queue, _cast("nothing", {"number": number})) for number in range(1700)])
    world.boot_until_told(6)
    world.settle()


_NONSENSE: list[tuple[str, dict]] = [
    ("no_such_method", {}),
    ("build_instances", {"instance_uuids": "all of them", "attempt": -1}),
    ("build_and_run_instance", {"instance": {"uuid": "../../etc/passwd"}, "attempt": "first"}),
    ("build_and_run_instance", {}),
    ("terminate_instance", {"instance_uuid": ["a", "list"]}),
    ("terminate_instance", {"instance_uuid": str(uuid.UUID(int=7))}),
    ("update_aggregates", {"aggregates": {"id": "seven"}}),
    ("select_destinations", {"request_spec": [[[]]], "filter_properties": 7}),
    ("claim_instance", {"instance_uuid": None}),
    ("build_steps", {"steps": [{}, {"method": "claim_instance", "instance_uuid": None}, {"method": ["finish_build"]}]}),
    ("build_steps", {"steps": ["claim_instance"]}),
    ("volume_steps", {"steps": [{}, {"method": "volume_done", "volume_uuid": 7}, {"method": ["get_host_volumes"]}]}),
    ("report_hosts", {"reports": [{"host": "a1", "node": "a1", "memory_mb": -1}], "nodes": {}}),
]


def _cast(method: str, arguments: dict) -> bytes:
    message = {"method": method, "args": arguments, "version": "1.0", "_unique_id": uuid.uuid4().hex}
    message |= {f"_context_{name}": value for name, value in new_context().to_dict().items()}
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(message)}).encode()


def _states(world: ChaosWorld) -> dict[str, tuple]:
    rows = [row for row in world.ledger().instances if row["name"].startswith(world.name)]
    return {row["uuid"]: (row["vm_state"], row["task_state"], row["attempt"], row["host"]) for row in rows}


FUZZED = 100_000
#: What a daemon writes of a message that it could not read, or of a connection that it lost by it.
_TROUBLE = ("Traceback", "Logging error", "Connecting to the broker anew", "Failed to process message")


def fuzz(world: ChaosWorld, chance: random.Random) -> None:
    """A hundred thousand malformed messages of every kind to every queue, while users boot."""
    before = {name: len(world.trio.log(name)) for name in world.trio.names()}
    with world.wire.channel() as channel:
        reply_to = channel.queue_declare("", exclusive=True, arguments={"x-max-length": 10}).queue
        for number, message in enumerate(
            malformed.messages(chance.randrange(2**31), FUZZED, list(HOSTS), [], reply_to)
        ):
            body = amqp.Message(message.body, **message.properties)
            channel.basic_publish(body, message.exchange, message.routing_key)
            if number % (FUZZED // 10) == 0:
                world.boot_until_told(1)
                world.until(lambda: not any(figures.waiting(world, _ORDERS)), timeout_s=120)
    world.settle()
    said = {name: world.trio.log(name)[start:] for name, start in before.items()}
    found = [f"{name}: {line}" for name, text in said.items() for line in text.splitlines() if _is_trouble(line)]
    assert not found, f"{len(found)} lines such as {found[0]}"


def _is_trouble(line: str) -> bool:
    return any(each in line for each in _TROUBLE)


SCENARIOS = [
    Scenario("messages:lost", lost, short=True),
    Scenario("messages:twice", functools.wraps(repeated)(functools.partial(repeated, times=2)), short=True),
    Scenario("messages:fifty-times", functools.wraps(repeated)(functools.partial(repeated, times=50))),
    Scenario("messages:reordered", reordered),
    Scenario("messages:hours-late", hours_late),
    Scenario("messages:senseless", senseless),
    Scenario("messages:flood", flood),
    Scenario("messages:fuzz", fuzz),
]
