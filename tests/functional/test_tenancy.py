# SPDX-License-Identifier: Apache-2.0
"""A caller that acts for a project sees and changes what belongs to this project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from conductor_stub.operators.tenancy import CHECKS, Tenancy
from fleet import errors
from fleet.db.schema import identity
from fleet.objects import BuildRequest, ImageRecord, host_id
from fleet.rpc.trust import grants
from tests import factories
from tests.worlds.conductor import Conductor, Operator, context

SIZES = {"vcpus": 1, "memory_mb": 512}


def as_project(conductor: Conductor, project: str) -> Operator:
    return conductor.operator.under(project, is_admin=False)


def names(groups: list[dict[str, str]]) -> list[str]:
    return [each["name"] for each in groups]


def test_a_group_belongs_to_the_project_that_creates_it(conductor: Conductor) -> None:
    """The administrator sees all; a group without a project is the administrator's."""
    web, shop = (as_project(conductor, project) for project in ("web", "shop"))
    web.create_group("one", "affinity")
    shop.create_group("two", "affinity")
    nobodys = conductor.operator.under(None)  # type: ignore[arg-type]
    nobodys.create_group("old", "affinity")
    assert (["one"], ["two"]) == (names(web.list_groups()), names(shop.list_groups()))
    assert ["old", "one", "two"] == names(conductor.operator.list_groups())
    assert ["two"] == names(conductor.operator.list_groups("shop"))
    assert [] == as_project(conductor, None).list_groups()  # type: ignore[arg-type]
    assert "web" == web.show_group("one")["project_id"]


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda operator, name: operator.show_group(name), id="show"),
        pytest.param(lambda operator, name: operator.update_group(name, new_name="mine"), id="update"),
        pytest.param(lambda operator, name: operator.delete_group(name), id="delete"),
    ],
)
def test_a_group_of_another_project_does_not_exist(
    conductor: Conductor, ask: Callable[[Operator, str], object]
) -> None:
    """Neither by its name nor by its uuid, and its name is free."""
    uuid = as_project(conductor, "web").create_group("one", "affinity")["uuid"]
    shop = as_project(conductor, "shop")
    for name in ("one", uuid):
        with pytest.raises(errors.NotFound, match=name):
            ask(shop, name)
    shop.create_group("one", "affinity")
    ask(as_project(conductor, "web"), "one")


def test_a_build_joins_groups_of_its_project_only(conductor: Conductor) -> None:
    """By the option and by the hint."""
    uuid = as_project(conductor, "web").create_group("one", "affinity")["uuid"]
    for asked in ({"group": "one"}, {"scheduler_hints": {"group": uuid}}):
        request = BuildRequest.from_wire({"flavor": SIZES, **asked})
        with pytest.raises(errors.NotFound, match="Server group"):
            conductor.intake.accept(context("shop", is_admin=False), request)
        conductor.intake.accept(context("web", is_admin=False), request)


class Door:
    """What a message of project ``web`` becomes at the conductor's door."""

    def __init__(self, conductor: Conductor) -> None:
        self._tenancy = Tenancy(conductor.database)

    def admit(
        self,
        method: str,
        namespace: str = "operator",
        is_admin: bool = False,
        roles: Sequence[str] = (),
        **arguments: Any,
    ) -> Any:
        """Return the arguments that the method receives."""
        message = {"namespace": namespace, "method": method, "args": arguments}
        asking = {"project_id": "web", "is_admin": is_admin, "roles": list(roles)}
        return self._tenancy.admit(asking, message)["args"]

    def answer(self, method: str, answer: Any, namespace: str = "operator", is_admin: bool = False) -> Any:
        """Return what the caller receives of an answer."""
        context = {"project_id": "web", "is_admin": is_admin}
        return self._tenancy.release(context, {"namespace": namespace, "method": method}, answer)


@pytest.fixture
def door(conductor: Conductor) -> Door:
    return Door(conductor)


def build(conductor: Conductor, project: str, **request: Any) -> str:
    asked = BuildRequest.from_wire({"flavor": SIZES, **request})
    return str(conductor.intake.accept(context(project), asked)["instances"][0]["uuid"])


