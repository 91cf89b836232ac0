# SPDX-License-Identifier: Apache-2.0
"""Administrative acts leave a line in the log and a record: who, what, from and to."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from typing import Any

import pytest

from conductor_stub.steps.acts import Acts
from fleet import errors
from fleet.clock import utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Database, Transaction
from fleet.db.upkeep import acts
from tests import factories
from tests.functional.test_quotas import build
from tests.worlds.conductor import Conductor, Operator

CARL = RequestContext(user_id="carl", project_id="ops", is_admin=True)
FLAVOR = {"name": "m1.acts", "vcpus": 2, "memory_mb": 512}


LOGGER = "conductor_stub.steps.acts"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def as_carl(conductor: Conductor) -> Operator:
    """Calls of an administrator with a name."""
    return Operator(*conductor.operator.endpoints, asking=lambda: CARL)


def newest(conductor: Conductor) -> dict[str, Any]:
    found: list[dict[str, Any]] = conductor.operator.list_acts(limit=1)
    return found[0]


def changed(act: dict[str, Any]) -> dict[str, Any]:
    return {name: pair for name, pair in act["changes"].items() if pair != [None, None]}


NETWORK = {"name": "lab", "bridge": "br0", "subnet": "192.0.2.0/24"}
ACTS: list[tuple[str, Callable[[Any], object], dict[str, Any]]] = [
    ("quota.set", lambda call: call.set_quota(project_id="web", limits={"cores": 8}), {"cores": [None, 8]}),
    ("quota.delete", lambda call: call.delete_quota(project_id="web"), {"cores": [8, None]}),
    ("flavor.create", lambda call: call.create_flavor(flavor=FLAVOR), {"vcpus": [None, 2]}),
    ("flavor.update", lambda call: call.update_flavor(name="m1.acts", changes={"vcpus": 3}), {"vcpus": [2, 3]}),
    ("flavor.delete", lambda call: call.delete_flavor(name="m1.acts"), {"vcpus": [3, None]}),
    ("aggregate.create", lambda call: call.create_aggregate(name="ssd"), {"name": [None, "ssd"]}),
    (
        "aggregate.set_metadata",
        lambda call: call.set_aggregate_metadata(name="ssd", metadata={"k": "v"}),
        {"metadata": [{}, {"k": "v"}]},
    ),
    ("aggregate.delete", lambda call: call.delete_aggregate(name="ssd"), {"name": ["ssd", None]}),
    (
        "service.disable",
        lambda call: call.update_service(host="h1", disabled=True, reason="disk"),
        {"disabled": [False, True], "disabled_reason": [None, "disk"]},
    ),
    ("service.force_down", lambda call: call.force_down(host="h1", forced=True), {"forced_down": [False, True]}),
    (
        "volume_type.create",
        lambda call: call.create_volume_type(volume_type={"name": "fast"}),
        {"name": [None, "fast"]},
    ),
    ("network.create", lambda call: call.create_network(network=NETWORK), {"bridge": [None, "br0"]}),
    ("network.delete", lambda call: call.delete_network(name="lab"), {"subnet": ["192.0.2.0/24", None]}),
    ("volume_type.delete", lambda call: call.delete_volume_type(name="fast"), {"name": ["fast", None]}),
]


def test_each_act_is_recorded_with_its_change(conductor: Conductor, caplog: pytest.LogCaptureFixture) -> None:
    conductor.add_host("h1")
    carl = as_carl(conductor)
    for name, act, expected in ACTS:
        caplog.clear()
        with caplog.at_level(logging.INFO, LOGGER):
            act(carl)
        found = newest(conductor)
        assert [name, "carl", "ops", CARL.request_id] == [
            found[each] for each in ("act", "user_id", "project_id", "request_id")
        ]
        assert expected == {field: found["changes"][field] for field in expected}
        (line,) = lines(caplog)
        assert all(told in line for told in (name, "carl", "ops", CARL.request_id))


def test_what_changes_nothing_has_a_line_and_no_record(conductor: Conductor, caplog: pytest.LogCaptureFixture) -> None:
    conductor.add_host("h1")
    conductor.operator.update_service(host="h1", disabled=True, reason="disk")
    with caplog.at_level(logging.INFO, LOGGER):
        conductor.operator.update_service(host="h1", disabled=True, reason="disk")
    assert 1 == len(conductor.operator.list_acts())
    assert "nothing changes" in lines(caplog)[-1]


def test_an_act_that_is_refused_leaves_nothing(conductor: Conductor, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER), pytest.raises(errors.NotFound):
        conductor.operator.force_down(host="nobody", forced=True)
    assert ([], []) == (conductor.operator.list_acts(), lines(caplog))


def test_a_deletion_and_a_migration_say_from_where(conductor: Conductor) -> None:
    conductor.add_host("h1")
    conductor.add_host("h2")
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    conductor.operator.migrate_instance(uuid, host="h2")
    assert (newest(conductor)["act"], changed(newest(conductor))["destination"]) == ("server.resize", [None, "h2"])
    conductor.termination.terminate(CARL, [uuid])
    found = newest(conductor)
    assert ("server.delete", "carl") == (found["act"], found["user_id"])
    assert "deleting" == found["changes"]["task_state"][1]
    # Again: it is being deleted already.
    conductor.termination.terminate(CARL, [uuid])
    assert 1 == [each["act"] for each in conductor.operator.list_acts()].count("server.delete")


def test_accepted_builds_are_listed_with_their_sender(conductor: Conductor, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        build(conductor, 2)
    assert ["server.create"] * 2 == [each["act"] for each in conductor.operator.list_acts()]
    assert "web" == newest(conductor)["project_id"]
    assert "2 accepted" in lines(caplog)[-1]


def test_a_repeated_transaction_records_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit arrives, and its answer is lost: the transaction runs again, finds its own record, and does nothing."""
    state = {"color": "red"}
    runs = []

    def paint(tx: Transaction) -> None:
        runs.append(state["color"])
        state["color"] = "blue"

    commit_twice(monkeypatch)
    Acts(database, utcnow).write(CARL, "wall.paint", "wall", lambda tx: state, paint)
    monkeypatch.undo()
    (row,) = database.read(acts.newest, 10)
    assert (["red"], {"color": ["red", "blue"]}) == (runs, row.changes)


