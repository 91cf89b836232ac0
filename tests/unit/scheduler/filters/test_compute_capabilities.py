# SPDX-License-Identifier: Apache-2.0
"""Extra specs about the host's own attributes."""

from __future__ import annotations

import json

import pytest

from fleet import errors
from scheduler.compute import filters
from tests import factories
from tests.factories import node, request
from tests.unit.scheduler.judging import passed

CPU = json.dumps({"arch": "x86_64", "features": ["avx", "sse"], "maxphysaddr": {"bits": 46}})
#: One host has it all, the other says nothing of itself.
HOSTS = [
    node("full", cpu_info=CPU, hypervisor_type="QEMU", stats={"rack": "7", "nested": {"a": 1}, "text": '{"b": "c"}'}),
    node("bare", cpu_info="", hypervisor_type=None, host_ip=None, stats={"hypervisor_type": "from stats"}),
]
BOTH, FULL, BARE, NONE = ["full", "bare"], ["full"], ["bare"], []
CASES = [
    ("no extra specs", {}, BOTH),
    ("an attribute", {"capabilities:hypervisor_type": "QEMU"}, FULL),
    ("an attribute of the wrong value", {"capabilities:hypervisor_type": "KVM"}, NONE),
    ("what the attribute does not say, stats may", {"capabilities:hypervisor_type": "from stats"}, BARE),
    ("a key inside an attribute that is JSON text", {"capabilities:cpu_info:arch": "x86_64"}, FULL),
    ("a list is matched in its printed form", {"capabilities:cpu_info:features": "<in> 'avx'"}, FULL),
    ("nested keys", {"capabilities:cpu_info:maxphysaddr:bits": ">= 46"}, FULL),
    ("a key that is not there", {"capabilities:cpu_info:nothing": "1"}, NONE),
    ("a key inside a number", {"capabilities:vcpus_total:nothing": "8"}, NONE),
    ("a number", {"capabilities:vcpus_total": "8"}, BOTH),
    ("a number compared", {"capabilities:free_ram_mb": ">= 16385"}, NONE),
    ("stats by name", {"capabilities:stats:rack": "7"}, FULL),
    ("stats without being named", {"capabilities:rack": "<or> 6 <or> 7"}, FULL),
    ("nested stats", {"capabilities:nested:a": "== 1.0"}, FULL),
    ("JSON text in stats", {"capabilities:text:b": "c"}, FULL),
    ("every spec must be met", {"capabilities:rack": "7", "capabilities:vcpus_total": "9"}, NONE),
    ("other scopes are for others", {"hw:numa_nodes": "1", "quota:cpu_shares": "10"}, BOTH),
    ("an unscoped key that no host has is for others", {"ssd": "true"}, BOTH),
    ("an unscoped key is heeded where it is known", {"rack": "8"}, BARE),
    ("an unscoped attribute", {"hypervisor_type": "QEMU"}, FULL),
    ("the width of physical addresses", {"hw:maxphysaddr_bits": "46"}, FULL),
    ("physical addresses too narrow", {"hw:maxphysaddr_bits": "47"}, NONE),
    ("an attribute that is no capability", {"capabilities:host": "bare"}, BARE),
    ("attributes of the program are none", {"capabilities:__class__:__name__": "<in> State"}, NONE),
    ("methods are none", {"capabilities:stats:get": "<in> method"}, NONE),
]


@pytest.mark.parametrize(("extra_specs", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_compute_capabilities(extra_specs, expected):
    """Hosts pass that meet every extra spec that is about them."""
    hosts = factories.candidates(*HOSTS)
    assert set(expected) == passed(filters.ComputeCapabilitiesFilter(), hosts, request({"extra_specs": extra_specs}))


@pytest.mark.parametrize(
    ("filter_class", "key"),
    [
        (filters.ComputeCapabilitiesFilter, "capabilities:vcpus_total"),
        (filters.ComputeCapabilitiesFilter, "rack"),
        (filters.AggregateInstanceExtraSpecsFilter, "aggregate_instance_extra_specs:ssd"),
        (filters.AggregateInstanceExtraSpecsFilter, "ssd"),
    ],
)
def test_a_requirement_without_sense_names_the_extra_spec(filter_class, key):
    """The request is refused whatever the hosts are, by the name of the key to correct."""
    hosts = factories.candidates(*HOSTS)
    with pytest.raises(errors.InvalidInput) as refused:
        filter_class().mask(hosts, request({"extra_specs": {key: ">= many"}}))
    assert f"request_spec.instance_type.extra_specs.{key}" == refused.value.field
    assert "needs a number" in refused.value.reason
