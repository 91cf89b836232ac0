# SPDX-License-Identifier: Apache-2.0
"""The change feed misses nothing, in whatever order transactions commit."""

from __future__ import annotations

import random
import threading
from concurrent import futures

import pytest
import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Database, Transaction
from fleet.db.feed.feed import ChangeFeed, Changes
from fleet.db.hosts import aggregates, heartbeats, hosts, services
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.schema import identity
from fleet.db.tables.models import compute_nodes, generations, instances
from fleet.db.tables.models import services as SERVICES
from fleet.ledger_identity import LedgerIdentity
from fleet.objects import HostReport
from tests.clock import FakeClock
from tests.worlds.conductor import Conductor

pytestmark = pytest.mark.every_database

CLOCK = FakeClock()


def report(database: Database, host: str, memory_mb: int = 8000) -> None:
    inventory = HostReport(host=host, node=host, vcpus=8, memory_mb=memory_mb, local_gb=100)
    database.write(hosts.report, inventory, CLOCK())


def register(database: Database, host: str) -> None:
    service = {"host": host, "binary": "fleet-compute", "topic": "compute", "incarnation": "one"}
    database.write(services.register, service, CLOCK(), 60)


class Cache:
    """A scheduler's view: the last row of every node."""

    def __init__(self, database: Database) -> None:
        self._feed = ChangeFeed(database)
        self.generation = 0
        self.memory: dict[str, int] = {}

    def refresh(self) -> Changes:
        changes = self._feed.read(self.generation)
        assert changes.generation >= self.generation
        self.generation = changes.generation
        for row in changes.nodes:
            self.memory[row.host] = row.memory_mb
        return changes


def test_one_host_by_itself(database: Database) -> None:
    """Its nodes, its service and what is on it, and nothing of others."""
    for host in ("h1", "h2"):
        register(database, host)
        report(database, host)
    there = ChangeFeed(database).read_host("h1")
    assert (["h1"], ["h1"], []) == (
        [row.host for row in there.nodes],
        [row.host for row in there.services],
        list(there.instances),
    )
    assert ChangeFeed(database).read(0).generation == there.generation
    assert [] == list(ChangeFeed(database).read_host("nosuch").nodes)


def test_first_read_is_everything(database: Database) -> None:
    """A new cache gets the complete state, marked as complete."""
    register(database, "h1")
    report(database, "h1")
    aggregate = database.write(aggregates.create, "a" * 36, "fast", {"ssd": "true"}, CLOCK())
    database.write(aggregates.add_host, "fast", "h1")

    changes = ChangeFeed(database).read(0)

    assert changes.full
    assert [row.host for row in changes.nodes] == ["h1"]
    assert [row.host for row in changes.services] == ["h1"]
    assert [(each.id, each.hosts, each.metadata) for each in changes.aggregates] == [
        (aggregate, ["h1"], {"ssd": "true"})
    ]


def test_later_reads_are_differences(database: Database) -> None:
    """After that only what changed is read; nothing changed, nothing read."""
    report(database, "h1")
    report(database, "h2")
    cache = Cache(database)
    cache.refresh()
    report(database, "h2", memory_mb=9000)

    changes = cache.refresh()

    assert not changes.full
    assert [(row.host, row.memory_mb) for row in changes.nodes] == [("h2", 9000)]
    assert cache.refresh().nodes == ()


def test_a_repeated_report_is_no_change(database: Database) -> None:
    """An inventory that equals the stored one does not advance the generation."""
    report(database, "h1")
    cache = Cache(database)
    cache.refresh()
    before = cache.generation

    report(database, "h1")

    cache.refresh()
    assert cache.generation == before


def test_a_removed_node_is_seen_as_deleted(database: Database) -> None:
    """A node that its host no longer reports comes through the feed once more, marked deleted."""
    report(database, "h1")
    cache = Cache(database)
    cache.refresh()

    database.write(hosts.remove_nodes_except, "h1", [], CLOCK())

    assert [(row.host, bool(row.deleted)) for row in cache.refresh().nodes] == [("h1", True)]
    assert ChangeFeed(database).read(0).nodes == []


def test_a_restored_database_is_read_afresh(database: Database) -> None:
    """A generation from the future (the database was restored from a backup) leads to a full read."""
    report(database, "h1")
    changes = ChangeFeed(database).read(10**6)
    assert changes.full
    assert [row.host for row in changes.nodes] == ["h1"]


