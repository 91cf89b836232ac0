# SPDX-License-Identifier: Apache-2.0
"""Migrations of volumes: each step, each step that is lost, and what is left of one that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.volumes import volumes as rows
from fleet.objects import Volume
from tests.worlds.conductor import context
from tests.worlds.neighbours import no_valid_host
from tests.worlds.volumes import A, B, Volumes

SOURCE, DESTINATION = "m1@fast#p1", "m2@slow#p2"


@pytest.fixture
def volumes(database: Database) -> Volumes:
    return Volumes(database)


def migrate(volumes: Volumes, *places: tuple[str, str], to: str | None = None, **request: Any) -> str:
    """A volume on the first backend that is to migrate to the first of ``places``."""
    uuid = volumes.available(**request)
    volumes.volume_scheduler.answers.append(list(places))
    volumes.operator.migrate_volume(uuid, to)
    volumes.backends.orders.clear()
    volumes.serve()
    return uuid


def migration(volumes: Volumes, uuid: str) -> tuple[str, str | None] | None:
    found = volumes.operator.show_volume(uuid)["migration"]
    return None if found is None else (found["step"], found["pool"])


def test_a_volume_migrates(volumes: Volumes) -> None:
    """Its space is claimed on the destination before it is copied, and on the source until it is removed there."""
    uuid = migrate(volumes, B)
    assert ("migrating", "copying", 2, SOURCE) == volumes.row(uuid)
    assert (("copying", DESTINATION), [(10, 1), (10, 1)]) == (migration(volumes, uuid), volumes.allocated())
    assert [(B[0], uuid)] == volumes.backends.orders
    (sent,) = volumes.volume_progress.of_host(B[0], [uuid])
    assert (B, "directory:/srv/p1") == (sent.acting, sent.copy_from)
    assert "migrating" == volumes.done(uuid, "migrating", A[0]), "only the destination can report it"
    assert "available" == volumes.done(uuid, "migrating", B[0])
    assert ("available", "removing", 3, DESTINATION) == volumes.row(uuid)
    assert (("removing", SOURCE), [(10, 1), (10, 1)]) == (migration(volumes, uuid), volumes.allocated())
    assert [(B[0], uuid), (A[0], uuid)] == volumes.backends.orders
    for _ in range(2):
        assert "deleted" == volumes.done(uuid, "available", A[0]), "for this backend"
    assert (("available", None, 3, DESTINATION), None) == (volumes.row(uuid), migration(volumes, uuid))
    assert [(0, 0), (10, 1)] == volumes.allocated()


@pytest.mark.parametrize("place", [{"vg": "fast"}, 7, None], ids=["an object", "a number", "nothing"])
def test_a_place_of_data_that_is_no_text_is_none(volumes: Volumes, place: object) -> None:
    """The agent of the destination reads the order, and its driver refuses it with a reason."""
    volumes.add_backend(*A, location_info=place)
    uuid = migrate(volumes, B)
    (sent,) = volumes.volume_progress.of_host(B[0], [uuid])
    assert None is Volume.from_wire(sent.to_wire()).copy_from


@pytest.mark.parametrize(
    ("zone", "of_destination", "expected"), [("east", "west", "west"), ("east", None, None), (None, "west", None)]
)
def test_a_migration_to_another_zone(
    volumes: Volumes, zone: str | None, of_destination: str | None, expected: str | None
) -> None:
    """The volume has the zone of its destination afterwards, and not before; one without a zone stays without."""
    uuid = migrate(volumes, B, **({"availability_zone": zone} if zone else {}))
    capabilities = {"total_capacity_gb": 100, "free_capacity_gb": 100}
    report = {"host": B[0], "pool": B[1], "capabilities": capabilities, "availability_zone": of_destination}
    volumes.volume_progress.report([report], {B[0]: [B[1]]})
    assert zone == volumes.operator.show_volume(uuid)["availability_zone"]
    volumes.done(uuid, "migrating", B[0])
    assert expected == volumes.operator.show_volume(uuid)["availability_zone"]


def test_how_the_last_migration_has_ended(volumes: Volumes) -> None:
    """A failure does not hide behind an earlier success."""

    def migrated() -> bool | None:
        found: bool | None = volumes.operator.show_volume(uuid)["migrated"]
        return found

    uuid = volumes.available()
    assert migrated() is None
    uuid = migrate(volumes, B)
    assert migrated() is False
    volumes.done(uuid, "migrating", B[0])
    volumes.done(uuid, "available", A[0])
    assert migrated() is True
    volumes.volume_scheduler.answers.append(no_valid_host())
    volumes.operator.migrate_volume(uuid, None)
    volumes.serve()
    assert ("available", False) == (volumes.row(uuid)[0], migrated())


def test_a_copy_under_way_is_shown_in_per_cent(volumes: Volumes) -> None:
    """As its destination reports it; a report of another backend, and one that is late, change nothing."""

    def percent() -> int | None:
        return (volumes.operator.show_volume(uuid)["migration"] or {}).get("copied_percent")

    volumes.add_backend("m3@more", "p3")
    uuid = migrate(volumes, B, ("m3@more", "p3"))
    before = volumes.operator.show_volume(uuid)["updated_at"]
    volumes.volume_progress.copied({A[0]: {uuid: 90}})
    assert None is percent()
    volumes.volume_progress.copied({B[0]: {uuid: 40}})
    assert (40, before) == (percent(), volumes.operator.show_volume(uuid)["updated_at"])
    volumes.fails(uuid, B[0], status="migrating", step="copying")
    assert (("copying", "m3@more#p3"), None) == (migration(volumes, uuid), percent())
    volumes.done(uuid, "migrating", "m3@more")
    volumes.volume_progress.copied({B[0]: {uuid: 50}, "m3@more": {uuid: 60}})
    assert None is percent()


def test_the_scheduler_leaves_out_where_the_volume_is(volumes: Volumes) -> None:
    """It is restricted to what the request names. A scheduler that chooses the same pool all the same is refused."""
    uuid = migrate(volumes, A, to="m2@slow")
    spec, properties = volumes.volume_scheduler.requests[-1]
    assert ("migrate_volume_to_host", "m2@slow") == (spec["operation"], spec["resource_backend"])
    assert ([SOURCE], SOURCE) == (properties["retry"]["backends"], spec["volume_properties"]["host"])
    assert ("available", None, 2, SOURCE) == volumes.row(uuid)
    assert "only pool m1@fast#p1, where the volume is" in volumes.operator.show_volume(uuid)["failure"]["message"]
    assert [(10, 1), (0, 0)] == volumes.allocated()


def test_a_pool_without_room_is_passed_over(volumes: Volumes) -> None:
    """The claim is the authority: the volume goes to the alternate."""
    volumes.add_backend("m3@more", "p3")
    volumes.ask(B, size=95)
    uuid = migrate(volumes, B, ("m3@more", "p3"))
    assert ("copying", "m3@more#p3") == migration(volumes, uuid)
    assert [(10, 1), (95, 1), (10, 1)] == volumes.allocated()


def test_without_a_pool_the_volume_stays(volumes: Volumes) -> None:
    """Available where it is, with the reason."""
    uuid = volumes.available()
    volumes.volume_scheduler.answers.append(no_valid_host())
    volumes.operator.migrate_volume(uuid)
    volumes.serve()
    assert ("available", None, 2, SOURCE) == volumes.row(uuid)
    assert "RamFilter left none" in volumes.operator.show_volume(uuid)["failure"]["message"]
    assert None is migration(volumes, uuid)


def test_a_copy_that_fails_is_tried_elsewhere_and_then_given_up(volumes: Volumes) -> None:
    """Its claim is released each time. The volume stays where it is, and says what was tried."""
    volumes.add_backend("m3@more", "p3")
    uuid = migrate(volumes, B, ("m3@more", "p3"))
    volumes.fails(uuid, B[0], status="migrating", step="migrating")
    assert ("copying", "m3@more#p3") == migration(volumes, uuid)
    assert [(10, 1), (0, 0), (10, 1)] == volumes.allocated()
    volumes.fails(uuid, B[0], status="migrating", step="migrating")
    assert ("copying", "m3@more#p3") == migration(volumes, uuid), "a late report of the other backend"
    volumes.fails(uuid, "m3@more", status="migrating", step="migrating")
    shown = volumes.operator.show_volume(uuid)
    assert ("available", None, 3, SOURCE) == volumes.row(uuid)
    assert "was tried 2 times" in shown["failure"]["message"]
    assert [DESTINATION, "m3@more#p3"] == [each["backend"] for each in shown["tried"]]
    assert [(10, 1), (0, 0), (0, 0)] == volumes.allocated()
    assert "deleted" == volumes.done(uuid, "migrating", B[0]), "too late, and for this backend it is gone"


@pytest.mark.parametrize("leaves", [False, True])
def test_what_an_attempt_that_fails_may_leave(volumes: Volumes, leaves: bool) -> None:
    """The agent removes it, and may be killed before. That of a snapshot, too."""
    snapshot = volumes.operator.create_snapshot(volumes.available(), "s")["uuid"]
    uuid = migrate(volumes, B)
    attempt = Attempt(uuid, volumes.row(uuid)[2], B[0])
    volumes.volume_progress.fail(context(), attempt, "migrating", Failure("migrating", "OSError", "no", leaves=leaves))
    assert [uuid] * leaves == volumes.volume_progress.removable(B[0], [uuid])
    failure = Failure("creating", "OSError", "no", leaves=leaves)
    volumes.volume_progress.fail(context(), Attempt(snapshot, 1, A[0]), "creating", failure)
    assert [snapshot] * leaves == volumes.volume_progress.removable(A[0], [snapshot])


def test_volumes_that_are_where_they_belong_are_not_read(volumes: Volumes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every agent asks once a minute which of its volumes it may remove. A backend may have 100,000."""
    here, elsewhere, gone = (volumes.available() for _each in range(3))
    volumes.operator.delete_volume(gone)
    volumes.done(gone, "deleting")
    moving = migrate(volumes, B)
    judge, read = rows._is_removable, []
    monkeypatch.setattr(rows, "_is_removable", lambda row, *place: (read.append(row.uuid), judge(row, *place))[1])
    assert [gone] == volumes.volume_progress.removable(A[0], [here, gone, moving])
    assert [gone] == read
    assert [] == volumes.volume_progress.removable(B[0], [elsewhere, moving])
    assert [gone, elsewhere] == read


