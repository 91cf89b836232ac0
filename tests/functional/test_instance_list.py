# SPDX-License-Identifier: Apache-2.0
"""A list shows each instance as it is shown alone, and as agents receive it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from conductor_stub.operators import instance_list
from fleet import errors
from fleet.client import following, pages
from fleet.db.instances import instance_listing, instance_values, instances
from fleet.objects import BuildRequest, Image
from fleet.rpc.clients import OperatorCalls
from tests import factories
from tests.functional import databases
from tests.operator_calls import Asked
from tests.worlds.conductor import Conductor, context

pytestmark = pytest.mark.every_database


def test_a_list_shows_what_each_instance_is(conductor: Conductor) -> None:
    """Placed, claimed and waiting ones, with hints, image and metadata or without."""
    image = Image(id="i1", name="debian", properties={"hw_cpu_policy": "shared"}).to_wire()
    placed = conductor.place("h1", image=image, metadata={"a": "1"}, scheduler_hints={"b": ["2"]}, name="one")
    conductor.claim(placed, "h1")
    conductor.clock.advance(1)
    conductor.create(name="two", flavor={"vcpus": 2, "memory_mb": 64, "extra_specs": {"ssd": "true"}})
    listed = conductor.operator.list_instances()
    assert ["one", "two"] == [each["name"] for each in listed]
    alone = [conductor.operator.show_instance(each["uuid"]) for each in listed]
    assert listed == [{**each["instance"], "volumes": each["volumes"]} for each in alone]
    rows = conductor.database.read(instance_listing.list_all)
    for view, row in zip(listed, rows, strict=True):
        sent = instance_values.to_instance(row).to_wire()
        assert sent == {name: view[name] for name in sent}


def test_hosts_as_a_table_are_those_of_the_list(conductor: Conductor) -> None:
    """Any fields of the list, in any order; another one is named."""
    conductor.add_host("h1")
    conductor.add_host("h2")
    conductor.operator.create_aggregate("row", {"availability_zone": "near"})
    conductor.operator.add_aggregate_host("row", "h2")
    listed = conductor.operator.list_hosts()
    names = list(listed[0])
    assert [[each[name] for name in names] for each in listed] == conductor.operator.host_table(names)
    assert [["nova", "h1"], ["near", "h2"]] == conductor.operator.host_table(["zone", "host"])
    with pytest.raises(errors.InvalidInput, match="columns must be of host, node.*, not colour"):
        conductor.operator.host_table(["host", "colour"])


def test_hosts_and_services_are_listed_in_parts(conductor: Conductor) -> None:
    """Each part begins after the marker, also where the host of the marker is gone. Parts have what the whole list has."""
    for name in ("h1", "h2", "h3", "h4", "h5"):
        conductor.add_host(name, stats={"labels": {"rack": f"of-{name}"}})
    conductor.operator.create_aggregate("row", {"availability_zone": "near"})
    conductor.operator.add_aggregate_host("row", "h4")
    conductor.operator.update_service("h4", True, "fleet-compute", "broken")
    hosts, services = conductor.operator.list_hosts(), conductor.operator.list_services()
    assert ["nova", "nova", "nova", "near", "nova"] == [each["zone"] for each in hosts]
    assert hosts[2:4] == conductor.operator.list_hosts(limit=2, marker=hosts[1]["uuid"])
    assert services[2:4] == conductor.operator.list_services(limit=2, marker=["fleet-compute", "h2"])
    conductor.clock.advance(1000)
    conductor.operator.delete_host("h2")
    assert ["h3"] == [each["host"] for each in conductor.operator.list_hosts(limit=1, marker=hosts[1]["uuid"])]
    assert ([], []) == (
        conductor.operator.list_hosts(limit=2, marker=hosts[4]["uuid"]),
        conductor.operator.list_services(limit=2, marker=["fleet-compute", "h5"]),
    )
    with pytest.raises(errors.NotFound, match="Node 00000000-0000-0000-0000-000000000000"):
        conductor.operator.list_hosts(limit=2, marker="00000000-0000-0000-0000-000000000000")


def test_a_fleet_of_many_hosts_can_be_listed(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer has more hosts than a message carries, and the caller gets them all."""
    monkeypatch.setattr("fleet.client.pages._HOSTS", 2)
    conductor.add_hosts(["h1", "h2", "h3", "h4"])
    largest = 0

    def call(method: str, **arguments: object) -> object:
        nonlocal largest
        answer = getattr(conductor.operator, method)(**arguments)
        largest = max(largest, len(answer))
        return answer

    calls = OperatorCalls(call)
    assert ["h1", "h2", "h3", "h4"] == [each["host"] for each in pages.hosts(calls)]
    assert ["h1", "h2", "h3", "h4"] == [each["host"] for each in pages.services(calls)]
    assert [["h1", "up"], ["h2", "up"], ["h3", "up"], ["h4", "up"]] == pages.host_table(calls, ["host", "state"])
    assert 2 == largest


