# SPDX-License-Identifier: Apache-2.0
"""Networks, and the addresses of instances: claimed with the build, released with the instance, never twice."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exception

from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors, move_states, states
from fleet.clock import utcnow
from fleet.db.catalog import networks
from fleet.db.engine.database import Database, Transaction
from fleet.db.instances import addresses
from fleet.db.tables import models
from fleet.db.upkeep import audit
from fleet.objects import BuildRequest
from fleet.objects.network import Network
from tests.functional import databases
from tests.functional.test_moves import Stage
from tests.worlds import conductor as functional
from tests.worlds.conductor import Conductor

HOSTS = ("h1", "h2")
FLAVOR = {"vcpus": 1, "memory_mb": 64}
UUID = "11111111-2222-4333-8444-55555555555{}"


def a_network(database: Database, number: int = 1, **values: Any) -> str:
    """A network of five addresses."""
    given = {"name": f"net{number}", "bridge": f"br{number}", "subnet": f"10.0.{number}.0/24"}
    ends = {"first": f"10.0.{number}.10", "last": f"10.0.{number}.14"}
    wanted = Network.from_wire({**given, **ends, **values})
    database.write(networks.create, UUID.format(number), wanted, utcnow())
    return UUID.format(number)


def claimed(database: Database) -> dict[str, list[str]]:
    """By instance, the addresses that the table has."""
    rows = sa.select(models.addresses).order_by(models.addresses.c.number)
    found: dict[str, list[str]] = {}
    with database.engine.connect() as connection:
        for row in connection.execute(rows):
            found.setdefault(row.instance_uuid, []).append(f"10.0.{row.number >> 8 & 255}.{row.number & 255}")
    return found


def shown(conductor: Conductor, uuid: str) -> list[str]:
    """The addresses that the instance shows."""
    plugs = conductor.operator.show_instance(uuid)["instance"]["interfaces"]
    return [each["address"] for each in plugs or ()]


def test_no_addresses_are_counted_for_a_project(conductor: Conductor) -> None:
    """It does not see how many are used; to list networks costs a member nothing that grows with the fleet."""
    uuid = a_network(conductor.database)
    conductor.create(name="web", networks=[{"network": uuid}])
    assert (1, [1]) == (
        conductor.operator.show_network(uuid)["used"],
        [each["used"] for each in conductor.operator.list_networks()],
    )
    project = conductor.operator.under("web", is_admin=False)
    with databases.statements(conductor.database.engine) as sent:
        assert "net1" == project.show_network(uuid)["name"]
        assert ["net1"] == [each["name"] for each in project.list_networks()]
    assert [] == [each for each in sent if "FROM addresses" in each]


def test_networks_that_are_made_at_a_time_do_not_overlap(database: Database) -> None:
    """The second one waits until the first one is there, and is refused: two guests would have one address."""
    begun, waits, made = threading.Event(), threading.Event(), threading.Event()
    ends = {"first": "10.0.1.10", "last": "10.0.1.14"}
    subnets = ("10.0.1.0/24", "10.0.1.0/25")
    wanted = [Network.from_wire({"name": each, "bridge": "br0", "subnet": each, **ends}) for each in subnets]
    outcomes: list[str] = []

    def note(_connection: Any, _cursor: Any, _statement: str, *_more: Any) -> None:
        if threading.current_thread().name == "second":
            waits.set()

    def first(tx: Transaction) -> None:
        networks.create(tx, UUID.format(1), wanted[0], utcnow())
        begun.set()
        # On SQLite the second transaction does not begin before this one has ended.
        waits.wait(0.5 if database.engine.dialect.name == "sqlite" else 30)

    def second() -> None:
        begun.wait(60)
        try:
            database.write(networks.create, UUID.format(2), wanted[1], utcnow())
        except errors.Conflict as refused:
            outcomes.append(refused.reason)
        made.set()

    sa.event.listen(database.engine, "before_cursor_execute", note)
    other = threading.Thread(target=second, name="second")
    other.start()
    try:
        database.write(first)
        assert made.wait(60)
    finally:
        other.join(60)
        sa.event.remove(database.engine, "before_cursor_execute", note)
    assert ["overlaps network 10.0.1.0/24 with 10.0.1.0/24 on the same bridge, br0"] == outcomes


def test_a_build_claims_its_addresses(conductor: Conductor) -> None:
    """Each instance has one of each network; the row shows what the table has."""
    one, two = a_network(conductor.database), a_network(conductor.database, 2, gateway="10.0.2.1", dns=["10.0.2.2"])
    uuids = conductor.create(count=2, networks=[{"network": one}, {"network": "net2"}])
    expected = {uuids[0]: ["10.0.1.10", "10.0.2.10"], uuids[1]: ["10.0.1.11", "10.0.2.11"]}
    assert expected == {uuid: shown(conductor, uuid) for uuid in uuids}
    assert expected == claimed(conductor.database)
    (_, plug) = conductor.operator.show_instance(uuids[0])["instance"]["interfaces"]
    assert (two, "net2", "br2", 24, "10.0.2.1", ["10.0.2.2"]) == tuple(
        plug[name] for name in ("network", "name", "bridge", "prefix", "gateway", "dns")
    )


def test_a_build_that_names_no_network_has_none(conductor: Conductor) -> None:
    a_network(conductor.database)
    assert [[], []] == [shown(conductor, each) for each in (*conductor.create(), *conductor.create(networks="none"))]
    assert {} == claimed(conductor.database)


def test_auto(conductor: Conductor) -> None:
    """The only network that the project may use, or the default one; without any there is no address."""
    assert [] == shown(conductor, *conductor.create(networks="auto"))
    a_network(conductor.database, 1, projects=["others"])
    assert [] == shown(conductor, *conductor.create(networks="auto"))
    a_network(conductor.database, 2)
    assert ["10.0.2.10"] == shown(conductor, *conductor.create(networks="auto"))
    a_network(conductor.database, 3, projects=["tenant"])
    with pytest.raises(errors.Conflict, match="auto stands for several, name one: net2, net3"):
        conductor.create(networks="auto")
    a_network(conductor.database, 4, is_default=True)
    assert ["10.0.4.10"] == shown(conductor, *conductor.create(networks="auto"))


@pytest.mark.parametrize("name", ["net1", UUID.format(1), UUID.format(1)[:8]])
def test_a_network_of_another_project_is_unknown(conductor: Conductor, name: str) -> None:
    """By its name, its uuid or the beginning of that; the administrator may use it."""
    a_network(conductor.database, 1, projects=["others"])
    request = BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 64}, "networks": [{"network": name}]})
    with pytest.raises(errors.NotFound, match=f"Network {name} "):
        conductor.intake.accept(functional.context(is_admin=False), request)
    with pytest.raises(errors.NotFound, match=f"Network {name} "):
        conductor.intake.accept(functional.context("OTHERS", is_admin=False), request)
    conductor.intake.accept(functional.context("others", is_admin=False), request)
    conductor.intake.accept(functional.context(), request)


def test_a_named_address(conductor: Conductor) -> None:
    """The administrator may name one outside of the range; it is claimed once, and is not given to anybody else."""
    a_network(conductor.database, gateway="10.0.1.1")
    for address in ("10.0.1.200", "10.0.1.11"):
        (uuid,) = conductor.create(networks=[{"network": "net1", "address": address}])
        assert [address] == shown(conductor, uuid)
        with pytest.raises(errors.Conflict, match=f"Address {address} is taken in network net1"):
            conductor.create(networks=[{"network": "net1", "address": address}])
    given = [shown(conductor, *conductor.create(networks="auto")) for _ in range(4)]
    assert [["10.0.1.10"], ["10.0.1.12"], ["10.0.1.13"], ["10.0.1.14"]] == given


def test_a_member_names_an_address_of_the_range(conductor: Conductor) -> None:
    """What is outside of it may belong to machines that are no guests."""
    a_network(conductor.database)

    def create(address: str) -> str:
        wanted = {"flavor": FLAVOR, "networks": [{"network": "net1", "address": address}]}
        member = functional.context(is_admin=False)
        accepted = conductor.intake.accept(member, BuildRequest.from_wire(wanted))
        return str(accepted["instances"][0]["uuid"])

    assert ["10.0.1.14"] == shown(conductor, create("10.0.1.14"))
    for outside in ("10.0.1.9", "10.0.1.15"):
        with pytest.raises(errors.InvalidInput, match="must be in the range of network net1, from 10.0.1.10 to"):
            create(outside)


def test_a_name_server_keeps_its_address(conductor: Conductor) -> None:
    a_network(conductor.database, dns=["10.0.1.10", "10.0.1.12", "192.0.2.1"])
    given = [shown(conductor, *conductor.create(networks="auto")) for _ in range(3)]
    assert [["10.0.1.11"], ["10.0.1.13"], ["10.0.1.14"]] == given


@pytest.mark.parametrize("address", ["10.0.2.10", "10.0.1.0", "10.0.1.255", "10.0.1.1", "10.0.1.2"])
def test_an_address_that_no_guest_can_have(conductor: Conductor, address: str) -> None:
    a_network(conductor.database, gateway="10.0.1.1", dns=["10.0.1.2"])
    with pytest.raises(errors.InvalidInput, match="request.networks.address must be an address for a guest in 10.0.1"):
        conductor.create(networks=[{"network": "net1", "address": address}])


def test_a_full_network(conductor: Conductor) -> None:
    """A request that needs more than there are is refused as a whole; the gateway is never given."""
    a_network(conductor.database, first="10.0.1.1", last="10.0.1.4", gateway="10.0.1.2")
    conductor.create(count=2, networks="auto")
    with pytest.raises(errors.Conflict, match="Network net1 has too few free addresses in its range of 4"):
        conductor.create(count=2, networks="auto")
    assert ["10.0.1.4"] == shown(conductor, *conductor.create(networks="auto"))


def test_an_address_is_released_with_its_instance(conductor: Conductor) -> None:
    """And claimed again as late as possible."""
    a_network(conductor.database)
    uuid = conductor.place("h1", networks="auto")
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    conductor.termination.terminate(functional.context(), [uuid])
    assert {uuid: ["10.0.1.10"]} == claimed(conductor.database), "its guest is still there"
    conductor.agents.destroyed(functional.context(), uuid, "h1")
    assert ({}, []) == (claimed(conductor.database), shown(conductor, uuid))
    given = [shown(conductor, *conductor.create(networks="auto")) for _ in range(5)]
    assert [["10.0.1.11"], ["10.0.1.12"], ["10.0.1.13"], ["10.0.1.14"], ["10.0.1.10"]] == given


def test_a_build_in_error_has_no_address(conductor: Conductor) -> None:
    """As it has no volume: it can only be deleted."""
    a_network(conductor.database)
    conductor.scheduler.answers.append(errors.NoValidHost(reason="none"))
    (uuid,) = conductor.create(networks="auto")
    conductor.work()
    assert states.ERROR == conductor.state(uuid)[0]
    assert ({}, []) == (claimed(conductor.database), shown(conductor, uuid))


@pytest.mark.parametrize("end", ["abort", "timeout"])
def test_a_guest_that_may_run_keeps_its_addresses(conductor: Conductor, end: str) -> None:
    """The build is in ERROR. No other instance gets them, by name or in turn, before the host has removed the guest."""
    a_network(conductor.database)
    uuid = given_up(conductor, end)
    assert (states.ERROR, {uuid: ["10.0.1.10"]}) == (conductor.state(uuid)[0], claimed(conductor.database))
    with pytest.raises(errors.Conflict, match="is taken"):
        conductor.create(networks=[{"network": "net1", "address": "10.0.1.10"}])
    with conductor.database.engine.connect() as connection:
        assert "address" not in [each.kind for each in audit.find(connection, utcnow())]
    conductor.agents.destroyed(functional.context(), uuid, "h2")
    assert ["10.0.1.10"] == shown(conductor, uuid)
    conductor.agents.destroyed(functional.context(), uuid, "h1")
    assert ({}, []) == (claimed(conductor.database), shown(conductor, uuid))


def test_a_guest_of_a_host_that_is_off_keeps_no_address(conductor: Conductor) -> None:
    a_network(conductor.database)
    given_up(conductor, "timeout")
    conductor.operator.force_down("h1", True)
    conductor.sweeper.retry_lost()
    assert {} == claimed(conductor.database)


def given_up(conductor: Conductor, end: str) -> str:
    """A build that has ended while h1 may have its guest."""
    uuid = conductor.place("h1", networks="auto")
    conductor.claim(uuid, "h1")
    if end == "abort":
        failure = Failure("spawn", "SpawnFailed", "the hypervisor said no")
        conductor.placement.abort(functional.context(), Attempt(uuid, 1, "h1", "h1"), failure)
    else:
        conductor.clock.advance(conductor.limits.build_timeout_s + 1)
        conductor.sweeper.end_overdue()
    return uuid


def test_a_silent_host_may_have_a_guest_with_the_addresses(conductor: Conductor) -> None:
    """The build does not go on before that host is off for certain."""
    a_network(conductor.database)
    uuid = conductor.place("h1", networks="auto")
    conductor.claim(uuid, "h1")
    conductor.clock.advance(conductor.limits.service_down_time_s + 1)
    conductor.sweeper.retry_lost()
    assert ("building", "spawning", 1, "h1") == conductor.state(uuid)
    conductor.operator.force_down("h1", True)
    conductor.sweeper.retry_lost()
    assert (("building", "scheduling", 2, None), ["10.0.1.10"]) == (conductor.state(uuid), shown(conductor, uuid))


def test_a_repeated_request_has_its_first_addresses(conductor: Conductor) -> None:
    a_network(conductor.database)
    request = BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 64}, "networks": "auto"})
    first, again = (conductor.intake.accept(functional.context(), request, "token") for _ in range(2))
    assert first == again
    assert {first["instances"][0]["uuid"]: ["10.0.1.10"]} == claimed(conductor.database)


def test_a_refused_request_leaves_released_addresses_for_last(conductor: Conductor) -> None:
    """Otherwise a project could send requests that are refused until the next address is the one just released."""
    a_network(conductor.database)
    (uuid,) = conductor.create(networks="auto")
    conductor.termination.terminate(functional.context(), [uuid])
    conductor.operator.set_quota("tenant", {"instances": 1})
    with pytest.raises(errors.QuotaExceeded):
        conductor.create(networks="auto", count=4)
    assert ["10.0.1.11"] == shown(conductor, *conductor.create(networks="auto"))


def test_a_refused_request_gives_its_addresses_back(conductor: Conductor) -> None:
    """To those that are accepted in the same transaction."""
    a_network(conductor.database)
    conductor.operator.set_quota("tenant", {"instances": 4})
    requests = [{"count": 5}, {"count": 4}]
    refused = []
    for each in requests:
        try:
            conductor.create(networks="auto", **each)
        except errors.QuotaExceeded as exceeded:
            refused.append(exceeded)
    assert (1, 4) == (len(refused), len(claimed(conductor.database)))

    def both(tx: Any) -> list[str]:
        plugs = [{"network": UUID.format(1), "name": "net1", "address": ""}]
        free = addresses.FreeAddresses(tx, [plugs, plugs])
        free.give_back(free.claim([plugs]))
        return [plug["address"] for each in free.claim([plugs]) for plug in each]

    assert ["10.0.1.14"] == conductor.database.write(both)


def test_many_at_once(conductor: Conductor) -> None:
    """Builds in threads get all addresses of a network, each once; those that come too late are refused."""
    a_network(conductor.database, first="10.0.1.1", last="10.0.1.12")
    made: list[str] = []
    refused: list[Exception] = []

    def build() -> None:
        for _ in range(4):
            try:
                made.extend(conductor.create(networks="auto"))
            except errors.Conflict as full:
                refused.append(full)

    threads = [threading.Thread(target=build) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    found = claimed(conductor.database)
    assert (12, 4) == (len(made), len(refused))
    assert {f"10.0.1.{number}" for number in range(1, 13)} == {each for one in found.values() for each in one}
    assert found == {uuid: shown(conductor, uuid) for uuid in made}


def test_the_table_refuses_a_second_claim(conductor: Conductor) -> None:
    """Whatever a program believes: the constraint is the root."""
    a_network(conductor.database)
    first, second = conductor.create(count=2, networks="auto")
    table = models.addresses
    again = table.update().where(table.c.instance_uuid == second)
    with conductor.database.engine.begin() as connection:
        number = connection.execute(sa.select(table.c.number).where(table.c.instance_uuid == first)).scalar_one()
        with pytest.raises(db_exception.DBDuplicateEntry):
            connection.execute(again.values(number=number))


def test_a_network_that_is_deleted_meanwhile(conductor: Conductor) -> None:
    """Between the look at the request and its acceptance."""
    a_network(conductor.database)
    plugs = [{"network": UUID.format(1), "name": "net1", "address": ""}]
    conductor.database.write(networks.remove, UUID.format(1))
    with pytest.raises(errors.NotFound, match="Network net1"):
        conductor.database.write(lambda tx: addresses.FreeAddresses(tx, [plugs]).claim([plugs]))


def test_a_used_network_stays(conductor: Conductor) -> None:
    a_network(conductor.database)
    (uuid,) = conductor.create(networks="auto")
    remove = functools.partial(conductor.database.write, networks.remove, UUID.format(1))
    with pytest.raises(errors.Conflict, match="Network net1 is in use: instances hold 1 of its addresses"):
        remove()
    conductor.termination.terminate(functional.context(), [uuid])
    remove()
    assert [] == conductor.database.read(networks.list_all)


def test_overlapping_networks(conductor: Conductor) -> None:
    """Two networks on one bridge have no address in common; those of other bridges may."""
    a_network(conductor.database, 1, subnet="10.0.0.0/16")
    with pytest.raises(errors.Conflict, match="Subnet 10.0.2.0/24 overlaps network net1 with 10.0.0.0/16"):
        a_network(conductor.database, 2, bridge="br1")
    with pytest.raises(errors.Conflict, match="Network net1 exists already"):
        a_network(conductor.database, 3, name="net1")
    a_network(conductor.database, 2)
    a_network(conductor.database, 2)
    assert ["net1", "net2"] == [each.row.name for each in conductor.database.read(networks.list_all)]


SUBNET = {"name": "lab", "bridge": "br0", "subnet": "192.0.2.0/24"}


def test_a_record(conductor: Conductor) -> None:
    """It is created, listed, shown by name, uuid and the beginning of one, and deleted."""
    more = {"gateway": "192.0.2.1", "dns": ["198.51.100.1"], "projects": ["b", "a", "a"], "is_default": True}
    made = conductor.operator.create_network({**SUBNET, "first": "192.0.2.10", **more})
    shown_as = {"last": "192.0.2.254", "addresses": 245, "used": 0, "projects": ["a", "b"]}
    assert {**SUBNET, **more, "first": "192.0.2.10", **shown_as} == {
        name: value for name, value in made.items() if name not in ("uuid", "created_at")
    }
    conductor.create(networks="auto")
    for name in ("lab", made["uuid"], made["uuid"][:8]):
        assert {**made, "used": 0} == conductor.operator.show_network(name)
    assert [made] == conductor.operator.list_networks()
    conductor.operator.delete_network("lab")
    for method in (conductor.operator.show_network, conductor.operator.delete_network):
        with pytest.raises(errors.NotFound, match="Network lab"):
            method("lab")


def test_a_project_sees_its_networks(conductor: Conductor) -> None:
    for name, projects in (("all", []), ("ours", ["us", "them"]), ("theirs", ["them"])):
        number = {"all": 1, "ours": 2, "theirs": 3}[name]
        conductor.operator.create_network(
            {"name": name, "bridge": "br0", "subnet": f"10.{number}.0.0/16", "projects": projects}
        )
    us = conductor.operator.under("us", is_admin=False)
    found = [us.show_network("all"), *us.list_networks()]
    assert [("all", []), ("all", []), ("ours", ["us"])] == [(each["name"], each["projects"]) for each in found]
    assert ["all", "ours", "theirs"] == [each["name"] for each in conductor.operator.list_networks()]
    with pytest.raises(errors.NotFound, match="Network theirs"):
        us.show_network("theirs")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": ""}, "network.name must have at least 1 character"),
        ({"name": UUID.format(1)}, "network.name must not be a uuid"),
        ({"bridge": "br 0"}, "network.bridge must be the name of a bridge: at most 15 letters"),
        ({"bridge": "b" * 16}, "network.bridge must be the name of a bridge"),
        ({"bridge": 7}, "network.bridge must be a valid string"),
        ({"subnet": "192.0.2.1/24"}, "network.subnet must be an IPv4 subnet without host bits"),
        ({"subnet": "2001:db8::/64"}, "network.subnet must be an IPv4 subnet"),
        ({"subnet": "9" * 400}, "network.subnet must be an IPv4 subnet"),
        ({"subnet": "192.0.2.0/31"}, "network.subnet must have a prefix from /8 to /30, not /31"),
        ({"first": "192.0.2.0"}, "network.first must be a host of 192.0.2.0/24, from 192.0.2.1 to 192.0.2.254"),
        ({"last": "192.0.3.1"}, "network.last must be a host of 192.0.2.0/24"),
        ({"first": "192.0.2.9", "last": "192.0.2.8"}, "network.first is 192.0.2.9, which comes after the last"),
        ({"gateway": "198.51.100.1"}, "network.gateway must be a host of 192.0.2.0/24"),
        ({"gateway": "here"}, "network.gateway must be an IPv4 address such as 192.0.2.10, not 'here'"),
        ({"dns": ["there"]}, "network.dns.0 must be an IPv4 address"),
        ({"dns": ["192.0.2.1"] * 9}, "network.dns must have at most 8 items"),
        ({"projects": "all"}, "network.projects must be a valid list"),
        ({"is_default": "yes"}, "network.is_default must be a valid boolean"),
        ({"vlan": 7}, "network.vlan is not known here"),
    ],
)
def test_bad_records(change: dict[str, Any], sentence: str) -> None:
    """One sentence that names the field. No database is asked."""
    with pytest.raises(errors.InvalidInput) as refused:
        Network.from_wire({**SUBNET, **change})
    assert sentence in refused.value.message


@pytest.mark.parametrize(
    ("networks_of", "sentence"),
    [
        ("both", "request.networks must be auto, none or a list of networks"),
        (10**300, "request.networks must be a valid list"),
        ({"network": "lab"}, "request.networks must be a valid list"),
        ([{"uuid": "lab"}], "request.networks.0.network is required"),
        ([{"network": ""}], "request.networks.0.network must have at least 1 character"),
        ([{"network": "lab", "address": "10.0.0.300"}], "request.networks.0.address must be an IPv4 address"),
        ([{"network": "lab", "port": 1}], "request.networks.0.port is not known here"),
        ([{"network": "lab"}] * 9, "request.networks must have at most 8 items"),
    ],
)
def test_bad_requests(networks_of: Any, sentence: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        BuildRequest.from_wire({"flavor": "tiny", "networks": networks_of})
    assert sentence in refused.value.message


def test_one_address_for_two_instances() -> None:
    wanted = {"flavor": "tiny", "count": 2, "networks": [{"network": "lab", "address": "192.0.2.9"}]}
    with pytest.raises(
        errors.InvalidInput, match="request.networks.address is for one instance, and the request is for 2"
    ):
        BuildRequest.from_wire(wanted)


def test_a_network_that_is_named_twice(conductor: Conductor) -> None:
    a_network(conductor.database)
    with pytest.raises(errors.InvalidInput, match="request.networks names a network twice"):
        conductor.create(networks=[{"network": "net1"}, {"network": UUID.format(1)}])


@pytest.fixture
def stage(database: Database) -> Stage:
    """An instance on h1 that has an address of two networks."""
    made = Stage(database)
    for number in (1, 2):
        a_network(database, number)
    made.uuid = made.conductor.place("h1", networks=[{"network": "net1"}, {"network": "net2"}])
    made.conductor.claim(made.uuid, "h1")
    made.conductor.finish(made.uuid, "h1")
    return made


ADDRESSES = ["10.0.1.10", "10.0.2.10"]


def keeps(stage: Stage) -> None:
    """The row and the table have the addresses, and the scheduler was asked for their bridges."""
    assert ADDRESSES == shown(stage.conductor, stage.uuid)
    assert {stage.uuid: ADDRESSES} == claimed(stage.conductor.database)
    asked, _properties = stage.conductor.scheduler.requests[-1]
    assert ["br1", "br2"] == asked["instance_properties"]["bridges"]


@pytest.mark.parametrize("decision", ["confirm_resize", "revert_resize"])
def test_a_resize_keeps_them(stage: Stage, decision: str) -> None:
    """The record that the destination reads has them, too."""
    stage.resize("h2")
    stage.claim("h2")
    (there,) = stage.progress.of_host("h2", None)
    assert ADDRESSES == [plug["address"] for plug in there.instance.interfaces or ()]
    for host, step in (("h1", move_states.PRE_MIGRATING), ("h2", move_states.POST_MIGRATING)):
        stage.done(host, step)
        keeps(stage)
    getattr(stage.operator, decision)(stage.uuid)
    keeps(stage)


def test_an_evacuation_keeps_them(stage: Stage) -> None:
    stage.evacuate("h2")
    stage.claim("h2")
    assert "done" == stage.done("h2", move_states.PRE_MIGRATING)
    keeps(stage)


def test_a_silent_destination_may_have_a_guest_with_them(stage: Stage) -> None:
    """No other host gets the guest before it is off for certain."""
    stage.evacuate("h2")
    stage.claim("h2")
    stage.go_down("h2")
    stage.conductor.move_sweeper.sweep()
    assert (move_states.PRE_MIGRATING, 1) == (stage.migration()["status"], stage.migration()["attempt"])
    stage.operator.force_down("h2", True)
    stage.go_down("h2")
    stage.conductor.move_sweeper.sweep()
    assert move_states.PRE_MIGRATING != stage.migration()["status"]


def test_a_live_migration_keeps_them(stage: Stage) -> None:
    stage.conductor.add_hosts(["h1", "h2", "h3"], stats={"live_migration": "way"})
    stage.operator.live_migrate_instance(stage.uuid)
    stage._place("h2")
    stage.claim("h2")
    for host, step in (("h2", move_states.PRE_MIGRATING), ("h1", move_states.RUNNING)):
        stage.done(host, step)
        keeps(stage)
    assert "h2" == stage.state()[2]


def test_a_stop_keeps_them(stage: Stage) -> None:
    stage.operator.stop_instance(stage.uuid)
    assert ADDRESSES == shown(stage.conductor, stage.uuid)
    (order,) = stage.conductor.agents.host_instances("h1", [stage.uuid])
    assert ADDRESSES == [plug["address"] for plug in order.interfaces or ()]


def test_a_deletion_in_the_middle_of_a_move_releases_them(stage: Stage) -> None:
    """When the last of its two hosts has destroyed the guest."""
    stage.resize("h2")
    stage.claim("h2")
    stage.conductor.termination.terminate(functional.context(), [stage.uuid])
    stage.conductor.agents.destroyed(functional.context(), stage.uuid, "h1")
    assert {stage.uuid: ADDRESSES} == claimed(stage.conductor.database)
    stage.conductor.agents.destroyed(functional.context(), stage.uuid, "h2")
    assert {} == claimed(stage.conductor.database)


def test_a_move_to_an_agent_that_is_too_old_is_refused(stage: Stage) -> None:
    """It would start the guest without its networks."""
    stage.conductor.compute.pinned = errors.VersionPinned(
        topic="compute", method="build_and_run_instance", needs="1.5", cap="1.4", pin="auto"
    )
    for move in (stage.operator.migrate_instance, stage.operator.evacuate_instance):
        with pytest.raises(errors.VersionPinned):
            move(stage.uuid)
    with pytest.raises(errors.VersionPinned):
        stage.conductor.create(networks=[{"network": "net1"}])


def test_a_host_shows_its_bridges(conductor: Conductor) -> None:
    conductor.add_host("h1", stats={"bridges": "br0,br1"})
    assert ["br0,br1", None] == [conductor.operator.show_host(host)["nodes"][0]["bridges"] for host in HOSTS]


@pytest.mark.parametrize(
    ("stats", "shown"),
    [
        ({"booted_at": 1_764_000_000}, "2025-11-24T16:00:00.000Z"),
        ({}, None),
        ({"booted_at": "soon"}, None),
        ({"booted_at": 2**63}, None),
        ({"booted_at": None}, None),
    ],
)
def test_a_host_shows_when_it_was_started(conductor: Conductor, stats: dict[str, object], shown: str | None) -> None:
    """What is no time is not shown."""
    conductor.add_host("h1", stats=stats)
    assert shown == conductor.operator.show_host("h1")["nodes"][0]["booted_at"]


def test_a_dry_run_claims_nothing(conductor: Conductor) -> None:
    """``explain`` and ``capacity`` ask for the bridges of the request."""
    a_network(conductor.database)
    asked = conductor.operator.request_for({"flavor": {"vcpus": 1, "memory_mb": 64}, "networks": "auto"})
    assert ["br1"] == asked["request_spec"]["instance_properties"]["bridges"]
    assert {} == claimed(conductor.database)