@pytest.mark.parametrize(
    "method", ["list_hosts", "migrate_instance", "set_quota", "create_flavor", "trace", "no_such_method", "list_pools"]
)
def test_what_is_not_a_projects_is_the_administrators(door: Door, method: str) -> None:
    """Also what a later release adds, until somebody says whose it is."""
    with pytest.raises(errors.NotTrusted, match=f"{method} is for the administrator"):
        door.admit(method)
    assert {} == door.admit(method, is_admin=True)


def test_each_check_is_of_a_method(conductor: Conductor) -> None:
    """A method that is renamed would become the administrator's."""
    for namespace, method in CHECKS:
        assert namespace == "compute_task" or callable(getattr(conductor.operator, method)), method


def test_methods_of_daemons_are_not_looked_at(door: Door) -> None:
    """They run on behalf of the project that has asked for a build."""
    assert {"instance_uuids": ["u"]} == door.admit("build_instances", "compute_task", instance_uuids=["u"])


def test_an_instance_of_another_project_is_not_there(conductor: Conductor, door: Door) -> None:
    """By name and by uuid, alone and among others; also one of no project."""
    mine, other = build(conductor, "web", name="mine"), build(conductor, "shop", name="other")
    for name in (mine, "mine"):
        assert {"name": mine} == door.admit("stop_instance", name=name)
    for name in (other, "other"):
        with pytest.raises(errors.NotFound, match=name):
            door.admit("show_instance", name=name)
    assert {"instance_uuids": [mine]} == door.admit("terminate_instances", "compute_task", instance_uuids=[mine])
    for uuids in ([mine, other], [build(conductor, None)]):  # type: ignore[arg-type]
        with pytest.raises(errors.NotFound):
            door.admit("terminate_instances", "compute_task", instance_uuids=uuids)


def test_a_uuid_of_another_project_is_as_one_that_never_was(conductor: Conductor, door: Door) -> None:
    """Lists leave both out, and a deletion refuses both before it looks at the project's own instances."""
    mine, nobodys = build(conductor, "web"), build(conductor, None)  # type: ignore[arg-type]
    for stranger in (build(conductor, "shop"), nobodys, factories.uuid(7)):
        for method in ("newest_faults", "list_attachments"):
            assert {"uuids": [mine]} == door.admit(method, uuids=[stranger, mine])
            assert {"uuids": [mine, "x", 5]} == door.admit(method, uuids=[mine, "x", stranger, 5])
            assert {"uuids": [stranger, mine]} == door.admit(method, uuids=[stranger, mine], is_admin=True)
        with pytest.raises(errors.NotFound) as refused:
            door.admit("terminate_instances", "compute_task", instance_uuids=[mine, stranger])
        assert errors.NotFound(kind="Instance", name=stranger).message == refused.value.message
    as_project(conductor, "web").lock_instance(mine)
    for stranger in (nobodys, factories.uuid(7)):
        with pytest.raises(errors.NotFound, match=stranger):
            door.admit("terminate_instances", "compute_task", instance_uuids=[mine, stranger])


@pytest.mark.every_database
@pytest.mark.parametrize("other", ["Web", "WEB", "w\u00e9b", "web "])
def test_projects_whose_names_differ_in_case_are_two(conductor: Conductor, door: Door, other: str) -> None:
    """Also in lists of uuids. MariaDB takes such names for the same."""
    theirs = build(conductor, other)
    asked = {"flavor": "tiny", "scheduler_hints": {"same_host": [theirs]}}
    conductor.operator.under(other).create_volumes({"size": 1, "name": "disk"})
    volume = conductor.operator.show_volume("disk")["uuid"]
    with pytest.raises(errors.NotFound, match=theirs):
        door.admit("terminate_instances", "compute_task", instance_uuids=[theirs])
    for method in ("newest_faults", "list_attachments"):
        assert {"uuids": []} == door.admit(method, uuids=[theirs])
    hints = door.admit("create", "compute_task", request=asked)["request"]["scheduler_hints"]
    of_volumes = {"size": 1, "scheduler_hints": {"different_host": [volume]}}
    others = door.admit("create_volumes", request=of_volumes)["request"]["scheduler_hints"]
    assert theirs not in hints["same_host"]
    assert volume not in others["different_host"]


