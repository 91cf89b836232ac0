# SPDX-License-Identifier: Apache-2.0
"""A value that cannot be read harms its own row only, in whichever JSON column it is.

Nothing writes such a value today. Earlier releases wrote whole numbers of any length, which databases take as JSON.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import errors, json_codec, stored_json
from fleet.db.engine.database import Database, Transaction
from fleet.db.feed import feed_queries
from fleet.db.feed.feed import ChangeFeed
from fleet.db.hosts import flavor_mix
from fleet.db.tables import models
from fleet.telemetry import metrics, rate_limited_log
from scheduler.compute.domain.columns import read_row
from scheduler.volumes.domain import columns as volume_columns
from tests.functional import databases
from tests.worlds.conductor import context
from tests.worlds.guests import Guests
from tests.worlds.neighbours import no_valid_host
from tests.worlds.volumes import A

#: Valid JSON that readers in C refuse.
LONG = '{"free": 1%s}' % ("0" * 320)
LARGE = {"vcpus": 2, "memory_mb": 2048, "root_gb": 10, "name": "large"}
COLUMNS = [
    (table.name, column.name)
    for table in models.METADATA.sorted_tables
    for column in table.columns
    if isinstance(column.type, sa.JSON)
]


class TwoOfEach(Guests):
    """Two of everything: the first is broken by a test, the second must be as before."""

    def __init__(self, database: Database, made: dict[str, Any]) -> None:
        """:param made: what an earlier world has, or empty and to be filled: to make one takes 0.3 s"""
        super().__init__(database)
        if not made:
            before = set(vars(self))
            self._make()
            made["named"] = {name: value for name, value in vars(self).items() if name not in before}
            made["handed out"] = [list(queue) for queue in self._handed_out()]
            made["rows"] = databases.Rows(database)
            return
        made["rows"].put_back(database)
        vars(self).update(made["named"])
        for queue, messages in zip(self._handed_out(), made["handed out"], strict=True):
            queue.extend(messages)

    def _handed_out(self) -> list[collections.deque[Any]]:
        return [self.tasks.cast, self.moves.cast, self.volumes.cast]

    def _make(self) -> None:
        self.active = [self.guest("h1", "web"), self.guest("h1", "db")]
        self.moving = self.guest("h1", "moving")
        self.add_host("h2")
        self.operator.resize_instance(self.moving, LARGE)
        self.scheduler.answers.append([("h2", ())])
        self.moves.deliver(self.place_move)
        self.scheduler.answers.append(no_valid_host())
        self.create(name="failed")
        self.work()
        self.volume = [self.ask(A, name=name) for name in ("one", "two", "three")]
        for uuid in self.volume:
            self.done(uuid)
        self.attached(self.volume[2], self.active[1])
        self.growing = self.ask(A, name="growing")
        for name in ("small", "big"):
            self.operator.create_flavor({"name": name, "vcpus": 1, "memory_mb": 64})
            self.operator.create_volume_type({"name": name})
            self.operator.create_image({"name": name, "location": f"/srv/{name}"})
        (self.waiting,) = self.create(name="waiting")
        (self.neighbour,) = self.create(name="neighbour")
        self.database.write(flavor_mix.count, self.clock(), 3600.0)

    def break_first(self, table: str, column: str) -> Any:
        """Write a value that cannot be read into each row of the first of everything; return a key."""
        found = models.METADATA.tables[table]
        with self.database.engine.begin() as connection:
            (key,) = list(found.primary_key.columns)[:1]
            keys = list(connection.execute(sa.select(key).order_by(key)).scalars())
            if not keys:
                pytest.skip(f"{table} has no rows in this world")
            value = sa.cast(sa.literal(LONG), sa.Text)
            if connection.dialect.name == "postgresql":
                value = sa.cast(value, sa.JSON)
            connection.execute(sa.text("SELECT 1"))
            connection.execute(found.update().values({column: value}))
        return keys[0]


@pytest.fixture(scope="module")
def made() -> dict[str, dict[str, Any]]:
    """The first world of each database."""
    return collections.defaultdict(dict)


@pytest.fixture
def world(database: Database, made: dict[str, dict[str, Any]]) -> TwoOfEach:
    return TwoOfEach(database, made[database.engine.dialect.name])


def sweep(world: TwoOfEach) -> None:
    for each in (
        world.sweeper,
        world.move_sweeper,
        world.power_sweeper,
        world.volume_sweeper,
        world.attachment_sweeper,
    ):
        each.sweep()
    world.room_queue.look()


LISTS: tuple[Callable[[TwoOfEach], Any], ...] = (
    lambda world: world.operator.list_instances(),
    lambda world: world.operator.list_migrations(),
    lambda world: world.operator.list_hosts(),
    lambda world: world.operator.list_flavors(),
    lambda world: world.operator.list_images(),
    lambda world: world.operator.list_volumes(),
    lambda world: world.operator.list_volume_types(),
    lambda world: world.operator.list_pools(),
    lambda world: world.operator.list_snapshots(),
    lambda world: world.operator.list_queue(),
    lambda world: world.operator.list_attachments([world.active[1]]),
    lambda world: world.operator.newest_faults([*world.active, world.waiting]),
    lambda world: world.operator.list_events(),
    lambda world: world.operator.use_over_time(),
    lambda world: world.operator.examine(),
    lambda world: [world.operator.show_instance(each) for each in world.active],
    lambda world: [world.operator.show_volume(each) for each in world.volume],
    lambda world: world.operator.show_host("h1"),
    lambda world: [each.to_wire() for each in world.agents.host_instances("h1", None)],
    lambda world: [each.to_wire() for each in world.move_progress.of_host("h2", None)],
    lambda world: [each.to_wire() for each in world.volume_progress.of_host(A[0], None)],
    lambda world: world.agents.compare_instances({"h1": world.active}, {}),
    lambda world: world.hosts.get_attachments(world.active[1], "h1"),
)


@pytest.mark.on_sqlite
@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=[".".join(each) for each in COLUMNS])
def test_lists_sweeps_and_feeds_go_on(world: TwoOfEach, table: str, column: str) -> None:
    """With every row of a table broken: all is listed as JSON, deadlines are kept, schedulers read on, and owners delete."""
    world.break_first(table, column)
    for listed in LISTS:
        json.dumps(listed(world))
    for feed in (ChangeFeed(world.database), ChangeFeed(world.database, with_images=True)):
        changes = feed.read(0)
        assert {"h1", "h2"} == {row.host for row in changes.nodes}
        assert all(read_row(row) for row in changes.nodes)
    stored = ChangeFeed(world.database, of=feed_queries.STORAGE).read(0)
    assert all(volume_columns.read_row(row) for row in stored.nodes)
    sweep(world)
    world.clock.advance(100_000)
    sweep(world)
    assert [("error", None)] * 2 == [world.state(each)[:2] for each in (world.waiting, world.neighbour)]
    world.termination.terminate(context(), [*world.active, world.waiting, world.neighbour])
    assert "deleted" == world.state(world.waiting)[0]
    world.operator.delete_volume(world.volume[0])
    sweep(world)


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=[".".join(each) for each in COLUMNS])
def test_operators_see_which_row_it_is(world: TwoOfEach, table: str, column: str) -> None:
    """In the examination of ``fleet doctor``, and in the metric."""
    assert [] == world.operator.examine()["unreadable"]["rows"]
    key = world.break_first(table, column)
    found = world.operator.examine()["unreadable"]
    assert found["complete"]
    assert {(table, column)} == {(row["table"], row["column"]) for row in found["rows"]}
    assert str(key) in {row["key"] for row in found["rows"]}


def test_a_request_that_cannot_be_read_is_named_and_not_placed(
    world: TwoOfEach, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host would be chosen by other sizes: the build ends with a fault that says so, and its neighbours are placed."""
    # The same rows were unreadable in tests before, and each is logged once a minute.
    monkeypatch.setattr(stored_json, "_said", rate_limited_log.RateLimit())
    world.break_first("build_requests", "spec")
    before = metrics.UNREADABLE_VALUES._value.get()
    world.work()
    assert ("error", None) == world.state(world.waiting)[:2]
    fault = world.operator.newest_faults([world.waiting])[world.waiting]
    assert "RequestUnreadable" == fault["error"]
    assert f"The row {world.waiting} of build_requests cannot be read" in caplog.text
    assert metrics.UNREADABLE_VALUES._value.get() > before


