# SPDX-License-Identifier: Apache-2.0
"""Changes of aggregates over HTTP. The conductor is a fake."""

from __future__ import annotations

import json
from typing import Any

import pytest
from falcon import testing

from tests import factories
from tests.worlds.http_conductor import HttpConductor

PATH = "/v2.1/os-aggregates/1"


def aggregate(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "uuid": factories.uuid(number), "name": name, "hosts": [], "metadata": {}}


@pytest.fixture
def conductor() -> HttpConductor:
    known = [aggregate(1, "racks"), aggregate(2, "rows")]
    return HttpConductor(list_aggregates=known, set_aggregate_metadata=known[0], rename_aggregate=known[0])


@pytest.mark.parametrize(
    ("name", "status", "changes"),
    [
        ("rows", 409, []),
        ("racks", 200, ["set_aggregate_metadata", "rename_aggregate"]),
        ("halls", 200, ["set_aggregate_metadata", "rename_aggregate"]),
    ],
)
def test_a_change_that_is_refused_has_no_effect(
    client: testing.TestClient, conductor: HttpConductor, name: str, status: int, changes: list[str]
) -> None:
    """Its hosts stay in their zone if the name that is asked for beside the zone is another aggregate's."""
    body = json.dumps({"aggregate": {"name": name, "availability_zone": "near"}})
    assert status == client.simulate_put(PATH, body=body).status_code
    assert changes == [method for method, _arguments in conductor.writes]
