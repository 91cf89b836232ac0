# SPDX-License-Identifier: Apache-2.0
"""``cloud``: a nova with three hosts and fleet-scheduler, for the whole session."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator

import pytest

from tests import leftovers
from tests.nova import cloud as clouds
from tests.nova import databases
from tests.nova.cloud import Cloud, eventually
from tests.nova.layout import TWO_CELLS


@pytest.fixture(scope="session")
def cloud() -> Iterator[Cloud]:
    """On PostgreSQL, with one cell."""
    with _started() as made:
        yield made


@pytest.fixture(scope="module")
def two_cells() -> Iterator[Cloud]:
    """On MariaDB, with two cells that have brokers of their own, and four hosts."""
    with _started(databases.on_mariadb(), TWO_CELLS) as made:
        yield made


@contextlib.contextmanager
def _started(*arguments: object) -> Iterator[Cloud]:
    if not (clouds.VENV / "bin/nova-conductor").exists():
        pytest.skip(f"nova is not installed in {clouds.VENV}: make nova")
    with (
        tempfile.TemporaryDirectory(prefix="fleet-cloud-") as directory,
        clouds.cloud(pathlib.Path(directory), *arguments) as made,
    ):
        made.start_fleet_scheduler()
        leftovers.KEEPERS.append(made)
        yield made
        leftovers.KEEPERS.remove(made)


@pytest.fixture(autouse=True)
def empty(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test of a cloud leaves no server, and nothing in placement."""
    names = [name for name in ("cloud", "two_cells") if name in request.fixturenames]
    used: Cloud | None = request.getfixturevalue(names[0]) if names else None
    yield
    if used is None:
        return
    used.delete_all()
    eventually(lambda: used.allocations() == {} or None, 60)
