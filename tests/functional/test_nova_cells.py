# SPDX-License-Identifier: Apache-2.0
"""The feed over nova's tables follows the mappings of cells and hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fleet import errors
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.nova.domain_columns import CELL_DISABLED
from tests.functional import nova_schema
from tests.functional.nova_schema import Databases
from tests.functional.test_nova_feed import FeedOverNova


@pytest.fixture
def world(nova: Databases) -> Iterator[FeedOverNova]:
    made = FeedOverNova(nova)
    yield made
    made.close()


def disabled(world: FeedOverNova) -> dict[str, bool]:
    """Host → whether its cell is disabled."""
    return world.hosts.consider(
        lambda hosts, _state: dict(
            zip((hosts.key(row)[0] for row in hosts.rows), hosts.column(CELL_DISABLED).tolist(), strict=True)
        )
    )


@pytest.mark.parametrize(
    "read",
    [lambda hosts: hosts.poll(), HostManager.compare, lambda hosts: hosts.compare_host("cmp1")],
    ids=["poll", "comparison", "comparison of a host"],
)
def test_a_cell_is_disabled_and_enabled(world: FeedOverNova, read: Callable[[HostManager], object]) -> None:
    """Its hosts stay known: servers may move inside the cell."""
    assert {"cmp1": False, "cmp2": False} == disabled(world)
    for flag in (True, False):
        world.nova.update(nova_schema.CELLS, 2, disabled=flag)
        world.later(60)
        read(world.hosts)
        assert {"cmp1": flag, "cmp2": flag} == disabled(world)


def test_a_cell_gets_another_database(world: FeedOverNova) -> None:
    """It is read there at the next reading of the mappings."""
    world.nova.update(nova_schema.CELLS, 2, database_connection="nonsense://")
    with pytest.raises(errors.ConfigError):
        world.feed.read(0)
