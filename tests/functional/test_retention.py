# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage db archive`` and ``db purge``: what was deleted long ago leaves the database, and nothing else does."""

from __future__ import annotations

import fcntl
import json
import pathlib
from typing import Any

import pytest
import sqlalchemy as sa

from fleet import move_states
from fleet.db.engine.database import Database
from fleet.db.tables import models
from fleet.db.upkeep import retention
from fleet.objects import VolumeRequest
from tests.functional.manage import Manage
from tests.functional.test_moves import Stage
from tests.worlds.conductor import Conductor, context
from tests.worlds.volumes import Volumes

pytestmark = pytest.mark.every_database

DAY_S = 86400


@pytest.fixture
def manage(database: Database, tmp_path: pathlib.Path) -> Manage:
    return Manage(database, tmp_path)


def delete(conductor: Conductor, *uuids: str) -> None:
    conductor.termination.terminate(context(), list(uuids))


def rows(database: Database) -> dict[str, int]:
    """How many rows each table of the instances has."""
    tables = (models.build_requests, models.instances, models.instance_events, models.instance_group_members)

    def read(connection: sa.Connection) -> dict[str, int]:
        counts = {each.name: sa.select(sa.func.count()).select_from(each) for each in tables}
        return {name: connection.execute(query).scalar_one() for name, query in counts.items()}

    return database.read(read)


def uuids(database: Database) -> set[str]:
    return set(database.read(lambda connection: connection.execute(sa.select(models.instances.c.uuid)).scalars().all()))


def test_purge_takes_the_old_and_leaves_the_rest(conductor: Conductor, database: Database, manage: Manage) -> None:
    """What lives stays, what was deleted later stays, and a request stays while one of its instances does."""
    conductor.operator.create_group("g", "anti-affinity", 1)
    old, sibling = conductor.create(count=2, group="g")
    delete(conductor, old)
    conductor.clock.advance(2 * DAY_S)
    late = conductor.create()[0]
    delete(conductor, late)
    date = f"{conductor.clock():%Y-%m-%d}"
    assert (0, "1 instances purged, 0 left.") == last(manage("db", "purge", "--before", date))
    assert {sibling, late} == uuids(database)
    expected = {"build_requests": 2, "instances": 2, "instance_events": 3, "instance_group_members": 1}
    assert expected == rows(database)
    delete(conductor, sibling)
    assert (0, "2 instances purged, 0 left.") == last(manage("db", "purge", "--all"))
    assert dict.fromkeys(expected, 0) == rows(database)


def test_purge_goes_in_portions(conductor: Conductor, database: Database, manage: Manage, monkeypatch) -> None:
    """--max-rows limits one run, whose exit status shows that rows are left. --until-complete repeats it."""
    monkeypatch.setattr("fleet_cli.upkeep.retention.BATCH", 2)
    delete(conductor, *conductor.create(count=8))
    assert (0, "8 instances were deleted before") == first(manage("db", "purge", "--all", "--dry-run"))
    status, lines = manage("db", "purge", "--all", "--max-rows", "3")
    assert (3, ["2 of 3 purged", "3 instances purged, 5 left."]) == (status, lines[1:])
    status, lines = manage("db", "purge", "--all", "--max-rows", "1", "--until-complete")
    assert (0, ["2 of 5 purged", "4 of 5 purged", "5 instances purged, 0 left."]) == (status, lines[1:])
    assert (0, "0 instances purged, 0 left.") == last(manage("db", "purge", "--all"))


def test_archive_writes_all_that_it_takes(
    conductor: Conductor, database: Database, manage: Manage, tmp_path: pathlib.Path
) -> None:
    """One line an instance with its request, events and faults; a second run appends."""
    target = tmp_path / "old.jsonl"
    for name in ("one", "two"):
        uuid = conductor.place("h1", name=name)
        conductor.claim(uuid, "h1")
        delete(conductor, uuid)
        conductor.agents.destroyed(context(), uuid, "h1")
        assert (0, "1 instances archived, 0 left.") == last(manage("db", "archive", "--all", str(target)))
    first_, second = [json.loads(line) for line in target.read_text().splitlines()]
    assert ("one", "two") == (first_["instance"]["name"], second["instance"]["name"])
    assert ["create", "claim", "terminate", "delete"] == [each["event"] for each in first_["instance_events"]]
    assert first_["instance"]["reservation_id"] == first_["build_request"]["reservation_id"]
    assert [] == first_["instance_faults"]
    assert set() == uuids(database)


def test_what_was_moved_goes_with_its_migrations(database: Database, manage: Manage, tmp_path: pathlib.Path) -> None:
    """They are in the archive, too."""
    stage, target = Stage(database), tmp_path / "old.jsonl"
    stage.until(move_states.PRE_MIGRATING)
    delete(stage.conductor, stage.uuid)
    for host in ("h1", "h2"):
        stage.conductor.agents.destroyed(context(), stage.uuid, host)
    assert (0, "1 instances archived, 0 left.") == last(manage("db", "archive", "--all", str(target)))
    (move,) = json.loads(target.read_text())["migrations"]
    assert "h2" == move["dest_compute"]


def test_archive_that_cannot_write_takes_nothing(conductor: Conductor, database: Database, manage: Manage) -> None:
    """The command ends with one line that has the reason."""
    delete(conductor, *conductor.create())
    status, lines = manage("db", "archive", "--all", "/proc/none/file")
    assert (1, ["/proc/none/file: No such file or directory"]) == (status, lines)
    assert 1 == len(uuids(database))


