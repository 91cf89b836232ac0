# SPDX-License-Identifier: Apache-2.0
"""Answers at several versions against the schemas of Tempest's released package: what ordinary clients rely on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest

from fleet_api.compute.services import number_of
from tests.hostile.conftest import opened
from tests.hostile.objects import Objects
from tests.hostile.people import ADMINISTRATOR, MEMBER
from tests.hostile.requests import HEADERS, QUERIES, bodies_of, filled, path_of
from tests.hostile.test_routes import SERVED
from tests.hostile.world import HostileWorld
from tests.tempest import answers, schemas

__all__ = ["opened"]

_COMPUTE = ("2.1", "2.26", "2.37", "2.53", "2.64", "2.80", "2.96", "2.100")
_VOLUME = ("3.0", "3.41", "3.71")
_SERVICES = {"compute": answers.COMPUTE, "volume": answers.VOLUME}
#: Of make long: make test compares answers of the first, the newest and some other versions.
_LONG = ("2.26", "2.53", "2.80", "3.41")
CASES = [("compute", each) for each in _COMPUTE] + [("volume", each) for each in _VOLUME]
_FORMATS = jsonschema.Draft4Validator.FORMAT_CHECKER
#: Routes of key pairs, which are a user's; and of flavors that are not public.
_KEYS, _ON_HIDDEN = "/os-keypairs/{name}", ("/os-flavor-access", "/flavors/{flavor_id}/action")
#: Most answers of each version must be there: a table of which nothing is served would find nothing.
LEAST = 25


@pytest.fixture(scope="module")
def known() -> schemas.Schemas:
    found = schemas.package()
    if found is None:
        pytest.skip("*** Tempest's schemas are not installed: make client")
    return schemas.Schemas(found)


def test_every_route_is_served() -> None:
    """A route that is renamed would not be compared any more."""
    gone = {*answers.COMPUTE, *answers.VOLUME} - SERVED.keys()
    assert set() == gone


@pytest.mark.parametrize(
    ("service", "version"),
    [pytest.param(*case, marks=pytest.mark.long if case[1] in _LONG else (), id="-".join(case)) for case in CASES],
)
def test_answers_have_the_released_form(
    opened: tuple[HostileWorld, Objects, Objects], known: schemas.Schemas, service: str, version: str
) -> None:
    world, ours, _theirs = opened
    wrong, compared = [], 0
    for route in sorted(_SERVICES[service]):
        if (service, route) in answers.BEYOND and _number(version) >= answers.BEYOND[service, route]:
            continue
        for body in bodies_of(route):
            with world.undone():
                answer = _sent(world, route, body, ours.ids, service, version)
            schema = _schema(known, service, route, version)
            if schema is None:
                # The version does not have the route.
                wrong += [f"{route}: status {answer.status_code}, not 404"] if answer.status_code != 404 else []
                continue
            compared += 1
            wrong += [f"{route} {body or ''}: {each}" for each in _mistakes(schema, answer)]
    assert compared >= LEAST
    assert [] == wrong, "\n".join(["", *wrong])


def _sent(world: HostileWorld, route: str, body: Any, ours: Mapping[str, str], service: str, version: str) -> Any:
    method, _, path = route.partition(" ")
    ids = _of_version(route, ours, version)
    given = {} if body is None else {"json": filled(body, ids)}
    headers = {**HEADERS.get(route, {}), "OpenStack-API-Version": f"{service} {version}"}
    query = filled(QUERIES.get(route), ids)
    target = path_of(path, ids)
    person = MEMBER if _KEYS in route else ADMINISTRATOR
    if any(word in route for word in _ON_HIDDEN):
        target = target.replace("/flavors/small/", "/flavors/hidden/")
    return world.http(person, method, target, headers=headers, params=query, **given)


def _of_version(route: str, ours: Mapping[str, str], version: str) -> Mapping[str, str]:
    """Before uuids hypervisors have numbers, and are looked for by name."""
    if _number(version) >= (2, 53) or "{hypervisor_id}" not in route:
        return ours
    by_name = route.endswith(("/search", "/servers"))
    return {**ours, "hypervisor": ours["host"] if by_name else str(number_of(ours["hypervisor"]))}


def _number(version: str) -> schemas.Version:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def _schema(known: schemas.Schemas, service: str, route: str, version: str) -> dict[str, Any] | None:
    module, name = _SERVICES[service][route]
    if _number(version) < answers.SINCE.get((service, route), (0, 0)):
        return None
    if (service, route) in answers.UNTIL and _number(version) >= answers.UNTIL[service, route]:
        return None
    for each in ((module, name), answers.SAME.get((module, name))):
        if each is not None and (found := known.of(service, *each, _number(version))) is not None:
            return found
    return None


def _mistakes(schema: Mapping[str, Any], answer: Any) -> Iterator[str]:
    allowed = schema.get("status_code", (200,))
    if answer.status_code not in allowed:
        yield f"status {answer.status_code}, not {allowed}: {answer.text[:200]}"
    elif "response_body" in schema:
        validator = jsonschema.Draft4Validator(schema["response_body"], format_checker=_FORMATS)
        for each in validator.iter_errors(answer.json):
            yield f"{'.'.join(map(str, each.absolute_path))}: {each.message[:200]}"
