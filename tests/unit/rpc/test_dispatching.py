# SPDX-License-Identifier: Apache-2.0
"""Which method a message calls: the same as with oslo.messaging's own dispatcher."""

from __future__ import annotations

import itertools
import threading
import types
from typing import Any

import oslo_messaging
import pytest

from fleet.rpc import dispatching


class First:
    target = oslo_messaging.Target(version="1.3")

    def one(self, context: object) -> str:
        return "First.one"

    def _hidden(self, context: object) -> str:
        return "First._hidden"


class Second:
    target = oslo_messaging.Target(version="1.1")

    def one(self, context: object) -> str:
        return "Second.one"

    def two(self, context: object, number: int = 0) -> str:
        return f"Second.two({number})"


class Third:
    target = oslo_messaging.Target(namespace="volumes", version="2.4.1")

    def two(self, context: object) -> str:
        return "Third.two"


class Fourth:
    """Without a target, as version 1.0 of no namespace."""

    def four(self, context: object) -> str:
        return "Fourth.four"


def served() -> list[object]:
    return [First(), Second(), Third(), Fourth()]


def sent(namespace: str | None, version: str, method: str, **args: Any) -> Any:
    message = {"namespace": namespace, "version": version, "method": method, "args": args}
    return types.SimpleNamespace(message=message, ctxt={}, client_timeout=None)


def outcome(dispatcher: oslo_messaging.RPCDispatcher, incoming: Any) -> str:
    try:
        return str(dispatcher.dispatch(incoming))
    except (oslo_messaging.NoSuchMethod, oslo_messaging.UnsupportedVersion) as refusal:
        return f"{type(refusal).__name__}: {refusal}"


VERSIONS = ["1.0", "1.1", "1.2", "1.3", "1.4", "1.3.0", "1.3.1", "2.0", "2.4", "2.4.1", "2.4.2", "2.5", "01.03", "3.0"]
METHODS = ["one", "two", "four", "_hidden", "target", "none"]


def test_every_choice_is_oslo_messagings() -> None:
    """Asked twice, as the second answer is remembered."""
    ours = dispatching.Dispatcher(served(), oslo_messaging.NoOpSerializer())
    theirs = oslo_messaging.RPCDispatcher(served(), oslo_messaging.NoOpSerializer())
    asked = list(itertools.product([None, "volumes", "other"], VERSIONS, [*METHODS[:4], "none"]))
    expected = [outcome(theirs, sent(*each)) for each in asked]
    for _time in range(2):
        assert expected == [outcome(ours, sent(*each)) for each in asked]
    assert {"First.one", "Second.two(0)", "Third.two", "Fourth.four"} <= set(expected)


def test_arguments_and_answers_go_through_the_serializer() -> None:
    class Doubles(oslo_messaging.NoOpSerializer):
        def deserialize_entity(self, ctxt: object, entity: Any) -> Any:
            return entity * 2

        def serialize_entity(self, ctxt: object, entity: Any) -> Any:
            return [entity]

    made = dispatching.Dispatcher(served(), Doubles())
    assert ["Second.two(6)"] == made.dispatch(sent(None, "1.1", "two", number=3))


@pytest.mark.parametrize("wanted", [None, 60])
def test_a_call_makes_no_thread_of_its_own(wanted: int | None) -> None:
    class Counts:
        def count(self, context: object) -> list[str]:
            return [each.name for each in threading.enumerate()]

    incoming = sent(None, "1.0", "count")
    incoming.client_timeout = wanted
    before = {each.name for each in threading.enumerate()} | {"call-monitor"}
    assert set(dispatching.Dispatcher([Counts()], None).dispatch(incoming)) <= before
