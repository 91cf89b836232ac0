# SPDX-License-Identifier: Apache-2.0
"""The choices of docs/coming-from-nova.md: what nova leaves open, or answers by an exception."""

from __future__ import annotations

import datetime

import pytest

from fleet import errors
from fleet.objects import RequestSpec
from scheduler.compute import filters
from tests import factories
from tests.factories import NOW, Service, uuid
from tests.unit.scheduler import judging


@pytest.mark.parametrize(
    ("field", "flavor", "instance"),
    [
        ("request_spec.instance_type.vcpus", {"vcpus": "2"}, {}),
        ("request_spec.instance_type.memory_mb", {"memory_mb": 1.5}, {}),
        ("request_spec.instance_uuids.0", {}, {"instance_uuids": [uuid(1).replace("-", "")]}),
    ],
)
def test_what_is_refused_in_a_request(field: str, flavor: dict[str, object], instance: dict[str, object]) -> None:
    """A number as a text or a fraction, and a uuid without dashes."""
    spec = {"instance_type": {"vcpus": 1, "memory_mb": 1, **flavor}, "num_instances": 1, **instance}
    with pytest.raises(errors.InvalidInput) as refused:
        RequestSpec.from_wire(spec, {})
    assert field == refused.value.field


def test_an_empty_zone() -> None:
    """It is no zone: all hosts pass."""
    asked = factories.request({"vcpus": 1, "memory_mb": 1}, {"availability_zone": ""})
    hosts = factories.candidates(
        factories.node("host1"), aggregates=[factories.aggregate(["host1"], availability_zone="z")]
    )
    assert {"host1"} == judging.passed(filters.AvailabilityZoneFilter(), hosts, asked)


@pytest.mark.parametrize(("ahead_s", "is_up"), [(60, True), (61, False)])
def test_a_heartbeat_in_the_future(ahead_s: int, is_up: bool) -> None:
    """It counts as one in the past does: beyond ``service_down_time`` the host is down."""
    service = Service("host1", last_seen_up=NOW + datetime.timedelta(seconds=ahead_s))
    hosts = factories.candidates(factories.node("host1"), services=[service])
    asked = factories.request({"vcpus": 1, "memory_mb": 1}, {})
    assert ({"host1"} if is_up else set()) == judging.passed(filters.ComputeFilter(60), hosts, asked)
