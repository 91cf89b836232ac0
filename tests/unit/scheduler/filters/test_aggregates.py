# SPDX-License-Identifier: Apache-2.0
"""Filters that read the metadata of a host's aggregates."""

from __future__ import annotations

import pytest

from scheduler.compute import filters
from tests import factories
from tests.factories import aggregate, node, request
from tests.unit.scheduler.judging import passed


def with_metadata(*metadata):
    """A host in one aggregate for each dict, and a host in none."""
    made = [aggregate(["here"], number, **each) for number, each in enumerate(metadata, 1)]
    return factories.candidates(node("here"), node("free"), aggregates=made)


SCOPED = "aggregate_instance_extra_specs:"
EXTRA_SPECS = [
    ("no extra specs", [{"ssd": "true"}], {}, ["here", "free"]),
    ("a scoped key", [{"ssd": "true"}], {f"{SCOPED}ssd": "true"}, ["here"]),
    ("an unscoped key", [{"ssd": "true"}], {"ssd": "true"}, ["here"]),
    ("another value", [{"ssd": "false"}], {"ssd": "true"}, []),
    ("another scope is for others", [{"ssd": "false"}], {"capabilities:ssd": "true"}, ["here", "free"]),
    ("one of several values, separated by commas", [{"ssd": "no, true"}], {"ssd": "true"}, ["here"]),
    ("one of several aggregates", [{"ssd": "no"}, {"ssd": "true"}], {"ssd": "true"}, ["here"]),
    ("any value may meet an operator", [{"gen": "2,4"}], {"gen": ">= 3"}, ["here"]),
    ("all keys must be met", [{"ssd": "true"}, {"gen": "2"}], {"ssd": "true", f"{SCOPED}gen": "3"}, []),
    ("keys met by different aggregates", [{"ssd": "true"}, {"gen": "3"}], {"ssd": "true", "gen": "3"}, ["here"]),
    ("a key with a colon in it", [{"a:b": "1"}], {f"{SCOPED}a:b": "1"}, ["here"]),
    ("both forms of a key", [{"ssd": "true"}], {"ssd": "true", f"{SCOPED}ssd": "false"}, []),
]


@pytest.mark.parametrize(
    ("metadata", "extra_specs", "expected"), [pytest.param(*case[1:], id=case[0]) for case in EXTRA_SPECS]
)
def test_aggregate_instance_extra_specs(metadata, extra_specs, expected):
    """Hosts pass whose aggregates meet every extra spec that is about them."""
    asked = request({"extra_specs": extra_specs})
    assert set(expected) == passed(filters.AggregateInstanceExtraSpecsFilter(), with_metadata(*metadata), asked)


TYPES = [
    ("named", [{"instance_type": "small"}], ["here", "free"]),
    ("named among others", [{"instance_type": "large, small"}], ["here", "free"]),
    ("named in another aggregate", [{"instance_type": "large"}, {"instance_type": "small"}], ["here", "free"]),
    ("others named", [{"instance_type": "large"}], ["free"]),
    ("part of a name", [{"instance_type": "smaller"}], ["free"]),
    ("nothing named", [{"ssd": "true"}], ["here", "free"]),
]


@pytest.mark.parametrize(("metadata", "expected"), [pytest.param(*case[1:], id=case[0]) for case in TYPES])
def test_aggregate_type_affinity(metadata, expected):
    """Hosts kept for flavors take no others; hosts kept for none take all."""
    asked = request({"name": "small"})
    assert set(expected) == passed(filters.AggregateTypeAffinityFilter(), with_metadata(*metadata), asked)


TENANTS = [
    ("named", [{"filter_tenant_id": "mine"}], ["here", "free"]),
    ("named among others", [{"filter_tenant_id": "yours, mine"}], ["here", "free"]),
    ("others named", [{"filter_tenant_id": "yours"}], ["free"]),
    ("named under a further key", [{"filter_tenant_id": "yours", "filter_tenant_id2": "mine"}], ["here", "free"]),
    ("named in another aggregate", [{"filter_tenant_id": "yours"}, {"filter_tenant_id": "mine"}], ["here", "free"]),
    ("nobody named, but the key is there", [{"filter_tenant_id": ""}], ["free"]),
    ("no such key", [{"tenant": "yours"}], ["here", "free"]),
]


@pytest.mark.parametrize(("metadata", "expected"), [pytest.param(*case[1:], id=case[0]) for case in TENANTS])
def test_aggregate_multitenancy_isolation(metadata, expected):
    """Hosts kept for tenants take no others; the tenants may go elsewhere too."""
    asked = request(instance={"project_id": "mine"})
    assert set(expected) == passed(filters.AggregateMultiTenancyIsolation(), with_metadata(*metadata), asked)


