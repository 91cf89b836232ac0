# SPDX-License-Identifier: Apache-2.0
"""Operators create, show, change and delete objects. Objects in use are not deleted; the refusal names the users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conductor_stub.steps.acts import Acts
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.feed.feed import ChangeFeed
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.objects import Flavor
from tests.worlds.conductor import INCARNATION, Conductor
from tests.worlds.neighbours import no_valid_host

DOWN_S = 61


HOSTS = ("h1", "h2")


def a_flavor(conductor: Conductor, name: str = "small") -> dict[str, Any]:
    return conductor.operator.create_flavor(
        Flavor(vcpus=1, memory_mb=512, name=name, extra_specs={"ssd": "true"}).to_wire()
    )


def silent(conductor: Conductor, host: str) -> None:
    """The service of ``host`` is down; the others have sent a heartbeat."""
    conductor.clock.advance(DOWN_S)
    others = [each["host"] for each in conductor.operator.list_services() if each["host"] != host]
    conductor.agents.report_state(Heartbeat("fleet-compute", others, INCARNATION))


# Flavors


def test_an_id_goes_before_another_flavors_name(conductor: Conductor) -> None:
    """As clients mean it that send an id; so a new flavor is also answered if its name is the id of another one."""
    first = a_flavor(conductor)
    second = a_flavor(conductor, name=first["flavorid"])
    assert second["flavorid"] != first["flavorid"] == second["name"]
    assert first == conductor.operator.show_flavor(first["flavorid"])
    assert second == conductor.operator.show_flavor(second["flavorid"])


def test_a_flavor_is_changed(conductor: Conductor) -> None:
    """What is not named stays; a null removes an extra spec. Later requests get the new sizes, instances keep theirs."""
    made = a_flavor(conductor)
    old = conductor.place("h1", flavor="small")
    changed = conductor.operator.update_flavor("small", {"vcpus": 2, "name": "medium"}, {"ssd": None, "gpu": "1"})
    assert {**made, "name": "medium", "vcpus": 2, "extra_specs": {"gpu": "1"}} == changed
    assert changed == conductor.operator.show_flavor("medium")
    new = conductor.place("h1", flavor="medium")
    shown = {uuid: conductor.operator.show_instance(uuid)["instance"]["flavor"]["vcpus"] for uuid in (old, new)}
    assert {old: 1, new: 2} == shown


def test_two_changes_of_a_flavor_are_both_made(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them is made while the other is asked for; a flavor that goes meanwhile is not found."""
    operator = conductor.operator
    a_flavor(conductor, "both")
    write = Acts.write

    def after(other: Callable[[], object]) -> None:
        def wait(self: Acts, *args: Any) -> Any:
            monkeypatch.setattr(Acts, "write", write)
            other()
            return write(self, *args)

        monkeypatch.setattr(Acts, "write", wait)

    after(lambda: operator.update_flavor("both", {"is_public": False}, {"a": "b"}))
    changed = operator.update_flavor("both", None, {"x": "y"})
    assert (False, {"a": "b", "ssd": "true", "x": "y"}) == (changed["is_public"], changed["extra_specs"])
    after(lambda: operator.delete_flavor("both"))
    with pytest.raises(errors.NotFound):
        operator.update_flavor("both", {"vcpus": 3})


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"vcpus": 0}, "changes.vcpus"), ({"cpus": 2}, "changes.cpus"), ({"name": ""}, "changes.name")],
)
def test_a_flavor_stays_sound(conductor: Conductor, changes: dict[str, Any], field: str) -> None:
    """The field is named."""
    a_flavor(conductor)
    with pytest.raises(errors.InvalidInput) as wrong:
        conductor.operator.update_flavor("small", changes, {})
    assert field == wrong.value.field


