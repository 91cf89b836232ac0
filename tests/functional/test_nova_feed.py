# SPDX-License-Identifier: Apache-2.0
"""The feed over nova's tables, on every engine: all at first, then changes, and cells that are down."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exception

from fleet import errors
from fleet.clock import epoch_s, seconds
from fleet.db.connection.options import USUAL
from fleet.db.nova import api_queries, cell_queries, tables
from fleet.db.nova.database import NovaDatabase, cell_url
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.nova.cell_feed import RETRY_S, RETRY_SOON_S, Pace
from scheduler.nova.feed import NovaFeed
from scheduler.nova.polling import polled
from tests.clock import FakeClock
from tests.factories import NOW, uuid
from tests.functional import nova_schema
from tests.functional.nova_schema import Databases
from tests.nova import grants

#: Deleted instances in the plan of a poll; 1,000,000 take some minutes.
_DELETED = int(os.environ.get("FLEET_DELETED_ROWS", "100000"))


class FeedOverNova:
    """A host manager over the databases, with a clock that the test moves."""

    #: Limits of the waiting for the servers of the cells.
    within = USUAL

    def __init__(self, nova: Databases, url: str | None = None, **pace) -> None:
        self.nova = nova
        self.clock = FakeClock()
        self.stepped_s = 0.0
        self.cell_is_down = False
        self.api = NovaDatabase(url or nova.url, "[nova] api_connection")
        self.opened = [self.api]
        incomplete: set[int] = set()
        feeds = [
            NovaFeed(
                self.api,
                self._open,
                pace=Pace(**pace),
                clock=self.clock,
                incomplete=incomplete,
                monotonic=lambda: epoch_s(self.clock()) - self.stepped_s,
            )
            for _ in range(2)
        ]
        self.feeds = feeds
        self.feed = feeds[0]
        self.hosts = polled(HostManager)(*feeds, clock=self.clock)
        self.hosts.poll()

    def _open(self, cell):
        if self.cell_is_down:
            raise errors.DatabaseUnavailable(kind="DBConnectionError", problem="refused")
        self.opened.append(NovaDatabase(cell.url, "cell", self.within))
        return self.opened[-1]

    def step_clock(self, by_s: float) -> None:
        """Set the wall clock by this much: no time passes."""
        self.clock.advance(by_s)
        self.stepped_s += by_s

    def later(self, by_s: float = 1.0) -> None:
        """Move the clock, and poll."""
        self.clock.now += seconds(by_s)
        self.hosts.poll()

    def lose_the_cell(self, feed: int = 0) -> None:
        """The connection of one feed breaks, and no new one can be opened. The other feed is that of comparisons."""
        self.cell_is_down = True
        for cell in self.feeds[feed]._cells.values():
            cell._reader.close()
            cell._reader = None

    def free_ram(self) -> dict[str, int]:
        """Of hosts that may be chosen."""

        def work(hosts, _state):
            shown = hosts.rows[hosts.present()].tolist()
            return {hosts.key(row)[0]: hosts.value(row, "free_ram_mb") for row in shown}

        return self.hosts.consider(work)

    def up(self) -> list[str]:
        return self.hosts.hosts_up()[0]

    def instances(self, host: str) -> set[str]:
        return self.hosts.hint(lambda cache: cache.confirmed_on(host))

    def close(self) -> None:
        for feed in self.feeds:
            feed.close()
        for each in self.opened:
            each.dispose()


@pytest.fixture
def world(nova):
    made = FeedOverNova(nova)
    yield made
    made.close()


@pytest.fixture
def impatient(nova):
    made = FeedOverNova(nova, patience_s=10)
    yield made
    made.close()


@pytest.fixture
def reader_url(nova) -> Iterator[str]:
    """The URL of a role that has the documented grants and no others."""
    url = sa.make_url(nova.url)
    maria = url.get_backend_name() == "mysql"
    role = "'reader'@'%'" if maria else "reader"
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE USER {role}"))
        for read in (tables.API_TABLES, tables.CELL_TABLES, tables.PLACEMENT_TABLES):
            for statement in (grants.mariadb if maria else grants.postgresql)(url.database, "reader", read):
                connection.execute(sa.text(statement))
    yield url.set(username="reader").render_as_string(hide_password=False)
    with engine.connect() as connection:
        if not maria:
            connection.execute(sa.text(f"DROP OWNED BY {role}"))
        connection.execute(sa.text(f"DROP USER {role}"))


@pytest.mark.parametrize("nova_url", ["postgresql", "mariadb"], indirect=True)  # SQLite has no roles
def test_a_role_with_the_documented_grants(nova, reader_url):
    """It can read all that the feed needs, at first and when something changes, and can write nothing."""
    nova.add_instance(1, "cmp1", NOW)
    nova.insert(nova_schema.AGGREGATES, id=1, uuid=uuid(50), name="agg1")
    nova.insert(nova_schema.AGGREGATE_HOSTS, id=1, aggregate_id=1, host="cmp1")
    nova.update(nova_schema.CELLS, 2, database_connection=reader_url)
    world = FeedOverNova(nova, reader_url)
    try:
        nova.update(nova_schema.NODES, 2, memory_mb_used=1024, updated_at=NOW + seconds(1))
        world.later()
        assert {"cmp1": 7680, "cmp2": 7168} == world.free_ram()
        assert {uuid(1)} == world.instances("cmp1")
    finally:
        world.close()
    engine = sa.create_engine(reader_url, poolclass=sa.NullPool)
    for table in ("host_mappings", "compute_nodes"):
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(sa.text("SET TRANSACTION READ WRITE"))
            with pytest.raises(sa.exc.DBAPIError, match="denied"):
                connection.execute(sa.text(f"UPDATE {table} SET host = 'x'"))


def test_everything_at_first(nova):
    """Hosts with their cell and uuid, instances, aggregates."""
    nova.add_instance(1, "cmp1", NOW)
    nova.add_instance(2, None, NOW)
    nova.insert(nova_schema.AGGREGATES, id=1, uuid=uuid(50), name="agg1")
    nova.insert(nova_schema.AGGREGATE_HOSTS, id=1, aggregate_id=1, host="cmp1")
    nova.insert(nova_schema.AGGREGATE_METADATA, id=1, aggregate_id=1, key="availability_zone", value="az1")
    world = FeedOverNova(nova)
    try:
        assert {"cmp1": 7680, "cmp2": 7680} == world.free_ram()  # 8192 less the 512 that nova counts as used
        assert ({uuid(1)}, set()) == (world.instances("cmp1"), world.instances("cmp2"))

        def work(hosts, _state):
            row = hosts.row_of(("cmp1", "cmp1"))
            (aggregate,) = hosts.aggregates(row)
            return hosts.object(row, "node_uuid"), hosts.shared(row, "cell"), aggregate.uuid, aggregate.metadata

        zone = {"availability_zone": "az1"}
        assert (uuid(101), nova_schema.CELL_UUID, uuid(50), zone) == world.hosts.consider(work)
    finally:
        world.close()


def test_a_node_changes(world):
    """The next poll shows it, and later polls do not read it again."""
    world.nova.update(nova_schema.NODES, 1, memory_mb_used=1024, updated_at=NOW + seconds(0.5))
    world.later()
    assert {"cmp1": 7168, "cmp2": 7680} == world.free_ram()
    known = world.hosts._cache.generation
    world.clock.now += seconds(1)
    assert () == tuple(world.feed.read(known).nodes)


def nodes(world) -> set[tuple[str, str]]:
    return world.hosts.consider(lambda hosts, _state: {hosts.key(row) for row in hosts.rows[hosts.present()].tolist()})


@pytest.mark.parametrize("read", [lambda world: None, lambda world: world.hosts.compare()], ids=["poll", "comparison"])
def test_a_node_of_bare_metal_moves_to_another_host(world, read):
    """Its former compute service has it no longer. Then it moves back."""
    for number, host in enumerate(["cmp2", "cmp1", "cmp2"], start=1):
        changed = world.clock.now + seconds(0.5)
        world.nova.update(nova_schema.NODES, 1, host=host, memory_mb_used=512 + number, updated_at=changed)
        world.later()
        read(world)
        assert {(host, "cmp1"), ("cmp2", "cmp2")} == nodes(world)


def test_a_node_is_made_anew_before_the_next_reading(world):
    """The former row is deleted, and has the larger id here: the order of rows decides nothing."""
    world.nova.add_host(9, NOW + seconds(0.2))
    world.later()
    world.nova.update(nova_schema.NODES, 9, deleted=9)
    now = world.clock.now
    values = dict(host="cmp9", hypervisor_hostname="cmp9", vcpus=8, memory_mb=4096, local_gb=10, vcpus_used=0)
    used = dict(memory_mb_used=0, local_gb_used=0, hypervisor_type="fake", hypervisor_version=1, created_at=now)
    world.nova.insert(nova_schema.NODES, id=5, uuid=uuid(105), **values, **used)
    world.later(6)
    assert 4096 == world.free_ram()["cmp9"]


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5000, "-1e999", "many", "[" * 3000])
def test_statistics_that_are_no_numbers(world, number):
    """A compute service writes them as texts. They count as 0, and the other hosts are read."""
    stats = json.dumps(dict.fromkeys(("num_instances", "io_workload", "failed_builds"), number))
    changed = NOW + seconds(0.5)
    world.nova.update(nova_schema.NODES, 1, stats=stats, memory_mb_used=1024, updated_at=changed)
    world.nova.update(nova_schema.NODES, 2, memory_mb_used=1024, updated_at=changed)
    world.later()
    assert {"cmp1": 7168, "cmp2": 7168} == world.free_ram()


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("stats", "[" * 50_000),
        ("pci_stats", "[" * 50_000),
        ("pci_stats", '{"nova_object.name": "PciDevicePoolList", "nova_object.data": null}'),
        ("supported_instances", "5"),
        ("supported_instances", "[null]"),
        ("supported_instances", '[[{"arch": "x86_64"}, null]]'),
    ],
)
def test_a_report_in_no_form_of_nova(world, column, text):
    """What cannot be read counts as empty: the node itself and all others are read."""
    changed = NOW + seconds(0.5)
    world.nova.update(nova_schema.NODES, 1, **{column: text}, memory_mb_used=1024, updated_at=changed)
    world.nova.update(nova_schema.NODES, 2, memory_mb_used=1024, updated_at=changed)
    world.later()
    assert {"cmp1": 7168, "cmp2": 7168} == world.free_ram()


def test_a_poll_after_the_first_reading(nova):
    """Shows nothing again of hosts that have not changed for long."""
    nova.create()
    nova.add_host(1, NOW - seconds(3600))
    world = FeedOverNova(nova)
    try:
        world.clock.now += seconds(1)
        found = world.feed.read(world.hosts._cache.generation)
        assert ((), (), ()) == (tuple(found.nodes), tuple(found.services), tuple(found.instances))
    finally:
        world.close()


def test_a_change_by_a_clock_that_is_behind(world):
    """A change within the overlap of 15 s is found."""
    world.later(60)
    world.later()
    world.nova.update(nova_schema.NODES, 1, memory_mb_used=1024, updated_at=world.clock.now - seconds(12))
    world.later()
    assert 7168 == world.free_ram()["cmp1"]


def test_what_polling_misses(world):
    """The full comparison finds: a change by a clock that is far behind, and rows that are gone."""
    world.later(60)
    world.nova.update(nova_schema.NODES, 1, memory_mb_used=1024, updated_at=NOW - seconds(3600))
    world.nova.delete(nova_schema.NODES, 2)
    world.later()
    assert {"cmp1": 7680, "cmp2": 7680} == world.free_ram()
    world.hosts.compare()
    assert {"cmp1": 7168} == world.free_ram()


def test_an_instance_comes_moves_and_goes(world):
    """It is on the host of its row; a row without a host is on none."""
    world.nova.add_instance(1, None, NOW + seconds(0.5), vm_state="building")
    world.later()
    assert (set(), set()) == (world.instances("cmp1"), world.instances("cmp2"))
    world.nova.update(nova_schema.INSTANCES, 1, host="cmp1", updated_at=world.clock.now)
    world.later()
    assert ({uuid(1)}, set()) == (world.instances("cmp1"), world.instances("cmp2"))
    world.nova.update(nova_schema.INSTANCES, 1, host="cmp2", updated_at=world.clock.now)
    world.later()
    assert (set(), {uuid(1)}) == (world.instances("cmp1"), world.instances("cmp2"))
    world.nova.update(nova_schema.INSTANCES, 1, vm_state="deleted", deleted=1, updated_at=world.clock.now)
    world.later()
    assert set() == world.instances("cmp2")


def test_heartbeats_and_flags(world):
    """A silent host is down after service_down_time; a disabled one at the next poll, until it is enabled."""
    world.nova.update(nova_schema.SERVICES, 1, last_seen_up=NOW + seconds(70))
    world.later(70)
    assert ["cmp1"] == world.up()
    world.nova.update(nova_schema.SERVICES, 1, disabled=True, updated_at=world.clock.now)
    world.later()
    assert [] == world.up()
    world.nova.update(nova_schema.SERVICES, 1, disabled=False, updated_at=world.clock.now)
    world.later()
    assert ["cmp1"] == world.up()


@pytest.mark.parametrize("statement", ["changed_instances", "changed_nodes", "heartbeats"])
def test_a_connection_is_lost_within_a_reading(world, monkeypatch, statement):
    """All statements run again on a new connection, and what the first ones had found is shown."""
    later = NOW + seconds(30)  # what was read at first is not within the overlap any more
    world.nova.update(nova_schema.SERVICES, 1, last_seen_up=later, updated_at=later)
    world.nova.update(nova_schema.SERVICES, 2, last_seen_up=later, updated_at=later, disabled=True)
    world.later(30)
    assert ["cmp1"] == world.up()
    world.nova.update(nova_schema.SERVICES, 2, disabled=False)
    world.nova.update(nova_schema.NODES, 1, host="cmp2", updated_at=world.clock.now)
    query = getattr(cell_queries, statement)

    def lost(*_arguments):
        monkeypatch.setattr(cell_queries, statement, query)
        raise db_exception.DBConnectionError

    monkeypatch.setattr(cell_queries, statement, lost)
    world.later(6)
    assert (["cmp2"], {("cmp2", "cmp1"), ("cmp2", "cmp2")}) == (world.up(), nodes(world))


def test_a_new_host(world, caplog):
    """Is left out until it is mapped to a cell, with one line; then it is read in whole."""
    world.nova.add_host(3, NOW + seconds(0.5))
    world.nova.delete(nova_schema.HOST_MAPPINGS, 3)
    world.later(6)
    world.later(6)
    assert {"cmp1", "cmp2"} == set(world.free_ram())
    assert 1 == caplog.text.count("discover_hosts")
    world.nova.insert(nova_schema.HOST_MAPPINGS, id=3, cell_id=2, host="cmp3")
    world.later(600)
    assert {"cmp1", "cmp2", "cmp3"} == set(world.free_ram())


def test_a_host_without_a_mapping_any_more(world):
    """Is left out: nova's conductor would not find it."""
    world.nova.delete(nova_schema.HOST_MAPPINGS, 2)
    world.later(6)
    assert {"cmp1"} == set(world.free_ram())


