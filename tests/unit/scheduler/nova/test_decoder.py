# SPDX-License-Identifier: Apache-2.0
"""Every recorded request, and what differs from it: newer, older, malformed, out of scope."""

from __future__ import annotations

import dataclasses
import operator

import pytest

from fleet import errors
from scheduler.nova import decoder
from scheduler.nova.request import Destination
from tests.factories import uuid
from tests.unit.scheduler.nova import recordings
from tests.unit.scheduler.nova.recordings import arguments, envelope, flavor

CELL = "f8464d1d-76ba-4d71-b8b1-338b6e4feb55"
#: What each recorded request asks for beside its flavor.
ASKED = {
    "req_build_1": {"scheduler_hints": {"requested_host": "cmp1"}},
    "req_build_3": {"num_instances": 3},
    "req_destination_aggregates": {
        "destination": Destination(aggregates=(frozenset({"8ebb2558-8339-4309-adb6-bbbec0619d32"}),))
    },
    "req_destination_host": {"destination": Destination(host="cmp2")},
    "req_destination_node": {"destination": Destination(node="cmp3")},
    "req_evacuate": {"ignore_hosts": ("cmp2",), "destination": Destination(cell=CELL)},
    "req_forced_host": {"force_hosts": ("cmp1",)},
    "req_group_anti_affinity": {"group_policies": {"anti-affinity"}, "group_hosts": set()},
    "req_group_anti_affinity_2_members": {"num_instances": 2, "group_hosts": {"cmp1"}, "group_max_server_per_host": 1},
    "req_group_max_per_host": {"num_instances": 2, "group_max_server_per_host": 2},
    "req_group_soft_affinity": {"group_policies": {"soft-affinity"}},
    "req_hint_different_host": {
        "scheduler_hints": {
            "different_host": ["470f4ba7-e651-43f4-910f-9f2fc7e21a6f", "b28dca34-1f57-4359-bdca-afbc7df9aa17"]
        }
    },
    "req_hint_same_host": {"scheduler_hints": {"same_host": "470f4ba7-e651-43f4-910f-9f2fc7e21a6f"}},
    "req_live_migration": {"num_instances": 1, "ignore_hosts": ("cmp1",), "destination": Destination(cell=CELL)},
    "req_numa": {"pci_requests": ()},
    "req_numa_image_props": {"retry": None},
    "req_pci": {"numa_topology": None},
    "req_rebuild_check": {"force_hosts": ("cmp1",), "force_nodes": ("cmp1",)},
    "req_resize": {"ignore_hosts": ("cmp3",), "destination": Destination(cell=CELL)},
    "req_retry": {"retry": None},
    "req_v40": {"num_instances": 2},
    "req_v43": {"num_instances": 2},
    "req_v44": {"num_instances": 2},
    "req_zone": {"force_hosts": ()},
}


@pytest.mark.parametrize("name", recordings.REQUESTS)
def test_a_recorded_request_is_decoded(name):
    """With what it asks for, and a size."""
    request = decoder.decode(recordings.message(name)["args"]).request
    assert ASKED[name] == {field: getattr(request, field) for field in ASKED[name]}
    assert request.memory_mb >= 64


def test_instances_of_each_form_of_the_arguments():
    """4.5 and 4.4 name all instances; 4.3 and 4.0 do not, so nothing can be claimed for them."""
    assert [True, True, False, False] == [
        decoder.decode(recordings.message(name)["args"]).named
        for name in ("req_build_3", "req_v44", "req_v43", "req_v40")
    ]
    call = decoder.decode(recordings.message("req_build_3")["args"])
    assert tuple(recordings.message("req_build_3")["args"]["instance_uuids"]) == call.request.instance_uuids


def test_flags_of_the_answer():
    """A build wants objects and alternates, an evacuation no alternates, and old forms want dicts."""
    wanted = {
        name: (call.return_objects, call.return_alternates, call.rebuild_check)
        for name in ("req_build_1", "req_evacuate", "req_rebuild_check", "req_v44")
        for call in [decoder.decode(recordings.message(name)["args"])]
    }
    assert {
        "req_build_1": (True, True, False),
        "req_evacuate": (True, False, False),
        "req_rebuild_check": (True, False, True),
        "req_v44": (False, False, False),
    } == wanted


def test_the_mark_of_a_rebuild_is_no_hint():
    """Plugins see the user's own hints only."""
    call = decoder.decode(recordings.message("req_rebuild_check")["args"])
    assert {"requested_host": "cmp1"} == call.request.scheduler_hints
    assert {"requested_host": "cmp1"} == call.request.filter_properties["scheduler_hints"]


def test_cells_of_an_instance_and_properties_of_an_image():
    """Null means not asked for, and the names of image properties are nova's later ones."""
    request = decoder.decode(recordings.message("req_numa_image_props")["args"]).request
    assert [(0, {0, 1}, 1024, None)] == [
        (cell.id, cell.cpuset, cell.memory, cell.pagesize) for cell in request.numa_topology.cells
    ]
    assert {"hw_architecture": "x86_64", "hw_vm_mode": "hvm", "img_hv_type": "qemu"} == request.image.properties


def test_a_newer_minor_version_with_unknown_fields():
    """Is read as far as it is known."""
    sent = arguments(something_new={"deep": ["er"]})
    sent["spec_obj"]["nova_object.version"] = "1.99"
    assert 512 == decoder.decode({**sent, "unknown_argument": 1}).request.memory_mb


