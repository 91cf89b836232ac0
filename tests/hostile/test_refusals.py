# SPDX-License-Identifier: Apache-2.0
"""What a project reads when the conductor refuses a request about its own objects: nothing of hosts and pools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.hostile.objects import Objects
from tests.hostile.people import ADMINISTRATOR, MEMBER, OWNER, Person
from tests.hostile.requests import filled
from tests.hostile.world import HostileWorld


class Refusal(NamedTuple):
    """A request in a state that ``states`` make. ``told``: what its project reads."""

    what: str
    states: tuple[str, ...]
    method: str
    path: str
    body: Any
    status: int
    told: str


REFUSALS = [
    Refusal(
        "the pool is full",
        (),
        *("POST", "/v3/volumes/{volume}/action", {"os-extend": {"new_size": 5000}}),
        *(400, "no pool that the request may use has room for it"),
    ),
    Refusal(
        "its old copy is still removed",
        (
            "UPDATE volumes SET step = 'removing', held_host = 'vault-one@disks', held_pool = 'pool', held_gb = 1 "
            "WHERE uuid = '{volume}'",
        ),
        *("POST", "/v3/volumes/{volume}/action", {"os-extend": {"new_size": 2}}),
        *(409, "is still being removed from the pool where it was"),
    ),
    Refusal(
        "its members share a host",
        (
            "UPDATE instance_groups SET policy = 'anti-affinity', max_server_per_host = 5 WHERE uuid = '{group}'",
            "INSERT INTO instance_group_members (group_uuid, instance_uuid) VALUES ('{group}', '{moving}')",
            "UPDATE instances SET host = 'quarry-two' WHERE uuid IN ('{server}', '{moving}')",
        ),
        *("POST", "/fleet/v1/calls/operator/update_group"),
        {"arguments": {"name": "{group}", "max_server_per_host": 1}},
        *(409, "members on one host"),
    ),
]


@pytest.fixture
def undone(world_: HostileWorld) -> Iterator[None]:
    with world_.undone():
        yield


@pytest.mark.usefixtures("undone")
@pytest.mark.parametrize("each", REFUSALS, ids=lambda each: each.what)
def test_a_refusal_names_no_place_to_a_project(world_: HostileWorld, theirs: Objects, each: Refusal) -> None:
    """Whoever runs the fleet reads which one, and how full it is."""
    for state in each.states:
        world_.ledger.change(filled(state, theirs.ids))
    texts = {}
    for person in (OWNER, ADMINISTRATOR):
        answer = _asked(world_, person, theirs, each)
        assert each.status == answer.status_code, answer.text
        texts[person] = answer.text
    assert each.told in texts[OWNER]
    places = (*theirs.hosts, "vault-one")
    assert [] == [place for place in places if place in texts[OWNER]]
    assert any(place in texts[ADMINISTRATOR] for place in places)


def _asked(world: HostileWorld, person: Person, of: Objects, each: Refusal) -> Any:
    return world.http(person, each.method, filled(each.path, of.ids), json=filled(each.body, of.ids))


@pytest.mark.usefixtures("undone")
def test_a_hint_about_an_instance_of_others_is_one_about_none(world_: HostileWorld, theirs: Objects) -> None:
    """A project would learn whether it exists, and put its volumes on the same machine."""
    ends = []
    for instance in (theirs.ids["server"], "11111111-2222-4333-8444-555555555555"):
        hints = {"local_to_instance": instance}
        body = {"volume": {"size": 1, "name": "near"}, "OS-SCH-HNT:scheduler_hints": hints}
        made = world_.http(MEMBER, "POST", "/v3/volumes", json=body).json["volume"]["id"]
        ends.append(world_.http(MEMBER, "GET", f"/v3/volumes/{made}").json["volume"]["status"])
    assert ["error", "error"] == ends