def test_aggregates_change(world):
    """At a poll every five seconds, and deleted ones go."""
    world.nova.insert(nova_schema.AGGREGATES, id=1, uuid=uuid(50), name="agg1")
    world.nova.insert(nova_schema.AGGREGATE_HOSTS, id=1, aggregate_id=1, host="cmp1")
    world.later(6)

    def named():
        return world.hosts.consider(
            lambda hosts, _state: [each.name for each in hosts.aggregates(hosts.row_of(("cmp1", "cmp1")))]
        )

    assert ["agg1"] == named()
    world.hosts.compare()
    assert ["agg1"] == named()
    world.nova.delete(nova_schema.AGGREGATES, 1)
    world.later(6)
    assert [] == named()


def test_a_cell_that_is_silent_for_a_moment_keeps_its_hosts(world, caplog):
    """As they were known. What has changed meanwhile is read when it answers again, whenever it was written."""
    world.lose_the_cell()
    for _ in range(4):
        world.later()
    assert (["cmp1", "cmp2"], 7680) == (world.up(), world.free_ram()["cmp1"])
    assert 1 == caplog.text.count("its hosts stay as they were known")
    world.nova.update(nova_schema.NODES, 1, memory_mb_used=1024, updated_at=NOW - seconds(3600))
    world.cell_is_down = False
    world.later(RETRY_SOON_S)
    assert (["cmp1", "cmp2"], 7168) == (world.up(), world.free_ram()["cmp1"])