def commit_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the answer to each commit were lost."""
    original = Database.write

    def twice(self: Database, work: Callable[..., object], *args: object) -> object:
        def again(tx: Transaction) -> object:
            return work(tx, *args)

        original(self, again)
        return original(self, again)

    monkeypatch.setattr(Database, "write", twice)


def test_a_removal_whose_answer_is_lost_is_done(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated, it finds nothing any more, and that is no failure. Another one is."""
    image = conductor.operator.create_image({"name": "old", "location": "/srv/old.raw"})["uuid"]
    conductor.operator.create_key_pair({"name": "old", "public_key": factories.PUBLIC_KEY})
    aggregate = conductor.operator.create_aggregate("racks")["uuid"]
    removals: list[tuple[Callable[[str], object], str]] = [
        (conductor.operator.delete_image, image),
        (conductor.operator.delete_key_pair, "old"),
        (conductor.operator.delete_aggregate, aggregate),
    ]
    with monkeypatch.context() as patched:
        commit_twice(patched)
        for remove, name in removals:
            remove(name)
    for remove, name in removals:
        with pytest.raises(errors.NotFound):
            remove(name)


def test_old_acts_are_removed(database: Database) -> None:
    now = utcnow()
    for age in (acts.KEPT, acts.KEPT + datetime.timedelta(seconds=1)):
        Acts(database, lambda age=age: now - age).write(  # type: ignore[misc]
            CARL,
            f"age.{age.total_seconds():.0f}",
            "x",
            lambda tx, seen=[]: {"n": seen.append(1) or len(seen)},
            _nothing,
        )
    assert 1 == database.write(acts.remove_old, now)
    (row,) = database.read(acts.newest, 10)
    assert f"age.{acts.KEPT.total_seconds():.0f}" == row.act


def _nothing(tx: Transaction) -> None:
    """Change nothing but what the reader counts."""
