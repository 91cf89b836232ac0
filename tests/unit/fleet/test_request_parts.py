# SPDX-License-Identifier: Apache-2.0
"""Which parts of a request filters judge, and what is said of the others."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fleet.objects import Flavor, Image, RequestSpec, numa, pci, request_parts
from fleet.objects.request_spec import InstanceProperties

SMALL = Flavor(vcpus=1, memory_mb=512)
SIZES = ["vcpus", "memory_mb"]


def of(**asked: Any) -> RequestSpec:
    return RequestSpec(**{"flavor": SMALL, **asked})


def shown(request: RequestSpec) -> list[str]:
    return [part.shown for part in request_parts.of(request)]


@pytest.mark.parametrize(
    ("what", "asked", "parts"),
    [
        ("the sizes of a flavor", {}, []),
        ("swap is disk", {"flavor": dataclasses.replace(SMALL, swap=512)}, ["disk_gb"]),
        ("a zone", {"instance": InstanceProperties(availability_zone="mars")}, ["availability_zone"]),
        ("a group", {"group_policies": frozenset(["anti-affinity"])}, ["group"]),
        ("a group that is a preference", {"group_policies": frozenset(["soft-affinity"])}, []),
        ("an architecture", {"image": Image(properties={"hw_architecture": "arm"})}, ["image property hw_architecture"]),
        ("a description of an image", {"image": Image(properties={"os_distro": "debian"})}, []),
        ("cells", {"numa_topology": numa.InstanceTopology(())}, ["NUMA topology"]),
        ("devices", {"pci_requests": (pci.PciRequest(1, ()),)}, ["PCI devices"]),
        ("a hint", {"scheduler_hints": {"requested_host": "h1"}}, ["hint requested_host"]),
        ("an empty hint", {"scheduler_hints": {"same_host": []}}, []),
        ("a group by its hint, which its policy stands for", {"scheduler_hints": {"group": "g"}}, []),
        (
            "extra specs of filters, and of others",
            {"flavor": dataclasses.replace(SMALL, extra_specs={"ssd": "yes", "capabilities:arch": "arm", "quota:cpu": "1"})},
            ["extra spec ssd", "extra spec capabilities:arch"],
        ),
    ],
)  # fmt: skip
def test_parts(what: str, asked: dict[str, Any], parts: list[str]) -> None:
    """Each part that asks something of hosts is named in the words of the request."""
    assert [*SIZES, *parts] == shown(of(**asked)), what


@pytest.mark.parametrize("forced", [{"force_hosts": ("h1",)}, {"force_nodes": ("n1",)}])
def test_a_forced_host(forced: dict[str, Any]) -> None:
    """No filter runs for it, so nothing is remarked."""
    assert [] == shown(of(instance=InstanceProperties(availability_zone="mars"), **forced))


def test_remarks() -> None:
    """A part is remarked once, unless a filter judges its kind."""
    asked = of(
        instance=InstanceProperties(availability_zone="mars"),
        group_policies=frozenset(["affinity", "anti-affinity"]),
        scheduler_hints={"same_host": ["x"], "rack": "r1"},
    )
    judged = ["vcpus", "availability_zone", "hint/same_host"]
    assert [
        "memory_mb: no filter judges it",
        "group: no filter judges it",
        "hint rack: no filter judges it",
    ] == request_parts.remarks(asked, judged)


def test_a_filter_that_may_read_any_hint() -> None:
    """No hint is remarked then; other parts are."""
    asked = of(scheduler_hints={"rack": "r1"})
    assert ["vcpus: no filter judges it"] == request_parts.remarks(asked, ["memory_mb", request_parts.ANY_HINT])