def test_a_cell_goes_down_and_comes_back(impatient, caplog):
    """After a while its hosts are left out, with one log line. When the cell answers again, all its hosts are back."""
    world = impatient
    world.lose_the_cell()
    for _ in range(5):
        world.later(4)
    assert [] == world.up()
    assert 1 == caplog.text.count("cannot be read, its 2 hosts are left out")
    world.nova.update(nova_schema.NODES, 1, memory_mb_used=1024, updated_at=NOW)
    world.cell_is_down = False
    world.later(RETRY_S + 1)
    assert (["cmp1", "cmp2"], 7168) == (world.up(), world.free_ram()["cmp1"])


def test_a_comparison_while_the_cell_is_away(world):
    """Is not made: it would drop the hosts. When the cell is given up it does, and the next poll that reaches the cell
    shows them again.
    """
    world.hosts.compare()
    world.cell_is_down = True  # the open connection of the polls still works
    world.lose_the_cell(1)
    with pytest.raises(errors.DatabaseError):
        world.hosts.compare()
    assert {"cmp1", "cmp2"} == set(world.free_ram())
    world.clock.now += seconds(61)
    world.hosts.compare()
    world.later()
    assert {"cmp1", "cmp2"} == set(world.free_ram())


def test_one_host(world):
    """Is compared by itself."""
    world.nova.update(nova_schema.NODES, 1, memory_mb_used=1024, updated_at=NOW - seconds(3600))
    world.hosts.compare_host("cmp1")
    assert {"cmp1": 7168, "cmp2": 7680} == world.free_ram()


