# SPDX-License-Identifier: Apache-2.0
"""Capacity as placement has it, on every engine: its inventories, traits and allocations decide which hosts are chosen."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_messaging.rpc import dispatcher

from fleet import errors
from fleet.clock import epoch_s, seconds
from fleet.context import new_context
from fleet.db.nova import placement_queries
from fleet.db.nova.database import NovaDatabase
from fleet.rpc.notifier import Silence
from scheduler.compute.drivers import driver_loading
from scheduler.nova.endpoint import NovaEndpoint
from scheduler.nova.feed import NovaFeed
from scheduler.nova.placing import Placing
from scheduler.nova.polling import polled
from scheduler.nova.providers import ProviderFeed, ProviderNotes
from scheduler.nova.rebuild import RebuildCheck
from tests.clock import FakeClock
from tests.factories import NOW, uuid
from tests.functional import nova_schema
from tests.functional.nova_schema import Databases
from tests.unit.scheduler.nova.recordings import arguments, envelope, flavor
from tests.unit.scheduler.plugins import configuration

#: nova's own list of filters: none of them judges capacity.
NOVAS_FILTERS = ["ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter"]


class EndpointOverNova:
    """The endpoint over the databases, without claims. Placement's is the same database, unless given.

    :param reads_placement: False to take capacity from the columns of the nodes
    """

    def __init__(
        self, nova: Databases, placement: NovaDatabase | None = None, reads_placement: bool = True, **options: Any
    ) -> None:
        self.nova = nova
        self.clock = FakeClock()
        self.stepped_s = 0.0
        self.notes = ProviderNotes()
        self._reads_placement = reads_placement
        self.database = placement or NovaDatabase(nova.url, "placement")
        self.opened = [self.database]
        conf = configuration(scheduler_max_attempts=3, **options)
        self.driver = driver_loading.build_driver(conf, self._feed, Silence(), self.clock, polled)
        self.hosts = self.driver.host_manager
        self.placing = Placing(self.driver, None, 2, "nova", notes=self.notes if reads_placement else None)
        self.endpoint = NovaEndpoint(self.driver, self.placing, RebuildCheck(conf, self.hosts))
        self.hosts.poll()

    def _feed(self) -> NovaFeed:
        providers = (
            ProviderFeed(self.database, self.notes, self.clock, self._monotonic) if self._reads_placement else None
        )
        self.opened.append(NovaDatabase(self.nova.url, "api"))
        clocks = {"clock": self.clock, "monotonic": self._monotonic}
        return NovaFeed(self.opened[-1], self._open, incomplete=set(), providers=providers, **clocks)

    def _monotonic(self) -> float:
        return epoch_s(self.clock()) - self.stepped_s

    def _open(self, cell: Any) -> NovaDatabase:
        self.opened.append(NovaDatabase(cell.url, "cell"))
        return self.opened[-1]

    def step_clock(self, by_s: float) -> None:
        """Set the wall clock by this much: no time passes."""
        self.clock.advance(by_s)
        self.stepped_s += by_s

    def later(self, by_s: float = 1.0) -> None:
        self.clock.now += seconds(by_s)
        self.hosts.poll()

    def boot(self, number: int, **fields: Any) -> str:
        """The host of a server; "none" if it is refused."""
        asked = arguments(instance_uuid=uuid(number), **fields)
        asked["instance_uuids"] = [uuid(number)]
        try:
            answer = self.endpoint.select_destinations(new_context(), **asked)
        except dispatcher.ExpectedException as refusal:
            self.reason = str(refusal.exc_info[1])
            return "none"
        host: str = answer[0][0]["nova_object.data"]["service_host"]
        return host

    def close(self) -> None:
        for feed in (self.hosts._feed, self.hosts._audit_feed):
            feed.close()
        for each in self.opened:
            each.dispose()


@pytest.fixture
def world(nova: Databases) -> Iterator[EndpointOverNova]:
    """On PostgreSQL with the default filters of this project, else with those of nova."""
    for number in (1, 2):
        nova.add_provider(number)
    options = {} if nova.url.startswith("postgresql") else {"scheduler_default_filters": NOVAS_FILTERS}
    made = EndpointOverNova(nova, **options)
    yield made
    made.close()


def test_the_ratio_is_that_of_placement(world: EndpointOverNova) -> None:
    """4 in the column of the node, 32 in placement: 6 servers of 8 vcpus fit on one host, as nova places them."""
    world.nova.update(nova_schema.SERVICES, 2, disabled=True, updated_at=NOW + seconds(1))
    world.nova.set_inventory(1, "VCPU", allocation_ratio=32.0)
    world.nova.update(nova_schema.NODES, 1, cpu_allocation_ratio=4.0, updated_at=NOW + seconds(1))
    world.later()
    assert ["cmp1"] * 6 == [world.boot(number, flavor=flavor(vcpus=8)) for number in range(1, 7)]
    world.nova.set_inventory(1, "VCPU", allocation_ratio=4.0)
    world.later()
    assert "none" == world.boot(7, flavor=flavor(vcpus=8))  # 8 x 4 = 32 vcpus, of which 48 are booked


@pytest.mark.parametrize("resource_class", ["VCPU", "MEMORY_MB", "DISK_GB"])
def test_a_ratio_of_0_leaves_no_room(world: EndpointOverNova, resource_class: str) -> None:
    """In a column of a node, 0 stands for the default."""
    world.nova.set_inventory(1, resource_class, allocation_ratio=0.0)
    world.later()
    asked = flavor(vcpus=1, memory_mb=64, root_gb=1)
    assert ["cmp2"] * 3 == [world.boot(number, flavor=asked) for number in range(1, 4)]
    world.nova.set_inventory(2, resource_class, allocation_ratio=0.0)
    world.later()
    assert "none" == world.boot(4, flavor=asked)


def test_what_is_reserved_is_that_of_placement(world: EndpointOverNova) -> None:
    """All but 1 GB of each host is reserved there; the columns of the nodes have 7.5 GB free."""
    for number in (1, 2):
        world.nova.set_inventory(number, "MEMORY_MB", reserved=7168)
    world.later()
    assert ["cmp1", "cmp2"] == sorted(world.boot(number, flavor=flavor(memory_mb=1024)) for number in (1, 2))
    assert "none" == world.boot(3, flavor=flavor(memory_mb=1024))


@pytest.mark.parametrize(
    ("unit", "vcpus", "host"),
    [
        ({"min_unit": 4}, 2, "none"),
        ({"min_unit": 4}, 4, "cmp1"),
        ({"max_unit": 2}, 4, "none"),
        ({"max_unit": 2}, 2, "cmp1"),
        ({"step_size": 3}, 4, "none"),
        ({"step_size": 3}, 6, "cmp1"),
        ({"total": 2, "max_unit": 8}, 8, "cmp1"),  # 2 vcpus at ratio 4: one server may have them all
    ],
)
def test_units(world: EndpointOverNova, unit: dict[str, int], vcpus: int, host: str) -> None:
    """Amounts are within min_unit and max_unit, and multiples of step_size."""
    world.nova.delete_provider(2)
    world.nova.set_inventory(1, "VCPU", **unit)
    world.later()
    assert host == world.boot(1, flavor=flavor(vcpus=vcpus))


@pytest.mark.parametrize(
    ("unit", "vcpus", "reason"),
    [
        ({"step_size": 3}, 4, "allows VCPU from 1 to 8 in steps of 3, and 4 are requested"),
        ({"min_unit": 4}, 2, "allows VCPU from 4 to 8 in steps of 1, and 2 are requested"),
        ({"max_unit": 2}, 4, "lacks 2 vcpus: limit 32, used 0, asked 4; even empty it has 2"),
        # (8 - 4) x 4 = 16 for instances, of which one may have 20 by max_unit.
        ({"reserved": 4, "max_unit": 20}, 20, "lacks 4 vcpus: limit 20, used 4, asked 20; even empty it has 16"),
    ],
)
def test_a_refusal_names_the_units(world: EndpointOverNova, unit: dict[str, int], vcpus: int, reason: str) -> None:
    """A host that has room says which amounts it allows. What is reserved is no room of an empty host."""
    world.nova.delete_provider(2)
    world.nova.set_inventory(1, "VCPU", **unit)
    world.later()
    assert "none" == world.boot(1, flavor=flavor(vcpus=vcpus))
    assert "NEVER_FITS: There are" in world.reason
    assert f"Nearest: cmp1 {reason}." in world.reason


def test_one_server_may_be_larger_than_its_host(world: EndpointOverNova) -> None:
    """2 vcpus at ratio 4, and max_unit is 8: a full host is full, and no host on which the server never fits."""
    world.nova.delete_provider(2)
    world.nova.set_inventory(1, "VCPU", total=2, max_unit=8)
    world.later()
    assert 1 == world.endpoint.capacity(new_context(), **_wire(8))["fits"]
    assert "cmp1" == world.boot(1, flavor=flavor(vcpus=8))
    assert "none" == world.boot(2, flavor=flavor(vcpus=8))
    assert "CAPACITY: There are" in world.reason


def test_a_host_whose_provider_is_deleted_is_left_out(world: EndpointOverNova) -> None:
    """Its service is up and it is empty, but a claim on it would fail. It is back with a new provider."""
    world.nova.allocate(uuid(9), 2, NOW, MEMORY_MB=4096)
    world.nova.delete_provider(1)
    world.later()
    assert ["cmp2"] * 2 == [world.boot(number) for number in (1, 2)]
    world.nova.delete_provider(2)
    world.later()
    assert "none" == world.boot(3)
    assert "has no resource provider in placement" in world.reason
    world.nova.add_provider(1)
    world.later()
    assert "cmp1" == world.boot(4)


def test_what_others_have_taken_counts(world: EndpointOverNova) -> None:
    """An allocation that no instance shows, such as that of a migration."""
    world.nova.allocate(uuid(9), 1, NOW, MEMORY_MB=7600, VCPU=1)
    world.later()
    assert ["cmp2"] * 3 == [world.boot(number) for number in (1, 2, 3)]


def test_a_claim_is_counted_once(world: EndpointOverNova) -> None:
    """It is booked until placement's figures have it, and not twice then. The last room of a host is not lost meanwhile."""
    world.nova.update(nova_schema.SERVICES, 2, disabled=True, updated_at=NOW + seconds(1))
    world.nova.set_inventory(1, "MEMORY_MB", reserved=7168)  # room for two servers of 512 MB
    world.later()
    assert "cmp1" == world.boot(1)
    world.nova.allocate(uuid(1), 1, NOW + seconds(1), MEMORY_MB=512, VCPU=1, DISK_GB=1)
    world.later()
    assert {"nodes": 2, "instances": 1, "bookings": 1} == world.hosts.counts()  # the row of the instance comes later
    world.hosts.compare()
    assert "cmp1" == world.boot(2)
    assert "none" == world.boot(3)