def test_a_destination_that_is_not_heard_of_is_given_up(volumes: Volumes) -> None:
    """What it may have made is removed when it comes back: the ledger has the volume elsewhere."""
    uuid = migrate(volumes, B)
    volumes.clock.advance(61)
    volumes.add_backend(*A)
    volumes.volume_sweeper.sweep()
    assert ("migrating", "scheduling", 3, SOURCE) == volumes.row(uuid)
    assert ([(10, 1), (0, 0)], [uuid]) == (volumes.allocated(), volumes.volume_progress.removable(B[0], [uuid]))


def test_a_copy_that_takes_too_long_is_aborted(volumes: Volumes) -> None:
    """The volume is available on its source at once; the destination keeps its claim until it has removed its copy."""
    uuid = migrate(volumes, B)
    volumes.clock.advance(601)
    for each in (A, B):
        volumes.add_backend(*each)
    volumes.volume_sweeper.sweep()
    assert ("available", "removing", 2, SOURCE) == volumes.row(uuid)
    failure = volumes.operator.show_volume(uuid)["failure"]["message"]
    assert "The volume was not migrated within 600 s: lost in step copying on backend m2@slow." == failure
    assert "available" == volumes.done(uuid, "migrating", B[0]), "it comes too late"
    assert ("available", "removing", 2, SOURCE) == volumes.row(uuid)
    with pytest.raises(errors.Conflict, match="is still being removed from m2@slow#p2"):
        volumes.operator.extend_volume(uuid, 20)
    assert [] == volumes.volume_progress.removable(B[0], [uuid])
    volumes.done(uuid, "available", B[0])
    assert (("available", None, 2, SOURCE), [(10, 1), (0, 0)]) == (volumes.row(uuid), volumes.allocated())