def test_nothing_can_be_written(world):
    """Whatever the role may do, the session only reads."""
    with pytest.raises(errors.DatabaseError):
        world.api.read(lambda connection: connection.execute(sa.text("DELETE FROM aggregates")))


def test_a_flavor_and_a_request(world):
    """By name, by flavorid, and by server."""
    nova = world.nova
    nova.insert(
        nova_schema.FLAVORS,
        id=7,
        name="small",
        flavorid="42",
        memory_mb=512,
        vcpus=1,
        root_gb=1,
        ephemeral_gb=0,
        swap=0,
    )
    nova.insert(nova_schema.FLAVOR_SPECS, id=1, flavor_id=7, key="hw:numa_nodes", value="1")
    nova.insert(nova_schema.REQUEST_SPECS, id=1, instance_uuid=uuid(1), spec='{"nova_object.name": "RequestSpec"}')
    found = world.api.read(api_queries.flavor, "small")
    assert found == world.api.read(api_queries.flavor, "42")
    assert ({"hw:numa_nodes": "1"}, 512) == (found["extra_specs"], found["memory_mb"])
    assert None is world.api.read(api_queries.flavor, "none")
    assert {"nova_object.name": "RequestSpec"} == world.api.read(api_queries.request_spec, uuid(1))


def test_the_name_of_a_flavor_that_is_the_flavorid_of_another(world):
    """nova's commands take the flavorid first, so this is what an operator means."""
    for number, name, flavorid in ((1, "2", "10"), (2, "small", "2")):
        sizes = dict.fromkeys(("vcpus", "root_gb", "ephemeral_gb", "swap"), 1)
        world.nova.insert(nova_schema.FLAVORS, id=number, name=name, flavorid=flavorid, memory_mb=512 * number, **sizes)
    assert ["small", "2"] == [world.api.read(api_queries.flavor, name)["name"] for name in ("2", "10")]


