# SPDX-License-Identifier: Apache-2.0
"""What comes over the wire is parsed once, and what is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors
from fleet.objects import Aggregate, BuildRequest, Flavor, HostReport, Instance, RequestSpec, Selection, Zone

UUID = "11111111-2222-3333-4444-555555555555"
FLAVOR = {"vcpus": 1, "memory_mb": 512}


def request(**changes: Any) -> dict[str, Any]:
    return {"flavor": "m1.small", **changes}


BAD_REQUESTS = [
    ("no flavor", {}, "request.flavor"),
    ("a flavor of a wrong type", request(flavor=5), "request.flavor"),
    ("a flavor with an empty name", request(flavor=""), "request.flavor"),
    ("an inline flavor without memory", request(flavor={"vcpus": 1}), "request.flavor.memory_mb"),
    ("negative memory", request(flavor={"vcpus": 1, "memory_mb": -1}), "request.flavor.memory_mb"),
    ("no memory at all", request(flavor={"vcpus": 1, "memory_mb": 0}), "request.flavor.memory_mb"),
    ("memory beyond the column", request(flavor={"vcpus": 1, "memory_mb": 2**31}), "request.flavor.memory_mb"),
    ("memory as text", request(flavor={"vcpus": 1, "memory_mb": "512"}), "request.flavor.memory_mb"),
    ("a disk that is not a number", request(flavor={**FLAVOR, "root_gb": float("nan")}), "request.flavor.root_gb"),
    ("a billion instances", request(count=10**9), "request.count"),
    ("no instance", request(count=0), "request.count"),
    ("a truth value for a count", request(count=True), "request.count"),
    ("a minimum over the maximum", request(min_count=3, max_count=2), "request.min_count"),
    ("NUL in a name", request(name="web\x00"), "request.name"),
    ("a newline in a name", request(name="web\n1"), "request.name"),
    ("a name too long", request(name="x" * 256), "request.name"),
    ("a zone with too many parts", request(availability_zone="a:b:c:d"), "request.availability_zone"),
    ("hints that are a list", request(scheduler_hints=["a"]), "request.scheduler_hints"),
    ("same_host without a uuid", request(scheduler_hints={"same_host": "x"}), "request.scheduler_hints.same_host.0"),
    ("a group hint too long", request(scheduler_hints={"group": "x" * 300}), "request.scheduler_hints.group"),
    ("a line separator in a name", request(name="web\u2028x"), "request.name"),
    ("a C1 control character in a name", request(name="web\x85"), "request.name"),
    ("NUL in an image property", request(image={"properties": {"a": "b\x00"}}), "request.image.properties.a"),
    ("an image property without end", request(image={"properties": {"a": float("inf")}}), "request.image.properties.a"),
    ("a flavor id beyond the column", request(flavor={**FLAVOR, "id": 2**40}), "request.flavor.id"),
    ("an image that is text", request(image="cirros"), "request.image"),
    ("not an object", [1, 2], "request"),
]


@pytest.mark.parametrize(("what", "data", "field"), BAD_REQUESTS, ids=[case[0] for case in BAD_REQUESTS])
def test_a_bad_build_request_is_named(what: str, data: Any, field: str) -> None:
    """The error carries the path of the offending field, and its sentence fits in one line."""
    with pytest.raises(errors.InvalidInput) as caught:
        BuildRequest.from_wire(data)
    # A union names the branch that came closest behind the field.
    assert caught.value.field == field or caught.value.field.startswith(f"{field}.")
    assert "\n" not in caught.value.message


COUNTS = [
    ("nothing said", {}, 1),
    ("count", {"count": 3}, 3),
    ("a minimum only", {"min_count": 2}, 2),
    ("a maximum only", {"max_count": 4}, 4),
    ("both", {"min_count": 2, "max_count": 4}, 4),
]


@pytest.mark.parametrize(("what", "given", "expected"), COUNTS, ids=[case[0] for case in COUNTS])
def test_the_number_of_instances(what: str, given: dict[str, int], expected: int) -> None:
    """Without quota the maximum is what is built."""
    assert BuildRequest.from_wire(request(**given)).num_instances == expected


def test_unknown_keys_are_ignored() -> None:
    """A newer client may send keys that this release does not know."""
    assert BuildRequest.from_wire(request(tomorrow=1)).flavor == "m1.small"


ZONES = [
    ("a zone", "z1", Zone("z1")),
    ("a zone and a host", "z1:h1", Zone("z1", "h1")),
    ("a zone, a host and a node", "z1:h1:n1", Zone("z1", "h1", "n1")),
    ("a zone and a node", "z1::n1", Zone("z1", "", "n1")),
    ("a host only", ":h1", Zone("", "h1")),
    ("nothing", "", Zone()),
]


@pytest.mark.parametrize(("what", "text", "expected"), ZONES, ids=[case[0] for case in ZONES])
def test_zone_strings(what: str, text: str, expected: Zone) -> None:
    """``zone[:host[:node]]``; an empty part forces nothing."""
    assert Zone.parse(text) == expected


ROUND_TRIPS = [
    Flavor(vcpus=2, memory_mb=2048, root_gb=20, extra_specs={"a": "b"}),
    Instance(uuid=UUID, flavor=Flavor(vcpus=1, memory_mb=1), host="h1", metadata={"k": "v"}),
    HostReport(host="h", node="n", vcpus=8, memory_mb=1024, local_gb=10),
    Aggregate(id=1, name="a", hosts=["h1"], metadata={"ssd": "true"}),
    BuildRequest(flavor=Flavor(vcpus=1, memory_mb=1), name="x", count=2),
]


@pytest.mark.parametrize("value", ROUND_TRIPS, ids=lambda value: type(value).__name__)
def test_values_survive_the_wire(value: Any) -> None:
    """What ``to_wire`` writes, ``from_wire`` reads back equal."""
    assert type(value).from_wire(value.to_wire()) == value


def test_a_host_without_memory_is_refused() -> None:
    """An inventory of nothing is a broken driver, not a small host."""
    with pytest.raises(errors.InvalidInput, match="report.memory_mb"):
        HostReport.from_wire({"host": "h", "node": "n", "vcpus": 1, "memory_mb": 0, "local_gb": 0})


def test_a_request_spec_is_parsed_once() -> None:
    """nova's two dicts become one value; sizes that the instance does not give are the flavor's."""
    spec = RequestSpec.from_wire(
        {
            "num_instances": 2,
            "instance_type": {"vcpus": 1, "memory_mb": 512, "root_gb": 5},
            "instance_properties": {"project_id": "p", "memory_mb": 600},
            "instance_uuids": [UUID, UUID],
        },
        {"retry": {"num_attempts": 1, "hosts": [["h1", "n1"]]}, "group_hosts": ["h2"], "scheduler_hints": None},
    )
    assert (spec.memory_mb, spec.vcpus, spec.root_gb) == (600, 1, 5)
    assert spec.retry is not None
    assert spec.retry.hosts == [("h1", "n1")]
    assert spec.group_hosts == {"h2"}
    assert spec.scheduler_hints == {}
    assert spec.instance_uuids == (UUID, UUID)


BAD_SPECS = [
    ("no flavor", {"num_instances": 1}, {}, "request_spec.instance_type"),
    ("no number", {"instance_type": FLAVOR}, {}, "request_spec.num_instances"),
    ("uuids that do not match the number", {"instance_type": FLAVOR, "num_instances": 2, "instance_uuids": [UUID]}, {},
     "request_spec.instance_uuids"),
    ("forced hosts that are a number", {"instance_type": FLAVOR, "num_instances": 1}, {"force_hosts": 3},
     "filter_properties.force_hosts"),
    ("a retry that is not a pair", {"instance_type": FLAVOR, "num_instances": 1}, {"retry": {"hosts": ["h1"]}},
     "filter_properties.retry.hosts.0"),
    ("not an object", None, {}, "request_spec"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "spec", "properties", "field"), BAD_SPECS, ids=[case[0] for case in BAD_SPECS])
def test_a_bad_request_spec_is_named(what: str, spec: Any, properties: Any, field: str) -> None:
    """The path begins with the argument that is wrong."""
    with pytest.raises(errors.InvalidInput) as caught:
        RequestSpec.from_wire(spec, properties)
    assert caught.value.field == field


def test_a_selection_may_have_no_limits() -> None:
    """The chance scheduler answers without node and limits."""
    selection = Selection.from_wire({"host": "h", "nodename": None, "limits": None})
    assert (selection.nodename, selection.limits, selection.alternates) == (None, None, [])


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        (["h1"], "filter_properties.retry.hosts.0 must be a valid list"),
        ([["h1", "n1", "x"]], "filter_properties.retry.hosts.0 must have at most 2 items"),
    ],
)
def test_messages_speak_json(hosts, message):
    """A caller sends lists: no message names a type that only Python has."""
    with pytest.raises(errors.InvalidInput) as refused:
        RequestSpec.from_wire({"instance_type": FLAVOR, "num_instances": 1}, {"retry": {"hosts": hosts}})
    assert message in refused.value.message
    assert "tuple" not in refused.value.message.lower()
