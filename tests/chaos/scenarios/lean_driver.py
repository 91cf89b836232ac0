# SPDX-License-Identifier: Apache-2.0
"""Frames and replies that no broker sends, and connections that the broker closes in a loop."""

from __future__ import annotations

import contextlib
import json
import random
import string
import struct
import threading
from collections.abc import Iterator
from typing import Any

import amqp
import oslo_messaging
import psutil

from fleet.rpc.rabbit.conf import LEAN
from tests.chaos import proxy
from tests.chaos.run import Scenario
from tests.chaos.servers import proxied
from tests.chaos.world import ChaosWorld
from tests.functional.test_lean_driver import client_of, opened, serving

REPLIES, FRAMES, CLOSED = 10_000, 10_000, 200
#: Of frames: methods, headers, bodies, heartbeats. Classes and methods that a server sends, and one that does not exist.
_KINDS = (1, 2, 3, 8)
_METHODS = (
    *((10, number) for number in (10, 20, 30, 41, 50, 51, 60, 61, 70)),
    *((20, number) for number in (11, 20, 21, 40, 41)),
    *((40, number) for number in (11, 21)),
    *((50, number) for number in (11, 21, 31, 41)),
    *((60, number) for number in (11, 21, 30, 31, 50, 60, 71, 72, 80, 111, 120)),
    *((85, 11), (90, 11), (77, 77)),
)
_ANSWER_S = 1.0
#: What may be open besides: a connection that is being replaced.
_MORE_FILES, _MORE_THREADS = 12, 2


