# SPDX-License-Identifier: Apache-2.0
"""Requests that placement's allocation candidates decide: what is asked, chosen, claimed and answered."""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

import pytest

from scheduler.nova import decoder
from scheduler.nova.request_filters import RequestFilters
from tests.factories import uuid
from tests.unit.scheduler.nova.recordings import arguments, envelope, flavor
from tests.unit.scheduler.nova.test_claims import Answer
from tests.unit.scheduler.nova.worlds import UUIDS, EndpointInMemory, node_row

_AMOUNTS = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
_GOLD = {"flavor": flavor(extra_specs={"resources1:CUSTOM_GOLD": "1"})}
_CHILDREN = [uuid(501), uuid(502)]


class Nested(EndpointInMemory):
    """Placement has two children under cmp2 with one CUSTOM_GOLD each, and offers both."""

    adapter: Any

    def __init__(self, **options: Any) -> None:
        # For the columns of the hosts, cmp2 is full.
        super().__init__(node_row("cmp1"), node_row("cmp2", free_ram_mb=0), node_row("cmp3"), **options)
        self.offered = list(_CHILDREN)
        self.asked: list[dict[str, str]] = []
        self._get, self.adapter.get = self.adapter.get, self._answer
        self._put, self.adapter.put = self.adapter.put, self._claim
        self.taken: set[str] = set()

    def _answer(self, path: str, body: Any) -> Answer:
        if not path.startswith("/allocation_candidates"):
            return self._get(path, body)
        self.asked.append(dict(urllib.parse.parse_qsl(path.partition("?")[2])))
        root = UUIDS["cmp2"]
        requests = [
            {
                "allocations": {root: {"resources": _AMOUNTS}, child: {"resources": {"CUSTOM_GOLD": 1}}},
                "mappings": {"": [root], "1": [child]},
            }
            for child in self.offered
        ]
        summaries = {each: {"root_provider_uuid": root} for each in (root, *self.offered)}
        return Answer(200, {"allocation_requests": requests, "provider_summaries": summaries})

    def _claim(self, path: str, body: Any) -> Answer:
        """A child that another consumer has taken meanwhile is refused."""
        children = set(body["allocations"]).intersection(_CHILDREN)
        if children & self.taken:
            return Answer(409, {"errors": [{"code": "placement.undefined_code", "title": "Conflict"}]})
        self.taken |= children
        self.adapter.held[path.rpartition("/")[2]] = {
            each: found["resources"] for each, found in body["allocations"].items()
        }
        self.adapter.generations[path.rpartition("/")[2]] = 1
        return Answer(204)


def test_a_resource_of_another_provider() -> None:
    """The host that placement offers is chosen, whatever the columns say; both providers are claimed, and answered."""
    world = Nested()
    ((first, *_others),) = world.select(arguments(**_GOLD))
    data = first["nova_object.data"]
    assert "cmp2" == data["service_host"]
    held = {UUIDS["cmp2"]: _AMOUNTS, _CHILDREN[0]: {"CUSTOM_GOLD": 1}}
    assert [held] == list(world.adapter.held.values())
    sent = json.loads(data["allocation_request"])
    assert {"": [UUIDS["cmp2"]], "1": [_CHILDREN[0]]} == sent["mappings"]
    assert set(held) == set(sent["allocations"])
    asked = {"limit": "1000", "resources": "DISK_GB:1,MEMORY_MB:512,VCPU:1", "resources1": "CUSTOM_GOLD:1"}
    assert [{**asked, "root_required": "!COMPUTE_STATUS_DISABLED"}] == world.asked


@pytest.mark.parametrize(("falls_back", "asked"), [(True, ["PCPU", "VCPU"]), (False, ["PCPU"])])
def test_dedicated_cpus(falls_back: bool, asked: list[str]) -> None:
    """Hosts that report no PCPU are offered as well, unless the option says otherwise."""
    world = Nested(scheduler_default_filters=["ComputeFilter"])
    world.placing._candidates._falls_back = falls_back
    world.select(arguments(flavor=flavor(extra_specs={"hw:cpu_policy": "dedicated"})))
    assert [f"DISK_GB:1,MEMORY_MB:512,{name}:1" for name in asked] == [each["resources"] for each in world.asked]


def test_the_first_offer_is_taken_meanwhile() -> None:
    """The next offer of the same host is claimed."""
    world = Nested()
    world.taken.add(_CHILDREN[0])
    ((first, *_others),) = world.select(arguments(**_GOLD))
    assert [_CHILDREN[1]] == json.loads(first["nova_object.data"]["allocation_request"])["mappings"]["1"]


def test_no_offer() -> None:
    """The refusal says what placement was asked for."""
    world = Nested()
    world.offered.clear()
    refused = world.refused(arguments(**_GOLD))
    assert "Placement offers no host for CUSTOM_GOLD:1 (group 1); DISK_GB:1, MEMORY_MB:512, VCPU:1." in refused
    assert 0 == world.bookings()


def test_all_offers_are_taken() -> None:
    """Nothing stays claimed or booked."""
    world = Nested()
    world.taken.update(_CHILDREN)
    assert "Placement refused claims on cmp2" in world.refused(arguments(**_GOLD))
    assert ({}, 0) == (world.adapter.held, world.bookings())


