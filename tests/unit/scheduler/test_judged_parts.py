# SPDX-License-Identifier: Apache-2.0
"""Filters say which parts of a request they judge."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors
from fleet.context import new_context
from fleet.objects import request_parts
from scheduler import filters as own
from scheduler.compute import filters
from scheduler.compute.drivers import judged_parts, loading
from scheduler.compute.drivers.driver import Scheduler as Driver
from tests.factories import node, request
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_manager import Scheduler, explained

HERE = "tests.unit.scheduler.test_judged_parts"
PLUGINS = "tests.unit.scheduler.plugins"


class RackFilter(own.BaseHostFilter):
    """Says what it judges."""

    judges = ("hint/rack",)

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        return True


class RackOfRamFilter(filters.RamFilter):
    """Judges memory, and may read any hint."""


def described(**options: Any) -> dict[str, Any]:
    return judged_parts.describe(loading.load_pipeline(configuration(**options)))


def test_the_default_list() -> None:
    """It judges every part but hints; and nothing is left out."""
    found = described()
    every = {
        *(request_parts.VCPUS, request_parts.MEMORY, request_parts.DISK, request_parts.ZONE, request_parts.IMAGE),
        *(request_parts.NUMA, request_parts.PCI, request_parts.NETWORKS, *request_parts.GROUP.values()),
        *(request_parts.GROUP_RULES, request_parts.GUEST_CPU),
        *(request_parts.EXTRA_SPECS[scope] for scope in ("", "capabilities")),
    }
    assert every == set(found["judged"])
    assert [] == found["left_out"]


def test_every_kind_of_part_has_a_filter() -> None:
    """A part that can be remarked can also be judged."""
    judged = {kind for cls in filters.CLASSES for kind in cls.judges}
    sizes = {request_parts.VCPUS, request_parts.MEMORY, request_parts.DISK}
    others = {*(request_parts.ZONE, request_parts.IMAGE, request_parts.NUMA, request_parts.PCI, request_parts.NETWORKS)}
    others.add(request_parts.GUEST_CPU)
    assert set() == {*sizes, *others, *request_parts.GROUP.values(), *request_parts.EXTRA_SPECS.values()} - judged


def test_filters_that_are_left_out() -> None:
    """Each default filter is named with what it alone would judge; a filter that judges the same stands in for it."""
    found = described(scheduler_default_filters=["ExactRamFilter", "AggregateCoreFilter", "DiskFilter"])
    assert {
        "RetryFilter": [],
        "ComputeFilter": [],
        "AvailabilityZoneFilter": ["availability_zone"],
        "ComputeCapabilitiesFilter": ["extra_specs/", "extra_specs/capabilities"],
        "ImagePropertiesFilter": ["image"],
        "ServerGroupAffinityFilter": ["group/affinity"],
        "FailureDomainFilter": ["group/rules"],
        "ServerGroupAntiAffinityFilter": ["group/anti-affinity"],
        "PciPassthroughFilter": ["pci_requests"],
        "BridgeFilter": ["networks"],
        "GuestCpuFilter": ["guest_cpu"],
        "NUMATopologyFilter": ["numa_topology"],
    } == {each["filter"]: each["unjudged"] for each in found["left_out"]}


@pytest.mark.parametrize(
    ("path", "more"),
    [
        (f"{HERE}.RackFilter", {"hint/rack"}),
        (f"{HERE}.RackOfRamFilter", {request_parts.ANY_HINT}),
        (f"{PLUGINS}.SpecifiedHostFilter", {request_parts.ANY_HINT}),
    ],
)
def test_a_filter_of_a_user(path: str, more: set[str]) -> None:
    """One that does not say what it judges may read any hint."""
    assert more == set(described(scheduler_additional_filters=[path])["judged"]) - set(described()["judged"])


def test_explain_and_capacity_remark_what_is_not_judged() -> None:
    """A zone that no filter judges is remarked, and no host is refused for it; with the default list it is."""
    wanted = request(instance={"availability_zone": "mars"}, scheduler_hints={"rack": "r1"})
    bare = Scheduler(node("a"), scheduler_default_filters=["RamFilter", "CoreFilter", "DiskFilter"])
    answer = explained(bare, wanted)
    remarks = ["availability_zone: no filter judges it", "hint rack: no filter judges it"]
    assert (None, remarks) == (answer["reason_code"], answer["remarks"])
    counted = bare.manager.capacity(
        new_context(), request_spec=wanted.request_spec, filter_properties=dict(wanted.filter_properties)
    )
    assert remarks == counted["remarks"]
    answer = explained(Scheduler(node("a")), wanted)
    assert ("POLICY", remarks[1:]) == (answer["reason_code"], answer["remarks"])


def test_the_rpc() -> None:
    """The scheduler answers with what its driver does; a driver of a user may not know it."""
    answer = Scheduler(node("a")).manager.describe_filters(new_context())
    assert {**described(), "promises": None} == answer
    assert (
        []
        == Scheduler(node("a"), scheduler_driver="chance_scheduler").manager.describe_filters(new_context())["judged"]
    )
    with pytest.raises(errors.NotSupported, match="describe_filters"):
        Driver().describe_filters()
