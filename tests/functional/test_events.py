# SPDX-License-Identifier: Apache-2.0
"""Following events: none is lost, in whatever order transactions commit; a project gets only its own."""

from __future__ import annotations

from typing import Any

import oslo_messaging
import pytest

from conductor_stub.operators.events import EventsManager
from fleet import errors
from fleet.context import RequestContext, new_context
from fleet.db.feed import recent_events
from fleet.db.tables import models
from fleet.objects import BuildRequest
from tests.worlds.conductor import Conductor, context

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


def test_a_reader_follows_a_ledger_that_was_restored(conductor: Conductor) -> None:
    """The backup has fewer events than the reader has seen, and later events get the same ids."""
    conductor.create(name="before")
    position = conductor.operator.list_events()["position"]
    conductor.create(name="lost", count=3)
    conductor.clock.advance(recent_events.SETTLED_S)
    reached = conductor.operator.list_events(position)["position"]
    with conductor.database.engine.begin() as backup:
        backup.execute(models.instance_events.delete().where(models.instance_events.c.id > position["instance"]))
    restored = conductor.operator.list_events(reached)
    assert ([], position) == (restored["events"], restored["position"])
    conductor.create(name="after")
    assert [("after", "create")] == named(conductor.operator.list_events(restored["position"])["events"])


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


@pytest.mark.every_database
def test_a_project_goes_past_the_events_of_others(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked through once, a bounded number at a time; else each look of a quiet project would cost more."""
    monkeypatch.setattr(recent_events, "LOOKED", 3)
    web = context("web")
    web.is_admin = False
    began = conductor.operator.list_events()["position"]
    conductor.create(name="theirs", count=4)
    conductor.intake.accept(web, BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 64}, "name": "ours"}))
    conductor.create(name="theirs", count=2)
    conductor.clock.advance(recent_events.SETTLED_S)
    events = EventsManager(conductor.database, conductor.clock)
    position, seen = began, []
    for _look in range(3):
        found = events.list_events(web, after=position)
        position = found["position"]
        seen.append([each["name"] for each in found["events"]])
    assert [[], ["ours"], []] == seen
    assert conductor.operator.list_events()["position"] == position
    assert ([], position) == tuple(events.list_events(web, after=position).values())


@pytest.mark.every_database
def test_a_project_goes_past_no_event_that_is_young(conductor: Conductor) -> None:
    """An own event with a lower id may still come. A young own event comes again, as long as all after it are young."""
    web = context("web")
    web.is_admin = False
    events = EventsManager(conductor.database, conductor.clock)
    began = conductor.operator.list_events()["position"]
    conductor.create(name="theirs", count=2)
    assert ([], began) == tuple(events.list_events(web, after=began).values())
    conductor.intake.accept(web, BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 64}, "name": "ours"}))
    for _look in range(2):
        found = events.list_events(web, after=began)
        assert (["ours"], began) == ([each["name"] for each in found["events"]], found["position"])


def test_the_newest_events(conductor: Conductor) -> None:
    """The last ones, oldest first; what happens afterwards follows from their position."""
    for name in ("one", "two", "three"):
        conductor.create(name=name)
        conductor.clock.advance(1)
    found = conductor.operator.list_events(last=2)
    assert [("two", "create"), ("three", "create")] == named(found["events"])
    conductor.create(name="four")
    conductor.clock.advance(recent_events.SETTLED_S)
    after = conductor.operator.list_events(found["position"])["events"]
    assert "four" in [each["name"] for each in after]


def test_the_newest_events_of_a_project(conductor: Conductor) -> None:
    """Its own only, however many others happen in between; of a host they are the administrator's."""
    web = context("web")
    web.is_admin = False
    conductor.intake.accept(web, BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 64}, "name": "ours"}))
    conductor.create(name="theirs", count=3)
    events = EventsManager(conductor.database, conductor.clock)
    assert ["ours"] == [each["name"] for each in events.list_events(web, last=2)["events"]]
    with pytest.raises(oslo_messaging.ExpectedException) as refused:
        events.list_events(web, last=2, host="a1")
    assert isinstance(refused.value.exc_info[1], errors.NotTrusted)


def test_the_events_of_an_instance(conductor: Conductor) -> None:
    """However many others happened since; those of another project are not there."""
    (mine,) = conductor.create(name="mine")
    conductor.create(name="others", count=5)
    found = conductor.operator.list_events(last=10, uuid=mine)["events"]
    assert [("mine", "create")] == named(found)
    web = context("web")
    web.is_admin = False
    assert [] == EventsManager(conductor.database, conductor.clock).list_events(web, last=10, uuid=mine)["events"]


def test_the_newest_events_of_a_host(conductor: Conductor) -> None:
    """Not those of requests that have no host yet; the number of events is bounded, and two ways to ask are not mixed."""
    uuid = conductor.place("a1", name="web")
    conductor.claim(uuid, "a1")
    conductor.create(name="waits")
    assert {"web"} == {each["name"] for each in conductor.operator.list_events(last=10, host="a1")["events"]}
    assert [] == conductor.operator.list_events(last=10, host="a2")["events"]
    for wrong in (0, 1001, 10**300, "all"):
        with pytest.raises(errors.InvalidInput, match="last"):
            conductor.operator.list_events(last=wrong)
    with pytest.raises(errors.InvalidInput, match="after cannot be combined"):
        conductor.operator.list_events({"instance": 0, "volume": 0}, last=1)