@pytest.mark.parametrize("text", ["", "{", "[" * 50_000])
def test_a_request_and_rules_that_cannot_be_read(world, text):
    """They count as empty: other requests are compared, and the group keeps its policy."""
    nova = world.nova
    for number, spec in ((1, text), (2, '{"nova_object.name": "RequestSpec"}')):
        nova.insert(nova_schema.REQUEST_SPECS, id=number, instance_uuid=uuid(number), spec=spec)
    nova.insert(nova_schema.GROUPS, id=1, uuid=uuid(61), name="web")
    nova.insert(nova_schema.GROUP_POLICIES, id=1, group_id=1, policy="affinity", rules=text)
    read = world.api.read
    found = {uuid(2): {"nova_object.name": "RequestSpec"}, uuid(1): {}}
    assert found == dict(read(api_queries.newest_request_specs, 5))
    assert {} == read(api_queries.request_spec, uuid(1))
    assert api_queries.Group(uuid(61), ["affinity"], {}, []) == read(api_queries.group, "web")


def test_server_groups(nova, world):
    """By uuid before name, with policies, rules and members."""
    for number, name in ((1, uuid(62)), (2, "web")):
        nova.insert(nova_schema.GROUPS, id=number, uuid=uuid(60 + number), name=name)
    nova.insert(
        nova_schema.GROUP_POLICIES, id=1, group_id=2, policy="anti-affinity", rules='{"max_server_per_host": "2"}'
    )
    nova.insert(nova_schema.GROUP_MEMBERS, id=1, group_id=2, instance_uuid=uuid(1))
    found = world.api.read(api_queries.group, "web")
    assert api_queries.Group(uuid(62), ["anti-affinity"], {"max_server_per_host": "2"}, [uuid(1)]) == found
    assert found == world.api.read(api_queries.group, uuid(62))
    assert api_queries.Group(uuid(61), [], {}, []) == world.api.read(api_queries.group, uuid(61))
    assert None is world.api.read(api_queries.group, "none")