def test_a_project_attaches_its_own_volumes_to_its_own_instances(conductor: Conductor, door: Door) -> None:
    """The administrator may attach any. A project learns of no host of an attachment."""
    for project in ("web", "shop"):
        build(conductor, project, name=f"vm-{project}")
        conductor.operator.under(project).create_volumes({"size": 1, "name": f"disk-{project}"})
    own = {"name": "vm-web", "volume": "disk-web"}
    uuids = {
        "name": conductor.operator.show_instance("vm-web")["instance"]["uuid"],
        "volume": conductor.operator.show_volume("disk-web")["uuid"],
    }
    for method in ("attach_volume", "detach_volume"):
        assert uuids == door.admit(method, **own)
        for other in ({"name": "vm-shop"}, {"volume": "disk-shop"}):
            with pytest.raises(errors.NotFound, match="shop"):
                door.admit(method, **{**own, **other})
            assert {**own, **other} == door.admit(method, is_admin=True, **{**own, **other})
    (shown,) = door.answer("list_attachments", [{"host": "h1", "device": "vdb"}])
    assert (None, "vdb") == (shown["host"], shown["device"])


def test_a_list_is_narrowed_to_the_project(door: Door) -> None:
    """A list of another project is refused."""
    assert {"filters": {"name": "a", "project_id": "web"}} == door.admit("list_instances", filters={"name": "a"})
    assert {"filters": {"project_id": "web"}} == door.admit("list_volumes", filters=None)
    assert {"filters": {"project_id": "web"}} == door.admit("list_migrations", filters={})
    assert {"project_id": "web"} == door.admit("show_quota")
    for method, asked in (
        ("list_instances", {"filters": {"project_id": "shop"}}),
        ("show_quota", {"project_id": "shop"}),
    ):
        with pytest.raises(errors.NotTrusted, match="asks for another one"):
            door.admit(method, **asked)


def test_a_project_names_no_host(door: Door) -> None:
    """A zone alone is a wish that filters decide about."""
    request = {"request": {"availability_zone": "east"}}
    assert request == door.admit("create", "compute_task", **request)
    for named in ({"availability_zone": "east:h1"}, {"requested_host": "h1"}, {"requested_node": "h1"}):
        with pytest.raises(errors.NotTrusted, match="names the host"):
            door.admit("create", "compute_task", request=named)


@pytest.mark.parametrize("arguments", [{}, {"name": 5}, {"name": None}, {"filters": 5}, {"request": []}, {"uuids": {}}])
def test_malformed_arguments_are_left_for_the_method(door: Door, arguments: dict[str, Any]) -> None:
    """It names the field. Nothing here fails for them."""
    for namespace, method in CHECKS:
        door.admit(method, namespace, **arguments)


def test_a_project_builds_with_its_own_volumes(conductor: Conductor, door: Door) -> None:
    for project in ("web", "shop"):
        conductor.operator.under(project).create_volumes({"size": 1, "name": f"disk-{project}"})
    request = {"flavor": "small", "block_device_mapping": [{"volume_id": "disk-web"}]}
    mine = conductor.operator.show_volume("disk-web")["uuid"]
    (admitted,) = door.admit("create", "compute_task", request=request)["request"]["block_device_mapping"]
    assert {"volume_id": mine} == admitted
    for wanted in ([{"volume_id": "disk-shop"}], [{"volume_id": "disk-web"}, {"volume_id": "disk-shop"}]):
        with pytest.raises(errors.NotFound, match="Volume disk-shop"):
            door.admit("create", "compute_task", request={**request, "block_device_mapping": wanted})