def test_heartbeats_come_without_a_generation(database: Database) -> None:
    """A heartbeat is read, though it changes no generation."""
    register(database, "h1")
    clock = FakeClock(CLOCK())
    feed = ChangeFeed(database, clock)
    generation = feed.read(0).generation
    clock.advance(10)

    database.write(heartbeats.write, [Heartbeat("fleet-compute", ["h1"], "one")], clock())

    changes = feed.read(generation)
    assert changes.generation == generation
    assert list(changes.heartbeats) == [("h1", clock())]


def test_heartbeats_are_read_after_the_clock_went_back(database: Database) -> None:
    """At once, and later too, though a silent host keeps a heartbeat that is in the future now."""
    for host in ("h1", "silent"):
        register(database, host)
    clock = FakeClock(CLOCK())
    feed = ChangeFeed(database, clock)
    generation = feed.read(0).generation
    clock.advance(10)
    database.write(heartbeats.write, [Heartbeat("fleet-compute", ["h1", "silent"], "one")], clock())
    feed.read(generation)
    last, read = ("silent", clock()), []
    for passed_s in (-600, 10):
        clock.advance(passed_s)
        database.write(heartbeats.write, [Heartbeat("fleet-compute", ["h1"], "one")], clock())
        read.append((sorted(feed.read(generation).heartbeats), [("h1", clock()), last]))
    for shown, expected in read:
        assert expected == shown


# SQLite has one writer at a time: nothing can commit in between.
@pytest.mark.parametrize("opened_database", ["postgresql", "mariadb"], indirect=True)
def test_a_transaction_that_commits_late_is_seen_late(database: Database) -> None:
    """A transaction that began first and commits last is not missed by a reader that came in between."""
    report(database, "slow")
    report(database, "quick")
    cache = Cache(database)
    cache.refresh()
    written, may_commit = threading.Event(), threading.Event()

    def slowly(tx: Transaction) -> None:
        row = tx.execute(sa.select(compute_nodes).where(compute_nodes.c.host == "slow")).one()
        tx.execute(compute_nodes.update().where(compute_nodes.c.id == row.id).values(memory_mb=1))
        tx.touch(compute_nodes, row.id)
        written.set()
        assert may_commit.wait(20)

    with futures.ThreadPoolExecutor(1) as pool:
        late = pool.submit(database.write, slowly)
        assert written.wait(20)
        report(database, "quick", memory_mb=2)
        cache.refresh()
        between = dict(cache.memory)
        may_commit.set()
        late.result(20)

    cache.refresh()
    assert between == {"slow": 8000, "quick": 2}
    assert cache.memory == {"slow": 1, "quick": 2}


@pytest.mark.parametrize("seed", [1, 2])
def test_a_reader_beside_many_writers_misses_nothing(database: Database, seed: int) -> None:
    """Eight writers commit in random order while a reader follows. In the end it has what a full read returns."""
    names = [f"h{number}" for number in range(12)]
    for name in names:
        report(database, name)
    cache, stop = Cache(database), threading.Event()

    def write(worker: int) -> None:
        chance = random.Random(f"{seed}-{worker}")
        for _ in range(15):
            report(database, chance.choice(names), memory_mb=chance.randrange(1, 10**6))

    def follow() -> int:
        reads = 0
        while not stop.is_set():
            cache.refresh()
            reads += 1
        return reads

    with futures.ThreadPoolExecutor(9) as pool:
        reader = pool.submit(follow)
        for done in [pool.submit(write, worker) for worker in range(8)]:
            done.result(120)
        stop.set()
        assert reader.result(20) > 1

    cache.refresh()
    everything = {row.host: row.memory_mb for row in ChangeFeed(database).read(0).nodes}
    assert cache.memory == everything