IMAGES = [
    ("the value is listed", {}, [{"os": "linux, windows"}], {"os": "linux"}, ["here", "free"]),
    ("the value is not listed", {}, [{"os": "windows"}], {"os": "linux"}, ["free"]),
    ("the image does not say", {}, [{"os": "windows"}], {}, ["here", "free"]),
    ("the image says nothing by it", {}, [{"os": "windows"}], {"os": ""}, ["here", "free"]),
    ("the aggregates do not say", {}, [{"rack": "7"}], {"os": "linux"}, ["here", "free"]),
    ("a number is compared as text", {}, [{"cores": "4"}], {"cores": 4}, ["here", "free"]),
    ("values of several aggregates", {}, [{"os": "windows"}, {"os": "linux"}], {"os": "linux"}, ["here", "free"]),
    ("another namespace", {"namespace": "np"}, [{"os": "windows"}], {"os": "linux"}, ["here", "free"]),
    ("the namespace belongs to the key", {"namespace": "np"}, [{"np.os": "windows"}], {"np.os": "linux"}, ["free"]),
    ("the image's key has it too", {"namespace": "np"}, [{"np.os": "windows"}], {"os": "linux"}, ["here", "free"]),
    (
        "another separator",
        {"namespace": "np", "separator": "-"},
        [{"np.os": "windows", "np-os": "windows"}],
        {"np.os": "linux"},
        ["here", "free"],
    ),
]


@pytest.mark.parametrize(
    ("options", "metadata", "properties", "expected"), [pytest.param(*case[1:], id=case[0]) for case in IMAGES]
)
def test_aggregate_image_properties_isolation(options, metadata, properties, expected):
    """What both the image and the aggregates name must agree."""
    each = filters.AggregateImagePropertiesIsolation(**options)
    assert set(expected) == passed(each, with_metadata(*metadata), request(image={"properties": properties}))


@pytest.mark.parametrize(
    ("each", "key", "column"),
    [
        (filters.AggregateIoOpsFilter(2), "max_io_ops_per_host", "io_workload"),
        (filters.AggregateNumInstancesFilter(2), "max_instances_per_host", "running_vms"),
    ],
)
def test_aggregates_override_a_number(each, key, column):
    """Hosts have 2, which the option's 2 is not more than; the smallest of good values counts, a bad one spoils all."""
    names = ("plain", "three", "three-and-one", "fraction", "three-and-bad")
    made = [
        aggregate(["three", "three-and-one", "three-and-bad"], 1, **{key: "3"}),
        aggregate(["three-and-one"], 2, **{key: "1"}),
        aggregate(["fraction"], 3, **{key: "3.5"}),
        aggregate(["three-and-bad"], 4, **{key: "many"}),
    ]
    hosts = factories.candidates(*(node(name, **{column: 2}) for name in names), aggregates=made)
    assert {"three"} == passed(each, hosts, request())


@pytest.mark.parametrize("bad", ["many", "nan", "inf", ""])
def test_a_bad_value_is_warned_of_once(bad, caplog):
    """The log names the key, and does not repeat itself at every request."""
    hosts = factories.candidates(node("host1"), aggregates=[aggregate(["host1"], ram_allocation_ratio=f" {bad} ")])
    for _request in range(3):
        assert {"host1"} == passed(filters.AggregateRamFilter(), hosts, request())
    assert ["ram_allocation_ratio" in message for message in caplog.messages] == [True]


@pytest.mark.parametrize(
    ("each", "key", "limit"),
    [
        (filters.AggregateRamFilter(), "ram_allocation_ratio", "memory_mb"),
        (filters.AggregateCoreFilter(), "cpu_allocation_ratio", "vcpu"),
        (filters.AggregateDiskFilter(), "disk_allocation_ratio", "disk_gb"),
    ],
)
def test_no_ratio_makes_a_limit_that_cannot_be_sent(each, key, limit):
    """JSON has no infinity, so the answer to the request would be lost. A ratio counts up to the largest of any host."""
    hosts = factories.candidates(node("host1"), aggregates=[aggregate(["host1"], **{key: "1e308"})])
    made = factories.decision(factories.pipeline([each]), hosts, request())
    expected = 10_000 * {"memory_mb": 16384, "vcpu": 8, "disk_gb": 100}[limit]
    assert {limit: expected} == made.picks[0].limits