@pytest.mark.parametrize(
    ("mapping", "template", "url"),
    [
        ("mysql+pymysql://nova:pw@db1:3306/cell1", "", "mysql+pymysql://nova:pw@db1:3306/cell1"),
        ("mysql+pymysql://nova:pw@db1/cell1", "mysql+pymysql://r:x@{hostname}/{path}", "mysql+pymysql://r:x@db1/cell1"),
        ("mysql+pymysql://nova:pw@db1/c1", "{scheme}://r:x@{hostname}:{port}/{path}", "mysql+pymysql://r:x@db1/c1"),
        ("{scheme}://{username}:{password}@{hostname}/cell2", "", "mysql+pymysql://main:mpw@main-db/cell2"),
        ("mysql://a:b@/c?unix_socket=/s", "mysql://r@/{path}?{query}", "mysql://r@/c?unix_socket=/s"),
    ],
)
def test_urls_of_cells(mapping, template, url):
    """nova's templates are filled from the main URL, ours from the cell's."""
    assert url.replace("%2F", "/") == cell_url(mapping, template, "mysql+pymysql://main:mpw@main-db/api").replace(
        "%2F", "/"
    )


def test_a_template_that_cannot_be_filled():
    """Is a configuration error that does not show the URL."""
    with pytest.raises(errors.ConfigError) as wrong:
        cell_url("mysql://nova:secret@db/c", "mysql://{user}@x", "mysql://a@b/c")
    assert "secret" not in wrong.value.message


@pytest.mark.parametrize("nova_url", ["postgresql", "mariadb"], indirect=True)
def test_a_poll_reads_indexes_and_not_the_deleted_rows(nova):
    """Two statements, each by an index that nova has: the database's plan, among many deleted rows."""
    engine = sa.create_engine(nova.url, poolclass=sa.NullPool)
    maria = engine.dialect.name == "mysql"
    numbers = (
        f"SELECT seq AS n FROM seq_1_to_{_DELETED}" if maria else f"SELECT n FROM generate_series(1, {_DELETED}) AS n"
    )
    old = "TIMESTAMP '2020-01-01 00:00:00'"
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO instances (id, uuid, deleted, created_at, updated_at, vm_state) "
                f"SELECT n + 1000, 'deleted', n + 1000, {old}, {old}, 'deleted' FROM ({numbers}) AS numbers"
            )
        )
        connection.execute(sa.text("ANALYZE TABLE instances" if maria else "ANALYZE instances"))
    with engine.connect() as connection:
        for statement in (cell_queries._UPDATED, cell_queries._CREATED):
            compiled = statement.compile(engine, compile_kwargs={"render_postcompile": True})
            plan = connection.exec_driver_sql(f"EXPLAIN {compiled}", _parameters(compiled)).all()
            told = " ".join(str(value) for row in plan for value in row)
            assert "instances_updated_at_project_id_idx" in told or "instances_deleted_created_at_idx" in told, told
            assert "Seq Scan" not in told
        assert [] == cell_queries.changed_instances(connection, NOW)


def _parameters(compiled):
    """As the driver takes them, with a time that few rows have reached."""
    values = {name: NOW if value is None else value for name, value in compiled.params.items()}
    return tuple(values[name] for name in compiled.positiontup) if compiled.positional else values


def test_a_new_instance_is_read_before_it_is_updated(world):
    """And once, though both times are of now."""
    world.nova.add_instance(50, "cmp1", NOW)
    world.later()
    assert uuid(50) in world.instances("cmp1")
