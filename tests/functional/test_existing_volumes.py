# SPDX-License-Identifier: Apache-2.0
"""Data that lie on a pool become a volume, and a volume is left to itself: the conductor's part."""

from __future__ import annotations

from typing import Any

import pytest

from conductor_stub.steps.attempt import Attempt
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.volumes import pools
from fleet.db.volumes import volumes as rows
from tests.worlds.conductor import context
from tests.worlds.neighbours import no_valid_host
from tests.worlds.volumes import A, B, Volumes

HERE = "m1@fast#p1"


@pytest.fixture
def volumes(database: Database) -> Volumes:
    return Volumes(database)


def manage(volumes: Volumes, answer: Any = (A,), **request: Any) -> str:
    """A volume of the file disk.raw, which the scheduler has decided about."""
    volumes.volume_scheduler.answers.append(answer)
    asked = {"host": HERE, "reference": "disk.raw", "name": "data", **request}
    (made,) = volumes.operator.manage_volume(asked)["volumes"]
    volumes.serve()
    return made["uuid"]


def measured(volumes: Volumes, uuid: str, size_gb: int, stored_gb: int | None = None) -> str:
    """The backend has read the size. Return the status of the volume then."""
    attempt = Attempt(uuid, volumes.database.read(rows.get, uuid).attempt, A[0])
    stored = size_gb if stored_gb is None else stored_gb
    volumes.volume_progress.measured(context(), attempt, size_gb, stored)
    return str(volumes.database.read(rows.get, uuid).status)


def managed(volumes: Volumes, size_gb: int = 10) -> str:
    uuid = manage(volumes)
    measured(volumes, uuid, size_gb)
    volumes.done(uuid, "managing")
    return uuid


def space(volumes: Volumes) -> tuple[float, int, float, int]:
    """Free, allocated and provisioned GiB, and the number of volumes of the first pool."""
    row = volumes.database.read(pools.list_all)[0]
    return row.free_capacity_gb, row.allocated_capacity_gb, row.provisioned_capacity_gb, row.total_volumes


def report(volumes: Volumes, free_gb: float, allocated_gb: int) -> None:
    """The agent counts: so much is free, and so much is in volumes of the ledger."""
    volumes.add_backend(A[0], A[1], free_capacity_gb=free_gb, allocated_capacity_gb=allocated_gb,
                        provisioned_capacity_gb=allocated_gb)  # fmt: skip


def test_what_lies_on_a_pool_becomes_a_volume(volumes: Volumes) -> None:
    """The scheduler decides about a volume of no size on this pool; the backend reads the size, which is claimed."""
    uuid = manage(volumes)
    spec, _properties = volumes.volume_scheduler.requests[-1]
    assert ("manage_existing", 0, HERE) == (
        *(spec["operation"], spec["volume_properties"]["size"], spec["volume_properties"]["host"]),
    )
    assert (("managing", "working", 1, HERE), [(A[0], uuid)]) == (volumes.row(uuid), volumes.backends.orders)
    (sent,) = volumes.volume_progress.of_host(A[0], [uuid])
    assert ("disk.raw", 0) == (sent.reference, sent.claimed_gb)
    for _repeated in range(2):
        assert "managing" == measured(volumes, uuid, 10)
    assert (10, 1) == volumes.allocated()[0]
    for _repeated in range(2):
        assert "available" == volumes.done(uuid, "managing", attempt=1)
    found = volumes.operator.show_volume(uuid)
    assert ("data", 10, HERE, "disk.raw") == (found["name"], found["size_gb"], found["host"], found["reference"])
    events = [(each["event"], each["result"]) for each in volumes.operator.trace(uuid)["events"]]
    assert [("managing", "begun"), ("claim", "success"), ("managing", "success")] == events


def test_bytes_that_lie_there_are_counted_once(volumes: Volumes) -> None:
    """They are not free before, and not taken again: the claim and the next report come to the same figures."""
    report(volumes, free_gb=40, allocated_gb=0)
    uuid = managed(volumes, 60)
    assert (40, 60, 60, 1) == space(volumes)
    report(volumes, free_gb=40, allocated_gb=60)
    assert (40, 60, 60, 1) == space(volumes)
    volumes.operator.unmanage_volume(uuid)
    volumes.done(uuid, "unmanaging")
    assert (40, 0, 0, 0) == space(volumes)


