# SPDX-License-Identifier: Apache-2.0
"""Every method of the contract × every holder of a key × the objects of another project, or of another host."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import oslo_messaging
import pytest

from fleet import errors
from tests.hostile.calls import (
    _CONDUCTORS,
    _SCHEDULING,
    ADMIN,
    AGENTS,
    ANY,
    CLIENT,
    COMPUTE,
    PROJECT,
    SERVICE,
    VOLUME,
    Method,
    arguments_of,
    whose,
)
from tests.hostile.ledger import changes, touching
from tests.hostile.objects import Objects
from tests.hostile.people import BACKENDS, HOSTS, MEMBER, OURS, OWNER, THEIRS
from tests.hostile.requests import filled
from tests.hostile.world import HostileWorld, context_of

#: Combinations are counted: a table that loses its entries would find nothing.
LEAST = 2000
METHODS = sorted({each for table in (_CONDUCTORS, _SCHEDULING) for of in table.values() for each in of}, key=str)
_COMPUTE = {"binary": "fleet-compute", "topic": "compute"}
_VOLUME = {"binary": "fleet-volume", "topic": "volume"}


class Sender(NamedTuple):
    """``holder`` of a key, and what it says of itself. ``may`` are the owners of the methods that its key is for."""

    who: str
    holder: str
    may: frozenset[str]
    project: str | None = None
    is_admin: bool = True
    #: What ``{caller}`` and the like stand for.
    names: Mapping[str, str] = {}


def _agents(number: int, caller: int, who: str) -> tuple[Sender, Sender]:
    """:param number: whose key; caller: whom it names"""
    host, backend = {"caller": HOSTS[caller]}, {"caller": BACKENDS[caller]}
    may = (frozenset({COMPUTE, AGENTS, ANY}), frozenset({VOLUME, AGENTS, ANY}))
    return (
        Sender(f"{who} of a host", HOSTS[number], may[0], names={**_COMPUTE, **host}),
        Sender(f"{who} of a backend", BACKENDS[number], may[1], names={**_VOLUME, **backend}),
    )


#: To schedulers its policy lets only administrators.
_AT_THE_DOOR = "fleet-api for a member"
_AS_THEM = {**_COMPUTE, "caller": HOSTS[1]}
STRANGERS = (
    Sender("nobody", "nobody", frozenset({ANY}), names=_AS_THEM),
    Sender("the project's key", "project", frozenset({PROJECT, ANY}), OURS, False, _AS_THEM),
    # A client program signs in the name of its key's project, whatever it was told.
    Sender("the project's key as another project", "project", frozenset({PROJECT, ANY}), THEIRS, False, _AS_THEM),
    Sender("the project's key as the administrator", "project", frozenset({PROJECT, ANY}), OURS, True, _AS_THEM),
    Sender(_AT_THE_DOOR, "client", frozenset({PROJECT, CLIENT, ANY}), OURS, False, _AS_THEM),
    *_agents(0, 0, "the agent"),
    *_agents(0, 1, "the agent in the name"),
)
RIGHTFUL: Mapping[str, Sender] = {
    PROJECT: Sender("its owner", "client", frozenset(), THEIRS, False, _AS_THEM),
    ADMIN: Sender("the administrator", "client", frozenset(), None, True, _AS_THEM),
    CLIENT: Sender("a client", "client", frozenset(), None, True, _AS_THEM),
    COMPUTE: _agents(1, 1, "the agent")[0],
    AGENTS: _agents(1, 1, "the agent")[0],
    VOLUME: _agents(1, 1, "the agent")[1],
    SERVICE: Sender("a conductor", "service", frozenset(), None, True, _AS_THEM),
    ANY: Sender("anybody", "nobody", frozenset()),
}


def served(world: HostileWorld) -> dict[Method, dict[str, dict[str, bool]]]:
    """Each method by its topics, with its arguments and whether they are required."""
    found: dict[Method, dict[str, dict[str, bool]]] = {}
    for topic, server in world.driver.served.items():
        for endpoint in server.dispatcher.endpoints if "." not in topic and topic != "keeper" else ():
            for name, method in inspect.getmembers(endpoint, inspect.isroutine):
                if not name.startswith("_") and server.dispatcher.access_policy.is_allowed(endpoint, name):
                    each = Method(endpoint.target.namespace if hasattr(endpoint, "target") else None, name)
                    found.setdefault(each, {})[topic] = _parameters(method)
    return found


def _parameters(method: Any) -> dict[str, bool]:
    known = list(inspect.signature(method).parameters.values())[1:]
    return {each.name: each.default is each.empty for each in known if each.kind is not each.VAR_KEYWORD}


def test_every_method_has_an_owner(world_: HostileWorld) -> None:
    """A new method fails here until somebody says whose it is."""
    known = served(world_)
    missing = [(topic, each) for each, topics in known.items() for topic in topics if whose(topic, each) is None]
    assert not missing, f"say in tests/hostile/calls.py whose these methods are: {missing}"
    gone = set(METHODS) - known.keys()
    assert not gone, f"remove these methods from tests/hostile/calls.py, they are not served any more: {gone}"


def attempts(
    theirs: Objects, sender: Sender, topic: str, method: Method, parameters: Mapping[str, bool]
) -> list[dict[str, Any]]:
    """Arguments that name what is theirs: by uuid, by name and by the beginning of the uuid."""
    ids = {**theirs.ids, **sender.names}
    fixed = {"racks": "racks", "flavor": "small", "image": "base", "fast": "fast", "pool": ids["backend"] + "#pool"}

    def by(form: str) -> dict[str, Any]:
        forms = {"uuid": ids.get, "name": lambda kind: f"{ids['token']}-{kind}", "part": lambda kind: ids[kind][:8]}
        return arguments_of(topic, method, parameters, lambda kind: fixed.get(kind) or str(forms[form](kind)))  # type: ignore[operator]

    made = [filled(by(form), ids) for form in ("uuid", "name", "part")]
    # A build that is over, too.
    made.append(filled(by("uuid"), {**ids, "building": ids["server"]}))
    return [each for number, each in enumerate(made) if each not in made[:number]]


def answer_of(
    world: HostileWorld, sender: Sender, topic: str, method: Method, given: dict[str, Any]
) -> tuple[str, str]:
    """Return the error, or "", and the text of the answer."""
    user = (OWNER if sender.holder != "project" and sender.project == THEIRS else MEMBER).name
    context = context_of(sender.project, user, sender.is_admin)
    try:
        return "", json.dumps(world.call(sender.holder, context, topic, method.namespace, method.name, given))
    except errors.FleetError as refusal:
        return type(refusal).__name__.removesuffix("_Remote"), refusal.message
    except oslo_messaging.RemoteError as broken:
        return f"unexpected {broken.exc_type}", str(broken.value)


def play(
    world: HostileWorld, theirs: Objects, sender: Sender, topic: str, method: Method, given: dict[str, Any]
) -> list[str]:
    """What is wrong with the answer, or with what it left behind."""
    with world.undone() as before:
        error, text = answer_of(world, sender, topic, method, given)
        changed = changes(before, world.ledger.rows())
    named = json.dumps(given)
    hidden = theirs.secrets | {THEIRS}
    wrong = [f"makes {each}" for each in touching(changed, hidden, named)]
    wrong += [f"tells {each}" for each in sorted(theirs.secrets | theirs.hosts) if each in text and each not in named]
    if error.startswith("unexpected"):
        wrong.append(f"is answered with {error}")
    if whose(topic, method) not in sender.may and error != "NotTrusted":
        wrong.append(f"is answered with {error or 'a result'}, not with NotTrusted")
    return [f"{sender.who}: {topic} {method.name} {given} {each}: {text[:200]}" for each in wrong]


@pytest.fixture(scope="module")
def counted() -> Iterator[list[int]]:
    played: list[int] = []
    yield played
    print(f"{sum(played)} combinations of {len(METHODS)} methods and {len(STRANGERS)} senders")


@pytest.mark.parametrize("method", METHODS, ids=lambda each: f"{each.namespace or ''}.{each.name}")
def test_no_stranger_changes_or_sees_anything(
    world_: HostileWorld, theirs: Objects, counted: list[int], method: Method
) -> None:
    """A project's key on objects of another project, and an agent's key on rows of other hosts."""
    combinations = [
        (sender, topic, given)
        for topic, parameters in served(world_)[method].items()
        for sender in STRANGERS
        if sender.who != _AT_THE_DOOR or not topic.endswith("scheduler")
        for given in attempts(theirs, sender, topic, method, parameters)
    ]
    wrong = [
        each for sender, topic, given in combinations for each in play(world_, theirs, sender, topic, method, given)
    ]
    assert not wrong, "\n".join(wrong)
    counted.append(len(combinations))


@pytest.mark.parametrize("method", METHODS, ids=lambda each: f"{each.namespace or ''}.{each.name}")
def test_whoever_may_is_served(world_: HostileWorld, theirs: Objects, method: Method) -> None:
    """The calls are real: with the right key they are well-formed, and find what they name."""
    for topic, parameters in served(world_)[method].items():
        sender = RIGHTFUL[whose(topic, method) or ""]
        given = attempts(theirs, sender, topic, method, parameters)[0]
        with world_.undone():
            error, text = answer_of(world_, sender, topic, method, given)
        refused = error in ("InvalidInput", "NotTrusted", "NotFound") or error.startswith("unexpected")
        assert not refused, (given, error, text)


def test_enough_was_asked(counted: list[int]) -> None:
    """Runs after the others of this file."""
    assert len(METHODS) != len(counted) or sum(counted) >= LEAST