def test_an_archive_goes_on_after_half_a_line(
    conductor: Conductor, database: Database, manage: Manage, tmp_path: pathlib.Path
) -> None:
    """A machine that stops leaves half a line. The next record gets a line of its own."""
    target = tmp_path / "old.jsonl"
    target.write_text('{"build_request":{"cli')
    delete(conductor, *conductor.create())
    assert (0, "1 instances archived, 0 left.") == last(manage("db", "archive", "--all", str(target)))
    torn, whole = target.read_text().splitlines()
    assert '{"build_request":{"cli' == torn
    assert json.loads(whole)["instance"]


def test_two_archives_do_not_share_a_file(
    conductor: Conductor, database: Database, manage: Manage, tmp_path: pathlib.Path
) -> None:
    """Lines of two programs would be mixed."""
    target = tmp_path / "old.jsonl"
    delete(conductor, *conductor.create())
    with target.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        status, lines = manage("db", "archive", "--all", str(target))
    assert (1, f"{target}: another 'db archive' writes to it; wait until it has ended") == (status, lines[-1])
    assert 1 == len(uuids(database))
    assert (0, "1 instances archived, 0 left.") == last(manage("db", "archive", "--all", str(target)))


def test_volumes_and_snapshots_go_with_their_events(database: Database, manage: Manage, tmp_path: pathlib.Path) -> None:
    """Their client token is forgotten with the last volume of the request. What lives stays."""
    volumes, target = Volumes(database), tmp_path / "old.jsonl"
    live = volumes.available()
    snapshot = volumes.operator.create_snapshot(live)["uuid"]
    volumes.done(snapshot)
    volumes.operator.delete_snapshot(snapshot)
    volumes.done(snapshot, "deleting")
    asked = VolumeRequest.from_wire({"size": 1, "count": 2, "name": "v"})
    first_, second = (each["uuid"] for each in volumes.volume_creation.accept(context(), asked, "mine"))
    volumes.operator.delete_volume(first_)
    said = manage("db", "archive", "--all", str(target))
    assert (0, "2 volumes and snapshots archived, 0 left.") == last(said)
    records = [json.loads(line) for line in target.read_text().splitlines()]
    assert {snapshot, first_} == {each["volume"]["uuid"] for each in records}
    (of_first,) = [each for each in records if each["volume"]["uuid"] == first_]
    assert ["create", "deleted"] == [each["event"] for each in of_first["volume_events"]]
    assert ["mine"] == [each["client_token"] for each in of_first["volume_requests"]]
    assert [second] == [each["uuid"] for each in volumes.volume_creation.accept(context(), asked, "mine")]
    volumes.operator.delete_volume(second)
    assert (0, "1 volumes and snapshots purged, 0 left.") == last(manage("db", "purge", "--all"))
    assert [live] == [each["uuid"] for each in volumes.operator.list_volumes()]
    assert 2 == len(volumes.volume_creation.accept(context(), asked, "mine"))


BAD_ARGUMENTS = [
    ("no age", [], "one of the arguments --before --days --all is required"),
    ("two ages", ["--all", "--days", "1"], "not allowed with argument"),
    ("no date of UTC", ["--before", "0001-01-01T00:00+14:00"], "'0001-01-01T00:00+14:00' is not a date such as"),
    ("no date", ["--before", "yesterday"], "'yesterday' is not a date such as 2026-03-01"),
    ("an eternity", ["--days", "99999999"], "99999999 days are more than 36500"),
    ("no portion", ["--all", "--max-rows", "0"], "must be a whole number from 1, got '0'"),
]


@pytest.mark.parametrize(("what", "argv", "complaint"), BAD_ARGUMENTS, ids=[case[0] for case in BAD_ARGUMENTS])
def test_wrong_arguments(database: Database, manage: Manage, what: str, argv: list[str], complaint: str) -> None:
    """The status is 2, and the argument is named."""
    status, lines = manage("db", "purge", *argv)
    assert 2 == status
    assert complaint in lines[-1]


def test_the_young_stay(conductor: Conductor) -> None:
    """Rows deleted in the last hour stay in every case: schedulers read the deletion from the row."""
    now = conductor.clock()
    assert now - retention.YOUNGEST == retention.cutoff(now) == retention.cutoff(now, now)
    asked = now - 2 * retention.YOUNGEST
    assert asked == retention.cutoff(now, asked)


def last(ran: tuple[int, list[str]]) -> tuple[int, str]:
    return ran[0], ran[1][-1]


def first(ran: tuple[int, list[str]]) -> tuple[int, str]:
    return ran[0], ran[1][0][: len("8 instances were deleted before")]


def test_a_value_that_cannot_be_read_is_archived_as_it_is_stored(
    conductor: Conductor, database: Database, manage: Manage, tmp_path: pathlib.Path
) -> None:
    """The archive is all that is left of it."""
    text = '{"free": 1%s}' % ("0" * 320)
    broken, whole = conductor.create(count=2)
    delete(conductor, broken, whole)
    details = models.instances.c.details
    with database.engine.begin() as connection:
        value: sa.ColumnElement[Any] = sa.cast(sa.literal(text), sa.Text)
        if connection.dialect.name == "postgresql":
            value = sa.cast(value, sa.JSON)
        changed = models.instances.update().where(models.instances.c.uuid == broken)
        connection.execute(changed.values({details.name: value}))
    conductor.clock.advance(DAY_S)
    assert 0 == manage("db", "archive", "--all", str(tmp_path / "archive"))[0]
    lines = [json.loads(line)["instance"] for line in (tmp_path / "archive").read_text().splitlines()]
    assert {broken: text, whole: None} == {each["uuid"]: each["details"] for each in lines}
