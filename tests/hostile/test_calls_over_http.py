# SPDX-License-Identifier: Apache-2.0
"""Every call of the ``fleet`` command over HTTP × nobody, a reader and a member of another project."""

from __future__ import annotations

import json

import pytest

from tests.hostile.calls import ADMIN, PROJECT, Method, whose
from tests.hostile.ledger import changes, touching
from tests.hostile.objects import Objects
from tests.hostile.people import ADMINISTRATOR, MEMBER, NOBODY, OWNER, READER, THEIRS, Person
from tests.hostile.test_calls import METHODS, RIGHTFUL, attempts, served
from tests.hostile.test_routes import leaks
from tests.hostile.world import HostileWorld

CALLED = [each for each in METHODS if whose("conductor", each) in (PROJECT, ADMIN)]
#: What a reader may call; the others change something.
_READS = ("list_", "show_", "newest_")


def code_of(method: Method, person: Person) -> set[int] | None:
    """The only codes that a stranger may be answered with; None: any that is no failure."""
    if person is NOBODY:
        return {401}
    if whose("conductor", method) == ADMIN or (person is READER and not method.name.startswith(_READS)):
        return {403}
    return None


@pytest.mark.parametrize("method", CALLED, ids=lambda each: f"{each.namespace}.{each.name}")
def test_no_stranger_changes_or_sees_anything(world_: HostileWorld, theirs: Objects, method: Method) -> None:
    """Not in the name of the other project, either."""
    parameters = served(world_)[method]["conductor"]
    wrong = []
    for person in (NOBODY, READER, MEMBER):
        for given in attempts(theirs, RIGHTFUL[PROJECT], "conductor", method, parameters):
            for for_whom in ({}, {"project_id": THEIRS}, {"user_id": OWNER.name}):
                body = {"arguments": given, **for_whom}
                with world_.undone() as before:
                    answer = world_.http(person, "POST", f"/fleet/v1/calls/{method.namespace}/{method.name}", json=body)
                    changed = changes(before, world_.ledger.rows())
                codes = {403} if for_whom and person is not NOBODY else code_of(method, person)
                found = [f"tells {each}" for each in leaks(answer, theirs, json.dumps(body))]
                found += [f"makes {each}" for each in touching(changed, {*theirs.secrets, THEIRS}, json.dumps(body))]
                if answer.status_code >= 500 or (codes is not None and answer.status_code not in codes):
                    found.append(f"is answered with {answer.status_code}")
                wrong += [f"{person.name} {body} {each}: {answer.text[:200]}" for each in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("method", CALLED, ids=lambda each: f"{each.namespace}.{each.name}")
def test_whoever_may_is_served(world_: HostileWorld, theirs: Objects, method: Method) -> None:
    """With the same arguments."""
    parameters = served(world_)[method]["conductor"]
    given = attempts(theirs, RIGHTFUL[PROJECT], "conductor", method, parameters)[0]
    person = OWNER if whose("conductor", method) == PROJECT else ADMINISTRATOR
    with world_.undone():
        answer = world_.http(
            person, "POST", f"/fleet/v1/calls/{method.namespace}/{method.name}", json={"arguments": given}
        )
    assert answer.status_code < 300 or answer.status_code == 409, answer.text


@pytest.mark.parametrize("method", CALLED, ids=lambda each: f"{each.namespace}.{each.name}")
def test_an_argument_of_a_wrong_type_is_the_mistake_of_its_sender(
    world_: HostileWorld, theirs: Objects, method: Method
) -> None:
    parameters = served(world_)[method]["conductor"]
    given = attempts(theirs, RIGHTFUL[PROJECT], "conductor", method, parameters)[0]
    person = OWNER if whose("conductor", method) == PROJECT else ADMINISTRATOR
    failed = []
    for name in parameters:
        for value in (True, [[1]]):
            body = {"arguments": {**given, name: value}}
            with world_.undone():
                answer = world_.http(person, "POST", f"/fleet/v1/calls/{method.namespace}/{method.name}", json=body)
            failed += [f"{body}: {answer.text[:200]}"] if answer.status_code >= 500 else []
    assert [] == failed
