# SPDX-License-Identifier: Apache-2.0
"""Volumes that the conductor places which has accepted them: those of one request together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import oslo_messaging
import pytest
import sqlalchemy as sa

from conductor_stub.steps.local_placement import LocalPlacement
from fleet.db.engine.database import Database
from tests.worlds.neighbours import no_valid_host
from tests.worlds.volumes import LIMITS, A, B, Volumes


class AtOnce(futures.Executor):
    """Runs the work in the thread that submits it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        fn(*args, **kwargs)


@pytest.fixture
def volumes(database: Database) -> Volumes:
    return Volumes(database, LocalPlacement(1, AtOnce()))


def create(volumes: Volumes, count: int, size: int = 10) -> list[str]:
    made = volumes.operator.create_volumes({"size": size, "count": count})["volumes"]
    return [each["uuid"] for each in made]


def rows(volumes: Volumes, uuids: list[str]) -> list[tuple[str, str | None, int, str | None]]:
    return [volumes.row(uuid) for uuid in uuids]


def test_a_volume_is_placed_where_it_was_accepted(volumes: Volumes) -> None:
    """No steps are handed out, and no agent asks for them."""
    volumes.volume_scheduler.answers.append([A])
    (uuid,) = create(volumes, 1)
    assert [("creating", "working", 1, "m1@fast#p1")] == rows(volumes, [uuid])
    assert (0, [(A[0], uuid)]) == (volumes.serve(), volumes.backends.orders)
    assert "available" == volumes.done(uuid)


def test_volumes_of_one_request_are_placed_together(volumes: Volumes) -> None:
    """With one call of the scheduler, and one transaction for all claims; each has its own order."""
    volumes.volume_scheduler.answers.append([A])
    with statements(volumes.database) as sent:
        uuids = create(volumes, 10)
    # Those of the acceptance: is it known, volumes, events; those of the claims: volumes, pools, and the end.
    assert len(sent) < (10 if volumes.database.dialect == "postgresql" else 60), sent
    ((spec, _properties),) = volumes.volume_scheduler.requests
    assert (uuids, uuids[0], 10) == (spec["volume_ids"], spec["volume_id"], spec["volume_properties"]["size"])
    assert [("creating", "working", 1, "m1@fast#p1")] * 10 == rows(volumes, uuids)
    assert ([(100, 10), (0, 0)], 10) == (volumes.allocated(), len(volumes.backends.orders))


def test_a_claim_that_is_refused_holds_back_no_other(volumes: Volumes) -> None:
    """It goes to the alternate; the scheduler is not called again, and no attempt is spent."""
    volumes.volume_scheduler.answers.append([A, B])
    uuids = create(volumes, 3, size=40)
    assert ["m1@fast#p1", "m1@fast#p1", "m2@slow#p2"] == sorted(
        place for *_state, place in rows(volumes, uuids) if place
    )
    assert {("creating", "working", 1)} == {tuple(state) for *state, _place in rows(volumes, uuids)}
    assert ([(80, 2), (40, 1)], 1) == (volumes.allocated(), len(volumes.volume_scheduler.requests))


def test_volumes_without_room_together_are_placed_each_for_itself(volumes: Volumes) -> None:
    """Those that have room become volumes, the others fail with their own reasons."""
    volumes.volume_scheduler.answers += [no_valid_host(), [A], no_valid_host(), [B]]
    uuids = create(volumes, 3)
    found = [volumes.operator.show_volume(uuid) for uuid in uuids]
    assert ["creating", "error", "creating"] == [each["status"] for each in found]
    assert "NoValidHost" == found[1]["failure"]["error"]
    assert [None, *uuids] == [_alone(spec) for spec, _properties in volumes.volume_scheduler.requests]


def test_older_schedulers_place_one_volume_at_a_time(volumes: Volumes) -> None:
    """They would not know what else the request asks for."""
    volumes.volume_scheduler.several = False
    volumes.volume_scheduler.answers += [[A], [B]]
    uuids = create(volumes, 2)
    assert uuids == [_alone(spec) for spec, _properties in volumes.volume_scheduler.requests]
    assert ["m1@fast#p1", "m2@slow#p2"] == [place for *_state, place in rows(volumes, uuids)]


def test_volumes_that_get_no_answer_wait_for_the_sweeper(volumes: Volumes) -> None:
    """All of them, as a single one."""
    volumes.volume_scheduler.answers.append(oslo_messaging.MessagingTimeout())
    uuids = create(volumes, 2)
    assert [("creating", "scheduling", 1, None)] * 2 == rows(volumes, uuids)
    volumes.volume_scheduler.answers += [[A], [B]]
    volumes.clock.advance(LIMITS.retry_interval_s + 1)
    volumes.volume_sweeper.sweep()
    assert 2 == volumes.serve()
    assert {("creating", "working", 1)} == {tuple(state) for *state, _place in rows(volumes, uuids)}


def test_volumes_that_are_lost_with_their_conductor_are_handed_out(
    volumes: Volumes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows say that a conductor places them, until this takes too long."""
    monkeypatch.setattr(volumes.volume_placement, "place_here", lambda *_lost: None)
    uuids = create(volumes, 2)
    assert [("creating", "placing", 1, None)] * 2 == rows(volumes, uuids)
    volumes.volume_scheduler.answers += [[A], [B]]
    volumes.clock.advance(LIMITS.placing_timeout_s + 1)
    volumes.volume_sweeper.sweep()
    assert 2 == volumes.serve()
    assert {("creating", "working", 1)} == {tuple(state) for *state, _place in rows(volumes, uuids)}


def _alone(spec: dict[str, Any]) -> str | None:
    """The volume that a request is for; None if it is for several."""
    return None if "volume_ids" in spec else spec["volume_id"]


@contextlib.contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    """What is sent to the database."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        sent.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", note)
