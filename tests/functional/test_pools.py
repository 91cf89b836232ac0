# SPDX-License-Identifier: Apache-2.0
"""Storage pools in the ledger: reports, claims, and their race."""

from __future__ import annotations

import threading
from concurrent import futures
from typing import Any

import pytest

from fleet import errors
from fleet.clock import utcnow
from fleet.db.engine.database import Database
from fleet.db.volumes import pools
from fleet.objects import PoolReport

HOST, POOL = "m1@dir", "data"


def report(database: Database, pool: str = POOL, **capabilities: Any) -> None:
    known = {"total_capacity_gb": 100, "free_capacity_gb": 80, "reserved_percentage": 10, **capabilities}
    database.write(pools.report, PoolReport(HOST, pool, known, "z1"), utcnow())


def claim(database: Database, size_gb: int, thin: bool = True) -> None:
    database.write(pools.claim, HOST, POOL, pools.Request(size_gb, thin), utcnow())


def row(database: Database) -> Any:
    (found,) = database.read(pools.list_all, HOST)
    return found


def test_a_report_is_stored(database: Database) -> None:
    """Columns have what claims need, and the capabilities are stored as sent."""
    report(database, volume_backend_name="fast", max_over_subscription_ratio=1.5, thin_provisioning_support=True)
    found = row(database)
    assert (100.0, 80.0, "z1", "fast") == (
        *(found.total_capacity_gb, found.free_capacity_gb),
        *(found.availability_zone, found.volume_backend_name),
    )
    assert (10, "1.5", True, False) == (
        *(found.reserved_percentage, found.max_over_subscription_ratio),
        *(found.thin_provisioning_support, found.thick_provisioning_support),
    )
    assert "fast" == found.capabilities["volume_backend_name"]


def test_a_ratio_may_be_a_long_text(database: Database) -> None:
    """The column has 32 characters: the ledger stores the number."""
    report(database, max_over_subscription_ratio=f"1.5{'0' * 60}")
    assert "1.5" == row(database).max_over_subscription_ratio


def test_capacities_may_be_words(database: Database) -> None:
    """Everything fits into an infinite pool."""
    report(database, total_capacity_gb="infinite", free_capacity_gb="infinite", reserved_percentage=0)
    claim(database, 10_000)
    found = row(database)
    assert (None, None, 10_000) == (found.total_capacity_gb, found.free_capacity_gb, found.allocated_capacity_gb)


def test_what_the_storage_holds_besides_counts_as_provisioned(database: Database) -> None:
    """Of 30 provisioned GiB the agent knows 10: 20 belong to others."""
    report(database, allocated_capacity_gb=10, provisioned_capacity_gb=30)
    found = row(database)
    # The ledger has no volume there. So the 10 GiB that the agent still counts are about to become free.
    assert (0, 20.0, 90.0) == (
        *(found.allocated_capacity_gb, found.provisioned_capacity_gb),
        found.free_capacity_gb,
    )


def test_an_unchanged_report_advances_no_generation(database: Database) -> None:
    """Schedulers read only what has changed."""
    report(database)
    before = row(database).generation
    report(database)
    assert before == row(database).generation > 0


@pytest.mark.on_sqlite
def test_a_report_reads_no_deleted_volumes(database: Database) -> None:
    """Their rows keep their last pool. A report locks the pool while it reads, once a minute."""
    if database.engine.dialect.name != "sqlite":
        pytest.skip("plans of a small table do not use the index")
    asked = pools._CLAIMED.params(on_host=HOST, in_pool=POOL)
    text = asked.compile(database.engine, compile_kwargs={"literal_binds": True})
    with database.engine.connect() as connection:
        plan = " ".join(row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}"))
    assert "(host=? AND pool=? AND deleted=?)" in plan


def test_pools_that_are_not_reported_any_more_are_removed(database: Database) -> None:
    """A removed pool takes no claims, and returns with its next report."""
    report(database)
    report(database, pool="old")
    assert ["old"] == database.write(pools.remove_except, HOST, [POOL], utcnow())
    assert [POOL] == [each.pool for each in database.read(pools.list_all)]
    assert [POOL] == database.write(pools.remove_except, HOST, [], utcnow())
    with pytest.raises(errors.PoolSpaceUnavailable, match="m1@dir#data is no longer reported"):
        claim(database, 1)
    report(database)
    assert POOL == row(database).pool


def test_a_claim_is_counted_and_given_back(database: Database) -> None:
    """A claim takes from what is free, and adds to what is provisioned; each change is a new generation."""
    report(database)
    before = row(database)
    claim(database, 30)
    found = row(database)
    assert (30, 30.0, 50.0, 1) == (
        *(found.allocated_capacity_gb, found.provisioned_capacity_gb),
        *(found.free_capacity_gb, found.total_volumes),
    )
    assert found.generation > before.generation
    database.write(pools.release, HOST, POOL, 30, utcnow())
    names = ("allocated_capacity_gb", "provisioned_capacity_gb", "free_capacity_gb", "total_volumes")
    assert [getattr(before, name) for name in names] == [getattr(row(database), name) for name in names]


def test_a_report_that_counts_a_deleted_thin_volume_frees_nothing(database: Database) -> None:
    """The backend counted before it removed the volume, and only it knows what was written to that."""
    report(database, thin_provisioning_support=True, allocated_capacity_gb=30)
    assert 80.0 == row(database).free_capacity_gb


def test_a_refused_claim_says_why(database: Database) -> None:
    """The message has the numbers of the pool."""
    report(database)
    with pytest.raises(errors.PoolSpaceUnavailable) as refused:
        claim(database, 200)
    expected = "pool m1@dir#data lacks 120 GiB: free 80 of 100, reserved 10 %, over-subscription 1"
    assert f"Insufficient space: {expected}." == refused.value.message
    assert 0 == row(database).allocated_capacity_gb


def test_of_many_claims_exactly_as_many_succeed_as_fit(database: Database) -> None:
    """Two claims never see the same free space: 40 claims of 2 GiB for 45 GiB give 22."""
    report(database, total_capacity_gb=50, free_capacity_gb=50)
    together = threading.Barrier(8)

    def many() -> int:
        together.wait()
        taken = 0
        for _ in range(5):
            try:
                claim(database, 2)
                taken += 1
            except errors.PoolSpaceUnavailable:
                pass
        return taken

    with futures.ThreadPoolExecutor(8) as threads:
        taken = sum(done.result() for done in [threads.submit(many) for _ in range(8)])
    found = row(database)
    assert (22, 44, 22) == (taken, found.allocated_capacity_gb, found.total_volumes)
