# SPDX-License-Identifier: Apache-2.0
"""Locks of instances: members cannot change one that is locked, administrators can."""

from __future__ import annotations

from typing import Any

import pytest

from conductor_stub.operators import manager
from conductor_stub.operators.tenancy import CHECKS, Tenancy
from fleet import errors
from fleet.db.upkeep import acts
from tests.worlds.conductor import Conductor

pytestmark = pytest.mark.every_database

#: What a member may still do with one that is locked.
HARMLESS = {"show_instance", "get_console_output", "lock_instance", "unlock_instance"}
CHANGES = [
    *((name, {"name": "web"}) for name in ("stop_instance", "resume_instance", "confirm_resize", "revert_resize")),
    ("update_instance", {"name": "web", "changes": {"name": "other"}}),
    ("resize_instance", {"name": "web", "flavor": "big"}),
]


@pytest.fixture
def uuid(conductor: Conductor) -> str:
    """An instance of project ``tenant``."""
    uuid = conductor.place("h1", name="web")
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    return uuid


def admitted(conductor: Conductor, method: str, arguments: dict[str, Any], is_admin: bool = False) -> Any:
    """What the method receives from a member of the project, or from an administrator."""
    namespace = "compute_task" if method == "terminate_instances" else "operator"
    asking = {"project_id": "tenant", "is_admin": is_admin}
    message = {"namespace": namespace, "method": method, "args": arguments}
    return Tenancy(conductor.database).admit(asking, message)["args"]


def lock_of(conductor: Conductor, uuid: str) -> tuple[str | None, str | None]:
    found = conductor.operator.show_instance(uuid)["instance"]
    return found["locked_by"], found["locked_reason"]


@pytest.mark.parametrize(("method", "arguments"), CHANGES)
def test_a_member_cannot_change_a_locked_instance(
    conductor: Conductor, uuid: str, method: str, arguments: dict[str, Any]
) -> None:
    """Also the one that has locked it. An administrator can, and everybody can after it is unlocked."""
    conductor.operator.under("tenant", is_admin=False).lock_instance(uuid, "the last of its kind")
    with pytest.raises(errors.Conflict, match=r"web is locked by its owner \(the last of its kind\): unlock it first"):
        admitted(conductor, method, arguments)
    assert arguments == admitted(conductor, method, arguments, is_admin=True)
    conductor.operator.under("tenant", is_admin=False).unlock_instance(uuid)
    assert {**arguments, "name": uuid} == admitted(conductor, method, arguments)


def test_a_locked_instance_is_not_deleted(conductor: Conductor, uuid: str) -> None:
    conductor.operator.lock_instance(uuid)
    with pytest.raises(errors.Conflict, match="is locked"):
        admitted(conductor, "terminate_instances", {"instance_uuids": [uuid]})


def test_each_call_about_one_instance_is_refused_or_harmless(conductor: Conductor, uuid: str) -> None:
    """A new method of members is refused while the instance is locked, unless somebody says that it is harmless."""
    conductor.operator.lock_instance(uuid)
    for (namespace, method), check in CHECKS.items():
        if namespace == "operator" and check is CHECKS["operator", "show_instance"]:
            assert method in HARMLESS
        elif check is CHECKS["operator", "stop_instance"]:
            with pytest.raises(errors.Conflict, match="is locked"):
                admitted(conductor, method, {"name": uuid})


def test_the_lock_of_an_administrator(conductor: Conductor, uuid: str) -> None:
    """Its owner neither takes it over nor unlocks it."""
    admin, owner = conductor.operator.under("ops"), conductor.operator.under("tenant", is_admin=False)
    admin.lock_instance(uuid, "unpaid")
    owner.lock_instance(uuid, "mine")
    assert ("admin", "unpaid") == lock_of(conductor, uuid)
    with pytest.raises(errors.Conflict, match=r"locked by an administrator \(unpaid\)"):
        admitted(conductor, "stop_instance", {"name": uuid})
    with pytest.raises(errors.NotTrusted, match="an administrator has locked instance web"):
        owner.unlock_instance(uuid)
    admin.unlock_instance(uuid)
    assert (None, None) == lock_of(conductor, uuid)


def test_an_administrator_takes_the_lock_of_the_owner_over(conductor: Conductor, uuid: str) -> None:
    conductor.operator.under("tenant", is_admin=False).lock_instance(uuid, "mine")
    conductor.operator.under("ops").lock_instance(uuid)
    assert ("admin", None) == lock_of(conductor, uuid)


def test_repeated_requests_are_one_change(conductor: Conductor, uuid: str) -> None:
    """Each is one event and one act."""
    owner = conductor.operator.under("tenant", is_admin=False)
    for verb in ("lock_instance", "unlock_instance"):
        for _twice in range(2):
            getattr(owner, verb)(uuid)
    assert ["lock", "unlock"] == [each["event"] for each in conductor.events(uuid)][-2:]
    found = [row.act for row in conductor.database.read(acts.newest, 10) if row.subject == f"web ({uuid})"]
    assert ["server.unlock", "server.lock"] == found


def test_a_deleted_instance_is_not_locked(conductor: Conductor, uuid: str) -> None:
    conductor.termination.terminate(conductor.operator._asking(), [uuid])
    conductor.agents.destroyed(conductor.operator._asking(), uuid, "h1")
    for verb in ("lock_instance", "unlock_instance"):
        with pytest.raises(errors.NotFound, match=r"web|" + uuid):
            getattr(conductor.operator, verb)(uuid)


def test_the_newest_events_are_shown(conductor: Conductor, uuid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member may lock and unlock without end; each look at the instance, and each action, reads them."""
    monkeypatch.setattr(manager, "_NEWEST", 3)
    for _time in range(3):
        conductor.operator.lock_instance(uuid)
        conductor.operator.unlock_instance(uuid)
    events = conductor.operator.show_instance(uuid)["events"]
    assert ["unlock", "lock", "unlock"] == [each["event"] for each in events]
