# SPDX-License-Identifier: Apache-2.0
"""What is renamed between the check of a call and its work: the call reaches the object that was checked, or none."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from conductor_stub.builds.manager import ComputeTaskManager
from conductor_stub.operators.tenancy import CHECKS, Tenancy
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.tables import models
from fleet.objects import BuildRequest
from tests.functional import databases
from tests.worlds.conductor import Conductor, Operator, context

pytestmark = pytest.mark.every_database

NAMED = (models.instances, models.volumes, models.instance_groups)
NAME, UUIDS = {"name": "target"}, ["{instance}"]
#: Arguments of each call; ``target`` names an object of the caller. Calls of one object have NAME.
ARGUMENTS: Mapping[str, dict[str, Any]] = {
    "create": {
        "request": {
            "flavor": "small",
            "block_device_mapping": [{"volume_id": "target"}],
            "group": "target",
        }
    },
    "terminate_instances": {"instance_uuids": UUIDS},
    "newest_faults": {"uuids": UUIDS},
    "list_attachments": {"uuids": UUIDS},
    "update_instance": {**NAME, "changes": {"description": "mine"}},
    "resize_instance": {**NAME, "flavor": "small"},
    "rebuild_instance": {**NAME, "request": {}},
    "attach_volume": {**NAME, "volume": "target"},
    "detach_volume": {**NAME, "volume": "target"},
    "create_volumes": {"request": {"source": "target"}},
    "create_snapshot": {"volume": "target", "name": "copy"},
    "update_volume": {**NAME, "changes": {"description": "mine"}},
    "update_snapshot": {**NAME, "changes": {"description": "mine"}},
    "extend_volume": {**NAME, "size": 5},
    "retype_volume": {**NAME, "volume_type": "fast"},
    "create_group": {"name": "another", "policy": "affinity"},
    "update_group": {**NAME, "new_name": "mine"},
    "create_key_pair": {"key_pair": {"name": "target", "public_key": "ssh-ed25519 AAAA"}},
    "list_decisions": {"request_id": "req-1"},
    **dict.fromkeys(("list_instances", "list_volumes", "list_snapshots"), {"filters": NAME}),
    **{
        name: {}
        for name in (
            *("list_flavors", "list_images", "list_volume_types", "list_groups", "list_events", "list_key_pairs"),
            *("list_migrations", "show_quota", "list_queue", "list_networks", "search_instances", "search_volumes"),
        )
    },
}
#: Calls of one object.
OF_ONE = frozenset(
    {
        *("show_instance", "stop_instance", "start_instance", "reboot_instance", "get_console_output"),
        *("suspend_instance", "resume_instance", "confirm_resize", "revert_resize"),
        *("lock_instance", "unlock_instance", "shelve_instance", "unshelve_instance"),
        *("show_volume", "delete_volume", "show_snapshot", "delete_snapshot", "show_group", "delete_group"),
        *("show_flavor", "show_image", "show_key_pair", "delete_key_pair", "show_network"),
    }
)
#: Calls that find names themselves: catalogs that all projects share, and tables of one user.
BY_NAME = frozenset(
    {"show_flavor", "show_image", "show_key_pair", "delete_key_pair", "create_key_pair", "show_network"}
)


class Worlds:
    """Two projects with a guest that runs, a volume, a snapshot of it and a group each."""

    def __init__(self, database: Database, made: dict[str, Any]) -> None:
        """:param made: the rows and the uuids of an earlier one, or empty and to be filled"""
        self.conductor = Conductor(database)
        self._database = database
        if not made:
            made["uuids"] = self._make()
            made["rows"] = databases.Rows(database)
        else:
            made["rows"].put_back(database)
        self.uuids: dict[str, dict[str, str]] = made["uuids"]

    def _make(self) -> dict[str, dict[str, str]]:
        self.conductor.add_host("h1")
        self.conductor.add_backend("m@b", "p")
        self.conductor.operator.create_flavor({"name": "small", "vcpus": 2, "memory_mb": 1024, "root_gb": 10})
        made = {project: self._made(project) for project in ("web", "shop")}
        self._name(made["web"], "target")
        self._name(made["shop"], "other")
        return made

    def _made(self, project: str) -> dict[str, str]:
        operator = self.conductor.operator.under(project)
        self.conductor.scheduler.answers.append([("h1", ())])
        request = BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 1024, "root_gb": 10}})
        (built,) = self.conductor.intake.accept(context(project), request)["instances"]
        self.conductor.work()
        self.conductor.claim(built["uuid"], "h1")
        self.conductor.finish(built["uuid"], "h1")
        (volume,) = operator.create_volumes({"size": 1})["volumes"]
        there = {"host": "m@b", "pool": "p", "claimed_gb": 1, "status": "available", "step": None}
        self._set(models.volumes, volume["uuid"], step_deadline=None, deadline=None, **there)
        snapshot = operator.create_snapshot(volume["uuid"])["uuid"]
        self._set(models.volumes, snapshot, **there)
        group = operator.create_group(f"group-{project}", "affinity")["uuid"]
        return {"instance": built["uuid"], "volume": volume["uuid"], "snapshot": snapshot, "group": group}

    def _set(self, table: sa.Table, uuid: str, **values: Any) -> None:
        with self._database.engine.begin() as connection:
            connection.execute(table.update().where(table.c.uuid == uuid).values(**values))

    def _name(self, uuids: Mapping[str, str], name: str) -> None:
        for table in NAMED:
            for uuid in uuids.values():
                self._set(table, uuid, name=name)

    def exchange_names(self) -> None:
        self._name(self.uuids["web"], "former")
        self._name(self.uuids["shop"], "target")

    def foreign(self) -> list[Any]:
        """All rows about the other project."""
        mine = list(self.uuids["shop"].values())
        with self._database.engine.connect() as connection:
            return [
                tuple(row)
                for table in models.METADATA.sorted_tables
                for column in table.c
                if column.name.endswith("uuid")
                for row in connection.execute(sa.select(table).where(column.in_(mine)).order_by(*table.primary_key))
            ]

    def arguments(self, method: str) -> dict[str, Any]:
        wanted = ARGUMENTS.get(method, NAME)
        return {name: [self.uuids["web"]["instance"]] if value is UUIDS else value for name, value in wanted.items()}

    def ask(self, namespace: str, method: str, arguments: Mapping[str, Any]) -> Any:
        tasks = ComputeTaskManager(self.conductor.intake, self.conductor.placement, self.conductor.termination)
        members = self.conductor.operator.under("web", is_admin=False)
        if namespace == "compute_task":
            members = Operator(tasks, asking=lambda: context("web", is_admin=False))
        try:
            return getattr(members, method)(**arguments)
        except errors.FleetError as refused:
            return refused.message


@pytest.fixture(scope="module")
def made() -> dict[str, dict[str, Any]]:
    """The first worlds of each database."""
    return collections.defaultdict(dict)


@pytest.fixture
def worlds(database: Database, made: dict[str, dict[str, Any]]) -> Worlds:
    return Worlds(database, made[database.engine.dialect.name])


def test_each_call_of_projects_has_arguments_here() -> None:
    """A new method without a case fails."""
    assert {method for _, method in CHECKS} == ARGUMENTS.keys() | OF_ONE


@pytest.mark.on_sqlite
@pytest.mark.parametrize(("namespace", "method"), sorted(CHECKS))
def test_what_takes_a_name_meanwhile_is_not_reached(worlds: Worlds, namespace: str, method: str) -> None:
    """The method receives the uuid that was found, so neither another object nor another project is looked up."""
    door, sent = Tenancy(worlds.conductor.database), worlds.arguments(method)
    asked = {"project_id": "web", "is_admin": False}
    arguments = door.admit(asked, {"namespace": namespace, "method": method, "args": sent})["args"]
    worlds.exchange_names()
    before = worlds.foreign()
    answer = worlds.ask(namespace, method, arguments)
    assert before == worlds.foreign()
    assert not any(uuid in str(answer) for uuid in worlds.uuids["shop"].values()), answer
    if method == "create":
        # The group is looked up by the method, inside the project.
        arguments["request"].pop("group")
    if "filters" not in sent and method not in BY_NAME:
        assert "'target'" not in str(arguments)


def test_one_name_in_two_projects_is_in_doubt_for_the_administrator_only(worlds: Worlds) -> None:
    """The members each reach their own; the administrator gets the uuids."""
    worlds._name(worlds.uuids["shop"], "target")
    for project, uuids in worlds.uuids.items():
        members = worlds.conductor.operator.under(project, is_admin=False)
        door = Tenancy(worlds.conductor.database)
        for kind in ("instance", "volume", "snapshot", "group"):
            message = {"namespace": "operator", "method": f"show_{kind}", "args": NAME}
            found = door.admit({"project_id": project, "is_admin": False}, message)["args"]
            assert {"name": uuids[kind]} == found
            getattr(members, f"show_{kind}")(**found)
    for kind in ("instance", "volume", "snapshot", "group"):
        with pytest.raises(errors.Conflict) as several:
            getattr(worlds.conductor.operator, f"show_{kind}")("target")
        assert all(uuids[kind] in several.value.message for uuids in worlds.uuids.values())


def test_a_beginning_of_a_uuid_finds_nothing_of_others(worlds: Worlds) -> None:
    """Nor does a uuid, nor a name that is one."""
    door, theirs = Tenancy(worlds.conductor.database), worlds.uuids["shop"]
    for kind in ("instance", "volume", "snapshot", "group"):
        for name in (theirs[kind][:8], theirs[kind], "other"):
            message = {"namespace": "operator", "method": f"show_{kind}", "args": {"name": name}}
            with pytest.raises(errors.NotFound, match=name):
                door.admit({"project_id": "web", "is_admin": False}, message)