def test_what_is_to_be_removed_is_ordered_until_it_is_done(volumes: Volumes) -> None:
    """However long the source's agent is away: the volume can be used meanwhile."""
    uuid = migrate(volumes, B)
    volumes.backends.without_queue.add(A[0])
    volumes.done(uuid, "migrating", B[0])
    volumes.clock.advance(5000)
    volumes.volume_sweeper.sweep()
    assert ("available", "removing", 3, DESTINATION) == volumes.row(uuid)
    volumes.backends.without_queue.clear()
    volumes.backends.orders.clear()
    volumes.clock.advance(31)
    volumes.volume_sweeper.sweep()
    assert [(A[0], uuid)] == volumes.backends.orders


def test_a_destination_without_a_queue_is_replaced_at_once(volumes: Volumes) -> None:
    """It does not count as tried."""
    volumes.add_backend("m3@more", "p3")
    volumes.backends.without_queue.add(B[0])
    uuid = migrate(volumes, B, ("m3@more", "p3"))
    assert (("copying", "m3@more#p3"), 3) == (migration(volumes, uuid), volumes.row(uuid)[2])
    assert [] == volumes.operator.show_volume(uuid)["tried"]


def test_a_destination_that_was_killed_after_its_order_removes_its_copy(volumes: Volumes) -> None:
    """The volume stays where it is, and may be written to: a later migration must not find the old copy."""
    uuid = migrate(volumes, B)
    volumes.backends.without_queue.add(B[0])
    volumes.clock.advance(31)
    volumes.volume_sweeper.sweep()
    volumes.volume_scheduler.answers.append(no_valid_host())
    volumes.clock.advance(31)
    volumes.volume_sweeper.sweep()
    volumes.serve()
    assert ("available", None, 3, SOURCE) == volumes.row(uuid)
    assert ([], [uuid]) == tuple(volumes.volume_progress.removable(each[0], [uuid]) for each in (A, B))


