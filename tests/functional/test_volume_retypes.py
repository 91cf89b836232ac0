# SPDX-License-Identifier: Apache-2.0
"""Retypes of volumes: in place, with a migration, and those that fail."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.db.engine.database import Database
from tests.worlds.neighbours import no_valid_host
from tests.worlds.volumes import A, B, Volumes

SOURCE, DESTINATION = "m1@fast#p1", "m2@slow#p2"


@pytest.fixture
def volumes(database: Database) -> Volumes:
    made = Volumes(database)
    made.operator.create_volume_type({"name": "solid", "extra_specs": {"provisioning:type": "thick"}})
    return made


def retype(volumes: Volumes, *places: tuple[str, str], policy: str = "never") -> str:
    """A volume on the first backend that is to have the type solid; the scheduler answers with ``places``."""
    uuid = volumes.available(name="data")
    volumes.volume_scheduler.answers.append(list(places) if places else no_valid_host())
    volumes.operator.retype_volume(uuid, "solid", policy)
    volumes.backends.orders.clear()
    volumes.serve()
    return uuid


def shown(volumes: Volumes, uuid: str) -> tuple[str, str | None, str | None]:
    found = volumes.operator.show_volume(uuid)
    return found["volume_type"], found["host"], (found["failure"] or {}).get("message")


def test_a_volume_is_retyped_where_it_is(volumes: Volumes) -> None:
    """Its backend adapts it to the new type; no space is claimed."""
    uuid = retype(volumes, A)
    assert ("retyping", "working", 2, SOURCE) == volumes.row(uuid)
    assert ([(A[0], uuid)], [(10, 1), (0, 0)]) == (volumes.backends.orders, volumes.allocated())
    spec, properties = volumes.volume_scheduler.requests[-1]
    assert (1, "never", SOURCE) == (
        *(volumes.volume_scheduler.retypes, spec["migration_policy"], spec["volume_properties"]["host"]),
    )
    assert ("thick", []) == (
        spec["volume_type"]["extra_specs"]["provisioning:type"],
        properties["retry"]["backends"],
    )
    (sent,) = volumes.volume_progress.of_host(A[0], [uuid])
    assert (False, None) == (sent.volume_type and sent.volume_type.thin, shown(volumes, uuid)[0])
    assert "available" == volumes.done(uuid, "retyping")
    assert ("solid", SOURCE, None) == shown(volumes, uuid)
    volumes.operator.extend_volume(uuid, 20)
    (sent,) = volumes.volume_progress.of_host(A[0], [uuid])
    assert False is (sent.volume_type and sent.volume_type.thin)


THIN = {"thin_provisioning_support": True, "max_over_subscription_ratio": 20}


@pytest.mark.parametrize(
    ("others_gb", "size_gb", "refusal"),
    [
        pytest.param(0, 900, "lacks 800 GiB: free 100 of 100", id="more than the pool has"),
        pytest.param(50, 60, "lacks 10 GiB: free 50 of 100", id="what others are promised"),
        pytest.param(40, 60, "", id="what the volume claims already counts once"),
    ],
)
def test_a_volume_that_becomes_thick_needs_its_space(
    volumes: Volumes, others_gb: int, size_gb: int, refusal: str
) -> None:
    """A thin pool promises more than it has. All volumes are empty, so all the space of the pool is free."""
    volumes.add_backend(A[0], A[1], **THIN)
    if others_gb:
        volumes.available(size=others_gb)
    uuid = volumes.available(name="data", size=size_gb)
    volumes.add_backend(A[0], A[1], **THIN, allocated_capacity_gb=others_gb + size_gb)
    volumes.volume_scheduler.answers.append([A])
    volumes.operator.retype_volume(uuid, "solid")
    volumes.serve()
    if refusal:
        volume_type, _host, why = shown(volumes, uuid)
        assert ("available", None, True) == (volumes.row(uuid)[0], volume_type, refusal in (why or ""))
    else:
        assert "working" == volumes.row(uuid)[1]


def test_a_volume_that_has_no_room_to_become_thick_migrates(volumes: Volumes) -> None:
    """If it may. The scheduler then leaves out its own pool."""
    for host, pool in (A, B):
        volumes.add_backend(host, pool, **THIN)
    volumes.available(size=50)
    uuid = volumes.available(name="data", size=60)
    volumes.volume_scheduler.answers += [[A], [B]]
    volumes.operator.retype_volume(uuid, "solid", "on-demand")
    while volumes.serve():
        pass
    assert [SOURCE] == volumes.volume_scheduler.requests[-1][1]["retry"]["backends"]
    assert (("retyping", "copying", 3, SOURCE), [(110, 2), (60, 1)]) == (volumes.row(uuid), volumes.allocated())


def test_a_volume_migrates_to_be_retyped(volumes: Volumes) -> None:
    """It has its new type together with its new pool."""
    uuid = retype(volumes, B, policy="on-demand")
    assert (("retyping", "copying", 2, SOURCE), [(10, 1), (10, 1)]) == (volumes.row(uuid), volumes.allocated())
    assert "available" == volumes.done(uuid, "retyping", B[0])
    assert (("solid", DESTINATION, None), "removing") == (shown(volumes, uuid), volumes.row(uuid)[1])
    volumes.done(uuid, "available", A[0])
    assert [(0, 0), (10, 1)] == volumes.allocated()


def test_a_pool_that_does_not_suit_leaves_the_old_type(volumes: Volumes) -> None:
    """With the scheduler's reason."""
    uuid = retype(volumes)
    assert ("available", None, 2, SOURCE) == volumes.row(uuid)
    assert (None, SOURCE, "No valid host was found. RamFilter left none.") == shown(volumes, uuid)


