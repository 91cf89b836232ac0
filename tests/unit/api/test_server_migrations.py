# SPDX-License-Identifier: Apache-2.0
"""Live migrations of a server: those under way are listed, shown and aborted."""

from __future__ import annotations

import pytest

from fleet_api.compute import migrations
from tests import factories
from tests.unit.api.test_history import ANSWERS, MOVE, UUID, get
from tests.worlds.http_conductor import HttpConductor

LIVE = {**MOVE, "migration_type": "live-migration", "status": "running"}
PATH = f"/v2.1/servers/{UUID}/migrations"


@pytest.fixture
def conductor() -> HttpConductor:
    """A live migration runs; another one is over."""
    over = {**LIVE, "uuid": factories.uuid(8), "status": "completed"}
    answers = {**ANSWERS, "list_migrations": [LIVE, over, *ANSWERS["list_migrations"]]}
    return HttpConductor(**answers, abort_live_migration=None)


def test_what_is_under_way_is_shown(client):
    """By its number or its uuid. Other moves are not there, and neither is one that has ended."""
    (listed,) = get(client, PATH, "2.80").json["migrations"]
    number = migrations.number(LIVE)
    for name in (number, LIVE["uuid"]):
        assert listed == get(client, f"{PATH}/{name}", "2.80").json["migration"]
    expected = {"id": number, "uuid": LIVE["uuid"], "server_uuid": UUID, "status": "running", "dest_compute": "h2"}
    assert expected == {name: listed[name] for name in expected}
    assert not {"instance_uuid", "migration_type"} & listed.keys()
    assert "uuid" not in get(client, PATH, "2.58").json["migrations"][0]
    assert 404 == get(client, f"{PATH}/{factories.uuid(8)}").status_code


def test_an_abort(client, conductor):
    assert 202 == client.simulate_delete(f"{PATH}/{migrations.number(LIVE)}").status_code
    assert ("abort_live_migration", {"name": UUID, "migration": LIVE["uuid"]}) == conductor.asked[-1]
    assert 404 == client.simulate_delete(f"{PATH}/7").status_code


def test_no_migration_is_forced_to_its_end(client, conductor):
    """The API answers 501, as for other actions that no driver has, and 404 for a migration that has ended."""
    path = f"{PATH}/{migrations.number(LIVE)}/action"
    answer = client.simulate_post(path, json={"force_complete": None})
    expected = "The action force_complete of a live migration is not available in this cloud."
    assert (501, expected) == (answer.status_code, answer.json["notImplemented"]["message"])
    assert 404 == client.simulate_post(f"{PATH}/7/action", json={"force_complete": None}).status_code
    assert 400 == client.simulate_post(path, json={}).status_code
    assert [] == conductor.writes


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"block_migration": False}, "block_migration"),
        ({"force": True}, "force"),
        ({"host": ""}, "host"),
        ({"pause": True}, "pause"),
    ],
)
def test_what_a_live_migration_cannot_be(client, conductor, wanted, named):
    """Forced past the filters, or without its disks."""
    answer = client.simulate_post(f"/v2.1/servers/{UUID}/action", json={"os-migrateLive": wanted})
    assert (400, True) == (answer.status_code, named in answer.json["badRequest"]["message"])
    assert not any(method == "live_migrate_instance" for method, _arguments in conductor.asked)
