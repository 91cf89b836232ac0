# SPDX-License-Identifier: Apache-2.0
"""The scheduler request that the conductor builds from a client's request."""

from __future__ import annotations

import types
from typing import Any

import pytest

from conductor_stub.steps import request_spec
from fleet.objects import Flavor, Instance, Place

UUID = "11111111-2222-3333-4444-55555555555{}"


def stored(**changes: Any) -> dict[str, Any]:
    return {"availability_zone": "", "scheduler_hints": {}, "flavor": {}, "ignore_hosts": [], **changes}


FORCING = [
    ("a zone forces nothing", "z1", {}),
    ("a host", "z1:h1", {"force_hosts": ["h1"]}),
    ("a node", "z1::n1", {"force_nodes": ["n1"]}),
    ("a host and a node", ":h1:n1", {"force_hosts": ["h1"], "force_nodes": ["n1"]}),
]


@pytest.mark.parametrize(("what", "zone", "expected"), FORCING, ids=[case[0] for case in FORCING])
def test_forcing(what: str, zone: str, expected: dict[str, Any]) -> None:
    """The zone string's host and node become force_hosts and force_nodes."""
    properties = request_spec.build_filter_properties(stored(availability_zone=zone))
    assert {name: value for name, value in properties.items() if name.startswith("force")} == expected


RETRIES = [
    ("by default", {}, 3, True),
    ("one attempt only", {}, 1, False),
    ("one forced host", {"force_hosts": ["a"]}, 3, False),
    ("one forced node", {"force_nodes": ["a"]}, 3, False),
    ("two forced hosts leave a choice", {"force_hosts": ["a", "b"]}, 3, True),
]


@pytest.mark.parametrize(("what", "properties", "most", "expected"), RETRIES, ids=[case[0] for case in RETRIES])
def test_whether_another_host_may_be_tried(what: str, properties: dict[str, Any], most: int, expected: bool) -> None:
    """Where rescheduling is off there is no retry key at all, as in nova."""
    assert request_spec.may_retry(properties, most) == expected
    request_spec.populate_retry(properties, most, attempt=2, tried=[("a", "n")])
    assert properties.get("retry") == ({"num_attempts": 2, "hosts": [["a", "n"]]} if expected else None)


GROUPS = [
    ("affinity", True),
    ("anti-affinity", True),
    ("soft-affinity", False),
    ("soft-anti-affinity", False),
]


@pytest.mark.parametrize(("policy", "updated"), GROUPS, ids=[case[0] for case in GROUPS])
def test_group(policy: str, updated: bool) -> None:
    """The members of this very request, and those on no host, are members without a place."""
    group = types.SimpleNamespace(uuid="g", policy=policy, max_server_per_host=1, rules=None)
    members = [types.SimpleNamespace(uuid=name, host=host) for name, host in [("a", "h1"), ("b", None), ("me", "h9")]]
    properties: dict[str, Any] = {}
    request_spec.setup_instance_group(properties, group, members, own_uuids=["me"])
    assert properties["group_updated"] == updated
    assert properties["group_hosts"] == ["h1"]
    assert properties["group_members"] == ["a", "b", "me"]
    assert properties["group_policies"] == [policy]


def test_the_first_instance_stands_for_all() -> None:
    """One request spec for several instances: the number, every uuid, the first one's properties."""
    flavor = Flavor(vcpus=2, memory_mb=512, root_gb=5)
    pair = [Instance(uuid=UUID.format(n), flavor=flavor, project_id="p") for n in (1, 2)]
    spec = request_spec.build_request_spec(pair)
    assert spec["num_instances"] == 2
    assert spec["instance_uuids"] == [UUID.format(1), UUID.format(2)]
    assert spec["instance_properties"]["uuid"] == UUID.format(1)
    assert spec["instance_properties"]["vcpus"] == 2


def test_the_chosen_host_counts_as_tried() -> None:
    """The copy that goes with the build names the host; the original is left as it was."""
    properties = {"retry": {"num_attempts": 1, "hosts": [["a", "a"]]}}
    local = request_spec.populate_filter_properties(properties, Place("b", "n", {"memory_mb": 1.0}))
    assert local["retry"]["hosts"] == [["a", "a"], ["b", "n"]]
    assert local["limits"] == {"memory_mb": 1.0}
    assert properties == {"retry": {"num_attempts": 1, "hosts": [["a", "a"]]}}


def test_a_forced_host_gets_no_limits_in_its_properties() -> None:
    """nova's rule: with force_hosts the limits travel with the call only."""
    local = request_spec.populate_filter_properties({"force_hosts": ["a"]}, Place("a", "n", {"memory_mb": 1.0}))
    assert "limits" not in local
