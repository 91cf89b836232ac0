# SPDX-License-Identifier: Apache-2.0
"""Threads of a server that wait for one connection of the lean driver at the same time."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest

from fleet.rpc import server
from fleet.rpc.rabbit.conf import LEAN
from fleet_trial import private_servers
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
        served = server.get_server(bus, topic, "s1", [Meeting()], server.Options(threads=THREADS))
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


@pytest.mark.long
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


class Held:
    """Its first call waits until it is released."""

    target = oslo_messaging.Target(version="1.0")

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()
        self.heard = 0

    def late(self, context: Any) -> int:
        return self._enter()

    def early(self, context: Any) -> int:
        return self._enter()

    def _enter(self) -> int:
        self.heard += 1
        self.entered.set()
        self.release.wait(PATIENCE_S)
        return self.heard


@contextlib.contextmanager
def two_servers(url: str, topic: str) -> Iterator[tuple[Held, Any, Held]]:
    """The first one with its driver. The second one starts when the first has a message."""
    first, second = Held(), Held()
    second.release.set()
    with opened(url, LEAN) as one, opened(url, LEAN) as other:
        servers = [
            server.get_server(bus, topic, name, [held], server.Options(threads=2, acknowledged_late=["late"]))
            for bus, name, held in ((one, "s1", first), (other, "s2", second))
        ]
        servers[0].start()
        starting = threading.Thread(target=lambda: first.entered.wait(PATIENCE_S) and servers[1].start())
        starting.start()
        try:
            yield first, servers[0], second
        finally:
            first.release.set()
            starting.join()
            for each in servers:
                each.stop()
                each.wait()


def test_another_server_answers_for_one_that_is_lost(rabbitmq_url: str) -> None:
    """The message was not acknowledged, because it was not handled."""
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    with two_servers(rabbitmq_url, topic) as (first, served, second), opened(rabbitmq_url, LEAN) as bus:
        threading.Thread(target=lambda: first.entered.wait(PATIENCE_S) and lose(served), daemon=True).start()
        assert 1 == client_of(bus, topic).prepare(timeout=PATIENCE_S).call({}, "late")
        assert (1, 1) == (first.heard, second.heard)


def test_a_message_is_acknowledged_before_it_is_handled_otherwise(rabbitmq_url: str) -> None:
    """It is lost with its server, and harms no other."""
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    with two_servers(rabbitmq_url, topic) as (first, served, second), opened(rabbitmq_url, LEAN) as bus:
        threading.Thread(target=lambda: first.entered.wait(PATIENCE_S) and lose(served), daemon=True).start()
        with pytest.raises(oslo_messaging.MessagingTimeout):
            client_of(bus, topic).prepare(timeout=5).call({}, "early")
        assert (1, 0) == (first.heard, second.heard)


def test_messages_that_name_no_method_do_not_stop_a_server(rabbitmq_url: str) -> None:
    """They are acknowledged, however many there are; the broker hands out a few only that are not."""
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    with two_servers(rabbitmq_url, topic) as (first, _served, _second), opened(rabbitmq_url, LEAN) as bus:
        first.release.set()
        target = oslo_messaging.Target(topic=topic, server="s1")
        for method in ({"a": 1}, ["late"], None, 7, "none", "_late"):
            for _time in range(10):
                bus._driver.send(target, {}, {"method": method, "args": {}, "version": "1.0"})
        assert 1 == client_of(bus, topic).prepare(server="s1").call({}, "late")


def lose(served: Any) -> None:
    """End the connection as the end of its process would: the broker gives away what was not acknowledged."""
    served._served.listener.polled.stop()
    served._served.listener.polled._current.link.close()
