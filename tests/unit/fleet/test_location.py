# SPDX-License-Identifier: Apache-2.0
"""Locations of volumes, and reports of pools."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors
from fleet.objects import PoolReport, location, pool_report

PARTS = [
    ("a@b#c", "host", "a"),
    ("a@b#c", "backend", "a@b"),
    ("a@b#c", "pool", "c"),
    ("a", "host", "a"),
    ("a@b", "pool", None),
    ("a#p#q", "pool", None),
]


@pytest.mark.parametrize(("where", "level", "expected"), PARTS)
def test_parts_of_a_location(where: str, level: location.Level, expected: str | None) -> None:
    """The pool is the text after the only ``#``."""
    assert expected == location.extract_host(where, level)


def test_a_location_without_pool() -> None:
    """The default pool has a name; a volume without a location has no part."""
    assert "_pool0" == location.extract_host("a@b", "pool", default_pool_name=True)
    with pytest.raises(errors.InvalidInput, match="not assigned to a host"):
        location.extract_host(None)


def test_joining_and_comparing() -> None:
    """Locations are compared by their backends."""
    assert ["a#b", "a", None] == [location.append_host(*pair) for pair in (("a", "b"), ("a", ""), (None, "b"))]
    assert [True, False, True, False] == [
        location.hosts_are_equivalent(*pair)
        for pair in (("a@b#c", "a@b#d"), ("a@b", "a@c"), (None, None), (None, "a@b"))
    ]


STATS = {
    "volume_backend_name": "fast",
    "total_capacity_gb": 100,
    "free_capacity_gb": "infinite",
    "pools": [{"pool_name": "p1", "total_capacity_gb": 50, "volume_backend_name": None}, {"pool_name": "p2"}],
}


def test_pools_take_what_they_lack_from_their_backend() -> None:
    """A driver without pools has one, which is named after the backend."""
    reports = pool_report.flatten("m@b", STATS, "z1")
    found = [(each.pool, each.capabilities["total_capacity_gb"]) for each in reports]
    assert [("p1", 50), ("p2", 100)] == found
    assert {"fast"} == {each.capabilities["volume_backend_name"] for each in reports}
    (only,) = pool_report.flatten("m@b", {**STATS, "pools": None}, None)
    assert ("fast", "m@b") == (only.pool, only.host)
    (unnamed,) = pool_report.flatten("m@b", {"total_capacity_gb": 1, "free_capacity_gb": 1}, None)
    assert "_pool0" == unnamed.pool
    assert [] == pool_report.flatten("m@b", {**STATS, "pools": []}, None)


GOOD: dict[str, Any] = {"total_capacity_gb": 10, "free_capacity_gb": "unknown"}
WRONG = [
    ("a capacity is missing", {"total_capacity_gb": 10}, "free_capacity_gb"),
    ("a capacity is negative", {**GOOD, "total_capacity_gb": -1}, "total_capacity_gb"),
    ("a capacity is not a number", {**GOOD, "total_capacity_gb": float("nan")}, "total_capacity_gb"),
    ("a capacity is more than any storage has", {**GOOD, "total_capacity_gb": 1e300}, "total_capacity_gb"),
    ("more is provisioned than any storage has", {**GOOD, "provisioned_capacity_gb": 1e300}, "provisioned_capacity_gb"),
    ("more than everything is reserved", {**GOOD, "reserved_percentage": 101}, "reserved_percentage"),
    ("the ratio is below 1", {**GOOD, "max_over_subscription_ratio": 0.5}, "max_over_subscription_ratio"),
    ("the ratio is too large", {**GOOD, "max_over_subscription_ratio": "1e300"}, "max_over_subscription_ratio"),
    ("the ratio is a wrong word", {**GOOD, "max_over_subscription_ratio": "much"}, "max_over_subscription_ratio"),
]


@pytest.mark.parametrize(("_name", "capabilities", "field"), WRONG, ids=[case[0] for case in WRONG])
def test_a_report_without_sense_is_refused(_name: str, capabilities: dict[str, Any], field: str) -> None:
    """The error names the field."""
    with pytest.raises(errors.InvalidInput, match=f"report.capabilities.{field}"):
        PoolReport.from_wire({"host": "m@b", "pool": "p", "capabilities": capabilities})


def test_a_pool_that_no_location_can_name_is_refused() -> None:
    """``m@b#fast#1`` would be read as a backend without a pool."""
    with pytest.raises(errors.InvalidInput, match="report.pool must not contain #.*'fast#1'"):
        PoolReport.from_wire({"host": "m@b", "pool": "fast#1", "capabilities": GOOD})


def test_a_report_keeps_what_only_filters_read() -> None:
    """Free-form capabilities are stored as they were sent."""
    capabilities = {**GOOD, "max_over_subscription_ratio": "auto", "QoS_support": True, "speed": {"rpm": 7200}}
    report = PoolReport.from_wire({"host": "m@b", "pool": "p", "capabilities": capabilities})
    assert capabilities == report.capabilities
    assert report == PoolReport.from_wire(report.to_wire())