def test_an_old_copy_on_the_destination_is_replaced(volumes: Volumes) -> None:
    """The agent is back, and has not removed it yet. The volume may have been written to since then."""

    def sent() -> tuple[tuple[str | None, str | None], bool]:
        (found,) = volumes.volume_progress.of_host(B[0], [uuid])
        return found.acting, found.old_copy

    uuid = migrate(volumes, B)
    assert (B, False) == sent()
    volumes.clock.advance(61)
    volumes.add_backend(*A)
    volumes.volume_sweeper.sweep()
    volumes.volume_scheduler.answers.append(no_valid_host())
    volumes.serve()
    for each in (A, B):
        volumes.add_backend(*each)
    volumes.volume_scheduler.answers.append([B])
    volumes.operator.migrate_volume(uuid)
    volumes.serve()
    assert (B, True) == sent()
    volumes.done(uuid, "migrating", B[0])
    volumes.done(uuid, "available", A[0])
    volumes.volume_scheduler.answers.append([A])
    volumes.operator.migrate_volume(uuid)
    volumes.serve()
    (back,) = volumes.volume_progress.of_host(A[0], [uuid])
    assert (A, False) == (back.acting, back.old_copy)


STEPS: list[tuple[str, Callable[[Volumes, str], object], str, str]] = [
    ("copied", lambda volumes, uuid: None, SOURCE, B[0]),
    ("removed", lambda volumes, uuid: volumes.done(uuid, "migrating", B[0]), DESTINATION, A[0]),
]


