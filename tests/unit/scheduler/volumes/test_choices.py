# SPDX-License-Identifier: Apache-2.0
"""The choices of docs/coming-from-cinder.md: what cinder leaves open, or does otherwise."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from fleet import errors
from fleet.objects import pool_report
from scheduler.volumes import filters
from scheduler.volumes.domain.request import MIGRATE, VolumeRequest
from scheduler.volumes.filters.restrictions import BackendUpFilter
from tests.factories import NOW_S, Service, uuid
from tests.unit.scheduler.volumes.pools import Pool, Volume, cache, candidates, passed, request, typed

EAST, WEST, NOWHERE = (
    Pool("m1@lvm", "a", availability_zone="east"),
    Pool("m2@lvm", "b", availability_zone="west"),
    Pool("m3@lvm", "c"),
)
ALL = {"m1@lvm#a", "m2@lvm#b", "m3@lvm#c"}


@pytest.mark.parametrize(
    ("operation", "zone", "expected"),
    [
        ("create_volume", "east", {"m1@lvm#a"}),
        ("extend_volume", "east", {"m1@lvm#a"}),
        ("manage_existing", "east", {"m1@lvm#a"}),
        ("retype_volume", "east", {"m1@lvm#a"}),
        (MIGRATE, "east", ALL),
        ("create_volume", "", ALL),
        ("extend_volume", None, ALL),
    ],
)
def test_zones(operation: str, zone: str | None, expected: set[str]) -> None:
    """The zone of a volume counts for all but migrations; an empty text is no zone."""
    asked = request(1, operation=operation, availability_zone=zone)
    assert expected == passed(filters.AvailabilityZoneFilter(), candidates(EAST, WEST, NOWHERE), asked)


def test_a_migration_that_must_stay() -> None:
    asked = request(1, operation=MIGRATE, availability_zone="east")
    assert {"m1@lvm#a"} == passed(filters.AvailabilityZoneFilter(False), candidates(EAST, WEST, NOWHERE), asked)


def test_keys_of_the_backend() -> None:
    """Each fills in for a key that a pool lacks, or has as null; a key of the pool wins."""
    stats = {"thin_provisioning_support": True, "vendor_name": "v", "tier": 1}
    stats["pools"] = [{"pool_name": "p", "tier": 2, "vendor_name": None}]
    (report,) = pool_report.flatten("m@b", stats, None)
    assert {"pool_name": "p", "thin_provisioning_support": True, "vendor_name": "v", "tier": 2} == report.capabilities


@pytest.mark.parametrize("pools", [5, "p1", {"p1": {}}, ["p1"], [{"total_capacity_gb": 5}], [None]])
def test_pools_that_are_no_list_of_pools(pools: object) -> None:
    """A refusal that names the backend; its agent logs it, and the backend counts as down."""
    with pytest.raises(errors.InvalidInput, match=r"pools(\.0)? of m@b must be"):
        pool_report.flatten("m@b", {"pools": pools}, None)


@pytest.mark.parametrize(
    ("field", "spec", "properties"),
    [
        ("request_spec.volume_properties.size", {"volume_properties": {"size": "10"}}, {}),
        ("request_spec.volume_properties.size", {"volume_properties": {"size": 1.5}}, {}),
        ("filter_properties.new_size", {"volume_properties": {"size": 1}}, {"new_size": "20"}),
        ("request_spec.volume_id", {"volume_properties": {"size": 1}, "volume_id": uuid(1).replace("-", "")}, {}),
    ],
)
def test_what_is_refused_in_a_request(field: str, spec: dict[str, Any], properties: dict[str, Any]) -> None:
    """A number as a text, and a uuid of a request without dashes."""
    with pytest.raises(errors.InvalidInput) as refused:
        VolumeRequest.from_wire(spec, properties)
    assert field == refused.value.field


def test_empty_texts_in_a_request() -> None:
    """They count as absent: a backend, a query, no hints at all."""
    asked = request(1, resource_backend="", scheduler_hints={"query": ""})
    assert asked.backend is None
    assert ALL == passed(filters.JsonFilter(), candidates(EAST, WEST, NOWHERE), asked)
    # But a hint that should name volumes and names none is a mistake.
    asked = request(1, scheduler_hints={"same_host": ""})
    assert set() == passed(filters.SameBackendFilter(), candidates(EAST, WEST, NOWHERE), asked)


def test_numbers_as_texts_in_a_report() -> None:
    """A capacity may be a text that reads as a number; a flag and a percentage may not be any text."""
    report = {"host": "m@b", "pool": "p", "capabilities": {"total_capacity_gb": "50", "free_capacity_gb": "infinite"}}
    assert 50.0 == pool_report.PoolReport.from_wire(report).read().total_capacity_gb
    report["capabilities"] = {"total_capacity_gb": 1, "free_capacity_gb": 1, "reserved_percentage": "10"}
    with pytest.raises(errors.InvalidInput, match="reserved_percentage"):
        pool_report.PoolReport.from_wire(report)
    # An extra spec with an operator for numbers compares numbers, also of texts.
    fast = Pool("m1@lvm", "a", report={"iops": "250"})
    assert {"m1@lvm#a"} == passed(filters.CapabilitiesFilter(), candidates(fast), request(1, typed(iops=">= 99.5")))


@pytest.mark.parametrize(("ahead_s", "is_up"), [(0, True), (60, True), (61, False), (-61, False)])
def test_a_heartbeat_in_the_future(ahead_s: int, is_up: bool) -> None:
    """It counts as one in the past does: beyond ``service_down_time`` the backend is down."""
    service = Service("m1@lvm", last_seen_up=ahead_of_now(ahead_s))
    found = passed(BackendUpFilter(60), cache([EAST], services=[service]).candidates(NOW_S), request(1))
    assert ({"m1@lvm#a"} if is_up else set()) == found


def ahead_of_now(seconds: int) -> Any:

    return datetime.datetime.fromtimestamp(NOW_S + seconds, datetime.UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    "form", [uuid(1), uuid(1).upper(), uuid(1).replace("-", ""), f"{{{uuid(1)}}}", f"urn:uuid:{uuid(1)}"]
)
def test_forms_of_a_uuid_in_a_hint(form: str) -> None:
    """Every form that cinder's own check takes names the volume."""
    there = cache([EAST, WEST], [Volume(uuid(1), "m1@lvm", "a")]).candidates(NOW_S)
    assert {"m1@lvm#a"} == passed(filters.SameBackendFilter(), there, request(1, scheduler_hints={"same_host": form}))