def test_a_booking_outlives_the_row_of_the_instance(world: EndpointOverNova) -> None:
    """The instance's row names the host before the node's row counts it. Its room is taken all the same."""
    world.nova.update(nova_schema.SERVICES, 2, disabled=True, updated_at=NOW + seconds(1))
    world.nova.set_inventory(1, "MEMORY_MB", reserved=7680)  # room for one
    world.later()
    assert "cmp1" == world.boot(1)
    world.nova.allocate(uuid(1), 1, world.clock.now, MEMORY_MB=512, VCPU=1, DISK_GB=1)
    world.nova.add_instance(1, "cmp1", world.clock.now)  # the node still has vcpus_used = 0
    world.later()
    assert 0 == world.hosts.counts()["bookings"]
    assert "none" == world.boot(2)
    world.hosts.compare()
    assert "none" == world.boot(2)


def test_a_booking_lives_until_the_node_counts_the_instance(nova: Databases) -> None:
    """Without placement's database: nova-compute writes the instance's row within its claim, and the node's row after it.

    A request between the two finds no room. Afterwards the room is not taken twice.
    """
    world = EndpointOverNova(nova, reads_placement=False)
    try:
        nova.update(nova_schema.SERVICES, 2, disabled=True, updated_at=NOW + seconds(1))
        world.later()
        assert "cmp1" == world.boot(1, flavor=flavor(memory_mb=7000))
        nova.add_instance(1, "cmp1", world.clock.now, vm_state="building", task_state=None)
        for read in (world.later, world.hosts.compare):
            read()
            assert {"nodes": 2, "instances": 1, "bookings": 1} == world.hosts.counts()
            assert "none" == world.boot(2, flavor=flavor(memory_mb=7000))
        nova.update(nova_schema.NODES, 1, memory_mb_used=7512, vcpus_used=1, updated_at=world.clock.now)
        nova.update(nova_schema.INSTANCES, 1, task_state="spawning", updated_at=world.clock.now)
        world.later()
        assert {"nodes": 2, "instances": 1, "bookings": 0} == world.hosts.counts()
        assert 680 == _free(world, "cmp1")
        assert "cmp1" == world.boot(3, flavor=flavor(memory_mb=600))
    finally:
        world.close()