def test_zones_are_those_of_the_hosts(conductor: Conductor) -> None:
    """By the default zone, by several zones of a host, and with a zone that has no host that is up and enabled."""
    conductor.add_hosts(["h1", "h2", "h3", "h4", "h5", "h6"])
    zones = {"h2": "near, far", "h3": "far", "h4": "off", "h5": "gone", "h6": " , near"}
    for host, zone in zones.items():
        conductor.operator.create_aggregate(f"row-{host}", {"availability_zone": zone, "ssd": "true"})
        conductor.operator.add_aggregate_host(f"row-{host}", host)
    conductor.operator.create_aggregate("rack", {"ssd": "true"})
    conductor.operator.add_aggregate_host("rack", "h3")
    conductor.operator.create_aggregate("empty", {"availability_zone": "empty"})
    conductor.operator.update_service("h4", True, "fleet-compute", "broken")
    conductor.operator.force_down("h3", True)
    conductor.operator.force_down("h5", True)
    expected = {"far": True, "gone": False, "near": True, "nova": True, "off": False}
    assert expected == conductor.operator.list_zones()
    assert expected == pages.zones(OperatorCalls(_without("list_zones", conductor)))
    conductor.operator.force_down("h2", True)
    conductor.clock.advance(1000)
    assert dict.fromkeys(expected, False) == conductor.operator.list_zones()


def test_states_of_hosts(conductor: Conductor) -> None:
    """Of those that are down or disabled, or of those that are named. A conductor that is too old lists all services."""
    conductor.add_hosts(["h1", "h2", "h3", "h4"])
    conductor.add_backend("m1@fast", "p1")
    conductor.operator.update_service("h2", True, "fleet-compute", "broken")
    conductor.operator.force_down("h3", True)
    for call in (
        lambda method, **given: getattr(conductor.operator, method)(**given),
        _without("list_host_states", conductor),
    ):
        calls = OperatorCalls(call)
        assert {"h2": ("up", "disabled"), "h3": ("down", "enabled")} == pages.host_states(calls)
        assert {"h1": ("up", "enabled"), "h3": ("down", "enabled")} == pages.host_states(calls, ["h1", "h3", "gone"])


def _without(missing: str, conductor: Conductor) -> Callable[..., object]:
    """Calls of a conductor that is too old for a method."""

    def call(method: str, **arguments: object) -> object:
        if method == missing:
            raise errors.VersionPinned(topic="conductor", method=method, needs="1.25", cap="1.24", pin="auto")
        return getattr(conductor.operator, method)(**arguments)

    return call


