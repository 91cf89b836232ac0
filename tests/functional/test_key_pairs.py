# SPDX-License-Identifier: Apache-2.0
"""Key pairs of users, and what hosts get of a request for the first boot of its guests."""

from __future__ import annotations

import importlib
import json
from typing import Any

import oslo_messaging
import pytest
import sqlalchemy as sa

from conductor_stub.operators.key_pairs import KeyPairManager
from fleet import errors
from fleet.clock import utcnow
from fleet.context import new_context
from fleet.db.catalog import key_pairs
from fleet.db.engine.database import Database
from fleet.db.tables import models
from fleet.db.upkeep import retention
from fleet.objects import BootData, BuildRequest, key_pair
from tests import factories
from tests.worlds.conductor import Conductor

HOSTS = ("h1", "h2")
SECRET = "b3Blbi1zZXNhbWU="
OTHER = factories.PUBLIC_KEY.replace("IDVy", "IDVz")


def a_key(conductor: Conductor, name: str = "mine", key: str = factories.PUBLIC_KEY) -> dict[str, Any]:
    return conductor.operator.create_key_pair({"name": name, "public_key": key})


def on_h1(conductor: Conductor, **request: Any) -> str:
    """An instance that is active there."""
    uuid = conductor.place("h1", **request)
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    return uuid


def test_a_key_pair(conductor: Conductor) -> None:
    """Is stored once, shown with its fingerprint, and deleted."""
    made = a_key(conductor)
    assert made == a_key(conductor)
    assert (factories.FINGERPRINT, "ssh") == (made["fingerprint"], made["type"])
    with pytest.raises(errors.Conflict, match="Key pair mine exists already, with another public key"):
        a_key(conductor, key=OTHER)
    a_key(conductor, "another")
    assert ["another", "mine"] == [each["name"] for each in conductor.operator.list_key_pairs()]
    assert made == conductor.operator.show_key_pair("mine")
    conductor.operator.delete_key_pair("mine")
    for method in ("show_key_pair", "delete_key_pair"):
        with pytest.raises(errors.NotFound, match="Key pair mine"):
            getattr(conductor.operator, method)("mine")


def test_a_pair_whose_name_is_a_path(conductor: Conductor) -> None:
    """It is refused, whichever way the request takes. One of an earlier release is listed and deleted."""
    with pytest.raises(errors.InvalidInput, match="key_pair.name must be 1 to 255 ASCII letters"):
        a_key(conductor, "../../x")
    row = models.project_key_pairs.insert()
    with conductor.database.engine.begin() as connection:
        values = {"name": "../../x", "public_key": factories.PUBLIC_KEY, "created_at": utcnow()}
        connection.execute(row.values(project_id="tenant", user_id="user", **values))
    assert ["../../x"] == [each["name"] for each in conductor.operator.list_key_pairs()]
    conductor.operator.delete_key_pair("../../x")
    assert [] == conductor.operator.list_key_pairs()


def test_a_key_pair_belongs_to_its_project(conductor: Conductor) -> None:
    """Who acts for another project neither sees nor changes it, whatever user it names, and cannot build with it."""
    manager = KeyPairManager(conductor.database)
    web, shop = (new_context(project_id=name, user_id="alice") for name in ("web", "shop"))
    made = manager.create_key_pair(web, key_pair={"name": "mine", "public_key": factories.PUBLIC_KEY})
    assert [] == manager.list_key_pairs(shop)
    for method in (manager.show_key_pair, manager.delete_key_pair):
        with pytest.raises(oslo_messaging.ExpectedException) as refused:
            method(shop, name="mine")
        assert isinstance(refused.value.exc_info[1], errors.NotFound)
    request = BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 64}, "key_name": "mine"})
    with pytest.raises(errors.NotFound, match="Key pair mine"):
        conductor.intake.accept(shop, request)
    manager.create_key_pair(shop, key_pair={"name": "mine", "public_key": OTHER})
    manager.delete_key_pair(shop, name="mine")
    assert made == manager.show_key_pair(web, name="mine")


