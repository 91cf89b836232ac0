# SPDX-License-Identifier: Apache-2.0
"""Every route × every person × the objects of another project: no stranger changes or sees anything of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from falcon import testing

from fleet_api import conf as api_conf
from fleet_api.access.rules import DOCUMENT
from fleet_api.application import routes
from fleet_api.own.openapi import Route, document
from fleet_api.requests import guard
from tests.configuration import configuration
from tests.hostile import people
from tests.hostile.ledger import changes, touching
from tests.hostile.objects import Objects
from tests.hostile.people import (
    ADMINISTRATOR,
    COLLEAGUE,
    NOBODY,
    OWNER,
    STRANGERS,
    THEIR_READER,
    Person,
)
from tests.hostile.requests import (
    ADMIN,
    ADMINISTRATIVE,
    CALLS,
    HEADERS,
    NOT_THERE,
    OWN,
    PUBLIC,
    QUERIES,
    SHARED,
    WHOSE,
    bodies_of,
    filled,
    path_of,
)
from tests.hostile.world import HostileWorld

#: Combinations are counted: a table that loses its entries would find nothing.
LEAST = 2500
_NEWEST = {"OpenStack-API-Version": "compute latest"}
_NAMES = {"{server}": "{token}-server", "{volume}": "{token}-volume", "{snapshot}": "{token}-snapshot",
          "{group}": "{token}-group"}  # fmt: skip


class Request(NamedTuple):
    route: str
    path: str
    body: Any = None
    query: dict[str, str] | None = None

    def send(self, world: HostileWorld, person: Person) -> testing.Result:
        method = self.route.partition(" ")[0]
        body = {} if self.body is None else {"json": self.body}
        headers = {**_NEWEST, **HEADERS.get(self.route, {})}
        return world.http(person, method, self.path, headers=headers, params=self.query, **body)


def served() -> dict[str, Any]:
    conf = configuration(api_conf.register_opts)
    found = document([*routes(None, conf, None), Route(DOCUMENT, _Document())])["paths"]  # type: ignore[arg-type]
    return {f"{method.upper()} {path}": each for path, of in found.items() for method, each in of.items()}


class _Document:
    @guard.public
    def on_get(self) -> None: ...


SERVED = served()
ROUTES = sorted(SERVED.keys() & WHOSE.keys())


def test_every_route_has_an_owner() -> None:
    """A new route fails here until somebody says whose it is."""
    missing = sorted(SERVED.keys() - WHOSE.keys() - {CALLS})
    assert not missing, f"say in tests/hostile/requests.py, _TABLE, whose objects these routes are about: {missing}"
    gone = sorted(WHOSE.keys() - SERVED.keys())
    assert not gone, f"remove these routes from tests/hostile/requests.py, they are not served any more: {gone}"


def test_every_route_has_a_body() -> None:
    """What is not well-formed is refused before anybody looks at its owner, so it would prove nothing."""
    bodiless = sorted(route for route, each in SERVED.items() if "requestBody" in each and None in bodies_of(route))
    assert [CALLS] == bodiless, f"add a body to tests/hostile/requests.py, BODIES, for {bodiless}"


def requests_of(route: str, ids: dict[str, str]) -> Iterator[Request]:
    """As its owner may send them."""
    path = path_of(route.partition(" ")[2], ids)
    query = filled(QUERIES.get(route), ids)
    yield from (Request(route, path, filled(body, ids), query) for body in bodies_of(route))


def hostile_requests(route: str, ids: dict[str, str]) -> Iterator[Request]:
    """The same; by the name and by a beginning of the uuid; and each parameter of the query with what is theirs."""
    yield from requests_of(route, ids)
    path = route.partition(" ")[2]
    if WHOSE[route] == OWN:
        for kind in ("server", "volume", "snapshot", "group"):
            for other in (ids["token"] + "-" + kind, ids[kind][:8]):
                if f"{{{kind}_id}}" in path:
                    yield from requests_of(route, {**ids, kind: other})
    for parameter in SERVED[route]["parameters"]:
        if parameter["in"] == "query":
            for value in (ids["server"], f"{ids['token']}-server", ids["project"], ids["host"], "1"):
                yield Request(route, path_of(path, ids), None, {parameter["name"]: value})


def allowed(whose: str, person: Person, is_read: bool) -> set[int] | None:
    """The codes that a person may be answered with who asks for what is theirs; None: any that is no failure."""
    if whose == PUBLIC:
        return None
    if person is NOBODY:
        return {401}
    if whose == ADMIN:
        return None if person is ADMINISTRATOR else {403}
    if whose != SHARED and not is_read and person.role == "reader":
        return {403}
    if whose == OWN and person in STRANGERS:
        return {400, 403, 404}
    return None


def leaks(answer: testing.Result, theirs: Objects, named: str) -> list[str]:
    """What the answer says of theirs, beside what the request has named itself."""
    said = answer.text + json.dumps(dict(answer.headers))
    return sorted(each for each in theirs.secrets | theirs.hosts if each in said and each not in named)


def play(world: HostileWorld, theirs: Objects, request: Request, person: Person) -> list[str]:
    """What is wrong with the answer, or with what it left behind."""
    method, whose = request.route.partition(" ")[0], WHOSE[request.route]
    with world.undone() as before:
        answer = request.send(world, person)
        changed = changes(before, world.ledger.rows())
    codes = allowed(whose, person, method == "GET")
    wrong = []
    if codes is not None and answer.status_code not in codes:
        wrong.append(f"is answered with {answer.status_code}, not with one of {sorted(codes)}")
    if answer.status_code >= 500 and answer.status_code != 501:
        wrong.append(f"fails with {answer.status_code}")
    if person in STRANGERS:
        named = json.dumps([request.path, request.body, request.query])
        wrong += [f"tells {each}" for each in leaks(answer, theirs, named)]
        wrong += [f"makes {each}" for each in touching(changed, {*theirs.secrets, theirs.project}, named)]
    if person is THEIR_READER and changed:
        wrong.append(f"changes {changed[0]}")
    return [f"{person.name}: {request} {each}: {answer.text[:200]}" for each in wrong]


@pytest.fixture(scope="module")
def counted() -> Iterator[list[int]]:
    played: list[int] = []
    yield played
    print(f"{sum(played)} combinations of {len(ROUTES)} routes and {len(people.EVERYBODY)} persons")


@pytest.mark.parametrize("route", ROUTES)
def test_no_stranger_changes_or_sees_anything(
    world_: HostileWorld, theirs: Objects, counted: list[int], route: str
) -> None:
    """Nobody, and a reader and a member of another project, by uuid, by name, and by each parameter of the query."""
    ids = dict(theirs.ids)
    combinations = [(request, person) for request in hostile_requests(route, ids) for person in STRANGERS]
    others = (THEIR_READER, COLLEAGUE, ADMINISTRATOR)
    combinations += [(request, person) for request in requests_of(route, ids) for person in others]
    wrong = [each for request, person in combinations for each in play(world_, theirs, request, person)]
    assert not wrong, "\n".join(wrong)
    counted.append(len(combinations))


@pytest.mark.parametrize("route", [each for each in ROUTES if WHOSE[each] != PUBLIC])
def test_whoever_may_is_served(world_: HostileWorld, theirs: Objects, route: str) -> None:
    """The requests are real: with the right person they are well-formed, and find what they name."""
    person = ADMINISTRATOR if WHOSE[route] == ADMIN else OWNER
    for request in requests_of(route, dict(theirs.ids)):
        with world_.undone():
            answer = request.send(world_, person)
        if person is OWNER and isinstance(request.body, dict) and ADMINISTRATIVE & request.body.keys():
            assert 403 == answer.status_code, answer.text
            person = ADMINISTRATOR
            with world_.undone():
                answer = request.send(world_, person)
        others = (404, 409, 501) if route in NOT_THERE else (409, 501)
        assert answer.status_code < 300 or answer.status_code in others, (request, answer.text)


def test_enough_was_asked(counted: list[int]) -> None:
    """Runs after the others of this file."""
    assert len(ROUTES) != len(counted) or sum(counted) >= LEAST