def test_a_backend_that_cannot_adapt_a_volume_ends_a_retype_that_must_stay(volumes: Volumes) -> None:
    """With the backend's reason."""
    uuid = retype(volumes, A)
    volumes.fails(uuid, status="retyping", step="retyping")
    _type, host, why = shown(volumes, uuid)
    assert (SOURCE, True) == (host, "in step retyping: the disk is full" in (why or ""))
    assert ("available", [(10, 1), (0, 0)]) == (volumes.row(uuid)[0], volumes.allocated())


def test_a_backend_that_cannot_adapt_a_volume_gives_it_to_another(volumes: Volumes) -> None:
    """If the volume may migrate. The scheduler then leaves out its own pool."""
    uuid = retype(volumes, A, policy="on-demand")
    volumes.volume_scheduler.answers.append([B])
    volumes.fails(uuid, status="retyping", step="retyping")
    volumes.serve()
    assert [SOURCE] == volumes.volume_scheduler.requests[-1][1]["retry"]["backends"]
    assert ("retyping", "copying", 3, SOURCE) == volumes.row(uuid)


def test_a_retype_does_not_wait_for_ever(volumes: Volumes) -> None:
    """The volume is available with its old type."""
    uuid = retype(volumes, A, policy="on-demand")
    volumes.clock.advance(601)
    volumes.volume_sweeper.sweep()
    assert ("available", None, 2, SOURCE) == volumes.row(uuid)
    why = "The volume was not retyped within 600 s: lost in step working on backend m1@fast."
    assert (None, SOURCE, why) == shown(volumes, uuid)


def test_a_volume_that_cannot_be_retyped_is_refused(volumes: Volumes) -> None:
    """Snapshots are where their volume is: one with snapshots must stay."""
    uuid = volumes.available()
    with pytest.raises(errors.NotFound, match="nothing"):
        volumes.operator.retype_volume(uuid, "nothing")
    with pytest.raises(errors.InvalidInput, match="migration_policy"):
        volumes.operator.retype_volume(uuid, "solid", "always")
    volumes.done(volumes.operator.create_snapshot(uuid, "s")["uuid"])
    with pytest.raises(errors.Conflict, match="has 1 snapshot: s; delete them first"):
        volumes.operator.retype_volume(uuid, "solid", "on-demand")
    for _ in range(2):
        assert "retyping" == volumes.operator.retype_volume(uuid, "solid")["status"]
    with pytest.raises(errors.Conflict, match="is retyping, not available"):
        volumes.operator.migrate_volume(uuid)
