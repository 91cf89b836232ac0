# SPDX-License-Identifier: Apache-2.0
"""The feed over nova's tables follows the mappings of cells and hosts."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fleet import errors
from fleet.clock import seconds
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.nova.domain_columns import CELL_DISABLED
from tests.factories import uuid
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


@pytest.mark.parametrize(
    "read",
    [lambda world: world.later(6), lambda world: world.hosts.compare(), lambda world: world.feed.read(0)],
    ids=["poll", "comparison", "all"],
)
def test_a_host_name_in_two_cells(
    world: FeedOverNova, tmp_path: pathlib.Path, read: Callable[[FeedOverNova], object], caplog: Any
) -> None:
    """Only the rows of the cell to which the host is mapped count, and the log names the other one."""
    other = Databases(f"sqlite:///{tmp_path / 'other'}")
    other.create()
    late = world.clock.now + seconds(5)
    other.add_host(1, late, uuid=uuid(201), memory_mb=4096)
    other.add_host(9, late)
    other.update(nova_schema.SERVICES, 1, forced_down=True, last_seen_up=late + seconds(3600))
    other.add_instance(1, "cmp9", late)
    other.add_instance(2, "cmp1", late)
    world.nova.insert(nova_schema.HOST_MAPPINGS, id=9, cell_id=3, host="cmp9")
    world.nova.insert(nova_schema.CELLS, id=3, uuid=uuid(77), name="cell2", database_connection=other.url)
    world.later(6)
    read(world)
    other.update(nova_schema.INSTANCES, 1, host="cmp1", node="cmp1", updated_at=world.clock.now)
    for number in (1, 2):
        world.nova.update(nova_schema.SERVICES, number, last_seen_up=world.clock.now)
    world.later(6)
    read(world)
    assert {"cmp1": 7680, "cmp2": 7680, "cmp9": 7680} == world.free_ram()
    assert (set(), set()) == (world.instances("cmp1"), world.instances("cmp9"))
    assert {"cmp1", "cmp2"} <= set(world.up())
    assert "Host cmp1 of cell cell2 is left out" in caplog.text
    nova_schema.engine(other.url).dispose()


def test_a_cell_gets_another_database(world: FeedOverNova) -> None:
    """It is read there at the next reading of the mappings."""
    world.nova.update(nova_schema.CELLS, 2, database_connection="nonsense://")
    with pytest.raises(errors.ConfigError):
        world.feed.read(0)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql+pymysql://nova:pw@127.0.0.1:9/cell2?ssl_ca=/nowhere/ca.pem", "No such file"),
        ("nonsense://", "is for nonsense"),
    ],
)
def test_a_cell_that_cannot_be_opened(
    world: FeedOverNova, caplog: pytest.LogCaptureFixture, url: str, reason: str
) -> None:
    """As if its URL names certificates that only nova's machines have: the hosts of the others are read."""
    world.nova.insert(nova_schema.CELLS, id=3, uuid=uuid(301), name="cell2", database_connection=url, disabled=False)
    world.nova.update(nova_schema.NODES, 1, memory_mb_used=1024, updated_at=world.clock.now + seconds(5))
    world.later(6)
    assert {"cmp1": 7168, "cmp2": 7680} == world.free_ram()
    assert "Cell cell2 cannot be read" in caplog.text
    assert reason in caplog.text