@pytest.mark.every_database
def test_the_longest_description(conductor: Conductor) -> None:
    """Each database stores a description that the conductor accepts. Its length is counted in bytes, as MariaDB counts."""
    a_flavor(conductor)
    longest = "€" * 21845
    conductor.operator.update_flavor("small", {"description": longest}, {})
    assert longest == conductor.operator.show_flavor("small")["description"]
    with pytest.raises(errors.InvalidInput) as wrong:
        conductor.operator.update_flavor("small", {"description": longest + "é"}, {})
    assert "changes.description must have at most 65535 bytes as UTF-8" == str(wrong.value)


def test_two_flavors_have_two_names(conductor: Conductor) -> None:
    """Also after a change."""
    a_flavor(conductor)
    a_flavor(conductor, "medium")
    with pytest.raises(errors.Conflict, match="small exists already"):
        conductor.operator.update_flavor("medium", {"name": "small"}, {})


def test_a_flavor_in_use_can_be_deleted(conductor: Conductor) -> None:
    """Its instances keep the sizes that they were built with, and its name is free."""
    a_flavor(conductor)
    uuid = conductor.place("h1", flavor="small", name="web")
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    conductor.operator.delete_flavor("small")
    assert [] == conductor.operator.list_flavors()
    assert "small" == conductor.operator.show_instance(uuid)["instance"]["flavor"]["name"]
    with pytest.raises(errors.NotFound, match="Flavor small could not be found"):
        conductor.operator.delete_flavor("small")
    a_flavor(conductor)


def test_a_private_flavor_is_for_the_projects_that_have_access(conductor: Conductor) -> None:
    """For others it does not exist: they can neither see it nor build with it."""
    conductor.operator.create_flavor(
        {"name": "large", "vcpus": 1, "memory_mb": 64, "is_public": False, "description": "of the web team"}
    )
    web, shop = (conductor.operator.under(project, is_admin=False) for project in ("web", "shop"))
    assert ["web"] == conductor.operator.add_flavor_access("large", "web")
    assert [("large", False, "of the web team")] == [
        (each["name"], each["is_public"], each["description"]) for each in web.list_flavors()
    ]
    assert [] == shop.list_flavors()
    with pytest.raises(errors.NotFound, match="Flavor large could not be found"):
        shop.show_flavor("large")
    with pytest.raises(errors.Conflict, match="is open to project web already"):
        conductor.operator.add_flavor_access("large", "web")
    assert [] == conductor.operator.remove_flavor_access("large", "web")
    assert [] == web.list_flavors()
    with pytest.raises(errors.NotFound, match="of project web could not be found"):
        conductor.operator.remove_flavor_access("large", "web")
    conductor.operator.update_flavor("large", changes={"is_public": True})
    assert ["large"] == [each["name"] for each in shop.list_flavors()]
    with pytest.raises(errors.Conflict, match="is public"):
        conductor.operator.list_flavor_access("large")


# Images


def an_image(conductor: Conductor, name: str = "cirros", **fields: Any) -> dict[str, Any]:
    return conductor.operator.create_image({"name": name, "location": "/images/cirros.raw", **fields})


def test_an_image(conductor: Conductor) -> None:
    """Is found by name, uuid, and the beginning of its uuid, until it is deleted."""
    made = an_image(
        conductor, min_disk=1, size=2**33, properties={"hw_architecture": "x86_64"}, checksum=f"sha256:{'a' * 64}"
    )
    an_image(conductor, "ubuntu")
    assert ["cirros", "ubuntu"] == [each["name"] for each in conductor.operator.list_images()]
    for name in ("cirros", made["uuid"], made["uuid"][:13]):
        assert made == conductor.operator.show_image(name)
    assert made == conductor.agents.image(made["uuid"]).to_wire()
    assert (1, 2**33, {"hw_architecture": "x86_64"}) == tuple(made[key] for key in ("min_disk", "size", "properties"))
    with pytest.raises(errors.Conflict, match="Image cirros exists already"):
        an_image(conductor)
    with pytest.raises(errors.NotFound, match="Image cirros"):
        conductor.agents.image("cirros")
    conductor.operator.delete_image("cirros")
    with pytest.raises(errors.NotFound, match="Image cirros"):
        conductor.operator.show_image("cirros")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"location": "images/cirros"}, "image.location"),
        ({"location": "ftp://there/cirros"}, "image.location"),
        ({"checksum": "md5:00"}, "image.checksum"),
        ({"disk_format": "vmdk"}, "image.disk_format"),
        ({"min_ram": -1}, "image.min_ram"),
        ({"size": 2**63}, "image.size"),
        ({"properties": {"a": []}}, "image.properties"),
    ],
)
def test_an_image_that_makes_no_sense(conductor: Conductor, fields: dict[str, Any], field: str) -> None:
    """The error names the field, and nothing is kept."""
    with pytest.raises(errors.InvalidInput, match=field):
        an_image(conductor, **fields)
    assert [] == conductor.operator.list_images()