def test_volumes_and_snapshots_of_another_project_are_not_there(conductor: Conductor, door: Door) -> None:
    """Nor is anything made of them."""
    conductor.operator.under("shop").create_volumes({"size": 1, "name": "theirs"})
    for method, asked in (
        ("show_volume", {"name": "theirs"}),
        ("retype_volume", {"name": "theirs", "volume_type": "fast"}),
        ("delete_volume", {"name": "theirs"}),
        ("create_snapshot", {"volume": "theirs"}),
        ("create_volumes", {"request": {"source": "theirs"}}),
    ):
        with pytest.raises(errors.NotFound, match="theirs"):
            door.admit(method, **asked)
    (mine,) = conductor.operator.under("web").create_volumes({"size": 1, "name": "mine"})["volumes"]
    assert {"name": mine["uuid"]} == door.admit("show_volume", name="mine")


def test_all_conductors_make_one_id_of_a_host(conductor: Conductor) -> None:
    """Of a secret in the database. The administrator sees the id that the project sees."""
    conductor.scheduler.answers.append([("h1", ())])
    uuid = build(conductor, "web", name="mine")
    conductor.work()
    conductor.claim(uuid, "h1")
    ids = set()
    for each in (Door(conductor), Door(conductor)):
        for admin in (True, False):
            shown = each.answer("show_instance", conductor.operator.show_instance(uuid), is_admin=admin)
            (listed,) = each.answer("list_instances", conductor.operator.list_instances(), is_admin=admin)
            ids |= {shown["instance"]["host_id"], shown["events"][-1]["host_id"], listed["host_id"]}
    (found,) = ids
    assert host_id.of(conductor.database.write(identity.host_key), "web", "h1") == found


def _without_ids(shown: dict[str, Any]) -> dict[str, Any]:
    """The answer to an administrator without its ids of hosts."""
    for each in (shown["instance"], *shown["events"]):
        del each["host_id"]
    return shown


def test_a_project_does_not_see_hosts(conductor: Conductor, door: Door) -> None:
    """The administrator does; methods of daemons are not looked at."""
    build(conductor, "web", name="mine")
    shown = conductor.operator.show_instance("mine")
    shown["instance"]["host"] = "h1"
    redacted = door.answer("show_instance", shown)["instance"]
    assert (None, 56) == (redacted["host"], len(redacted["host_id"]))
    assert shown == _without_ids(door.answer("show_instance", shown, is_admin=True))
    assert {"host": "h1"} == door.answer("build_instances", {"host": "h1"}, "compute_task")


IMAGE = {"name": "debian", "location": "/images/debian", "properties": {"hw_machine_type": "q35"}}


def offered(conductor: Conductor) -> dict[str, Any]:
    """The image that the administrator offers, as ``create`` takes it."""
    found = conductor.operator.create_image(IMAGE)
    return {"id": found["uuid"], "name": "debian", "properties": IMAGE["properties"]}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("sizes", {"flavor": {**SIZES, "vcpus": 64}}, "sizes of a build"),
    ("extra specs", {"flavor": {**SIZES, "extra_specs": {"reserved": "true"}}}, "sizes of a build"),
    ("a flavorid", {"flavor": {**SIZES, "flavorid": "reserved"}}, "sizes of a build"),
    ("image properties", {"image": {"properties": {"reserved": "true"}}}, "properties of an image"),
    ("hosts to leave out", {"ignore_hosts": ["h1"]}, "leaves out"),
    ("a query", {"scheduler_hints": {"query": '["=", "$host", "h1"]'}}, "the hint query"),
    ("an address", {"scheduler_hints": {"build_near_host_ip": "192.0.2.7"}}, "the hint build_near_host_ip"),
    ("a network", {"scheduler_hints": {"cidr": "/32"}}, "the hint cidr"),
]


