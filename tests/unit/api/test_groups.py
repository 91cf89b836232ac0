# SPDX-License-Identifier: Apache-2.0
"""Server groups over HTTP: nova's rules, and those over labels of hosts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from falcon import testing

from tests.unit.api.test_server_details import NEWEST
from tests.worlds.http_conductor import HttpConductor

GROUPS = "/v2.1/os-server-groups"


def create_group(**wanted: Any) -> dict[str, Any]:
    about = {"uuid": "11111111-1111-1111-1111-111111111111", "members": [], "hosts": [], "project_id": None}
    return {"max_server_per_host": 1, "rules": [], **about, **wanted}


@pytest.fixture
def conductor() -> HttpConductor:
    return HttpConductor(create_group=create_group)


def create(client: testing.TestClient, policy: str, rules: dict[str, Any] | None) -> testing.Result:
    body = {"server_group": {"name": "g", "policy": policy, **({} if rules is None else {"rules": rules})}}
    return client.simulate_post(GROUPS, body=json.dumps(body), headers=NEWEST)


def rule(policy: str, **more: Any) -> dict[str, Any]:
    return {"policy": policy, "label": "rack", **more}


RACK = {"label": "rack"}


@pytest.mark.parametrize(
    ("policy", "rules", "made", "shown"),
    [
        pytest.param("affinity", None, {"policy": "affinity", "max_server_per_host": 1}, {}, id="nova's policy"),
        pytest.param(
            *("anti-affinity", {"max_server_per_host": "3"}, {"policy": "anti-affinity", "max_server_per_host": 3}),
            *({"max_server_per_host": 3},),
            id="nova's rule",
        ),
        pytest.param(
            *("anti-affinity", RACK, {"policy": "none", "rules": [rule("anti-affinity", max_members=1)]}),
            *({**RACK, "max_server_per_host": 1},),
            id="apart by rack",
        ),
        pytest.param(
            *("anti-affinity", {**RACK, "max_server_per_host": 2}),
            *({"policy": "none", "rules": [rule("anti-affinity", max_members=2)]}, {**RACK, "max_server_per_host": 2}),
            id="two in a rack",
        ),
        pytest.param(
            *("anti-affinity", {**RACK, "max_skew": "2"}, {"policy": "none", "rules": [rule("spread", max_skew=2)]}),
            *({**RACK, "max_skew": 2},),
            id="a spread",
        ),
        pytest.param(
            *("soft-anti-affinity", {**RACK, "max_skew": 1}, {"policy": "none", "rules": [rule("soft-spread")]}, RACK),
            id="a spread as a preference",
        ),
        pytest.param("soft-affinity", RACK, {"policy": "none", "rules": [rule("soft-affinity")]}, RACK, id="together"),
    ],
)
def test_rules(
    client: testing.TestClient, conductor: HttpConductor, policy: str, rules: Any, made: Any, shown: Any
) -> None:
    """What was sent is shown again in nova's words."""
    answer = create(client, policy, rules)
    assert 200 == answer.status_code, answer.text
    assert [("create_group", {"name": "g", **made})] == conductor.asked
    assert (policy, shown) == tuple(answer.json["server_group"][name] for name in ("policy", "rules"))


@pytest.mark.parametrize(
    ("policy", "rules", "said"),
    [
        ("affinity", {"max_server_per_host": 2}, "max_server_per_host"),
        ("affinity", {**RACK, "max_skew": 1}, "max_skew"),
        ("anti-affinity", {"max_skew": 1}, "needs a label"),
        ("anti-affinity", {**RACK, "max_skew": 1, "max_server_per_host": 2}, "without max_skew"),
        ("anti-affinity", {"label": "-"}, "label"),
        ("anti-affinity", {**RACK, "max_skew": 10**300}, "max_skew"),
        ("anti-affinity", {**RACK, "colour": 1}, "colour"),
        ("anti-affinity", {"max_server_per_host": True}, "max_server_per_host"),
        ("anti-affinity", {**RACK, "max_skew": " 2 "}, "max_skew"),
    ],
)
def test_wrong_rules(
    client: testing.TestClient, conductor: HttpConductor, policy: str, rules: dict[str, Any], said: str
) -> None:
    answer = create(client, policy, rules)
    assert (400, [], True) == (answer.status_code, conductor.asked, said in answer.text)
