# SPDX-License-Identifier: Apache-2.0
"""Requests of several users take turns at the server's threads."""

from __future__ import annotations

import base64
import functools
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from fleet_api.access import identity
from fleet_api.access.rules import SESSION
from fleet_api.access.tokens import COOKIE
from fleet_api.serving import fair_threads
from fleet_api.serving.fair_threads import FairDispatcher, Turns


def task(key: bytes | None, name: str) -> Any:
    return SimpleNamespace(key=key, name=name)


def test_users_take_turns() -> None:
    """A user with many requests does not make another wait for all of them."""
    turns = Turns(most=100)
    for name in ("a1", "a2", "a3"):
        turns.append(task(b"a", name))
    turns.append(task(b"b", "b1"))
    assert ["a1", "b1", "a2", "a3"] == [turns.popleft().name for _ in range(len(turns))]


def test_a_user_has_so_many_threads() -> None:
    """The rest waits until one of its requests has ended."""
    turns = Turns(most=2)
    for name in ("a1", "a2", "a3", "a4"):
        turns.append(task(b"a", name))
    assert ["a1", "a2"] == [turns.popleft().name for _ in range(len(turns))]
    assert 0 == len(turns)
    with pytest.raises(IndexError):
        turns.popleft()
    turns.ended(b"a")
    assert ["a3"] == [turns.popleft().name for _ in range(len(turns))]


def channel(address: str = "10.0.0.1", path: str = "/v2.1/servers", method: str = "GET", **headers: str) -> Any:
    request = SimpleNamespace(headers=headers, path=path, command=method, error=None)
    return SimpleNamespace(addr=(address, 1), requests=[request])


def basic(name: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:secret".encode()).decode()


@pytest.mark.parametrize("strategy", ["http_basic", "keystone"])
def test_who_counts_as_a_user(strategy: str) -> None:
    """Whoever is identified by the same credential, whatever else a request has; without one, the address."""
    key = functools.partial(fair_threads.key_of, credential=identity.credential_of(strategy))
    header, alice, bob = ("AUTHORIZATION", basic("alice"), basic("bob"))
    if strategy == "keystone":
        header, alice, bob = "X_AUTH_TOKEN", "token1", "token2"
    first = key(channel("10.0.0.1", **{header: alice}))
    assert first == key(channel("10.0.0.2", **{header: alice, "COOKIE": "x=1"}))
    assert first != key(channel(**{header: bob}))
    others = {"COOKIE": "x=1", "AUTHORIZATION": "Bearer 1"} if strategy == "keystone" else {"X_AUTH_TOKEN": "1"}
    assert key(channel()) == key(channel(**others)) != first
    assert key(channel("10.0.0.1")) != key(channel("10.0.0.2"))


def test_a_request_that_needs_no_user_counts_for_its_address() -> None:
    """Signing in asks keystone: no header makes the sender another one."""
    key = functools.partial(fair_threads.key_of, credential=identity.credential_of("keystone"))
    signing_in = {"path": SESSION, "method": "POST"}
    assert key(channel(**signing_in)) == key(channel(**signing_in, X_AUTH_TOKEN="token1", COOKIE=f"{COOKIE}=2"))
    assert key(channel(path="/fleet/v1/events", COOKIE=f"{COOKIE}=2")) == key(channel(X_AUTH_TOKEN="2"))


def test_a_stream_counts_elsewhere_once_it_has_its_place() -> None:
    """The thread that it keeps is none of those that its user may have; until then it is."""
    taken, release, seen = threading.Event(), threading.Event(), threading.Event()

    class Stream:
        def service(self) -> None:
            fair_threads.stop_counting()
            taken.set()
            release.wait(60)

        def cancel(self) -> None:
            raise AssertionError

    class Request(Stream):
        def service(self) -> None:
            seen.set()

    dispatcher = FairDispatcher(2, 1, lambda _each: b"alice")
    dispatcher.add_task(Stream())
    assert taken.wait(60)
    dispatcher.add_task(Request())
    assert seen.wait(60)
    release.set()
    dispatcher.shutdown()


def test_another_user_is_served_while_one_holds_all_it_may_have() -> None:
    """Also if requests of the first user were there before; they are served when a thread of the first user is free."""
    release, served, changed = threading.Event(), list[str](), threading.Condition()

    class Request:
        def __init__(self, user: str, holds: bool) -> None:
            self.user, self.holds = user, holds

        def service(self) -> None:
            if self.holds:
                release.wait(60)
            with changed:
                served.append(self.user)
                changed.notify_all()

        def cancel(self) -> None:
            raise AssertionError

    dispatcher = FairDispatcher(3, 2, lambda each: each.user.encode())
    for _request in range(5):
        dispatcher.add_task(Request("greedy", holds=True))
    dispatcher.add_task(Request("other", holds=False))
    with changed:
        assert changed.wait_for(lambda: served, 60)
        assert ["other"] == served
    release.set()
    with changed:
        assert changed.wait_for(lambda: len(served) == 6, 60)
    dispatcher.shutdown()
