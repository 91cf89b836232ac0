# SPDX-License-Identifier: Apache-2.0
"""Volumes of a backend that is gone: an administrator deletes them without its agent."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.hosts.heartbeats import Heartbeat
from tests.worlds.conductor import INCARNATION
from tests.worlds.volumes import A, B, Volumes


@pytest.fixture
def volumes(database: Database) -> Volumes:
    return Volumes(database)


def lose(volumes: Volumes, host: str) -> None:
    """The agent of one backend falls silent."""
    volumes.clock.advance(volumes.limits.service_down_time_s + 1)
    for other in {A[0], B[0]} - {host}:
        volumes.agents.report_state(Heartbeat("fleet-volume", [other], INCARNATION))


def delete(volumes: Volumes, uuid: str, **how: bool) -> str:
    status: str = volumes.operator.delete_volume(uuid, **how)["status"]
    return status


@pytest.mark.parametrize("before", ["available", "deleting", "error_deleting", "creating"])
def test_a_volume_of_a_backend_that_is_down_goes_at_once(volumes: Volumes, before: str) -> None:
    """Its space is released. An agent that comes back removes the data, and its late report changes nothing."""
    uuid = volumes.ask(A) if before == "creating" else volumes.available()
    lose(volumes, A[0])
    if before in ("deleting", "error_deleting"):
        assert "deleting" == delete(volumes, uuid)
    if before == "error_deleting":
        volumes.clock.advance(volumes.limits.volume_timeout_s + 1)
        volumes.volume_sweeper.sweep()
    assert before == volumes.row(uuid)[0]
    assert "deleted" == delete(volumes, uuid, force=True)
    assert [(0, 0), (0, 0)] == volumes.allocated()
    assert "deleted" == volumes.done(uuid, "deleting")
    assert [uuid] == volumes.volume_progress.removable(A[0], [uuid])


def test_a_volume_of_a_backend_that_was_removed_goes_at_once(volumes: Volumes) -> None:
    """Its backend can be removed once it has no volumes any more."""
    uuid = volumes.available()
    lose(volumes, A[0])
    with pytest.raises(errors.Conflict, match="has 1 volume"):
        volumes.operator.delete_service(A[0], "fleet-volume")
    delete(volumes, uuid, force=True)
    volumes.operator.delete_service(A[0], "fleet-volume")


@pytest.mark.parametrize("before", ["available", "error_deleting"])
def test_a_volume_of_a_pool_that_its_backend_no_longer_has_goes_at_once(volumes: Volumes, before: str) -> None:
    """The pool was taken out of the configuration, so the agent cannot remove the data. If the pool returns, it does."""
    uuid = volumes.available()
    volumes.add_backend(A[0], "other")
    if before == "error_deleting":
        assert "deleting" == delete(volumes, uuid)
        volumes.clock.advance(volumes.limits.volume_timeout_s + 1)
        volumes.agents.report_state(Heartbeat("fleet-volume", [A[0], B[0]], INCARNATION))
        volumes.volume_sweeper.sweep()
    assert before == volumes.row(uuid)[0]
    assert "deleted" == delete(volumes, uuid, force=True)
    volumes.add_backend(*A)
    assert [(0, 0), (0, 0)] == volumes.allocated()
    assert [uuid] == volumes.volume_progress.removable(A[0], [uuid])


@pytest.mark.parametrize("lost", [A, B])
def test_a_migration_with_a_pool_that_is_gone(volumes: Volumes, lost: tuple[str, str]) -> None:
    """The pool that is there removes its part first, and the other one is not waited for."""
    uuid = volumes.available()
    volumes.volume_scheduler.answers.append([B])
    volumes.operator.migrate_volume(uuid)
    volumes.serve()
    volumes.add_backend(lost[0], "other")
    assert "deleting" == delete(volumes, uuid, force=True)
    volumes.done(uuid, "deleting", A[0] if lost == B else B[0])
    assert "deleted" == volumes.row(uuid)[0]


def test_a_backend_that_is_up_is_waited_for(volumes: Volumes) -> None:
    uuid = volumes.available()
    for _twice in range(2):
        assert "deleting" == delete(volumes, uuid, force=True)
    assert "deleted" == volumes.done(uuid, "deleting")


def test_snapshots_of_a_backend_that_is_down_go_with_their_volume(volumes: Volumes) -> None:
    uuid = volumes.available()
    snapshot = volumes.operator.create_snapshot(uuid)["uuid"]
    lose(volumes, A[0])
    with pytest.raises(errors.Conflict, match="has 1 snapshot"):
        delete(volumes, uuid, force=True)
    assert "deleted" == delete(volumes, uuid, force=True, with_snapshots=True)
    assert [(0, 0), (0, 0)] == volumes.allocated()
    assert {uuid, snapshot} == set(volumes.volume_progress.removable(A[0], [uuid, snapshot]))


def test_a_volume_that_waits_for_its_snapshots_is_released_once(volumes: Volumes) -> None:
    """The administrator asks again when the backend is down: the last snapshot takes the volume with it."""
    uuid, other = volumes.available(), volumes.available()
    volumes.operator.create_snapshot(uuid)
    assert "deleting" == delete(volumes, uuid, force=True, with_snapshots=True)
    lose(volumes, A[0])
    assert "deleted" == delete(volumes, uuid, force=True, with_snapshots=True)
    assert [(10, 1), (0, 0)] == volumes.allocated()
    assert "available" == volumes.row(other)[0]


@pytest.mark.parametrize("down", ["source", "destination"])
def test_one_backend_of_a_volume_that_migrates_is_down(volumes: Volumes, down: str) -> None:
    """The other one removes what it has, before the volume is deleted. Asking once is enough."""
    uuid = volumes.available()
    volumes.volume_scheduler.answers.append([B])
    volumes.operator.migrate_volume(uuid)
    volumes.serve()
    assert "copying" == volumes.row(uuid)[1]
    lose(volumes, (A if down == "source" else B)[0])
    assert "deleting" == delete(volumes, uuid, force=True)
    if down == "source":
        assert "deleted" == volumes.done(uuid, "deleting", B[0])
    else:
        assert "deleted" == volumes.done(uuid, "deleting")
    assert [(0, 0), (0, 0)] == volumes.allocated()
    assert [uuid] == volumes.volume_progress.removable(B[0], [uuid])


@pytest.mark.parametrize("ends", ["back", "not forced"])
def test_a_source_that_is_up_or_is_to_be_waited_for_removes_its_data(volumes: Volumes, ends: str) -> None:
    uuid = volumes.available()
    volumes.volume_scheduler.answers.append([B])
    volumes.operator.migrate_volume(uuid)
    volumes.serve()
    if ends == "back":
        lose(volumes, A[0])
        delete(volumes, uuid, force=True)
        volumes.agents.report_state(Heartbeat("fleet-volume", [A[0]], INCARNATION))
    else:
        delete(volumes, uuid)
        lose(volumes, A[0])
    volumes.done(uuid, "deleting", B[0])
    assert ("deleting", "working") == volumes.row(uuid)[:2]


def test_data_that_are_to_stay_are_not_given_up(volumes: Volumes) -> None:
    uuid = volumes.available()
    volumes.operator.unmanage_volume(uuid)
    lose(volumes, A[0])
    assert "unmanaging" == delete(volumes, uuid, force=True)


def test_only_the_administrator_forces_a_deletion(volumes: Volumes) -> None:
    uuid = volumes.available()
    with pytest.raises(errors.NotTrusted, match="only the administrator"):
        volumes.operator.under("tenant", is_admin=False).delete_volume(uuid, force=True)