# Aggregates


def test_an_aggregate_is_renamed(conductor: Conductor) -> None:
    """Its hosts and metadata stay."""
    conductor.operator.create_aggregate("racks", {"ssd": "true"})
    conductor.operator.add_aggregate_host("racks", "h1")
    conductor.operator.rename_aggregate("racks", "rows")
    shown = conductor.operator.show_aggregate("rows")
    assert (["h1"], {"ssd": "true"}) == (shown["hosts"], shown["metadata"])


def test_the_name_of_an_aggregate_may_be_the_id_of_another(conductor: Conductor) -> None:
    """The name goes before the id, for every change."""
    operator = conductor.operator
    first = operator.create_aggregate("first")
    second = operator.create_aggregate(str(first["id"]))
    assert str(first["id"]) == second["name"]
    operator.set_aggregate_metadata(str(first["id"]), {"rack": "r1"})
    assert [{}, {"rack": "r1"}] == [operator.show_aggregate(each["uuid"])["metadata"] for each in (first, second)]
    assert second["uuid"] == operator.rename_aggregate(second["name"], "other")["uuid"]
    assert first["uuid"] == operator.show_aggregate(str(first["id"]))["uuid"]
    operator.delete_aggregate("first")
    assert ["other"] == [each["name"] for each in operator.list_aggregates()]


def test_digits_that_are_no_id_find_no_aggregate(conductor: Conductor) -> None:
    """An id is found by the text that lists show; databases have ids up to a size."""
    found = conductor.operator.create_aggregate("racks")["id"]
    for text in (f"0{found}", f"+{found}", "٣", "9" * 10, "9" * 200):
        with pytest.raises(errors.NotFound, match="could not be found"):
            conductor.operator.show_aggregate(text)
    assert "racks" == conductor.operator.show_aggregate(str(found))["name"]


@pytest.mark.parametrize("zone", ["a:b", "a,b:c", "", " ", " , "])
def test_a_zone_that_no_request_can_name_is_refused(conductor: Conductor, zone: str) -> None:
    """A request's zone ends at a colon. An aggregate leaves its zone by a value of None."""
    operator, expected = conductor.operator, "^metadata.availability_zone must be a name of a zone without a colon"
    with pytest.raises(errors.InvalidInput, match=expected):
        operator.create_aggregate("racks", {"availability_zone": zone})
    operator.create_aggregate("racks", {"availability_zone": "east, west"})
    with pytest.raises(errors.InvalidInput, match=expected):
        operator.set_aggregate_metadata("racks", {"availability_zone": zone})
    assert {"availability_zone": "east, west"} == operator.show_aggregate("racks")["metadata"]
    assert {} == operator.set_aggregate_metadata("racks", {"availability_zone": None})["metadata"]


def test_an_aggregate_with_hosts_stays(conductor: Conductor, database: Database) -> None:
    """Without hosts it goes, schedulers read that it has gone, and its name is free."""
    feed = ChangeFeed(database)
    conductor.operator.create_aggregate("racks", {"ssd": "true"})
    conductor.operator.add_aggregate_host("racks", "h1")
    with pytest.raises(errors.Conflict, match="Aggregate racks has 1 host: h1; remove them first"):
        conductor.operator.delete_aggregate("racks")
    conductor.operator.remove_aggregate_host("racks", "h1")
    since, number = feed.read(0).generation, conductor.operator.show_aggregate("racks")["id"]
    conductor.operator.delete_aggregate("racks")
    assert [(number, True)] == [(each.id, each.deleted) for each in feed.read(since).aggregates]
    assert [] == conductor.operator.list_aggregates()
    assert {} == conductor.operator.create_aggregate("racks", {})["metadata"]


