# SPDX-License-Identifier: Apache-2.0
"""The typed calls of the namespace ``operator`` agree with the conductor's endpoints."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterator

import pytest

import conductor_stub
from fleet.rpc.clients import OperatorCalls

#: Another way to make a call that has a method already.
SAME_CALL = {"list_brief": "list_instances"}


@functools.cache
def _endpoints() -> dict[str, Callable[..., object]]:
    found = {}
    for manager in _managers():
        for name, method in inspect.getmembers(manager, inspect.isfunction):
            if not name.startswith("_") and not getattr(method, "is_internal", False):
                found[name] = method
    return found


def _managers() -> Iterator[type]:
    for module in pkgutil.walk_packages(conductor_stub.__path__, "conductor_stub."):
        for value in vars(importlib.import_module(module.name)).values():
            target = getattr(value, "target", None) if isinstance(value, type) else None
            if target is not None and target.namespace == "operator":
                yield value


def _arguments(name: str) -> set[str]:
    """The arguments that a typed call may send."""
    method = getattr(OperatorCalls, name)
    found = set()
    for parameter, hint in typing.get_type_hints(method).items():
        (unpacked,) = typing.get_args(hint) if typing.get_origin(hint) is typing.Unpack else (None,)
        found |= set(unpacked.__annotations__) if unpacked is not None else {parameter}
    return found - {"return"}


CALLS = [name for name, _ in inspect.getmembers(OperatorCalls, inspect.isfunction) if not name.startswith("_")]


def test_each_endpoint_has_a_typed_call() -> None:
    assert _endpoints().keys() == set(CALLS) - SAME_CALL.keys()


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_typed_call_sends_what_its_endpoint_takes(name: str) -> None:
    """An argument that the endpoint does not know would be ignored in silence."""
    endpoint = set(inspect.signature(_endpoints()[SAME_CALL.get(name, name)]).parameters) - {"self", "context"}
    brief = {"brief"} if name in (*SAME_CALL, *SAME_CALL.values()) else set()
    assert endpoint - brief == _arguments(name)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_an_endpoint_returns_what_its_typed_call_promises(name: str) -> None:
    """mypy compares the endpoint with its type, and this the two types. A list is whole or brief, as it was asked for."""
    returned = typing.get_type_hints(_endpoints()[SAME_CALL.get(name, name)])["return"]
    promised = typing.get_type_hints(getattr(OperatorCalls, name))["return"]
    either = typing.get_args(returned) if name in (*SAME_CALL, *SAME_CALL.values()) else (returned,)
    assert promised in either


def test_an_argument_that_is_not_given_is_not_sent() -> None:
    """What is sent decides about the version of the message, so absent is not the same as None."""
    sent = []
    calls = OperatorCalls(lambda method, **arguments: sent.append((method, arguments)))
    calls.list_instances({}, limit=5)
    calls.list_brief({"host": "a"})
    calls.list_events()
    assert [
        ("list_instances", {"filters": {}, "limit": 5}),
        ("list_instances", {"filters": {"host": "a"}, "brief": True}),
        ("list_events", {}),
    ] == sent