def test_a_conductor_that_knows_no_parts_lists_all_hosts(conductor: Conductor) -> None:
    """It is asked without a limit."""
    conductor.add_host("h1")

    def call(method: str, **arguments: object) -> object:
        if arguments:
            raise errors.VersionPinned(topic="conductor", method=method, needs="1.25", cap="1.24", pin="auto")
        return getattr(conductor.operator, method)()

    calls = OperatorCalls(call)
    assert (["h1"], ["h1"]) == tuple(
        [each["host"] for each in found] for found in (pages.hosts(calls), pages.services(calls))
    )


def test_a_marker_of_another_project_is_unknown(conductor: Conductor) -> None:
    """As one that never was: a project cannot find out which uuids there are."""
    request = BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 64}})
    made = []
    for project in ("theirs", "own"):
        made += conductor.intake.accept(context(project), request)["instances"]
        conductor.clock.advance(1)
    theirs, own = (each["uuid"] for each in made)
    for marker in (theirs, "00000000-0000-0000-0000-000000000001"):
        with pytest.raises(errors.NotFound, match=f"Instance {marker} could not be found"):
            conductor.operator.list_instances({"project_id": "own"}, marker=marker)
    assert [] == conductor.operator.list_instances({"project_id": "own"}, marker=own)
    assert [own] == [each["uuid"] for each in conductor.operator.list_instances(marker=theirs)]


def test_a_brief_list_reads_no_column_that_it_does_not_show(conductor: Conductor) -> None:
    """Its time and its memory do not grow with what users have stored."""
    flavor = {"vcpus": 1, "memory_mb": 64}
    image = Image(id="i1", properties={f"key{number}": "x" * 250 for number in range(60)}).to_wire()
    conductor.create(name="large", flavor=flavor, image=image, max_count=1000, min_count=1000)
    with databases.statements(conductor.database.engine) as sent:
        listed = conductor.operator.list_instances(brief=True)
    assert 1000 == len(listed)
    assert set(instance_listing.BRIEF) == listed[0].keys()
    (query,) = [each for each in sent if "FROM instances" in each]
    read = query.partition("SELECT ")[2].partition("FROM")[0]
    assert list(instance_listing.BRIEF) == [each.strip().removeprefix("instances.") for each in read.split(",")]
    assert "build_requests" not in query
    first = conductor.operator.list_instances(limit=500)
    whole = [*first, *conductor.operator.list_instances(marker=first[-1]["uuid"])]
    assert [{name: each[name] for name in instance_listing.BRIEF} for each in whole] == listed
    assert listed[10:12] == conductor.operator.list_instances(brief=True, limit=2, marker=listed[9]["uuid"])