def test_unset_fields():
    """Have their defaults; a flavor is the one field that must be there."""
    spec = envelope("RequestSpec", "1.15", flavor=flavor())
    request = decoder.decode({"spec_obj": spec}).request
    assert (1, (), {}, None, Destination()) == (
        request.num_instances,
        request.ignore_hosts,
        request.scheduler_hints,
        request.numa_topology,
        request.destination,
    )


def test_a_group_of_an_older_nova():
    """Has a list of policies, and no hosts."""
    group = envelope("InstanceGroup", "1.10", uuid=uuid(1), policies=["affinity"], members=[uuid(2)])
    request = decoder.decode(arguments(instance_group=group)).request
    assert ({"affinity"}, {uuid(2)}, set()) == (request.group_policies, request.group_members, request.group_hosts)


def test_a_volume_as_root_disk():
    """Takes no room on the host."""
    request = decoder.decode(arguments(is_bfv=True)).request
    assert (0, 0, True) == (request.root_gb, request.flavor.root_gb, request.is_bfv)


def test_traits():
    """Of the flavor's extra specs and the image."""
    image = envelope("ImageMeta", "1.8", properties=envelope("ImageMetaProps", "1.44", traits_required=["HW_B"]))
    specs = {"trait:HW_A": "required", "trait:HW_C": "forbidden"}
    request = decoder.decode(arguments(flavor=flavor(extra_specs=specs), image=image)).request
    assert ({"HW_A", "HW_B"}, {"HW_C"}) == (request.required_traits, request.forbidden_traits)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"flavor": None}, "spec_obj.flavor"),
        ({"flavor": flavor(vcpus="two")}, "request_spec.instance_type.vcpus"),
        ({"flavor": flavor(memory_mb=-1)}, "request_spec.instance_type.memory_mb"),
        ({"flavor": flavor(extra_specs={"trait:HW_A": "maybe"})}, "flavor.extra_specs.trait:HW_A"),
        ({"ignore_hosts": "cmp1"}, "filter_properties.ignore_hosts"),
        ({"scheduler_hints": ["a"]}, "scheduler_hints"),
        ({"instance_group": {"members": [7]}}, "spec_obj.instance_group.members.0"),
        (
            {"instance_group": {"_rules": {"max_server_per_host": "x"}}},
            "spec_obj.instance_group._rules.max_server_per_host",
        ),
        ({"requested_destination": {"cell": {}}}, "requested_destination.cell.uuid"),
        ({"requested_destination": {"aggregates": ["x"]}}, "requested_destination.aggregates.0"),
        ({"numa_topology": {"cells": [{"id": 0}]}}, "request_spec.instance_properties.numa_topology.cells.0.cpuset"),
        ({"image": [1]}, "spec_obj.image"),
    ],
)
def test_a_malformed_request_is_refused_with_the_field(changed, field):
    """In one line, and without the value."""
    with pytest.raises(errors.InvalidInput) as refused:
        decoder.decode(arguments(**changed))
    assert field == refused.value.field
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    "sent", [{}, {"spec_obj": None}, {"spec_obj": [1]}, {"request_spec": {}}, {"request_spec": "{"}]
)
def test_arguments_without_a_request(sent):
    """Are refused as well."""
    with pytest.raises(errors.InvalidInput):
        decoder.decode(sent)


@pytest.mark.parametrize(
    "specs",
    [
        {"os:secure_boot": "disabled"},
        {"hw:cpu_policy": "shared"},
        {"hw:mem_encryption": "false"},
        {"trait:A": "required"},
    ],
)
def test_extra_specs_that_ask_for_nothing_special(specs):
    """Pass."""
    decoder.decode(arguments(flavor=flavor(extra_specs=specs)))


@pytest.mark.parametrize(
    ("changed", "field", "expected"),
    [
        ({"image": {"id": uuid(1), "name": "web\tserver"}}, "image.name", "web server"),
        ({"image": {"id": uuid(1), "name": "\n" * 255}}, "image.name", ("\\n" * 128)[:255]),
        ({"flavor": flavor(name="m1\u2028")}, "flavor.name", "m1\\u2028"),
        ({"flavor": flavor(extra_specs={"a:b": "c\nd"})}, "flavor.extra_specs", {"a:b": "c\\nd"}),
        ({"scheduler_hints": {"": ["x"], "a\x1b": ["b"]}}, "scheduler_hints", {"a\\x1b": "b"}),
    ],
)
def test_what_nova_allows_in_texts(changed, field, expected):
    """Control characters decide nothing, so they refuse nothing; a log shows them escaped."""
    assert expected == operator.attrgetter(field)(decoder.decode(arguments(**changed)).request)


def test_numbers_that_nova_does_not_limit():
    """Extra specs of a flavor, and servers in one request."""
    sent = arguments(flavor=flavor(extra_specs={f"quota:{number}": "1" for number in range(500)}))
    sent["instance_uuids"] = [uuid(number) for number in range(1001)]
    request = decoder.decode(sent).request
    assert (500, 1001) == (len(request.flavor.extra_specs), request.num_instances)


def test_passwords_of_a_cell_are_not_kept():
    """Neither in the request, nor in the dicts that plugins, notifications and decision records get."""
    secret = "planted-secret"
    cell = envelope("CellMapping", "1.1", uuid=CELL, transport_url=secret, database_connection=secret)
    sent = arguments(requested_destination=envelope("Destination", "1.4", cell=cell))
    request = decoder.decode(sent).request
    assert CELL == request.destination.cell
    assert secret not in repr(dataclasses.asdict(request))