@pytest.mark.parametrize(("what", "asked", "reason"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_project_chooses_from_what_is_offered(door: Door, what: str, asked: dict[str, Any], reason: str) -> None:
    """The administrator, and whom the policy allows it, choose freely."""
    request = {"flavor": "small", **asked}
    with pytest.raises(errors.NotTrusted, match=reason):
        door.admit("create", "compute_task", request=request)
    for free in ({"is_admin": True}, {"roles": [grants.FREE_CHOICE]}):
        assert request == door.admit("create", "compute_task", **free, request=request)["request"]


def test_a_project_names_an_image(conductor: Conductor, door: Door) -> None:
    """As it is recorded; it can neither change nor add a property."""
    known = offered(conductor)
    request = {"flavor": "small", "image": known}
    for image in (known, {"id": known["id"]}):
        admitted = door.admit("create", "compute_task", request={**request, "image": image})["request"]["image"]
        assert ("debian", {"hw_machine_type": "q35"}) == (admitted["name"], admitted["properties"])
    for changed in ({"properties": {"reserved": "true"}}, {"min_ram": 1}):
        with pytest.raises(errors.NotTrusted, match="of image debian"):
            door.admit("create", "compute_task", request={**request, "image": {**known, **changed}})
    with pytest.raises(errors.NotFound, match="Image nothing"):
        door.admit("create", "compute_task", request={**request, "image": {"id": "nothing"}})


def test_a_project_resizes_to_a_flavor(conductor: Conductor, door: Door) -> None:
    mine = build(conductor, "web", name="mine")
    assert {"name": mine, "flavor": "small"} == door.admit("resize_instance", name="mine", flavor="small")
    with pytest.raises(errors.NotTrusted, match="name a flavor"):
        door.admit("resize_instance", name="mine", flavor=SIZES)


@pytest.mark.parametrize("hint", ["same_host", "different_host"])
def test_instances_of_others_in_hints_are_unknown(conductor: Conductor, door: Door, hint: str) -> None:
    """They are answered like a uuid that nothing has. So are volumes, in the hints of volumes."""
    mine, other, nothing = build(conductor, "web"), build(conductor, "shop"), "0" * 8
    request = {"flavor": "small", "scheduler_hints": {hint: [mine, other, "any"], "group": ""}}
    hints = door.admit("create", "compute_task", request=request)["request"]["scheduler_hints"]
    assert (mine, True, True) == (hints[hint][0], *(each.startswith(nothing) for each in hints[hint][1:]))
    (volume,) = conductor.operator.under("shop").create_volumes({"size": 1})["volumes"]
    request = {"size": 1, "scheduler_hints": {hint: volume["uuid"]}}
    (shown,) = door.admit("create_volumes", request=request)["request"]["scheduler_hints"][hint]
    assert shown.startswith(nothing)


@pytest.mark.parametrize(
    ("method", "name"), [("list_instances", "host"), ("list_migrations", "host"), ("list_volumes", "pool")]
)
def test_a_project_lists_by_no_place(door: Door, method: str, name: str) -> None:
    with pytest.raises(errors.NotTrusted, match=f"lists by {name}"):
        door.admit(method, filters={name: "h1"})


@pytest.mark.parametrize("name", ["host", "node"])
def test_a_project_sorts_by_no_place(door: Door, name: str) -> None:
    """The order of its instances would tell how the names of their hosts compare."""
    with pytest.raises(errors.NotTrusted, match=f"lists by {name}"):
        door.admit("list_instances", sort=[["name", "asc"], [name, "desc"]])
    for sort in ([["name", "asc"]], None, "host", [5, [], [None]]):
        assert sort == door.admit("list_instances", sort=sort)["sort"]


def test_a_project_sees_neither_locations_nor_specs_of_types(conductor: Conductor, door: Door) -> None:
    """A location may have a password, and specs say where volumes are. What a later release adds is not shown either."""
    secret = "https://user:password@images.example/debian"
    conductor.operator.create_image({**IMAGE, "location": secret})
    conductor.operator.create_volume_type({"name": "fast", "extra_specs": {"volume_backend_name": "secret-pool"}})
    for method, asked in (("show_image", ("debian",)), ("list_images", ()), ("list_volume_types", ())):
        answer = getattr(conductor.operator, method)(*asked)
        record = answer[0] if isinstance(answer, list) else answer
        record["later"] = "secret"
        shown = str(door.answer(method, answer))
        assert not any(each in shown for each in ("password", "secret"))
        assert record["name"] in shown
        assert "secret" in str(door.answer(method, answer, is_admin=True))
    ImageRecord.from_wire(door.answer("show_image", conductor.operator.show_image("debian")))
