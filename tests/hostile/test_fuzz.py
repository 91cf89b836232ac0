# SPDX-License-Identifier: Apache-2.0
"""Requests made of the document of the API and then damaged: no failure, nothing of another project changed or told."""

from __future__ import annotations

import json
import random
from urllib import parse

import pytest
from falcon import testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hostile.fuzz import Fuzz, Sent
from tests.hostile.ledger import changes, touching
from tests.hostile.objects import Objects
from tests.hostile.people import ADMINISTRATOR, MEMBER, NOBODY, OWNER, Person
from tests.hostile.test_routes import leaks
from tests.hostile.world import HostileWorld

#: Requests in a run; each may become smaller ones if it fails.
REQUESTS = 1000


@pytest.fixture(scope="module")
def fuzz(opened: tuple[HostileWorld, Objects, Objects]) -> Fuzz:
    world, _ours, theirs = opened
    return Fuzz(world.http(NOBODY, "GET", "/fleet/v1/openapi.json").json, theirs.ids)


def ask(world: HostileWorld, person: Person, sent: Sent) -> testing.Result:
    path, _, query = sent.target.partition("?")
    return world.http(person, sent.method, path, query_string=query or None, headers=dict(sent.headers), body=sent.body)


def wrong(world: HostileWorld, theirs: Objects, person: Person, sent: Sent) -> list[str]:
    with world.undone() as before:
        answer = ask(world, person, sent)
        changed = changes(before, world.ledger.rows())
    found = []
    if answer.status_code >= 500 and answer.status_code != 501:
        found.append(f"fails with {answer.status_code}: {answer.text[:300]}")
    if person is MEMBER:
        named = json.dumps([parse.unquote(sent.target, errors="replace"), dict(sent.headers)])
        named += (sent.body or b"").decode(errors="replace")
        found += [f"tells {each}" for each in leaks(answer, theirs, named)]
        found += [f"makes {each}" for each in touching(changed, {*theirs.secrets, theirs.project}, named)]
    return found


def test_no_request_fails(world_: HostileWorld, theirs: Objects, fuzz: Fuzz) -> None:
    """501 says that nova has it and a fleet has not. Each request is undone."""
    asked = 0

    @settings(max_examples=REQUESTS, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False), st.sampled_from((MEMBER, OWNER, ADMINISTRATOR)))
    def play(chance: random.Random, person: Person) -> None:
        nonlocal asked
        asked += 1
        sent = fuzz.request(chance)
        assert [] == wrong(world_, theirs, person, sent), f"{person.name}: {sent}"

    play()
    assert REQUESTS <= asked


@pytest.mark.parametrize("person", [MEMBER, ADMINISTRATOR], ids=lambda each: each.role)
@pytest.mark.parametrize("number", range(3))
def test_a_run_of_requests_reaches_the_depth(world_: HostileWorld, fuzz: Fuzz, person: Person, number: int) -> None:
    """The requests are not all refused at the first look: some succeed, and each kind of refusal is met."""
    chance = random.Random(number)
    codes = set()
    for _request in range(150):
        with world_.undone():
            codes.add(ask(world_, person, fuzz.request(chance)).status_code)
    assert {200, 400, 404} <= codes