@pytest.mark.parametrize(
    ("changed", "parameter", "value"),
    [
        ({"availability_zone": "az1"}, "member_of", "in:8ebb2558-8339-4309-adb6-bbbec0619d32"),
        ({"force_hosts": ["cmp2"]}, "in_tree", UUIDS["cmp2"]),
        ({"requested_destination": envelope("Destination", host="cmp2")}, "in_tree", UUIDS["cmp2"]),
        ({"scheduler_hints": {"same_host": [uuid(9)]}}, "limit", None),
        ({"scheduler_hints": {}}, "limit", "1000"),
    ],
)
def test_where_it_asks(changed: dict[str, Any], parameter: str, value: str | None) -> None:
    """Within the zone, the tree of the one host, and without a limit where few hosts may fit."""
    world = Nested()
    world.offered.clear()
    world.refused(arguments(**_GOLD, **changed))
    assert value == world.asked[0].get(parameter)


@pytest.mark.parametrize(
    ("specs", "field"),
    [
        ({"resources:VGPU": "-1"}, "flavor.extra_specs.resources:VGPU"),
        ({"resources:VGPU": "one"}, "flavor.extra_specs.resources:VGPU"),
        ({"trait1:CUSTOM_A": "wanted"}, "flavor.extra_specs.trait1:CUSTOM_A"),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "a-b"}, "hw:cpu_dedicated_mask"),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-99999999999"}, "hw:cpu_dedicated_mask"),
    ],
)
def test_a_value_that_placement_cannot_have(specs: dict[str, str], field: str) -> None:
    """Is refused by name, before placement is asked."""
    world = Nested()
    assert field in world.refused(arguments(flavor=flavor(extra_specs=specs)))
    assert [] == world.adapter.calls


@pytest.mark.parametrize("mask", ["9" * 5000, "0-" + "9" * 5000, "0-9999," * 5000])
def test_a_long_mask_of_an_image(mask: str) -> None:
    """It is refused, before a number of thousands of digits is read."""
    image = arguments()["spec_obj"]["nova_object.data"]["image"]
    properties = {"hw_cpu_policy": "mixed", "hw_cpu_realtime_mask": mask}
    image["nova_object.data"]["properties"]["nova_object.data"] = properties
    assert "must have at most 255 characters" in Nested().refused(arguments(image=image))


def test_two_groups_with_one_suffix() -> None:
    group = envelope("RequestGroup", requester_id="1", resources={"CUSTOM_A": 1}, use_same_provider=True)
    changed = {**_GOLD, "requested_resources": [group]}
    assert "requested_resources[0].requester_id" in Nested().refused(arguments(**changed))


def test_without_placement() -> None:
    """Such a request is refused."""
    world = EndpointInMemory(claims=False)
    assert "resources need placement" in world.refused(arguments(**_GOLD)).replace("resources: ", "resources ")


class _Aggregate:
    def __init__(self, number: int, **metadata: str) -> None:
        self.uuid, self.metadata = uuid(number), metadata


@pytest.mark.parametrize(
    ("switches", "aggregates", "wanted", "forbidden"),
    [
        ({}, [_Aggregate(1, filter_tenant_id="p")], (), ()),
        ({"limit_tenants_to_placement_aggregate": True}, [_Aggregate(1, filter_tenant_id3="p")], (1,), ()),
        ({"limit_tenants_to_placement_aggregate": True}, [_Aggregate(1, filter_tenant_id="other")], (), ()),
        ({"enable_isolated_aggregate_filtering": True}, [_Aggregate(1, **{"trait:CUSTOM_B": "required"})], (), (1,)),
        ({"enable_isolated_aggregate_filtering": True}, [_Aggregate(1, **{"trait:CUSTOM_A": "required"})], (), ()),
    ],
)
def test_request_filters(switches: Any, aggregates: Any, wanted: tuple[int, ...], forbidden: tuple[int, ...]) -> None:
    """The aggregates that a project must use, and those that are kept for other flavors."""
    specs = {"trait:CUSTOM_A": "required"}
    request = decoder.decode(arguments(project_id="p", flavor=flavor(extra_specs=specs))).request
    found = RequestFilters(**switches).apply(request, aggregates).destination
    assert tuple(frozenset({uuid(each)}) for each in wanted) == found.aggregates
    assert {uuid(each) for each in forbidden} == found.forbidden_aggregates


def test_a_project_without_an_aggregate() -> None:
    """Is refused if it needs one."""
    world = EndpointInMemory()
    world.placing._request_filters = RequestFilters(True, True)
    assert "No host aggregate has filter_tenant_id" in world.refused(arguments())


_BUSES = {"COMPUTE_STORAGE_BUS_SATA", "COMPUTE_NET_VIF_MODEL_E1000E"}


@pytest.mark.parametrize(
    ("known", "required"),
    [
        (None, {"COMPUTE_IMAGE_TYPE_RAW", *_BUSES}),
        ({"COMPUTE_IMAGE_TYPE_RAW", "COMPUTE_STORAGE_BUS_SATA"}, {"COMPUTE_IMAGE_TYPE_RAW"}),
        (
            {"COMPUTE_STORAGE_BUS_SATA", "COMPUTE_NET_VIF_MODEL_E1000E"},
            {"COMPUTE_STORAGE_BUS_SATA", "COMPUTE_NET_VIF_MODEL_E1000E"},
        ),
        (set(), set()),
    ],
)
def test_traits_of_an_image(known: set[str] | None, required: set[str]) -> None:
    """A name that placement does not have restricts nothing: a disk format by itself, the properties all together."""
    properties = envelope("ImageMetaProps", hw_disk_bus="sata", hw_vif_model="e1000e")
    request = decoder.decode(arguments(image=envelope("ImageMeta", disk_format="raw", properties=properties))).request
    switches = RequestFilters(query_placement_for_image_type_support=True, image_metadata_prefilter=True)
    assert required == switches.apply(request, [], known).required_traits
