# SPDX-License-Identifier: Apache-2.0
"""Snapshots, from their request to their deletion."""

from __future__ import annotations

from typing import Any

import pytest

from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.volumes import volume_history
from fleet.db.volumes import volumes as rows
from tests.worlds.conductor import context
from tests.worlds.volumes import A, B, Volumes


@pytest.fixture
def volumes(database: Database) -> Volumes:
    return Volumes(database)


def snapshot(volumes: Volumes, of: str, name: str = "snap") -> str:
    return volumes.operator.create_snapshot(of, name)["uuid"]


def shown(volumes: Volumes, uuid: str) -> tuple[str, str | None, str | None]:
    """Status, location, and message of the failure."""
    found = volumes.operator.show_snapshot(uuid)
    return found["status"], found["host"], (found["failure"] or {}).get("message")


def test_a_snapshot_is_made_on_the_pool_of_its_volume(volumes: Volumes) -> None:
    """It claims the size of the volume at once. It is no volume: neither lists nor the count of a pool have it as one."""
    of = volumes.available(name="data")
    volumes.backends.orders.clear()
    uuid = snapshot(volumes, "data")
    assert ("creating", "m1@fast#p1", None) == shown(volumes, uuid)
    assert ([(A[0], uuid)], [(20, 1), (0, 0)]) == (volumes.backends.orders, volumes.allocated())
    (sent,) = volumes.volume_progress.of_host(A[0], [uuid])
    assert (of, of, "working") == (sent.snapshot_of, sent.source_uuid, sent.step)
    assert ("available", "available") == (volumes.done(uuid), volumes.done(uuid))
    assert [of] == [each["uuid"] for each in volumes.operator.list_volumes()]
    (listed,) = volumes.operator.list_snapshots({"snapshot_of": of})
    assert ("snap", 10, of, "available") == tuple(listed[name] for name in ("name", "size_gb", "volume", "status"))
    assert ["snap"] == volumes.operator.show_volume(of)["snapshots"]
    with pytest.raises(errors.NotFound):
        volumes.operator.show_volume(uuid)
    with pytest.raises(errors.NotFound):
        volumes.operator.show_snapshot(of)
    volumes.add_backend(*A)
    assert [(20, 1), (0, 0)] == volumes.allocated(), "a report sums the same"


def test_a_volume_with_snapshots_cannot_be_deleted(volumes: Volumes) -> None:
    """The refusal names them. Once they are gone, it can."""
    of = volumes.available(name="data")
    uuids = [snapshot(volumes, of, f"s{number}") for number in range(4)]
    with pytest.raises(errors.Conflict, match="has 4 snapshots: s0, s1, s2 and 1 more; delete them first"):
        volumes.operator.delete_volume(of)
    for uuid in uuids:
        assert "deleting" == volumes.operator.delete_snapshot(uuid)["status"]
        assert "deleting" == volumes.done(uuid), "a late report that it is made"
        assert "deleted" == volumes.done(uuid, "deleting")
    assert [(10, 1), (0, 0)] == volumes.allocated()
    volumes.operator.delete_volume(of)
    assert "deleted" == volumes.done(of, "deleting")
    assert [(0, 0), (0, 0)] == volumes.allocated()


def test_a_volume_is_deleted_with_its_snapshots(volumes: Volumes) -> None:
    """They go first, and the volume follows the last of them. Meanwhile nothing else can be done with it."""
    of = volumes.available(name="data")
    first, second = (snapshot(volumes, of, name) for name in ("s1", "s2"))
    volumes.done(first)
    volumes.backends.orders.clear()
    for _twice in range(2):
        assert "deleting" == volumes.operator.delete_volume(of, with_snapshots=True)["status"]
    assert {(A[0], first), (A[0], second)} <= set(volumes.backends.orders)
    for refused in (lambda: snapshot(volumes, of), lambda: volumes.operator.extend_volume(of, 20)):
        with pytest.raises(errors.Conflict, match="is being deleted, after its snapshots"):
            refused()
    assert ["deleting"] == [each["status"] for each in volumes.operator.list_volumes()]
    volumes.done(first, "deleting")
    assert ("deleting", None) == volumes.row(of)[:2]
    volumes.backends.orders.clear()
    volumes.done(second, "deleting")
    assert ("deleting", "working") == volumes.row(of)[:2]
    assert [(A[0], of)] == volumes.backends.orders
    assert "deleted" == volumes.done(of, "deleting")
    assert [(0, 0), (0, 0)] == volumes.allocated()


def test_a_volume_without_snapshots_goes_at_once(volumes: Volumes) -> None:
    of = volumes.available()
    volumes.operator.delete_volume(of, with_snapshots=True)
    assert ("deleting", "working") == volumes.row(of)[:2]


def test_a_snapshot_that_cannot_be_deleted_keeps_its_volume(volumes: Volumes) -> None:
    """The volume is available again; a late report of the snapshot does not delete it."""
    of = volumes.available()
    uuid = snapshot(volumes, of)
    volumes.done(uuid)
    volumes.operator.delete_volume(of, with_snapshots=True)
    volumes.clock.advance(10_000)
    volumes.volume_sweeper.sweep()
    assert "error_deleting" == shown(volumes, uuid)[0]
    assert "available" == volumes.operator.show_volume(of)["status"]
    volumes.done(uuid, "deleting")
    assert ("available", None) == volumes.row(of)[:2]