@pytest.mark.parametrize(("_what", "begun", "where", "held"), STEPS, ids=[case[0] for case in STEPS])
def test_a_volume_is_deleted_while_it_is(
    volumes: Volumes, _what: str, begun: Callable[[Volumes, str], object], where: str, held: str
) -> None:
    """First from the pool that it holds, then from its own. A repeated report is not about the step that follows."""
    uuid = migrate(volumes, B)
    begun(volumes, uuid)
    volumes.operator.delete_volume(uuid)
    assert ("deleting", "removing") == volumes.row(uuid)[:2]
    attempt = volumes.row(uuid)[2]
    for _ in range(2):
        assert "deleted" == volumes.done(uuid, "deleting", held, attempt), "for this backend"
    assert (("deleting", "working"), where) == (volumes.row(uuid)[:2], volumes.row(uuid)[3])
    assert [(0, 0), (10, 1)] == sorted(volumes.allocated())
    volumes.operator.delete_volume(uuid)
    assert "deleted" == volumes.done(uuid, "deleting", where.partition("#")[0])
    assert [(0, 0), (0, 0)] == volumes.allocated()


def test_a_volume_is_deleted_before_it_has_a_destination(volumes: Volumes) -> None:
    """The decision that comes too late changes nothing."""
    uuid = volumes.available()
    volumes.volume_scheduler.answers.append([B])
    volumes.operator.migrate_volume(uuid)
    volumes.operator.delete_volume(uuid)
    volumes.serve()
    assert (("deleting", "working"), [(10, 1), (0, 0)]) == (volumes.row(uuid)[:2], volumes.allocated())


def test_a_volume_that_cannot_migrate_is_refused(volumes: Volumes) -> None:
    """With its status, its snapshots, or the pool that is meant."""
    uuid = volumes.available(name="data")
    with pytest.raises(errors.InvalidInput, match="must be another pool: the volume is on m1@fast"):
        volumes.operator.migrate_volume(uuid, "m1@fast")
    for unknown in ("m9@gone", "m1@fast#p9", "m2@slow#p2#p3", "m2"):
        with pytest.raises(errors.NotFound, match=unknown):
            volumes.operator.migrate_volume(uuid, unknown)
    volumes.done(volumes.operator.create_snapshot(uuid, "s")["uuid"])
    with pytest.raises(errors.Conflict, match="has 1 snapshot: s; delete them first"):
        volumes.operator.migrate_volume(uuid)
    other = volumes.ask(A)
    with pytest.raises(errors.Conflict, match="is creating, not available"):
        volumes.operator.migrate_volume(other)


def test_a_request_that_is_repeated_changes_nothing(volumes: Volumes) -> None:
    """As after a lost answer."""
    uuid = migrate(volumes, B, to="m2@slow")
    volumes.operator.migrate_volume(uuid, "m2@slow")
    assert ("migrating", "copying", 2, SOURCE) == volumes.row(uuid)
    with pytest.raises(errors.Conflict, match="is migrating, not available"):
        volumes.operator.migrate_volume(uuid)


def test_a_report_sums_both_claims(volumes: Volumes) -> None:
    """Of a migration between two pools of one backend, too."""
    volumes.add_backend("m1@fast", "p1", "p9")
    uuid = migrate(volumes, ("m1@fast", "p9"))
    assert [(10, 1), (10, 1), (0, 0)] == volumes.allocated()
    volumes.add_backend("m1@fast", "p1", "p9")
    assert [(10, 1), (10, 1), (0, 0)] == volumes.allocated()
    volumes.done(uuid, "migrating")
    assert ("available", "removing", 3, "m1@fast#p9") == volumes.row(uuid)
    volumes.done(uuid, "available")
    volumes.add_backend("m1@fast", "p1", "p9")
    assert [(0, 0), (10, 1), (0, 0)] == volumes.allocated()


