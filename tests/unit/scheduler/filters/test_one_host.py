# SPDX-License-Identifier: Apache-2.0
"""Built-in filters and weighers asked as nova's are: one host at a time, and subclassed by plugins."""

from __future__ import annotations

import datetime

import pytest

from fleet import errors
from fleet.clock import utcnow
from scheduler.compute import filters, weights
from scheduler.compute.domain.host_state import HostState
from tests import factories
from tests.factories import node, request


def test_limits_are_written_on_success_only():
    """As nova's RamFilter does."""
    host = HostState(
        "host1", "node1", free_ram_mb=1023, total_usable_ram_mb=1024, ram_allocation_ratio=1.0, limits={"old": 1}
    )
    assert not filters.RamFilter().host_passes(host, {"instance_type": {"memory_mb": 1024}})
    assert {"old": 1} == host.limits
    host.free_ram_mb = 1024
    assert filters.RamFilter().host_passes(host, {"instance_type": {"memory_mb": 1024}})
    assert {"old": 1, "memory_mb": 1024.0} == host.limits


def test_no_limit_is_not_written():
    """A host without CPUs reported passes unlimited."""
    host = HostState("host1", "node1")
    assert filters.CoreFilter().host_passes(host, {"instance_type": {"vcpus": 1}})
    assert {} == host.limits


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (lambda now: {"disabled": False, "last_seen_up": now}, True),
        (lambda now: {"disabled": False, "last_seen_up": now.isoformat()}, True),
        (lambda now: {"disabled": False, "updated_at": now}, True),
        (lambda now: {"disabled": True, "last_seen_up": now}, False),
        (lambda now: {"last_seen_up": now, "forced_down": True}, False),
        (lambda now: {"last_seen_up": factories.NOW}, False),
        (lambda now: {}, False),
    ],
)
def test_compute(service, expected):
    """The service record is a dict in nova's form, its times by the wall clock."""
    host = HostState("host1", "node1", service=service(utcnow()))
    assert expected == filters.ComputeFilter(60).host_passes(host, {})


class Record:
    """A service record as an object."""

    disabled = False
    forced_down = False

    def __init__(self, seen):
        self.last_seen_up = seen


NOW_S = 1_800_000_000.0
SEEN = datetime.datetime.fromtimestamp(NOW_S - 59, datetime.UTC)
FAR_EAST = datetime.timezone(datetime.timedelta(hours=12))
STATES = [
    ("heard from within the limit", {"service": {"last_seen_up": SEEN.replace(tzinfo=None)}}, True),
    (
        "in another time zone",
        {"service": {"last_seen_up": SEEN.astimezone(FAR_EAST)}},
        True,
    ),
    ("in epoch seconds", {"service": {"last_seen_up": NOW_S - 61}}, False),
    ("a record that is an object", {"service": Record(SEEN)}, True),
    ("attributes, as a row has them", {"last_seen_up": NOW_S - 1}, True),
    ("attributes of a disabled host", {"last_seen_up": NOW_S - 1, "disabled": True}, False),
    ("attributes of a host forced down", {"last_seen_up": NOW_S - 1, "forced_down": True}, False),
    (
        "the record counts before an attribute",
        {"service": {"last_seen_up": SEEN, "disabled": False}, "disabled": True},
        True,
    ),
]


@pytest.mark.parametrize(("name", "attributes", "expected"), STATES)
def test_a_host_made_by_hand_is_judged_at_the_time_given(name, attributes, expected):
    """As the engine judges a row, at the time of the filter's clock."""
    judge = filters.ComputeFilter(60)
    judge.clock = lambda: NOW_S
    assert expected == judge.host_passes(HostState("host1", "node1", **attributes), {}), name


def test_no_size_is_made_up():
    """A size that the properties leave out is not asked for; one that is wrong is named."""
    full = HostState("host1", "node1", vcpus_total=4, vcpus_used=64, total_usable_ram_mb=1024, free_ram_mb=1024)
    assert filters.CoreFilter().host_passes(full, {"instance_type": {"memory_mb": 64}})
    assert not filters.CoreFilter().host_passes(full, {"instance_type": {"vcpus": 1}})
    with pytest.raises(errors.InvalidInput) as wrong:
        filters.CoreFilter().host_passes(full, {"instance_type": {"vcpus": 0}})
    assert "request_spec.instance_type.vcpus" == wrong.value.field


def test_aggregates_and_instances_of_any_class():
    """As nova's tests have them: anything with a ``metadata``, anything with an ``instance_type_id``."""

    class Thing:
        def __init__(self, **attributes):
            vars(self).update(attributes)

    host = HostState(
        "host1",
        "node1",
        aggregates=[Thing(metadata={"availability_zone": "east"})],
        instances={factories.uuid(1): Thing(instance_type_id=7)},
    )
    wanted = {"request_spec": {"instance_properties": {"availability_zone": "east"}}, "instance_type": {"id": 7}}
    assert filters.AvailabilityZoneFilter().host_passes(host, wanted)
    assert filters.TypeAffinityFilter().host_passes(host, wanted)
    assert filters.SameHostFilter().host_passes(host, {"scheduler_hints": {"same_host": factories.uuid(1)}})
    assert not filters.TypeAffinityFilter().host_passes(host, {"instance_type": {"id": 8}})


def test_a_wrong_property_is_named():
    """A test that hands in nonsense is told which."""
    with pytest.raises(errors.InvalidInput) as refused:
        filters.RamFilter().host_passes(HostState("host1", "node1"), {"instance_type": {"memory_mb": "much"}})
    assert "request_spec.instance_type.memory_mb" == refused.value.field


class RoomyRamFilter(filters.RamFilter):
    """A plugin that adds to a built-in filter, as they do for nova."""

    def __init__(self):
        self.asked = []

    def host_passes(self, host_state, filter_properties):
        self.asked.append(host_state.host)
        return super().host_passes(host_state, filter_properties) and host_state.host != "b"


def test_a_subclass_has_its_say():
    """It is asked host by host, for every instance, and the limits of the filter below it are kept."""
    each = RoomyRamFilter()
    hosts = factories.candidates(node("a", memory_mb=2048), node("b", memory_mb=4096), node("c", memory_mb=512))
    made = factories.decision(factories.pipeline([each]), hosts, request({"memory_mb": 1024}, count=2))
    assert ["a", "a"] == [pick.key[0] for pick in made.picks]
    assert [{"memory_mb": 2048.0}] * 2 == [pick.limits for pick in made.picks]
    assert ["a", "b", "c"] == each.asked[:3]


class Backwards(weights.RAMWeigher):
    """A plugin that turns a built-in weigher round, host by host."""

    def _weigh_object(self, host_state, weight_properties):
        return -super()._weigh_object(host_state, weight_properties)

    minval = None


def test_a_subclass_of_a_weigher_has_its_say():
    """Its raw weight counts, not the one of the class below it."""
    hosts = factories.candidates(node("a", memory_mb=2048), node("b", memory_mb=1024), node("c", memory_mb=4096))
    made = factories.decision(factories.pipeline([], [Backwards()]), hosts, request({"memory_mb": 512}, count=2))
    assert ["b", "b"] == [pick.key[0] for pick in made.picks]