def test_what_one_transaction_changed_is_seen_at_once(database: Database) -> None:
    """Each writer sets its host's node, service and instance to one number: no reading shows two."""
    conductor = Conductor(database)
    names = [f"h{number}" for number in range(4)]
    for name in names:
        conductor.add_host(name)
        conductor.claim(conductor.place(name, name=name), name)

    def set_all(tx: Transaction, host: str, number: int) -> None:
        said = {
            compute_nodes: ("vcpus", number),
            instances: ("project_id", f"{number}"),
            SERVICES: ("disabled_reason", f"{number}"),
        }
        for table, (name, value) in said.items():
            key = table.primary_key.columns[0]
            row = tx.execute(sa.select(key).where(table.c.host == host).with_for_update()).scalar_one()
            tx.update(table, row, {name: value})
            tx.touch(table, row)

    def write(host: str) -> None:
        for number in range(20):
            database.write(set_all, host, number)

    def follow() -> int:
        feed, generation, together = ChangeFeed(database), 0, 0
        while not written.is_set():
            changes = feed.read(generation)
            generation = changes.generation
            for host in {row.host for row in changes.nodes if not changes.full}:
                shown = [row.vcpus for row in changes.nodes if row.host == host]
                shown += [int(row.project_id) for row in changes.instances if row.host == host]
                shown += [int(row.disabled_reason) for row in changes.services if row.host == host]
                assert [shown[0]] * 3 == shown
                together += 1
        return together

    written = threading.Event()
    with futures.ThreadPoolExecutor(5) as pool:
        reader = pool.submit(follow)
        for done in [pool.submit(write, name) for name in names]:
            done.result(120)
        written.set()
        assert reader.result(20) > 1


def _disable_as_an_older_program(database: Database, host: str) -> None:
    """Write as an older release does: one generation number, without tables."""
    with database.engine.begin() as connection:
        connection.execute(generations.update().values(value=generations.c.value + 1))
        newest = connection.execute(sa.select(generations.c.value)).scalar_one()
        of_host = SERVICES.update().where(SERVICES.c.host == host)
        connection.execute(of_host.values(disabled=True, generation=newest))


@pytest.mark.parametrize("newer_before", [False, True])
@pytest.mark.parametrize("newer_after", [False, True])
def test_commits_of_older_programs_are_followed(database: Database, newer_before: bool, newer_after: bool) -> None:
    """A reader sees their changes, also if a newer program commits before or after the read."""
    register(database, "h1")
    report(database, "h1")
    cache = Cache(database)
    cache.refresh()
    if newer_before:
        report(database, "h1", memory_mb=9000)
    _disable_as_an_older_program(database, "h1")
    if newer_after:
        report(database, "h1", memory_mb=10_000)

    changes = cache.refresh()

    assert [True] == [row.disabled for row in changes.services]
    assert (10_000 if newer_after else 9000 if newer_before else 8000) == cache.memory["h1"]
    assert ((), ()) == (tuple(cache.refresh().services), tuple(cache.refresh().nodes))


def test_a_database_that_was_replaced_is_read_whole(database: Database) -> None:
    """Its generations are unrelated to those the reader has, even if they are higher."""
    database.write(identity.adopt, "one")
    clock, mine = FakeClock(), LedgerIdentity("scheduler", "one")
    feed = ChangeFeed(database, clock, ledger=mine)
    register(database, "h1")
    generation = feed.read(0).generation
    clock.advance(2)
    assert not feed.read(generation).full
    database.write(identity.adopt, "another")
    register(database, "h2")
    clock.advance(2)
    changes = feed.read(generation)
    assert (True, "another") == (changes.full, mine.uuid)
    assert {"h1", "h2"} == {row.host for row in changes.services}


def test_what_has_changed_is_noted_by_table(database: Database) -> None:
    """Beside the newest generation, and only where something has."""
    register(database, "h1")
    registered = _noted(database)
    report(database, "h1")
    reported = _noted(database)
    assert registered["services"] == registered["value"] == registered["noted"]
    assert {**registered, "value": reported["value"], "noted": reported["noted"]} == reported
    assert reported["noted"] == reported["value"] > registered["value"]


def _noted(database: Database) -> dict[str, int]:
    row = database.read(lambda connection: connection.execute(sa.select(generations)).one())
    return dict(row._mapping)


def test_image_properties_where_they_weigh(database: Database) -> None:
    """A feed with image properties returns those of every instance, also in a difference."""
    conductor = Conductor(database)
    feed = ChangeFeed(database, with_images=True)
    conductor.add_host("h1")
    before = feed.read(0).generation
    pictured = conductor.place("h1", name="pictured", image={"id": "image1", "properties": {"os": "linux", "n": 4}})
    plain = conductor.place("h1", name="plain")
    conductor.claim(pictured, "h1")
    conductor.claim(plain, "h1")
    expected = {pictured: {"os": "linux", "n": 4}, plain: {}}
    for changes in (feed.read(before), feed.read(0)):
        assert expected == {row.uuid: row.image_properties or {} for row in changes.instances}
    conductor.operator.create_image({"name": "other", "location": "/other.raw", "properties": {"os": "bsd"}})
    conductor.finish(pictured, "h1")
    conductor.operator.rebuild_instance(pictured, {"image": "other"})
    found = {row.uuid: row.image_properties or {} for row in feed.read(0).instances}
    assert {**expected, pictured: {"os": "bsd"}} == found


