# SPDX-License-Identifier: Apache-2.0
"""Threads of a server that wait for one connection of the lean driver at the same time."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import oslo_messaging

from fleet.rpc import server
from fleet.rpc.rabbit.conf import LEAN
from fleet.trial import private_servers
from tests.functional.test_lean_driver import client_of, opened

THREADS = 6
#: For a call that needs a new connection.
PATIENCE_S = 60


class Meeting:
    """Each call waits until all threads of the server have one."""

    target = oslo_messaging.Target(version="1.0")

    def __init__(self) -> None:
        self.everybody = threading.Barrier(THREADS)

    def meet(self, context: Any) -> int:
        self.everybody.wait(PATIENCE_S)
        return threading.get_ident()


@contextlib.contextmanager
def serving(url: str, topic: str) -> Iterator[server.Server]:
    with opened(url, LEAN) as bus:
        served = server.get_server(bus, topic, "s1", [Meeting()], threads=THREADS)
        served.start()
        try:
            yield served
        finally:
            served.stop()
            served.wait()


def threads_that_met(calls: Any) -> set[int]:
    """Call as often at a time as the server has threads; return the threads that answered."""
    met: set[int] = set()
    callers = [threading.Thread(target=lambda: met.add(calls.call({}, "meet"))) for _ in range(THREADS)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    return met


def test_every_thread_receives() -> None:
    """Also those that have waited while others were woken, and after the connection was lost under all of them."""
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    with private_servers.rabbitmq_node() as node, serving(node.url, topic), opened(node.url, LEAN) as bus:
        calls = client_of(bus, topic).prepare(timeout=PATIENCE_S)
        for _time in range(20):
            assert THREADS == len(threads_that_met(calls))
        node.kill()
        node.start()
        for _time in range(5):
            assert THREADS == len(threads_that_met(calls))


def test_a_stop_ends_every_thread(rabbitmq_url: str) -> None:
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    before = set(threading.enumerate())
    with serving(rabbitmq_url, topic), opened(rabbitmq_url, LEAN) as bus:
        threads_that_met(client_of(bus, topic).prepare(timeout=PATIENCE_S))
        assert THREADS <= sum(each.name == "rpc" for each in set(threading.enumerate()) - before)
    assert not [each for each in set(threading.enumerate()) - before if each.name == "rpc"]