def test_a_claim_that_is_given_up(nova: Databases) -> None:
    """The compute service dies within its claim: the booking ends, and the instance is shown where its row says."""
    world = EndpointOverNova(nova, reads_placement=False, scheduler_booking_timeout=30)
    try:
        nova.update(nova_schema.SERVICES, 2, disabled=True, updated_at=NOW + seconds(1))
        world.later()
        assert "cmp1" == world.boot(1, flavor=flavor(memory_mb=7000))
        nova.add_instance(1, "cmp1", world.clock.now, vm_state="building", task_state=None)
        world.later()
        nova.update(nova_schema.SERVICES, 1, last_seen_up=NOW + seconds(40), updated_at=NOW + seconds(40))
        world.later(40)
        assert "cmp1" == world.boot(2, flavor=flavor(memory_mb=7000))
        assert {"nodes": 2, "instances": 2, "bookings": 1} == world.hosts.counts()
    finally:
        world.close()


def test_what_is_given_back(world: EndpointOverNova) -> None:
    """A deleted allocation changes no generation. It shows within 5 s, and at once to a request that finds no host."""
    for number in (1, 2):
        world.nova.allocate(uuid(10 + number), number, NOW, MEMORY_MB=7680)
    world.later()
    assert "none" == world.boot(1)
    world.placing._looked_at = -10.0
    world.nova.give_back(uuid(12))
    assert "cmp2" == world.boot(2)
    world.nova.give_back(uuid(11))
    world.later(4)
    assert 0 == _free(world, "cmp1")
    world.later(6)
    assert 7680 == _free(world, "cmp1")