def test_an_unknown_host_joins_no_aggregate(conductor: Conductor) -> None:
    """A misspelt name would never be noticed."""
    conductor.operator.create_aggregate("racks", {})
    with pytest.raises(errors.NotFound, match="Host h9 could not be found"):
        conductor.operator.add_aggregate_host("racks", "h9")
    assert [] == conductor.operator.show_aggregate("racks")["hosts"]


def test_a_host_is_in_one_zone(conductor: Conductor) -> None:
    """Neither a new member nor a new zone of an aggregate puts it into a second one."""
    for name, zone in (("a", "east"), ("b", "west"), ("c", "east")):
        conductor.operator.create_aggregate(name, {"availability_zone": zone})
    conductor.operator.create_aggregate("d", {})
    conductor.operator.add_aggregate_host("a", "h1")
    conductor.operator.add_aggregate_host("c", "h1")
    conductor.operator.add_aggregate_host("d", "h1")
    with pytest.raises(errors.Conflict, match="Host h1 is in zone east by aggregate a, and cannot be in zone west"):
        conductor.operator.add_aggregate_host("b", "h1")
    with pytest.raises(errors.Conflict, match="cannot be in zone west"):
        conductor.operator.set_aggregate_metadata("d", {"availability_zone": "west"})
    conductor.operator.set_aggregate_metadata("d", {"availability_zone": "east"})


# Groups


def test_a_group_is_changed(conductor: Conductor) -> None:
    """Its policy only while it has no members; so many of them on one host as there are must be allowed."""
    conductor.operator.create_group("web", "affinity", 1)
    conductor.operator.update_group("web", "front", "anti-affinity", 2)
    for _ in range(2):
        conductor.claim(conductor.place("h1", group="front"), "h1")
    shown = conductor.operator.show_group("front")
    assert ("anti-affinity", 2, ["h1"]) == (shown["policy"], shown["max_server_per_host"], shown["hosts"])
    with pytest.raises(errors.Conflict, match="front has 2 members, so its policy stays anti-affinity"):
        conductor.operator.update_group("front", None, "affinity", None)
    with pytest.raises(errors.Conflict, match="front has 2 members on host h1: max_server_per_host cannot be 1"):
        conductor.operator.update_group("front", None, None, 1)
    assert 3 == conductor.operator.update_group("front", None, None, 3)["max_server_per_host"]


def test_a_group_with_members_can_be_deleted(conductor: Conductor) -> None:
    """Its members stay, and belong to no group: also one that its host has not claimed yet."""
    conductor.operator.create_group("web", "affinity", 1)
    uuid = conductor.place("h1", group="web", name="first")
    conductor.operator.delete_group("web")
    assert [] == conductor.operator.list_groups()
    assert conductor.operator.show_instance(uuid)["instance"]["group_uuid"] is None
    conductor.claim(uuid, "h1")


# Hosts and services


def test_a_host_that_is_up_stays(conductor: Conductor) -> None:
    """Neither the host nor its service can be deleted."""
    with pytest.raises(errors.Conflict, match="fleet-compute on h1 is up; stop the daemon"):
        conductor.operator.delete_host("h1")
    with pytest.raises(errors.Conflict, match="is up"):
        conductor.operator.delete_service("h1", "fleet-compute")
    with pytest.raises(errors.NotFound, match="Service fleet-compute on h9"):
        conductor.operator.delete_host("h9")


def test_a_host_with_instances_stays(conductor: Conductor) -> None:
    """Instances must not refer to a host without a record."""
    conductor.claim(conductor.place("h1", name="web"), "h1")
    silent(conductor, "h1")
    with pytest.raises(errors.Conflict, match="Host h1 has 1 instance: web; delete or move them first"):
        conductor.operator.delete_host("h1")


