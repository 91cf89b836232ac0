# SPDX-License-Identifier: Apache-2.0
"""What a text stands for: a uuid, the name of a thing, or the beginning of its uuid if that fits one thing only."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.tables.models import instances
from tests.worlds.conductor import Conductor, context

FIRST, SECOND = "abcd0000-0000-4000-8000-00000000000a", "abcd0000-0001-4000-8000-00000000000b"
GONE = "abce0000-0000-4000-8000-00000000000c"


@pytest.fixture
def conductor(database: Database) -> Conductor:
    """Instances with these uuids; the last one is deleted."""
    made = Conductor(database)
    made.add_host("h1")
    for name, uuid in (("first", FIRST), ("second", SECOND), ("gone", GONE)):
        made.clock.advance(1)
        (created,) = made.create(name=name)
        if name == "gone":
            made.termination.terminate(context(), [created])
        with database.engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA defer_foreign_keys = 1")
            for table in ("instance_events", "instance_faults"):
                connection.exec_driver_sql(f"DELETE FROM {table}")
            connection.execute(instances.update().where(instances.c.uuid == created).values(uuid=uuid))
    return made


@pytest.mark.parametrize(
    ("given", "name"),
    [
        pytest.param("abcd0000-0000", "first", id="a beginning"),
        pytest.param("ABCD0000-0001", "second", id="in capitals"),
        pytest.param(FIRST.replace("-", "").upper(), "first", id="a uuid in another form"),
        pytest.param("first", "first", id="a name"),
        pytest.param("abce0000", "gone", id="of an instance that was deleted"),
        pytest.param("abcd0000", None, id="several live ones"),
    ],
)
def test_an_instance(conductor: Conductor, given: str, name: str | None) -> None:
    """One that lives is preferred to one that was deleted; several are listed."""
    if name is None:
        with pytest.raises(errors.Conflict) as several:
            conductor.operator.show_instance(given)
        assert f"stands for several; use a uuid: {FIRST} (first), {SECOND} (second)" in several.value.message
        return
    assert name == conductor.operator.show_instance(given)["instance"]["name"]


@pytest.mark.parametrize("given", ["abcf0000", "abcd000", "abcd0000-000_", "%", "firs", GONE[:-1] + "d"])
def test_nothing_begins_so(conductor: Conductor, given: str) -> None:
    """A beginning has 8 characters or more. A name has no beginning, and a pattern is none."""
    with pytest.raises(errors.NotFound, match="Instance"):
        conductor.operator.show_instance(given)


def test_a_uuid_wins_over_a_name(conductor: Conductor) -> None:
    """Earlier releases accepted such names. A name like a beginning is in doubt: the error has the uuids."""
    (named,) = conductor.create(name="other")
    for name in (FIRST, "abce0000"):
        rename(conductor, named, name)
        if name == FIRST:
            assert "first" == conductor.operator.show_instance(FIRST)["instance"]["name"]
        else:
            assert named == conductor.operator.show_instance(name)["instance"]["uuid"]
    rename(conductor, named, "abcd0000-0001")
    with pytest.raises(errors.Conflict) as several:
        conductor.operator.show_instance("abcd0000-0001")
    assert SECOND in several.value.message
    assert named in several.value.message


def rename(conductor: Conductor, uuid: str, name: str) -> None:
    with conductor.database.engine.begin() as connection:
        connection.execute(instances.update().where(instances.c.uuid == uuid).values(name=name))


LIKE_UUIDS = [FIRST, FIRST.upper(), FIRST.replace("-", ""), f"{{{FIRST}}}", "abcd0000", "20261123", "abcd0000-00"]


@pytest.mark.parametrize("name", LIKE_UUIDS)
def test_no_name_is_like_a_uuid(conductor: Conductor, name: str) -> None:
    """Nothing is created or renamed so; the error names the field."""
    conductor.operator.create_volumes({"size": 1, "name": "disk"})
    conductor.operator.create_group("apart", "affinity")
    conductor.operator.create_aggregate("racks", {})
    operator = conductor.operator
    for field, ask in (
        ("request.name", lambda: conductor.create(name=name)),
        ("changes.name", lambda: operator.update_instance("first", {"name": name})),
        ("request.name", lambda: operator.create_volumes({"size": 1, "name": name})),
        ("changes.name", lambda: operator.update_volume("disk", {"name": name})),
        ("request.name", lambda: operator.manage_volume({"host": "m@b#p", "reference": "r", "name": name})),
        ("name", lambda: operator.create_snapshot("disk", name)),
        ("name", lambda: operator.create_group(name, "affinity")),
        ("new_name", lambda: operator.update_group("apart", new_name=name)),
        ("name", lambda: operator.create_aggregate(name, {})),
        ("new_name", lambda: operator.rename_aggregate("racks", name)),
        ("image.name", lambda: operator.create_image({"name": name, "location": "/image"})),
    ):
        with pytest.raises(errors.InvalidInput, match=f"^{field} must not be a uuid"):
            ask()


@pytest.mark.parametrize("name", ["1", "ab", "cafe", "deadbee", "abcd00000", "deadbeefcafe", "abcd0000x", "web-1"])
def test_ordinary_words_are_names(conductor: Conductor, name: str) -> None:
    """Also short ones, and those of other lengths, that have hexadecimal digits only."""
    (named,) = conductor.create(name=name)
    assert named == conductor.operator.show_instance(name)["instance"]["uuid"]


def test_groups_and_aggregates(conductor: Conductor) -> None:
    """As well."""
    group = conductor.operator.create_group("web", "affinity", 1)
    aggregate = conductor.operator.create_aggregate("racks", {})
    assert "web" == conductor.operator.show_group(group["uuid"][:13])["name"]
    assert "racks" == conductor.operator.show_aggregate(aggregate["uuid"][:13])["name"]


def test_lists_know_what_they_are_asked_of(conductor: Conductor) -> None:
    """A host that is not known is an error, one without instances an empty list; a limit keeps the first."""
    assert [] == conductor.operator.list_instances({"host": "h1"})
    assert [] == conductor.operator.list_migrations({"host": "h1"})
    for ask in (conductor.operator.list_instances, conductor.operator.list_migrations):
        with pytest.raises(errors.NotFound, match="Host h9 could not be found"):
            ask({"host": "h9"})
    assert ["first"] == [each["name"] for each in conductor.operator.list_instances({}, limit=1)]
