# SPDX-License-Identifier: Apache-2.0
"""Following events: none is lost, in whatever order transactions commit; a project gets only its own."""

from __future__ import annotations

from typing import Any

import pytest

from conductor_stub.operators.events import EventsManager
from fleet.context import RequestContext, new_context
from fleet.db.feed import recent_events
from fleet.db.tables import models
from tests.functional.conductor import Conductor, context

HOSTS = ("a1",)


def named(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["name"], each["event"]) for each in events]


def test_what_happens_after_a_position(conductor: Conductor) -> None:
    """With the names of what they are about; what is older is not among them."""
    conductor.place("a1", name="old")
    began = conductor.operator.list_events()
    assert [] == began["events"]
    uuid = conductor.place("a1", name="web")
    conductor.claim(uuid, "a1")
    found = conductor.operator.list_events(began["position"])
    assert [("web", "create"), ("web", "claim")] == named(found["events"])
    (first, _) = found["events"]
    assert ("instance", uuid, "tenant", "success") == tuple(
        first[key] for key in ("kind", "uuid", "project_id", "result")
    )


def test_what_has_settled_comes_once(conductor: Conductor) -> None:
    """Young events come again, since one with a lower id may still be committed."""
    position = conductor.operator.list_events()["position"]
    conductor.create(name="web")
    first = conductor.operator.list_events(position)
    again = conductor.operator.list_events(first["position"])
    assert named(first["events"]) == named(again["events"]) == [("web", "create")]
    conductor.clock.advance(recent_events.SETTLED_S)
    settled = conductor.operator.list_events(first["position"])
    assert [("web", "create")] == named(settled["events"])
    assert [] == conductor.operator.list_events(settled["position"])["events"]


def test_an_event_that_is_committed_late_is_not_lost(conductor: Conductor) -> None:
    """Its id is lower than that of an event that was read before."""
    position = conductor.operator.list_events()["position"]
    conductor.create(name="early", count=2)
    _, second = conductor.operator.list_events(position)["events"]
    with conductor.database.engine.begin() as late:  # as if this one's transaction were not over yet
        late.execute(models.instance_events.delete().where(models.instance_events.c.id == second["id"] - 1))
    seen = conductor.operator.list_events(position)
    with conductor.database.engine.begin() as late:
        row = {
            "id": second["id"] - 1,
            "instance_uuid": second["uuid"],
            "event": "late",
            "attempt": 1,
            "result": "success",
        }
        late.execute(models.instance_events.insert(), {**row, "created_at": conductor.clock()})
    assert "late" in [each["event"] for each in conductor.operator.list_events(seen["position"])["events"]]


def test_a_reader_does_not_fall_behind(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """More events than one answer has: the next one goes on, even if they are young."""
    monkeypatch.setattr(recent_events, "MOST", 2)
    position = conductor.operator.list_events()["position"]
    conductor.create(name="web", count=5)
    seen: list[str] = []
    for _ in range(3):
        found = conductor.operator.list_events(position)
        position = found["position"]
        seen += [each["uuid"] for each in found["events"]]
    assert 5 == len(set(seen)) == len(seen)


@pytest.mark.parametrize(("project", "count"), [("tenant", 1), ("other", 0), (None, 0)])
def test_a_project_follows_its_own(conductor: Conductor, project: str | None, count: int) -> None:
    position = conductor.operator.list_events()["position"]
    conductor.create(name="web")
    asked: RequestContext = new_context(project_id=project)
    asked.is_admin = False
    events = EventsManager(conductor.database, conductor.clock)
    assert count == len(events.list_events(asked, after=position)["events"])
    assert 1 == len(events.list_events(context(), after=position)["events"])
