# SPDX-License-Identifier: Apache-2.0
"""Tests of the claim's arithmetic."""

from __future__ import annotations

import pytest

from compute_agent.node import claims
from compute_agent.node.claims import ClaimRequest, Resources
from fleet import errors
from fleet.objects import HostLimits
from tests.unit.compute_agent import builders

ROOM = Resources(memory_mb=1000, disk_gb=100, vcpus=4)


def request(requested: Resources, used: Resources, limits: HostLimits) -> ClaimRequest:
    return ClaimRequest(requested, ROOM, used, limits)


@pytest.mark.parametrize(
    ("requested", "used", "limits", "expected"),
    [
        pytest.param(Resources(500, 10, 1), Resources(), HostLimits(1000, 100, 4), [], id="fits with room to spare"),
        pytest.param(
            Resources(500, 50, 2), Resources(500, 50, 2), HostLimits(1000, 100, 4), [], id="fits to the last unit"
        ),
        pytest.param(
            Resources(512, 0, 0),
            Resources(memory_mb=900),
            HostLimits(memory_mb=1000),
            ["Free memory 100.00 MB < requested 512 MB"],  # 1000 - 900 = 100
            id="memory is short",
        ),
        pytest.param(
            Resources(0, 20, 0),
            Resources(disk_gb=99),
            HostLimits(disk_gb=100),
            ["Free disk 1.00 GB < requested 20 GB"],
            id="disk is short",
        ),
        pytest.param(
            Resources(0, 0, 2),
            Resources(vcpus=3),
            HostLimits(vcpu=4.9),
            ["Free CPUs 1.00 VCPUs < requested 2 VCPUs"],  # 4.9 is cut to 4; 4 - 3 = 1
            id="vcpus are short, and half a one does not count",
        ),
        pytest.param(
            Resources(2000, 200, 8),
            Resources(),
            HostLimits(1000, 100, 4),
            [
                "Free memory 1000.00 MB < requested 2000 MB",
                "Free disk 100.00 GB < requested 200 GB",
                "Free CPUs 4.00 VCPUs < requested 8 VCPUs",
            ],
            id="all is short, and all is told in order",
        ),
        pytest.param(Resources(10**6, 10**6, 10**6), Resources(), HostLimits(), [], id="no limit is no ceiling"),
        pytest.param(
            Resources(1400, 0, 0), Resources(), HostLimits(memory_mb=1500.0), [], id="a limit above the total"
        ),
        pytest.param(
            Resources(1, 0, 0),
            Resources(memory_mb=1200),
            HostLimits(memory_mb=1000),
            ["Free memory -200.00 MB < requested 1 MB"],
            id="a node over its limit has less than nothing",
        ),
        pytest.param(
            Resources(0, 0, 1), Resources(memory_mb=5000), HostLimits(memory_mb=None), [], id="None is unlimited"
        ),
    ],
)
def test_refusals(requested: Resources, used: Resources, limits: HostLimits, expected: list[str]) -> None:
    """A claim is refused for each resource that has less free under its limit than requested."""
    assert expected == claims.refusals(request(requested, used, limits))


def test_require_room_joins_the_reasons() -> None:
    """The error carries all reasons in one sentence."""
    with pytest.raises(errors.ComputeResourcesUnavailable) as refused:
        claims.require_room(request(Resources(2, 0, 2), Resources(), HostLimits(memory_mb=1, vcpu=1)))
    assert "Free memory 1.00 MB < requested 2 MB; Free CPUs 1.00 VCPUs < requested 2 VCPUs" == refused.value.reason


def test_flavor_counts_ephemeral_disk_and_overhead_but_not_swap() -> None:
    """What an instance holds: memory with the driver's overhead, root and ephemeral disk, vcpus."""
    flavor = builders.a_flavor(vcpus=2, memory_mb=512, root_gb=10, ephemeral_gb=5, swap=4096)
    assert Resources(memory_mb=576, disk_gb=15, vcpus=2) == Resources.of_flavor(flavor, overhead_memory_mb=64)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        pytest.param(None, HostLimits(), id="none sent"),
        pytest.param({}, HostLimits(), id="empty"),
        pytest.param(
            {"memory_mb": 96000.0, "vcpu": 16, "strange": 1}, HostLimits(memory_mb=96000.0, vcpu=16), id="unknown keys"
        ),
    ],
)
def test_limits_from_wire(wire: object, expected: HostLimits) -> None:
    """Absent limits are None; unknown ones are ignored."""
    assert expected == HostLimits.from_wire(wire)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "much", [1]])
def test_a_limit_that_is_no_number_is_refused(wrong: object) -> None:
    """A limit that compares with nothing must not let everything through."""
    with pytest.raises(errors.InvalidInput) as invalid:
        HostLimits.from_wire({"memory_mb": wrong})
    assert "limits.memory_mb" == invalid.value.field