def test_a_snapshot_that_fails_is_in_error(volumes: Volumes) -> None:
    """It goes nowhere else, claims nothing, and can be deleted at once."""
    of = volumes.available()
    uuid = snapshot(volumes, of)
    failure = Failure("creating", "OSError", "the disk is full")
    volumes.volume_progress.fail(context(), Attempt(uuid, 1, A[0]), "creating", failure)
    assert ("error", None, "The snapshot was not made: the disk is full") == shown(volumes, uuid)
    assert [(10, 1), (0, 0)] == volumes.allocated()
    assert "deleted" == volumes.operator.delete_snapshot(uuid)["status"]


def test_a_snapshot_waits_for_its_agent_until_its_deadline(volumes: Volumes) -> None:
    """No other backend can make it. After the deadline it is in error, and keeps its claim until it is deleted."""
    of = volumes.available()
    volumes.backends.without_queue.add(A[0])
    uuid = snapshot(volumes, of)
    volumes.clock.advance(61)
    volumes.add_backend(*B)
    volumes.volume_sweeper.sweep()
    assert ("creating", "m1@fast#p1", None) == shown(volumes, uuid)
    volumes.clock.advance(600)
    volumes.volume_sweeper.sweep()
    status, host, why = shown(volumes, uuid)
    assert ("error", "m1@fast#p1", True) == (status, host, "within 600 s" in (why or ""))
    assert [(20, 1), (0, 0)] == volumes.allocated()
    volumes.operator.delete_snapshot(uuid)
    assert "deleted" == volumes.done(uuid, "deleting")
    assert [(10, 1), (0, 0)] == volumes.allocated()


REFUSED: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("the pool has no room", {"size": 60}, errors.PoolSpaceUnavailable, "lacks 20 GiB: free 40 of 100"),
    ("the volume is not there yet", {"made": False}, errors.Conflict, "is creating, not available"),
]


@pytest.mark.parametrize(("_what", "given", "error", "said"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_snapshot_that_cannot_be_made_is_refused(
    volumes: Volumes, _what: str, given: dict[str, Any], error: type[Exception], said: str
) -> None:
    """Nothing is written."""
    of = volumes.ask(A, size=given.get("size", 10))
    if given.get("made", True):
        volumes.done(of)
    before = volumes.allocated()
    with pytest.raises(error, match=said):
        snapshot(volumes, of)
    assert ([], before) == (volumes.operator.list_snapshots(), volumes.allocated())


def test_a_volume_begins_with_a_snapshot(volumes: Volumes) -> None:
    """On its pool, with its size and the type of its volume unless the request has others."""
    volumes.operator.create_volume_type({"name": "fast", "extra_specs": {"a": "1"}})
    uuid = snapshot(volumes, volumes.available(volume_type="fast"))
    with pytest.raises(errors.Conflict, match="Snapshot snap is creating, not available"):
        volumes.ask(A, size=None, snapshot="snap")
    volumes.done(uuid)
    volumes.volume_scheduler.answers.clear()
    made = volumes.ask(A, size=None, snapshot="snap")
    spec = volumes.volume_scheduler.requests[-1][0]
    assert ("m1@fast#p1", uuid, None) == (spec["resource_backend"], spec["snapshot_id"], spec["source_volid"])
    found = volumes.operator.show_volume(made)
    assert (10, "fast", None, uuid) == tuple(found[name] for name in ("size_gb", "volume_type", "source", "snapshot"))
    assert [uuid] == [each.source_uuid for each in volumes.volume_progress.of_host(A[0], [made])]
    with pytest.raises(errors.InvalidInput, match="request.snapshot"):
        volumes.ask(A, size=None, snapshot="snap", source=made)
    with pytest.raises(errors.InvalidInput, match="at least that of the source, 10 GiB, got 9"):
        volumes.ask(A, size=9, snapshot="snap")


def test_snapshots_of_one_name_need_a_uuid(volumes: Volumes) -> None:
    """As volumes do. A snapshot without a name has one from its uuid."""
    of = volumes.available()
    for _ in range(2):
        snapshot(volumes, of)
    with pytest.raises(errors.Conflict, match="stands for several; use a uuid"):
        volumes.operator.show_snapshot("snap")
    unnamed = volumes.operator.create_snapshot(of)
    assert f"snapshot-{unnamed['uuid'][:8]}" == unnamed["name"]
    with pytest.raises(errors.InvalidInput, match="filters.colour"):
        volumes.operator.list_snapshots({"colour": "red"})


@pytest.mark.parametrize("answers", [True, False], ids=["its backend removes it", "its backend is silent"])
def test_a_snapshot_whose_volume_is_gone_ends(volumes: Volumes, answers: bool) -> None:
    """The row of its volume was removed by hand, or lost in a restored database. Its space is given back."""
    of = volumes.available()
    uuid = snapshot(volumes, of)
    volumes.done(uuid)
    volumes.operator.delete_snapshot(uuid)
    with volumes.database.engine.begin() as connection:
        connection.execute(volume_history.EVENTS.delete().where(volume_history.EVENTS.c.volume_uuid == of))
        connection.execute(rows.VOLUMES.delete().where(rows.VOLUMES.c.uuid == of))
    if not answers:
        volumes.clock.advance(10_000)
        volumes.volume_sweeper.sweep()
        assert "error_deleting" == shown(volumes, uuid)[0]
    assert "deleted" == volumes.done(uuid, "deleting")
    assert [] == volumes.operator.list_snapshots()