def replies(world: ChaosWorld, chance: random.Random) -> None:
    """Ten thousand replies that no server sends, to the reply queues of all daemons, while users boot."""
    listed = world.broker.ctl("list_queues", "name", "--no-table-headers").split()
    queues = [name for name in listed if name.startswith("reply_")]
    assert queues, listed
    with world.wire.channel() as channel:
        for number in range(REPLIES):
            body, kind, encoding = _reply(chance)
            channel.basic_publish(
                amqp.Message(body, content_type=kind, content_encoding=encoding), "", chance.choice(queues)
            )
            if number % (REPLIES // 10) == 0:
                world.boot_until_told(1)
    world.settle()
    world.measured["replies"] = REPLIES


def frames(world: ChaosWorld, chance: random.Random) -> None:
    """Ten thousand frames that no broker sends, to a caller that is answered after each; nothing of it is left open."""
    process = psutil.Process()
    with _calling(world) as (calls, between, driver):
        _answered(calls)
        thread, before = driver._out()._thread, (process.num_fds(), _threads())
        sent = unanswered = 0
        while sent < FRAMES:
            # Frames that reach a connection that they end are of no use; so there are few in a row.
            burst = [_frame(chance) for _frame_of_burst in range(chance.choice((1, 1, 1, 5, 20)))]
            between.inject(b"".join(burst))
            sent += len(burst)
            unanswered += _answered(calls)
        world.measured |= {"frames": sent, "calls repeated": unanswered}
        assert thread is driver._out()._thread, "the thread for sending was replaced"
        assert thread.is_alive(), "the thread for sending has ended"
        now = process.num_fds(), _threads()
        grown = now[0] > before[0] + _MORE_FILES or now[1] > before[1] + _MORE_THREADS
        assert not grown, f"files and threads have grown from {before} to {now}"


def _threads() -> int:
    """Return the number of the driver's threads. Those of a server's pool grow to their number."""
    return sum(each.name.startswith("rpc-") for each in threading.enumerate())


def closed(world: ChaosWorld, chance: random.Random) -> None:
    """The broker closes all connections two hundred times, while two threads of a caller share one, and users boot."""
    again = f"""
    [begin
        [catch rabbit_networking:close_connection(Pid, "chaos") || Pid <- rabbit_networking:connections()],
        timer:sleep({chance.randrange(20, 80)})
     end || _ <- lists:seq(1, {CLOSED})].
    """
    with _calling(world) as (calls, _between, driver):
        _answered(calls)
        thread, stop, wrong = driver._out()._thread, threading.Event(), list[BaseException]()

        def call() -> None:
            try:
                while not stop.is_set():
                    _answered(calls)
            except BaseException as failure:
                wrong.append(failure)

        threads = [threading.Thread(target=call) for _caller in range(2)]
        for each in threads:
            each.start()
        world.broker.ctl("eval", again)
        stop.set()
        for each in threads:
            each.join()
        _answered(calls)
        assert not wrong, wrong
        assert thread is driver._out()._thread, "the thread for sending was replaced"
        assert thread.is_alive(), "the thread for sending has ended"
    world.boot_until_told(6)
    world.settle()


@contextlib.contextmanager
def _calling(world: ChaosWorld) -> Iterator[tuple[Any, proxy.Proxy, Any]]:
    """A caller behind a proxy of its own, and a server that is not; the driver of the caller."""
    topic, node = "fuzz", world.broker
    with (
        proxied(proxy.to_port(node.port)) as between,
        serving(node.url, LEAN, topic),
        opened(f"rabbit://guest:{node.password}@127.0.0.1:{between.port}/", LEAN) as bus,
    ):
        yield client_of(bus, topic), between, bus._driver


def _answered(calls: Any) -> int:
    """Call until a call is answered, as callers do. Return the number of calls that were not."""
    for number in range(60):
        value = random.randrange(2**30)
        with contextlib.suppress(oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure):
            assert value == calls.prepare(timeout=_ANSWER_S).call({}, "echo", value=value)
            return number
    raise AssertionError("no call is answered any more")


# -- what is sent ---------------------------------------------------------------------------------------------------


def _frame(chance: random.Random) -> bytes:
    """Return a frame, or something like one."""
    channel = chance.choice((0, 1, 1, 2, chance.randrange(2**16)))
    match chance.randrange(8):
        case 0:
            return chance.randbytes(chance.randrange(1, 40))
        case 1:  # a wrong end
            return _framed(chance.choice(_KINDS), channel, chance.randbytes(chance.randrange(20)), chance.randbytes(1))
        case 2:  # more is announced than comes
            return struct.pack(">BHI", chance.choice(_KINDS), channel, chance.randrange(200)) + chance.randbytes(5)
        case 3:
            return _framed(chance.randrange(256), channel, chance.randbytes(chance.randrange(40)))
        case 4:  # a header: class, weight, size, flags
            header = struct.pack(">HHQH", 60, 0, chance.choice((0, 5, 2**40)), chance.randrange(2**16))
            return _framed(2, channel, header + chance.randbytes(chance.randrange(30)))
        case 5:
            return _framed(3, channel, chance.randbytes(chance.randrange(60)))
        case _:
            method = struct.pack(">HH", *chance.choice(_METHODS))
            return _framed(1, channel, method + _arguments(chance))


def _framed(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def _arguments(chance: random.Random) -> bytes:
    """Arguments of a method: short texts, numbers, and bytes, in any order."""
    made = b""
    for _argument in range(chance.randrange(5)):
        text = chance.randbytes(chance.randrange(12))
        made += chance.choice(
            (
                struct.pack(">B", len(text)) + text,
                struct.pack(">Q", chance.choice((0, 1, 2, 3, 2**63))),
                struct.pack(">H", chance.randrange(2**16)),
                chance.randbytes(4),
            )
        )
    return made


def _reply(chance: random.Random) -> tuple[bytes, str, str]:
    """Return a body with its content type and encoding."""
    content: dict[str, Any] = {
        "result": _value(chance),
        "failure": chance.choice((None, None, json.dumps(_value(chance)), _value(chance))),
        "ending": chance.choice((True, False, _value(chance))),
        "_msg_id": chance.choice((f"{chance.getrandbits(128):032x}", _value(chance))),
        "_unique_id": chance.choice((f"{chance.getrandbits(128):032x}", _value(chance))),
    }
    for name in list(content):
        if chance.random() < 0.1:
            del content[name]
    envelope: Any = {"oslo.version": "2.0", "oslo.message": json.dumps(content)}
    if chance.random() < 0.1:
        envelope = chance.choice((content, _value(chance), {**envelope, "oslo.version": _value(chance)}))
    body = json.dumps(envelope).encode()
    if chance.random() < 0.2:
        damaged = bytearray(body)
        for _place in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        body = bytes(damaged[: chance.randrange(1, len(damaged) + 1)])
    kind = "application/json" if chance.random() < 0.9 else chance.choice(("text/plain", "application/x-python", ""))
    encoding = "utf-8" if chance.random() < 0.9 else chance.choice(("latin-1", "utf-16", "binary", "none of all"))
    return body, kind, encoding


def _value(chance: random.Random, depth: int = 3) -> Any:
    text = "".join(chance.choices(string.printable + "\0ä\ud800", k=chance.randrange(10)))
    simple = (None, True, -1, 0, 2**70, 1.5, float("nan"), "", "x" * 5000, text)
    if depth and chance.random() < 0.3:
        inner = [_value(chance, depth - 1) for _item in range(chance.randrange(4))]
        return inner if chance.random() < 0.5 else {f"{number}": item for number, item in enumerate(inner)}
    return chance.choice(simple)


SCENARIOS = [
    Scenario("messages:replies-fuzz", replies),
    Scenario("broker:frames-fuzz", frames),
    Scenario("broker:closed-in-a-loop", closed),
]