def test_a_backend_that_keeps_no_data_leaves_the_volume_as_it_was(volumes: Volumes) -> None:
    """It can be used on; an administrator sees why."""
    uuid = volumes.available()
    volumes.operator.unmanage_volume(uuid)
    volumes.fails(uuid, step="unmanaging", status="unmanaging")
    shown = volumes.operator.show_volume(uuid)
    assert ("available", None, "The volume was not unmanaged: the disk is full") == (
        *(shown["status"], volumes.row(uuid)[1], shown["failure"]["message"]),
    )


def test_data_of_an_unmanaged_volume_are_never_removed(volumes: Volumes) -> None:
    """Even if their pool was away when they were to lose the name of a volume. What is left elsewhere goes."""
    uuid, deleted = volumes.available(), volumes.available()
    volumes.volume_scheduler.answers.append([B])
    volumes.operator.migrate_volume(uuid)
    volumes.serve()
    volumes.clock.advance(volumes.limits.service_down_time_s + 1)
    volumes.add_backend(*A)
    volumes.volume_sweeper.sweep()
    volumes.volume_scheduler.answers.append(no_valid_host())
    volumes.serve()
    volumes.operator.unmanage_volume(uuid)
    volumes.operator.delete_volume(deleted)
    assert ("deleted", "deleted") == (volumes.done(uuid, "unmanaging"), volumes.done(deleted, "deleting"))
    assert [deleted] == volumes.volume_progress.removable(A[0], [uuid, deleted])
    assert [uuid] == volumes.volume_progress.removable(B[0], [uuid])


def test_a_thick_volume_needs_no_free_space_but_for_its_growth(volumes: Volumes) -> None:
    """60 GiB lie there, 40 are free: they fit, and so does a last part of a GiB that the volume grows by."""
    volumes.operator.create_volume_type({"name": "solid", "extra_specs": {"provisioning:type": "thick"}})
    report(volumes, free_gb=40, allocated_gb=0)
    uuid = manage(volumes, volume_type="solid")
    assert ("managing", (39, 61, 61, 1)) == (measured(volumes, uuid, 61, 60), space(volumes))


def test_a_pool_that_has_promised_too_much_manages_nothing(volumes: Volumes) -> None:
    """The refusal has the numbers; nothing is claimed, and what lies there stays as it was."""
    for _each in range(9):
        volumes.available()
    uuid = manage(volumes)
    assert "error_managing" == measured(volumes, uuid, 20)
    found = volumes.operator.show_volume(uuid)
    assert ("PoolSpaceUnavailable", None) == (found["failure"]["error"], found["host"])
    assert "pool m1@fast#p1 lacks 10 GiB: free 10 of 100" in found["failure"]["message"]
    assert (90, 9) == volumes.allocated()[0]
    assert "deleted" == volumes.operator.delete_volume(uuid)["status"]
    assert uuid not in [each for _host, each in volumes.backends.orders[10:]]


def test_a_quota_that_its_size_exceeds_manages_nothing(volumes: Volumes) -> None:
    """The size is known late, so the refusal is."""
    uuid = manage(volumes)
    project = volumes.database.read(rows.get, uuid).project_id
    volumes.operator.set_quota(project, {"gigabytes": 9})
    assert ("error_managing", (0, 0)) == (measured(volumes, uuid, 10), volumes.allocated()[0])
    assert "QuotaExceeded" == volumes.operator.show_volume(uuid)["failure"]["error"]


def test_a_refusal_of_the_backend_ends_it(volumes: Volumes) -> None:
    """Whether it comes before the claim or after it, nothing stays claimed."""
    for is_measured in (False, True):
        uuid = manage(volumes)
        if is_measured:
            measured(volumes, uuid, 10)
        volumes.fails(uuid, status="managing", step="managing")
        assert ("error_managing", None, 1, None) == volumes.row(uuid)
        found = volumes.operator.show_volume(uuid)
        assert "The volume was not managed: the disk is full" == found["failure"]["message"]
        assert (0, 0) == volumes.allocated()[0]