def test_image_properties_are_read_when_they_weigh_since_sighup(database: Database) -> None:
    """Of all instances, as they have not changed. A read that fails does not count."""
    conductor, weighs, lost = Conductor(database), [False], [False]
    feed = ChangeFeed(database, with_images=lambda: weighs[0], retry=False)
    conductor.add_host("h1")
    pictured = conductor.place("h1", image={"id": "image1", "properties": {"os": "linux"}})
    conductor.claim(pictured, "h1")
    known = feed.read(0).generation
    assert () == tuple(feed.read(known).instances)

    def lose(*_statement: object) -> None:
        if lost[0]:
            raise sa.exc.OperationalError("", {}, Exception("the database is away"))

    sa.event.listen(database.engine, "before_cursor_execute", lose)
    try:
        weighs[0] = lost[0] = True
        with pytest.raises(errors.DatabaseError):
            feed.read(known)
        lost[0] = False
        changes = feed.read(known)
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", lose)
    assert changes.full
    assert {pictured: {"os": "linux"}} == {row.uuid: row.image_properties for row in changes.instances}
    assert not feed.read(changes.generation).full


def test_processes_that_appear_at_once_share_one_record(database: Database) -> None:
    """Eight workers register and report one host at the same moment: there is one row, and no call fails."""
    together = threading.Barrier(8)

    def appear(_worker: int) -> None:
        together.wait(20)
        register(database, "h1")
        report(database, "h1")

    with futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(appear, range(8)))

    changes = ChangeFeed(database).read(0)
    assert [row.host for row in changes.services] == ["h1"]
    assert [row.host for row in changes.nodes] == ["h1"]


def test_a_reader_survives_the_loss_of_its_connection(database: Database) -> None:
    """Whoever closes it, the next question goes through a new one."""
    register(database, "h1")
    feed = ChangeFeed(database, retry=False)
    before = feed.read(0).generation
    feed.read(before)  # a repeated one has a connection of its own
    for reader in (feed._newest, feed._snapshot):
        assert reader._connection is not None
        reader._connection.connection.dbapi_connection.close()
    report(database, "h1")

    assert ["h1"] == [row.host for row in feed.read(before).nodes]


def test_a_reader_survives_the_loss_of_what_it_has_prepared(database: Database) -> None:
    """Whoever throws that away, the same is read without, and in the same form."""
    conductor = Conductor(database)
    conductor.add_host("h1")
    feed = ChangeFeed(database, retry=False)
    before = feed.read(0).generation
    conductor.claim(conductor.place("h1", name="a"), "h1")
    prepared = feed.read(before)
    feed.read(prepared.generation)  # asks first whether there is anything new
    if database.engine.dialect.name == "postgresql":
        feed._newest._connection.exec_driver_sql("DEALLOCATE ALL")
        feed._newest._connection.commit()

    assert prepared.generation == feed.read(prepared.generation).generation
    plain = feed.read(before)
    assert prepared.generation == plain.generation
    for kind in ("nodes", "services", "instances"):
        assert [tuple(row) for row in getattr(plain, kind)] == [tuple(row) for row in getattr(prepared, kind)]
    assert ["h1", "h1"] == [prepared.nodes[0].host, prepared.instances[0].host]


def test_heartbeats_of_many_hosts_are_read_less_often(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a scheduler of a large fleet would do little besides."""
    monkeypatch.setattr("fleet.db.feed.feed.HEARTBEATS_A_SECOND", 1)
    clock = FakeClock()
    database.write(services.register, {"host": "h1", "binary": "fleet-compute", "topic": "compute"}, clock(), 60)
    feed = ChangeFeed(database, clock)
    since = feed.read(0).generation
    read_after_s = []
    for second in range(1, 5):
        clock.advance(1)
        if feed.read(since).heartbeats:
            read_after_s.append(second)

    assert [2, 4] == read_after_s  # a second, and one for the one heartbeat