def test_an_answer_that_would_be_too_large_is_refused(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how many fit; with a marker the others come, and a brief list has them all."""
    monkeypatch.setattr(instance_list, "_PART", 2)
    conductor.create(name="five", max_count=5, min_count=5)
    one = len(orjson.dumps(conductor.operator.list_instances())) // 5
    monkeypatch.setattr(instance_list, "MOST_BYTES", 4 * one + one // 2)
    with pytest.raises(errors.InvalidInput, match="limit must be at most 4 here") as refused:
        conductor.operator.list_instances()
    assert "marker" in refused.value.message
    first = conductor.operator.list_instances(limit=4)
    (last,) = conductor.operator.list_instances(marker=first[-1]["uuid"])
    brief = conductor.operator.list_instances(brief=True)
    assert [each["uuid"] for each in brief] == [each["uuid"] for each in (*first, last)]


def test_waiting_reads_nothing_that_users_have_stored(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command can wait for many instances of any size: their whole records would be more than an answer may have."""
    uuids = conductor.create(name="five", max_count=5, min_count=5)
    one = len(orjson.dumps(conductor.operator.list_instances())) // 5
    monkeypatch.setattr(instance_list, "MOST_BYTES", 2 * one)
    calls: Any = Asked()
    calls.ask = lambda method, **given: getattr(conductor.operator, method)(**given)
    found = following.look(calls, [*uuids, UUID])
    assert [*["building"] * 5, "deleted"] == [each["vm_state"] for each in found.values()]
    assert uuids == following.follow(calls, uuids, 0, lambda ended: None)


def test_brief_instances_come_in_parts(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer has more instances than a message carries, however many there are, and the caller gets them all."""
    monkeypatch.setattr("fleet.client.pages._BRIEF", 2)
    uuids = conductor.create(name="five", max_count=5, min_count=5)
    largest = 0

    def call(method: str, **arguments: Any) -> Any:
        nonlocal largest
        answer = getattr(conductor.operator, method)(**arguments)
        largest = max(largest, len(answer))
        return answer

    found = pages.brief_instances(OperatorCalls(call), {"vm_state": "building"})
    assert (uuids, 2) == ([each["uuid"] for each in found], largest)
    assert set(instance_listing.BRIEF) == found[0].keys()


UUID = factories.uuid(1)
NAMES = ("b", "a", "c", "a", "b")
PLACES: tuple[str | None, ...] = ("h2", None, "h1", "h1", None)


@pytest.mark.parametrize(
    "sort",
    [
        [["name", "asc"]],
        [["name", "desc"]],
        [["host", "asc"], ["name", "desc"]],
        [["host", "desc"], ["created_at", "desc"]],
        [["task_state", "desc"], ["host", "asc"], ["launched_at", "asc"]],
        [["power_state", "asc"], ["uuid", "desc"]],
    ],
    ids=str,
)
def test_a_sorted_list_in_parts_is_the_whole_one(conductor: Conductor, sort: list[list[str]]) -> None:
    """An instance without a value is the smallest; of equal ones the oldest is first, in both directions."""
    for name, host in zip(NAMES, PLACES, strict=True):
        (uuid,) = conductor.create(name=name)
        conductor.database.write(lambda tx, uuid=uuid, host=host: tx.update(instances.INSTANCES, uuid, {"host": host}))
        conductor.clock.advance(1)
    listed = conductor.operator.list_instances
    expected = listed()
    for field, direction in reversed(sort):
        expected.sort(key=lambda each: (each[field] is not None, each[field] or 0), reverse=direction == "desc")
    whole = [each["uuid"] for each in listed(sort=sort)]
    assert [each["uuid"] for each in expected] == whole
    assert whole == [each["uuid"] for each in listed(sort=sort, brief=True)]
    found: list[str] = []
    while part := listed(sort=sort, limit=2, **({"marker": found[-1]} if found else {})):
        found += [each["uuid"] for each in part]
    assert whole == found


@pytest.mark.parametrize("sort", [[["colour", "asc"]], [["name", "up"]], [["name"]], [["spec", "asc"]]], ids=str)
def test_what_no_list_is_sorted_by(conductor: Conductor, sort: list[list[str]]) -> None:
    with pytest.raises(errors.InvalidInput, match="sort must have pairs of a key"):
        conductor.operator.list_instances(sort=sort)


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        *(("list_instances", "uuids", each) for each in ("web", True)),
        *(("list_instances", name, [UUID]) for name in ("name", "host", "vm_state", "project_id", "deleted")),
        *(("list_instances", name, True) for name in ("vm_state", "reservation_id", "changed_since")),
        ("list_instances", "deleted", "yes"),
        ("list_instances", "changed_since", "yesterday"),
        ("list_instances", "changed_since", "0001-01-01T00:00:00+14:00"),
        ("list_instances", "changed_since", "9999-12-31T23:59:59-14:00"),
        ("list_migrations", "uuids", "web"),
        *(("list_migrations", name, [UUID]) for name in ("status", "instance_uuid", "migration_type", "host")),
    ],
)
def test_a_filter_of_another_type_is_named(conductor: Conductor, method: str, name: str, value: object) -> None:
    """As is a time that UTC does not have. No statement is made of it, which each database would refuse in its own way."""
    with pytest.raises(errors.InvalidInput, match=f"^filters.{name} must be"):
        getattr(conductor.operator, method)(filters={name: value})
