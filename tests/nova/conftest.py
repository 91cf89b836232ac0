# SPDX-License-Identifier: Apache-2.0
"""``cloud``: a nova with three hosts and fleet-scheduler, for the whole session."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator

import pytest

from fleet.db.nova import grants, tables
from tests import leftovers
from tests.nova import cloud as clouds
from tests.nova.cloud import Cloud, eventually


@pytest.fixture(scope="session")
def cloud() -> Iterator[Cloud]:
    if not (clouds.VENV / "bin/nova-conductor").exists():
        pytest.skip(f"nova is not installed in {clouds.VENV}: make nova")
    with tempfile.TemporaryDirectory(prefix="fleet-cloud-") as directory, clouds.cloud(pathlib.Path(directory)) as made:
        let_read(made)
        made.start_fleet_scheduler()
        for name, ram, vcpus in (("small", 512, 1), ("medium", 1024, 2), ("huge", 512_000, 1), ("wide", 64, 8)):
            flavor = {"name": name, "id": name, "ram": ram, "vcpus": vcpus, "disk": 1}
            made.api("POST", "/flavors", {"flavor": flavor})
        leftovers.KEEPERS.append(made)
        yield made
        leftovers.KEEPERS.remove(made)


def let_read(cloud: Cloud) -> None:
    """Create the role with the documented grants."""
    cloud.postgres.execute("CREATE ROLE reader LOGIN")
    read = {"nova_api": tables.API_TABLES, "nova": tables.CELL_TABLES, "placement": tables.PLACEMENT_TABLES}
    for database, of in read.items():
        for statement in grants.postgresql(database, "reader", of):
            cloud.postgres.execute(statement, database)


@pytest.fixture(autouse=True)
def empty(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test of the cloud leaves no server, and nothing in placement."""
    cloud: Cloud | None = request.getfixturevalue("cloud") if "cloud" in request.fixturenames else None
    yield
    if cloud is None:
        return
    cloud.delete_all()
    eventually(lambda: cloud.allocations() == {} or None, 60)