def test_data_that_the_ledger_has_elsewhere_may_be_the_only_ones(volumes: Volumes) -> None:
    """The backend has another name now, or the ledger is from before a migration. Only what was left may be removed."""
    uuid = volumes.available()
    assert [] == volumes.volume_progress.removable(B[0], [uuid])
    volumes.volume_scheduler.answers.append([B])
    volumes.operator.migrate_volume(uuid)
    volumes.serve()
    volumes.clock.advance(61)
    volumes.add_backend(*A)
    volumes.volume_sweeper.sweep()
    assert [uuid] == volumes.volume_progress.removable(B[0], [uuid])
    volumes.add_backend(*B)
    volumes.volume_scheduler.answers.append([B])
    volumes.serve()
    assert ("migrating", "copying", 3, SOURCE) == volumes.row(uuid)
    volumes.done(uuid, "migrating", B[0])
    volumes.done(uuid, "available", A[0])
    assert ("available", None, 4, DESTINATION) == volumes.row(uuid)
    assert ([], []) == tuple(volumes.volume_progress.removable(each[0], [uuid]) for each in (A, B))


def test_a_volume_that_is_being_copied_stays_where_it_is(volumes: Volumes) -> None:
    """The copy is read from its pool. A retype that stays there does no harm."""
    uuid = volumes.available()
    copy = volumes.ask(A, source=uuid)
    volumes.operator.create_volume_type({"name": "fast"})
    for refused in (
        lambda: volumes.operator.migrate_volume(uuid),
        lambda: volumes.operator.retype_volume(uuid, "fast", "on-demand"),
    ):
        with pytest.raises(errors.Conflict, match="is being copied to a snapshot or to another volume"):
            refused()
    volumes.done(copy)
    volumes.operator.migrate_volume(uuid)
    assert "migrating" == volumes.row(uuid)[0]


def test_a_deletion_goes_on_when_a_former_backend_is_gone(volumes: Volumes) -> None:
    """What the volume has left there holds up neither the deletion nor the removal of the backend."""
    uuid = migrate(volumes, B)
    volumes.done(uuid, "migrating", B[0])
    volumes.operator.delete_volume(uuid)
    assert ("deleting", "removing", 3, DESTINATION) == volumes.row(uuid)
    volumes.clock.advance(61)
    volumes.add_backend(*B)
    volumes.operator.delete_service(A[0], "fleet-volume")
    assert ("deleting", "working", 4, DESTINATION) == volumes.row(uuid)
    assert (None, [(10, 1)], [uuid]) == (
        *(migration(volumes, uuid), volumes.allocated()),
        volumes.volume_progress.removable(A[0], [uuid]),
    )
    volumes.backends.orders.clear()
    volumes.volume_sweeper.sweep()
    assert [(B[0], uuid)] == volumes.backends.orders
    volumes.done(uuid, "deleting", B[0])
    assert [(0, 0)] == volumes.allocated()


def test_a_source_that_is_gone_is_removed_without_its_volumes(volumes: Volumes) -> None:
    """What has migrated away is not waited for any more. What comes back finds that the ledger has it elsewhere."""
    uuid = migrate(volumes, B)
    volumes.clock.advance(61)
    volumes.add_backend(*B)
    with pytest.raises(errors.Conflict, match="Storage backend m1@fast has 1 volume"):
        volumes.operator.delete_service(A[0], "fleet-volume")
    volumes.done(uuid, "migrating", B[0])
    volumes.operator.delete_service(A[0], "fleet-volume")
    assert ("available", None, 3, DESTINATION) == volumes.row(uuid)
    assert ([(10, 1)], [uuid]) == (volumes.allocated(), volumes.volume_progress.removable(A[0], [uuid]))
    volumes.operator.extend_volume(uuid, 20)
