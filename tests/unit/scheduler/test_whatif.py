# SPDX-License-Identifier: Apache-2.0
"""Requests decided on a copy of the fleet that is another in thought."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors
from fleet.objects.whatif import Change, Demand
from scheduler.compute.planning import whatif
from tests import factories
from tests.factories import PlacedInstance, aggregate, changes, node, uuid
from tests.unit.scheduler.plugins import configuration

#: Two hosts with room for four instances of 1 GB each, less the two on "a".
STATE = changes(
    [
        node("a", memory_mb=4096, memory_mb_used=2048, ram_allocation_ratio=1.0, vcpus=8, local_gb=100),
        node("b", memory_mb=4096, ram_allocation_ratio=1.0, vcpus=8, local_gb=100),
    ],
    aggregates=[aggregate(["b"], 1, availability_zone="east")],
    instances=[PlacedInstance(uuid(100), "a"), PlacedInstance(uuid(101), "a")],
)


def demand(number: int, count: int = 1, at_s: float = 0.0, life_s: float | None = None, zone: str = "") -> Demand:
    uuids = [uuid(number * 100 + place + 1000) for place in range(count)]
    spec: dict[str, Any] = {
        "instance_type": {"vcpus": 1, "memory_mb": 1024, "root_gb": 1},
        "num_instances": count,
        "instance_uuids": uuids,
        "instance_properties": {"uuid": uuids[0], "availability_zone": zone},
    }
    return Demand(spec, {}, [life_s] * count, at_s, f"request{number}")


def run(change: Change, *demands: Demand) -> dict[str, Any]:
    return whatif.run(configuration(), STATE, change, demands, lambda done: None)


SEVEN = [demand(number) for number in range(7)]
CASES = {
    "as it is": (Change(), SEVEN, (2, 6, 1)),
    "without a host": (Change(without_hosts=["b"]), SEVEN, (1, 2, 5)),
    "with a larger ratio": (Change(ratios={"ram": 2.0}), SEVEN, (2, 7, 0)),
    "without the filter that says no": (Change(without_filters=["RamFilter"]), SEVEN, (2, 7, 0)),
    "with a further host": (Change(more_hosts=1, like="a"), SEVEN, (3, 7, 0)),
    "in the zone of what the further host is like": (
        Change(more_hosts=1, like="b"),
        [demand(number, zone="east") for number in range(9)],
        (3, 8, 1),
    ),
    "all instances of a request or none": (Change(), [demand(0, count=7), demand(1)], (2, 1, 7)),
    "an instance whose time is over leaves its room": (
        Change(),
        [demand(number, at_s=float(number), life_s=5.0) for number in range(12)],
        (2, 12, 0),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_would_become_of_requests(name):
    """They are decided one after the other, and each pick holds its room."""
    change, demands, expected = CASES[name]
    found = run(change, *demands)
    assert expected == (found["hosts"], found["placed"], found["refused"])


@pytest.mark.parametrize(
    ("more", "told"),
    [
        pytest.param({"force_hosts": ["a"]}, "its host is gone", id="it was forced to its host"),
        pytest.param({"force_hosts": ["c"]}, "c is full", id="it was forced to another"),
        pytest.param(
            {
                "group_uuid": uuid(800),
                "group_policies": ["affinity"],
                "group_members": [uuid(100), uuid(101)],
                "group_hosts": ["a"],
                "group_places": [[uuid(100), "a"], [uuid(101), "a"]],
            },
            "the group was there",
            id="it is in a group",
        ),
    ],
)
def test_instances_of_a_host_that_goes_are_placed_as_they_would_be_moved(more: dict[str, Any], told: str):
    """Both go to b."""
    full = node("c", memory_mb=1024, memory_mb_used=1024, ram_allocation_ratio=1.0, vcpus=8, local_gb=100)
    state = changes([*STATE.nodes, full], instances=STATE.instances)
    demands = []
    for name in (uuid(100), uuid(101)):
        asked = demand(0)
        holding = {
            "instance_uuid": name,
            "host": "a",
            "node": "a",
            "claimed": {"memory_mb": 1024, "disk_gb": 1, "vcpus": 1},
        }
        spec = {
            **asked.request_spec,
            "instance_uuids": [name],
            "instance_properties": {"uuid": name},
            "holding": holding,
        }
        demands.append(Demand(spec, more, [None], name=name))
    found = whatif.run(configuration(), state, Change(without_hosts=["a"]), demands, lambda done: None)
    assert (2, 0) == (found["placed"], found["refused"]), told


def test_a_refusal_is_explained():
    """With its reason and the request's name."""
    found = run(Change(), *SEVEN)
    assert {"CAPACITY": 1} == found["refused_by_reason"]
    (line,) = found["unplaced"]
    assert line.startswith("request6: ")
    assert "RamFilter" in line


def test_a_build_is_over_at_once():
    """Else hosts would seem busy for ever: eight builds under way are the most that a host takes."""
    state = changes([node("a", memory_mb=65536, vcpus=64, local_gb=100)])
    conf = configuration(scheduler_default_filters=["IoOpsFilter"])
    found = whatif.run(conf, state, Change(), [demand(number) for number in range(20)], lambda done: None)
    assert 20 == found["placed"]


def test_use_is_counted_with_what_was_there_before():
    """What instances hold already, and what the demands would."""
    found = run(Change(), *SEVEN)
    assert "8192 of 8192 (100.0 %)" == found["memory_mb_used"]
    assert 2 == found["hosts_in_use"]


def test_empty_hosts_are_averaged_over_time():
    """Two hosts: both are empty for one of four hours, one for the other three."""
    found = run(Change(), demand(1, at_s=0, life_s=3600), demand(2, at_s=7200), demand(3, at_s=14400))
    assert 1.2 == found["hosts_empty_on_average"]
    assert 0 == run(Change(), *SEVEN)["hosts_empty_on_average"]


def test_refusals_are_counted_by_size():
    """What one instance takes."""
    found = run(Change(), *SEVEN)
    assert [1] == list(found["refused_by_size"].values())


def test_vcpu_hours_count_to_the_end_of_the_trace():
    """An instance without an end counts until the last request."""
    found = run(Change(), demand(1, at_s=0), demand(2, at_s=0, life_s=1800), demand(3, at_s=7200))
    assert (2.5, 2.5) == (found["vcpu_hours_asked"], found["vcpu_hours_placed"])


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (Change(without_hosts=["z"]), errors.NotFound, "Host z"),
        (Change(more_hosts=1, like="z"), errors.NotFound, "Host z"),
        (Change(without_filters=["NoFilter"]), errors.InvalidInput, "without-filter is NoFilter, which is not among"),
    ],
)
def test_what_is_not_there_cannot_be_changed(change, error, said):
    """Named, instead of a figure that means nothing."""
    with pytest.raises(error, match=said):
        run(change)


def test_a_copy_of_a_host_is_empty():
    """It has no instances, and all its cells and devices are free."""
    cells = factories.node("n", numa_topology=None, vcpus=4, vcpus_used=3, memory_mb=4096, memory_mb_used=4096)
    state = changes([cells])
    found = whatif.run(configuration(), state, Change(more_hosts=2, like="n"), [], lambda done: None)
    assert "3 of 12 (25.0 %)" == found["vcpus_used"]
    assert "4096 of 12288 (33.3 %)" == found["memory_mb_used"]