def test_a_host_that_is_gone_goes(conductor: Conductor, database: Database) -> None:
    """With its service, its nodes and its memberships. Schedulers read that; and it may come back."""
    feed = ChangeFeed(database)
    conductor.operator.create_aggregate("racks", {})
    conductor.operator.add_aggregate_host("racks", "h1")
    conductor.operator.update_service("h1", True, "fleet-compute", "broken")
    silent(conductor, "h1")
    since = feed.read(0).generation
    conductor.operator.delete_host("h1")
    assert ["h2"] == [each["host"] for each in conductor.operator.list_hosts()]
    assert ["h2"] == [each["host"] for each in conductor.operator.list_services()]
    assert [] == conductor.operator.show_aggregate("racks")["hosts"]
    changes = feed.read(since)
    assert {("h1", True)} == {(each.host, each.deleted) for each in (*changes.nodes, *changes.services)}
    assert [[]] == [each.hosts for each in changes.aggregates]
    # Its agent was only cut off: it finds that the host is not its own any more, and registers when it is restarted.
    assert ["h1"] == conductor.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION)).superseded
    conductor.add_host("h1")
    assert ("up", "enabled") == tuple(
        conductor.operator.show_host("h1")["nodes"][0][key] for key in ("state", "status")
    )


def test_a_daemon_that_is_gone_goes(conductor: Conductor) -> None:
    """A conductor's or a scheduler's record."""
    conductor.agents.register_services([{"host": "c1", "binary": "fleet-scheduler", "topic": "scheduler"}])
    with pytest.raises(errors.Conflict, match="fleet-scheduler on c1 is up"):
        conductor.operator.delete_service("c1", "fleet-scheduler")
    conductor.clock.advance(DOWN_S)
    conductor.operator.delete_service("c1", "fleet-scheduler")
    assert "c1" not in {each["host"] for each in conductor.operator.list_services()}
    with pytest.raises(errors.NotFound):
        conductor.operator.delete_service("c1", "fleet-scheduler")
    with pytest.raises(errors.NotFound):
        conductor.operator.update_service("c1", True, "fleet-scheduler")


# As few as will do


@pytest.mark.parametrize(
    ("fits", "active"),
    [
        pytest.param(5, 5, id="as many as fit"),
        pytest.param(3, 3, id="just enough"),
        pytest.param(2, 0, id="too few: none"),
    ],
)
def test_min_count(conductor: Conductor, fits: int, active: int) -> None:
    """As many instances of the request as fit are placed; the others end in ERROR with the reason."""
    conductor.scheduler.answers.append(no_valid_host(placed=fits))
    if active:
        conductor.scheduler.answers.append([("h1", ())] * fits)
    uuids = conductor.create(count=7, min_count=3)
    conductor.work()
    states = [conductor.state(uuid)[0] for uuid in uuids]
    assert ["building"] * active + ["error"] * (7 - active) == states
    assert "NoValidHost" == conductor.faults(uuids[-1])[0]["error"]
    assert active == len(conductor.compute.builds)
    assert [7, fits][: 2 if active else 1] == [spec["num_instances"] for spec, _ in conductor.scheduler.requests]


def test_min_count_holds_when_room_goes_meanwhile(conductor: Conductor) -> None:
    """5 of 7 fit, 2 are given up; then only 4 of the 5 fit, which min_count = 5 does not allow."""
    conductor.scheduler.answers += [no_valid_host(placed=5), no_valid_host(placed=4)]
    uuids = conductor.create(count=7, min_count=5)
    conductor.work()
    assert ["error"] * 7 == [conductor.state(uuid)[0] for uuid in uuids]
    assert [7, 5] == [spec["num_instances"] for spec, _ in conductor.scheduler.requests]


def test_all_or_none(conductor: Conductor) -> None:
    """Without min_count."""
    conductor.scheduler.answers.append(no_valid_host(placed=6))
    uuids = conductor.create(count=7)
    conductor.work()
    assert {"error"} == {conductor.state(uuid)[0] for uuid in uuids}
