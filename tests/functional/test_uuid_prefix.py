# SPDX-License-Identifier: Apache-2.0
"""The beginning of a uuid names a thing wherever its uuid does, while it fits one thing only."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.db.engine import Database
from fleet.db.models import instances
from tests.functional.conductor import Conductor, context

FIRST, SECOND, GONE = "abcd0000-0000-4000-8000-00000000000a", "abcd1111-0000-4000-8000-00000000000b", "abce" + "0" * 32


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
        pytest.param("abcd0", "first", id="a beginning"),
        pytest.param("ABCD1111-0", "second", id="in capitals"),
        pytest.param("first", "first", id="a name"),
        pytest.param("abce", "gone", id="of an instance that was deleted"),
        pytest.param("abc", None, id="several live ones"),
    ],
)
def test_an_instance(conductor: Conductor, given: str, name: str | None) -> None:
    """One that lives is preferred to one that was deleted; several are listed."""
    if name is None:
        with pytest.raises(errors.Conflict) as several:
            conductor.operator.show_instance(given)
        assert f"is the beginning of several uuids: {FIRST} (first), {SECOND} (second)" in several.value.message
        return
    assert name == conductor.operator.show_instance(given)["instance"]["name"]


@pytest.mark.parametrize("given", ["abcf", "%", "abcd_", "firs"])
def test_nothing_begins_so(conductor: Conductor, given: str) -> None:
    """A name has no beginning, and a pattern is none."""
    with pytest.raises(errors.NotFound, match="Instance"):
        conductor.operator.show_instance(given)


def test_a_name_comes_first(conductor: Conductor) -> None:
    """It was given on purpose."""
    (named,) = conductor.create(name="abcd0")
    assert named == conductor.operator.show_instance("abcd0")["instance"]["uuid"]


def test_the_name_of_a_deleted_instance_is_no_beginning(conductor: Conductor) -> None:
    """Otherwise a repeated deletion by name could delete an instance whose uuid begins like that name."""
    conductor.clock.advance(1)
    (named,) = conductor.create(name="abcd0")
    conductor.termination.terminate(context(), [named])
    with pytest.raises(errors.NotFound, match="abcd0"):
        conductor.operator.show_instance("abcd0")


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
