# SPDX-License-Identifier: Apache-2.0
"""Requests of several users take turns at the server's threads."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

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
    """The rest waits until one of its requests has ended; requests that count for nobody do not wait."""
    turns = Turns(most=2)
    for name in ("a1", "a2", "a3", "a4"):
        turns.append(task(b"a", name))
    assert ["a1", "a2"] == [turns.popleft().name for _ in range(len(turns))]
    assert 0 == len(turns)
    with pytest.raises(IndexError):
        turns.popleft()
    for name in ("n1", "n2", "n3"):
        turns.append(task(None, name))
    assert 3 == len(turns)
    turns.ended(b"a")
    assert {"a3", "n1", "n2", "n3"} == {turns.popleft().name for _ in range(len(turns))}


def channel(address: str = "10.0.0.1", path: str = "/v2.1/servers", **headers: str) -> Any:
    return SimpleNamespace(addr=(address, 1), requests=[SimpleNamespace(headers=headers, path=path)])


def test_who_counts_as_a_user() -> None:
    """Whoever sends the same credentials; without any, the address. A stream counts elsewhere."""
    key = fair_threads.key_of
    assert key(channel("10.0.0.1", AUTHORIZATION="x")) == key(channel("10.0.0.2", AUTHORIZATION="x"))
    assert key(channel(AUTHORIZATION="x")) != key(channel(X_AUTH_TOKEN="x"))
    assert key(channel("10.0.0.1")) != key(channel("10.0.0.2"))
    assert key(channel(path="/events", AUTHORIZATION="x"), uncounted="/events") is None


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