def test_plans_and_proofs_read_the_requests_of_all_others(world: TwoOfEach) -> None:
    """A promise to survive a loss is kept by proofs, which ask for the guests of all hosts."""
    world.break_first("build_requests", "spec")
    sound = world.guest("h1", "sound")
    for live in (False, True):
        found = world.operator.requests_of([*world.active, sound], live=live)
        assert [sound] == [each["uuid"] for each in found]


def test_a_volume_whose_request_cannot_be_read_is_not_placed(world: TwoOfEach) -> None:
    """It would be made on a pool of another type, or without the data of its source."""
    (made,) = world.operator.create_volumes({"size": 10, "name": "copy", "volume_type": "big"})["volumes"]
    world.break_first("volumes", "spec")
    world.volume_scheduler.answers.append([A])
    world.serve()
    shown = world.operator.show_volume(made["uuid"])
    assert ("error", "RequestUnreadable") == (shown["status"], shown["failure"]["error"])


@pytest.mark.parametrize("column", ["old_spec", "new_spec"])
def test_a_move_whose_sizes_cannot_be_read_is_not_placed(world: TwoOfEach, column: str) -> None:
    """The instance stays as it is."""
    world.operator.resize_instance(world.active[0], LARGE)
    world.break_first("migrations", column)
    world.moves.deliver(world.place_move)
    (move,) = world.operator.list_migrations({"instance_uuid": world.active[0]})
    assert ("error", "active") == (move["status"], world.state(world.active[0])[0])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
ODD = [
    2**63,
    2**64 - 1,
    2**64,
    -(2**63),
    10**320,
    1e308,
    float("nan"),
    "\0",
    "\ud800",
    "\U0001f600",
    "\\u0000",
    "'\"%s",
]


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=[".".join(each) for each in COLUMNS])
def test_what_is_accepted_reads_back_equal(world: TwoOfEach, table: str, column: str) -> None:
    """On each database; what is refused changes nothing."""
    world.break_first(table, column)
    found = models.METADATA.tables[table]

    @settings(max_examples=15, deadline=None, database=None)
    @given(st.dictionaries(st.text(st.characters(), max_size=4), JSON | st.sampled_from(ODD), max_size=3))
    def written_and_read(value: dict[str, Any]) -> None:
        def write(tx: Transaction) -> Any:
            tx.execute(found.update().values({column: value}))
            return tx.execute(sa.select(found.c[column])).scalars().first()

        try:
            json_codec.require(value)
        except errors.InvalidInput:
            with pytest.raises(errors.InvalidInput):
                world.database.write(write)
        else:
            assert value == world.database.write(write)

    written_and_read()