def test_a_user_has_a_bounded_number_of_pairs(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are in one answer. Another project of the user, and another user, are not concerned."""
    monkeypatch.setattr(key_pair, "MOST", 2)
    for name in ("one", "two"):
        a_key(conductor, name)
    with pytest.raises(errors.QuotaExceeded, match="key_pairs \\(1 requested, 2 of 2 used\\)"):
        a_key(conductor, "three")
    a_key(conductor, "two")
    conductor.operator.under("another").create_key_pair({"name": "three", "public_key": factories.PUBLIC_KEY})
    conductor.operator.delete_key_pair("one")
    a_key(conductor, "three")


def test_pairs_of_an_earlier_release_go_with_their_users(database: Database) -> None:
    """To the projects in which they have built something; a project that only names the user gets none."""
    conductor = Conductor(database)
    conductor.add_host("h1")
    conductor.create()
    now, row = utcnow(), models.key_pairs.insert()
    with database.engine.begin() as connection:
        connection.execute(models.project_key_pairs.delete())
        for user in ("user", "idle"):
            connection.execute(row.values(user_id=user, name="old", public_key=factories.PUBLIC_KEY, created_at=now))
        migration = importlib.import_module("fleet.db.schema.migrations.versions.0030_keep_key_pairs_by_project")
        for statement in (migration._COPY, migration._COPY_TO_NO_PROJECT):
            connection.execute(sa.text(statement))
    found = {
        (project, user): [each.name for each in database.read(key_pairs.list_all, (project, user))]
        for project in ("tenant", "other", "")
        for user in ("user", "idle")
    }
    assert {
        ("tenant", "user"): ["old"],
        ("tenant", "idle"): [],
        ("other", "user"): [],
        ("other", "idle"): [],
        ("", "user"): ["old"],
        ("", "idle"): ["old"],
    } == found


def test_a_key_pair_belongs_to_its_user(conductor: Conductor) -> None:
    """Another user may have the same name for another key."""
    manager = KeyPairManager(conductor.database)
    users = [new_context(user_id=name) for name in ("alice", "bob")]
    for user, key in zip(users, (factories.PUBLIC_KEY, OTHER), strict=True):
        manager.create_key_pair(user, key_pair={"name": "mine", "public_key": key})
    shown = [manager.show_key_pair(user, name="mine")["public_key"] for user in users]
    assert [factories.PUBLIC_KEY, OTHER] == shown
    assert [] == conductor.operator.list_key_pairs()


def test_what_a_host_gets(conductor: Conductor) -> None:
    """The key as it was when the instance was requested, for the host of the instance and no other."""
    a_key(conductor)
    uuid = on_h1(conductor, key_name="mine", user_data=SECRET)
    conductor.operator.delete_key_pair("mine")
    name = conductor.operator.show_instance(uuid)["instance"]["hostname"]
    wanted = BootData("mine", factories.PUBLIC_KEY, SECRET, "", name)
    assert wanted == conductor.agents.boot_data(uuid, "h1")
    with pytest.raises(errors.NotFound, match=f"{uuid} on host h2"):
        conductor.agents.boot_data(uuid, "h2")
    assert "mine" == conductor.operator.show_instance(uuid)["instance"]["key_name"]


def test_a_host_on_the_way(conductor: Conductor) -> None:
    """The destination of a move that is under way gets them, too, and after a failed one no more."""
    uuid = on_h1(conductor, user_data=SECRET)
    conductor.scheduler.answers.append([("h2", ())])
    conductor.operator.resize_instance(uuid, {"vcpus": 1, "memory_mb": 2048, "root_gb": 10})
    conductor.moves.deliver(conductor.place_move)
    assert SECRET == conductor.agents.boot_data(uuid, "h2").user_data
    (record,) = conductor.operator.list_migrations({"instance_uuid": uuid})
    failed = {"status": "error", "held_host": None, "held_node": None}
    conductor.database.write(lambda tx: tx.execute(models.migrations.update().values(**failed)))
    assert "h2" == record["dest_compute"]
    with pytest.raises(errors.NotFound, match=f"{uuid} on host h2"):
        conductor.agents.boot_data(uuid, "h2")


def test_an_instance_without_any(conductor: Conductor) -> None:
    """It has a host name, which is made of its name, and which a new name does not change."""
    uuid = on_h1(conductor, name="Web 1")
    conductor.operator.update_instance(uuid, {"name": "db"})
    assert BootData(hostname="web-1") == conductor.agents.boot_data(uuid, "h1")
    assert "web-1" == conductor.operator.show_instance(uuid)["instance"]["hostname"]
    conductor.operator.update_instance(uuid, {"hostname": "db.example"})
    assert BootData(hostname="db.example") == conductor.agents.boot_data(uuid, "h1")


def test_host_names_of_several_instances(conductor: Conductor) -> None:
    """Each gets a number, as the names do."""
    uuids = conductor.create(count=2, name="web", hostname="db.example", access_ip_v4="192.0.2.1", disk_config="AUTO")
    shown = [conductor.operator.show_instance(uuid)["instance"] for uuid in uuids]
    assert ["db-1.example", "db-2.example"] == [each["hostname"] for each in shown]
    told = ("access_ip_v4", "access_ip_v6", "disk_config")
    assert [("192.0.2.1", "", "AUTO")] * 2 == [tuple(each[name] for name in told) for each in shown]


def test_a_password(conductor: Conductor) -> None:
    """Only the host of the instance gets it."""
    uuid = on_h1(conductor, admin_password=SECRET)
    assert SECRET == conductor.agents.boot_data(uuid, "h1").admin_password
    assert SECRET not in json.dumps([conductor.operator.show_instance(uuid), conductor.operator.request_of(uuid)])


def test_a_key_pair_that_is_unknown(conductor: Conductor) -> None:
    """Nothing is accepted."""
    with pytest.raises(errors.NotFound, match="Key pair yours"):
        conductor.create(key_name="yours")
    assert [] == conductor.operator.list_instances({})


def test_user_data_are_nowhere_else(conductor: Conductor) -> None:
    """Neither in messages and notifications, nor in what operators are shown, nor in any other table."""
    uuid = on_h1(conductor, user_data=SECRET)
    shown = [
        conductor.operator.show_instance(uuid),
        conductor.operator.trace(uuid),
        conductor.operator.request_of(uuid),
    ]
    said = [
        conductor.scheduler.__dict__,
        conductor.compute.__dict__,
        conductor.notifier.__dict__,
        conductor.tasks.__dict__,
    ]
    assert SECRET not in json.dumps(shown, default=str) + repr(said)
    holding = [
        table.name
        for table in models.METADATA.sorted_tables
        if SECRET
        in repr(conductor.database.read(lambda connection, table=table: connection.execute(sa.select(table)).all()))
    ]
    assert ["boot_data"] == holding


def test_they_go_with_the_last_instance_of_the_request(conductor: Conductor) -> None:
    """Removed rows are kept in a file by fleet-manage, and user data are not in it."""
    uuids = conductor.create(count=2, user_data=SECRET)
    conductor.termination.terminate(new_context(), uuids)
    for number, left in ((0, 1), (1, 0)):
        kept = conductor.database.read(retention.read, [uuids[number]])
        assert SECRET not in json.dumps(kept)
        conductor.database.write(retention.remove, [uuids[number]])
        count = sa.select(sa.func.count()).select_from(models.boot_data)
        assert left == conductor.database.read(lambda connection, count=count: connection.execute(count).scalar_one())