def test_a_type_that_does_not_allow_the_pool_is_refused(volumes: Volumes) -> None:
    uuid = manage(volumes, no_valid_host())
    assert ("error_managing", None, 1, None) == volumes.row(uuid)
    assert "NoValidHost" == volumes.operator.show_volume(uuid)["failure"]["error"]


def test_one_that_is_late_keeps_its_claim_until_its_backend_answers(volumes: Volumes) -> None:
    """The backend may have made it the volume already. A late report counts."""
    uuid = manage(volumes)
    measured(volumes, uuid, 10)
    volumes.clock.advance(601)
    volumes.volume_sweeper.sweep()
    assert (("error_managing", None, 1, HERE), (10, 1)) == (volumes.row(uuid), volumes.allocated()[0])
    assert ["data"] == [each["name"] for each in volumes.operator.examine()["volumes"]["stuck"]]
    assert "available" == volumes.done(uuid, "managing", attempt=1)


def test_a_deletion_of_what_was_not_managed_removes_no_data(volumes: Volumes) -> None:
    """The backend takes its name away; a late report of the attempt before changes nothing."""
    uuid = manage(volumes)
    measured(volumes, uuid, 10)
    assert "unmanaging" == volumes.operator.delete_volume(uuid)["status"]
    assert ("unmanaging", "working", 2, HERE) == volumes.row(uuid)
    assert "unmanaging" == volumes.done(uuid, "managing", attempt=1)
    assert "deleted" == volumes.done(uuid, "unmanaging", attempt=2)
    assert (0, 0) == volumes.allocated()[0]


def test_what_cannot_go_is_refused(volumes: Volumes) -> None:
    uuid = managed(volumes)
    volumes.operator.create_snapshot(uuid, "before")
    with pytest.raises(errors.Conflict, match="has 1 snapshot: before"):
        volumes.operator.unmanage_volume(uuid)
    other = manage(volumes, (B,), host="m2@slow#p2", name="other")
    volumes.operator.unmanage_volume(other)
    with pytest.raises(errors.Conflict, match="is unmanaging, not available"):
        volumes.operator.extend_volume(other, 20)


def test_a_request_is_carried_out_once(volumes: Volumes) -> None:
    """With its token the first volume is named again, and none is added."""
    volumes.volume_scheduler.answers.append((A,))
    asked = {"host": "m1@fast", "reference": "disk.raw"}
    made = [volumes.operator.manage_volume(asked, client_token="t")["volumes"] for _twice in range(2)]
    assert (made[0], 1) == (made[1], len(volumes.operator.list_volumes()))
    with pytest.raises(errors.Conflict, match="different request"):
        volumes.operator.manage_volume({**asked, "reference": "other"}, client_token="t")


def test_a_pool_must_be_named(volumes: Volumes) -> None:
    volumes.add_backend("m3@two", "p1", "p2")
    with pytest.raises(errors.InvalidInput, match="must name one of the pools p1, p2"):
        volumes.operator.manage_volume({"host": "m3@two", "reference": "disk.raw"})
    with pytest.raises(errors.NotFound, match="Storage pool m9@none"):
        volumes.operator.manage_volume({"host": "m9@none", "reference": "disk.raw"})


def test_what_can_be_managed_is_listed(volumes: Volumes) -> None:
    """By the agent of the backend. One that does not answer is named."""
    volumes.backends.manageable = [
        {"pool": pool, "reference": "disk.raw", "size_gb": 3, "reason": ""} for pool in ("p1", "other")
    ]
    assert [{"pool": HERE, "reference": "disk.raw", "size_gb": 3, "reason": ""}] == (
        volumes.operator.list_manageable(HERE)
    )
    volumes.backends.without_queue.add("m2@slow")
    with pytest.raises(errors.ServiceDown, match="m2@slow"):
        volumes.operator.list_manageable("m2@slow")
