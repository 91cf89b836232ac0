# SPDX-License-Identifier: Apache-2.0
"""What is physically free on pools that may be thin, between two reports: only the backend knows what a volume occupied."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.db.engine.database import Database
from fleet.db.volumes import pools
from tests.worlds.volumes import A, Volumes

THIN = {"total_capacity_gb": 1000, "thin_provisioning_support": True, "thick_provisioning_support": True}
AUTOMATIC = {**THIN, "max_over_subscription_ratio": "auto"}


@pytest.fixture
def volumes(database: Database) -> Volumes:
    return Volumes(database)


def report(volumes: Volumes, known: dict[str, Any], free_gb: int, volumes_gb: int = 0) -> None:
    counted = {"allocated_capacity_gb": volumes_gb, "provisioned_capacity_gb": volumes_gb}
    volumes.add_backend(*A, **known, free_capacity_gb=free_gb, **counted)


def delete(volumes: Volumes, uuid: str) -> None:
    volumes.operator.delete_volume(uuid)
    assert "deleted" == volumes.done(uuid, "deleting")


def pool(volumes: Volumes) -> Any:
    return volumes.database.read(pools.list_all, A[0])[0]


def test_a_volume_without_data_frees_nothing(volumes: Volumes) -> None:
    """400 of 1000 GiB are free, because others use the file system. Thick volumes get no more than that."""
    report(volumes, THIN, free_gb=400)
    uuid = volumes.available(size=300)
    report(volumes, THIN, free_gb=400, volumes_gb=300)
    delete(volumes, uuid)
    assert (0, 400.0) == (pool(volumes).allocated_capacity_gb, pool(volumes).free_capacity_gb)
    assert 400.0 == pools.space_of(pool(volumes)).factors(thin_request=False).virtual_free_gb


def test_what_was_claimed_in_vain_is_given_back(volumes: Volumes) -> None:
    """A claim takes its size from what was reported as free. A volume that could not be made gives it back at once."""
    report(volumes, THIN, free_gb=400)
    uuid = volumes.ask(A, size=300)
    assert 100.0 == pool(volumes).free_capacity_gb
    volumes.fails(uuid)
    assert 400.0 == pool(volumes).free_capacity_gb


@pytest.mark.parametrize("size_gb", [200, 260])
def test_an_automatic_ratio_after_a_deletion(volumes: Volumes, size_gb: int) -> None:
    """200 of 1000 GiB are used. It does not grow because a volume without data is deleted, and the pool takes others."""
    report(volumes, AUTOMATIC, free_gb=1000)
    for _number in range(8):
        volumes.available(size=200)
    extra = volumes.available(size=size_gb)
    report(volumes, AUTOMATIC, free_gb=800, volumes_gb=1600 + size_gb)
    delete(volumes, extra)
    assert 1 + 1600 / 201 == pools.space_of(pool(volumes)).over_subscription
    assert ["creating", "scheduling"] == list(volumes.row(volumes.ask(A, size=10_000))[:2])
    assert ["creating", "working"] == list(volumes.row(volumes.ask(A, size=1))[:2])