def test_what_is_given_back_after_the_schedulers_clock_was_ahead(world: EndpointOverNova) -> None:
    """It shows within 5 s all the same."""
    world.nova.allocate(uuid(11), 1, NOW, MEMORY_MB=7680)
    world.step_clock(3600)
    world.later(6)
    world.step_clock(-3600)
    world.nova.give_back(uuid(11))
    world.later(6)
    assert 7680 == _free(world, "cmp1")


def test_requests_that_find_no_host_at_the_same_time(world: EndpointOverNova, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reads what has been given back; the other, which was decided before that, is decided again."""
    world.nova.allocate(uuid(11), 1, NOW, MEMORY_MB=7680)
    world.nova.allocate(uuid(12), 2, NOW, MEMORY_MB=7680)
    world.later()
    for consumer in (11, 12):
        world.nova.give_back(uuid(consumer))
    select, inner = world.driver.select_destinations, []

    def select_late(*arguments: Any) -> Any:
        try:
            return select(*arguments)
        except errors.NoValidHost:
            if not inner:
                inner.append("")
                inner[0] = world.boot(2)
            raise

    monkeypatch.setattr(world.driver, "select_destinations", select_late)
    outer = world.boot(1)
    assert {"cmp1", "cmp2"} == {outer, *inner}


def _free(world: EndpointOverNova, host: str) -> int:
    """Free memory in MB."""
    return world.hosts.consider(lambda hosts, _state: hosts.value(hosts.row_of((host, host)), "free_ram_mb"))


def test_traits_are_those_of_placement(world: EndpointOverNova) -> None:
    """Required and forbidden ones; a change shows at the next poll."""
    wanted = {"flavor": flavor(extra_specs={"trait:CUSTOM_FAST": "required"})}
    assert "none" == world.boot(1, **wanted)
    assert "has not the trait CUSTOM_FAST" in world.reason
    world.nova.give_trait(2, "CUSTOM_FAST")
    world.later()
    assert "cmp2" == world.boot(2, **wanted)
    assert "cmp1" == world.boot(3, flavor=flavor(extra_specs={"trait:CUSTOM_FAST": "forbidden"}))
    image = envelope("ImageMeta", properties=envelope("ImageMetaProps", traits_required=["CUSTOM_FAST"]))
    assert "cmp2" == world.boot(4, image=image)


def test_a_trait_that_is_new_to_placement(world: EndpointOverNova) -> None:
    world.nova.insert(nova_schema.TRAITS, id=9, name="CUSTOM_NEW")
    nova_schema.TRAIT_IDS["CUSTOM_NEW"] = 9
    try:
        world.nova.give_trait(1, "CUSTOM_NEW")
        world.later()
        assert "cmp1" == world.boot(1, flavor=flavor(extra_specs={"trait:CUSTOM_NEW": "required"}))
    finally:
        del nova_schema.TRAIT_IDS["CUSTOM_NEW"]


def test_a_forced_host(world: EndpointOverNova) -> None:
    """It overrules filters, and not what placement says: a disabled or full host is refused, as by nova."""
    assert "cmp2" == world.boot(1, force_hosts=["cmp2"], ignore_hosts=[])
    world.nova.give_trait(2, "COMPUTE_STATUS_DISABLED")
    world.later()
    assert "none" == world.boot(2, force_hosts=["cmp2"])
    assert "is disabled" in world.reason
    world.nova.allocate(uuid(9), 1, NOW, MEMORY_MB=7600)
    world.later()
    assert "none" == world.boot(3, force_hosts=["cmp1"])


def test_providers_beside_compute_nodes(world: EndpointOverNova) -> None:
    """What nested and sharing providers offer is noted: requests for it are not decided by the columns of hosts."""
    assert frozenset() == world.notes.elsewhere
    values = dict(id=7, uuid=uuid(70), generation=0, root_provider_id=7)
    world.nova.insert(nova_schema.PROVIDERS, **values)
    world.nova.add_inventory(7, "DISK_GB", total=10_000)
    world.nova.give_trait(7, "MISC_SHARES_VIA_AGGREGATE")
    world.later()
    assert {"DISK_GB"} == world.notes.elsewhere
    world.nova.insert(nova_schema.PROVIDERS, **{**values, "id": 8, "uuid": uuid(80)}, parent_provider_id=1)
    world.nova.add_inventory(8, "VCPU", total=2)
    world.later()
    assert {"DISK_GB", "VCPU"} == world.notes.elsewhere


def test_a_cell_fails_while_changes_of_placement_are_read(
    world: EndpointOverNova, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by its statement_timeout. The other cells are served, and its own changes show when it answers again."""
    other = Databases(f"sqlite:///{tmp_path / 'other'}")
    other.create()
    other.add_host(9, world.clock.now)
    world.nova.insert(nova_schema.HOST_MAPPINGS, id=9, cell_id=3, host="cmp9")
    world.nova.insert(nova_schema.CELLS, id=3, uuid=uuid(77), name="cell2", database_connection=other.url)
    world.nova.add_provider(9)
    world.later(6)
    assert [7680] * 2 == [_free(world, "cmp1"), _free(world, "cmp9")]
    for number in (1, 9):
        world.nova.allocate(uuid(10 + number), number, world.clock.now, MEMORY_MB=680)
    with monkeypatch.context() as patch:
        patch.setattr(world.hosts._feed._cells[3], "read_nodes", _away)
        world.later()
    assert (7000, False) == (_free(world, "cmp1"), world.hosts.stale)
    world.later()  # it rests
    world.later()
    assert 7000 == _free(world, "cmp9")
    nova_schema.engine(other.url).dispose()


def test_an_unchanged_placement_costs_one_statement(world: EndpointOverNova, monkeypatch: pytest.MonkeyPatch) -> None:
    """And shows no node again."""
    world.later(60)  # what was read at first is not within the overlap any more
    monkeypatch.delattr(placement_queries, "details")
    known = world.hosts._cache.generation
    world.clock.now += seconds(60)
    assert () == tuple(world.hosts._feed.read(known).nodes)


def test_placement_is_away(world: EndpointOverNova, caplog: pytest.LogCaptureFixture) -> None:
    """Inventories stay as known, with one line; a comparison is not made. Then what has changed is read."""
    reader, audit = (feed._providers._reader for feed in (world.hosts._feed, world.hosts._audit_feed))
    for each in (reader, audit):
        each.read, each.kept = _away, each.read
    world.later()
    world.later()
    assert "cmp1" == world.boot(1)
    assert 1 == caplog.text.count("Placement's database cannot be read")
    with pytest.raises(errors.DatabaseError):
        world.hosts.compare()
    world.nova.delete_provider(1)
    for each in (reader, audit):
        each.read = each.kept
    world.later()
    world.hosts.compare()
    assert "cmp2" == world.boot(2)


def _wire(vcpus: int) -> dict[str, Any]:
    """The arguments of an operator's command for a server of so many vcpus."""
    shape = {"name": "f1", "vcpus": vcpus, "memory_mb": 512, "root_gb": 1}
    return {"request_spec": {"instance_type": shape, "num_instances": 1}}


def _away(*_args: Any) -> None:
    raise errors.DatabaseUnavailable(kind="DBConnectionError", problem="refused")
