# SPDX-License-Identifier: Apache-2.0
"""The hardware that a flavor and an image request."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.hardware import aliases
from fleet.hardware.constraints import requested_topology
from fleet.objects import Flavor, Image


def ask(specs, properties=None, vcpus=4, memory_mb=4096):
    return requested_topology(Flavor(vcpus, memory_mb, extra_specs=specs), Image(properties=properties or {}))


def shape(topology):
    return topology and [(sorted(each.cpuset), each.memory) for each in topology.cells]


ALL = [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "specs", "properties", "expected"),
    [
        ("nothing said", {}, {}, None),
        ("other extra specs", {"hw:watchdog_action": "none", "numa_nodes": "2"}, {}, None),
        ("shared is as nothing", {"hw:cpu_policy": "shared"}, {}, None),
        ("two equal cells", {"hw:numa_nodes": "2"}, {}, [([0, 1], 2048), ([2, 3], 2048)]),
        ("the image says it", {}, {"hw_numa_nodes": 2}, [([0, 1], 2048), ([2, 3], 2048)]),
        ("a page size makes one cell", {"hw:mem_page_size": "large"}, {}, [(ALL, 4096)]),
        ("dedicated makes one cell", {"hw:cpu_policy": "dedicated"}, {}, [(ALL, 4096)]),
        ("dedicated by the image", {}, {"hw_cpu_policy": "dedicated"}, [(ALL, 4096)]),
        (
            "unequal cells",
            {
                "hw:numa_nodes": "2",
                "hw:numa_cpus.0": "0-3,^1-2",
                "hw:numa_cpus.1": "1,2",
                "hw:numa_mem.0": "1096",
                "hw:numa_mem.1": "3000",
            },
            {},
            [([0, 3], 1096), ([1, 2], 3000)],
        ),
    ],
)
def test_cells(name, specs, properties, expected):
    """How vcpus and memory are divided."""
    assert expected == shape(ask(specs, properties)), name


@pytest.mark.parametrize(
    ("name", "specs", "properties", "expected"),
    [
        ("small", {"hw:mem_page_size": "small"}, {}, -1),
        ("large", {"hw:mem_page_size": "large"}, {}, -2),
        ("any", {"hw:mem_page_size": "any"}, {}, -3),
        ("KiB", {"hw:mem_page_size": "2048"}, {}, 2048),
        ("MB", {"hw:mem_page_size": "2MB"}, {}, 2048),
        ("GB", {"hw:mem_page_size": "1GB"}, {}, 1048576),
        ("the image chooses of any", {"hw:mem_page_size": "any"}, {"hw_mem_page_size": "2MB"}, 2048),
        ("the image chooses of large", {"hw:mem_page_size": "large"}, {"hw_mem_page_size": 2048}, 2048),
    ],
)
def test_page_sizes(name, specs, properties, expected):
    """In KiB, or a word."""
    assert expected == ask(specs, properties).cells[0].pagesize, name


@pytest.mark.parametrize(
    ("name", "specs", "properties", "expected"),
    [
        ("dedicated", {"hw:cpu_policy": "dedicated"}, {}, ("dedicated", None, ALL)),
        (
            "the flavor's dedicated outdoes the image's shared",
            {"hw:cpu_policy": "dedicated"},
            {"hw_cpu_policy": "shared"},
            ("dedicated", None, ALL),
        ),
        (
            "threads",
            {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
            {},
            ("dedicated", "isolate", ALL),
        ),
        (
            "the image says more than prefer",
            {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"},
            {"hw_cpu_thread_policy": "require"},
            ("dedicated", "require", ALL),
        ),
        ("mixed", {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-1"}, {}, ("mixed", None, [0, 1])),
        ("mixed, all but", {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0-1"}, {}, ("mixed", None, [2, 3])),
    ],
)
def test_cpu_policies(name, specs, properties, expected):
    """Policy, thread policy, and the vcpus that get CPUs of their own."""
    (cell,) = ask(specs, properties).cells
    assert expected == (cell.cpu_policy, cell.cpu_thread_policy, sorted(cell.pcpuset)), name


LISTED = {"hw:numa_nodes": "2", "hw:numa_cpus.0": "0,1", "hw:numa_cpus.1": "2,3"}
LISTED.update({"hw:numa_mem.0": "2048", "hw:numa_mem.1": "2048"})
OWN = {"hw:cpu_policy": "dedicated"}


@pytest.mark.parametrize(
    ("name", "specs", "properties", "field"),
    [
        ("cells by both", {"hw:numa_nodes": "2"}, {"hw_numa_nodes": "2"}, "image:hw_numa_nodes"),
        ("no cells", {"hw:numa_nodes": "0"}, {}, "hw:numa_nodes"),
        ("no number", {"hw:numa_nodes": "two"}, {}, "hw:numa_nodes"),
        ("more cells than vcpus", {"hw:numa_nodes": "5"}, {}, "hw:numa_nodes"),
        ("does not divide", {"hw:numa_nodes": "3"}, {}, "hw:numa_nodes"),
        ("lists without cells", {"hw:numa_cpus.0": "0-3"}, {}, "hw:numa_cpus.N"),
        ("vcpus, no memory", {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3"}, {}, "hw:numa_mem.0"),
        ("one list short", {**LISTED, "hw:numa_nodes": "4"}, {}, "hw:numa_cpus.2"),
        ("one list too many", {**LISTED, "hw:numa_mem.2": "1"}, {}, "hw:numa_mem.2"),
        ("a vcpu twice", {**LISTED, "hw:numa_cpus.1": "1-3"}, {}, "hw:numa_cpus.1"),
        ("a vcpu that is not", {**LISTED, "hw:numa_cpus.1": "2-4"}, {}, "hw:numa_cpus.1"),
        ("a vcpu left out", {**LISTED, "hw:numa_cpus.1": "2"}, {}, "hw:numa_cpus.N"),
        ("no list of vcpus", {**LISTED, "hw:numa_cpus.1": "2-"}, {}, "hw:numa_cpus.1"),
        ("an enormous range", {**LISTED, "hw:numa_cpus.1": "0-99999999"}, {}, "hw:numa_cpus.1"),
        ("memory does not add up", {**LISTED, "hw:numa_mem.1": "2047"}, {}, "hw:numa_mem.N"),
        ("page size", {"hw:mem_page_size": "huge"}, {}, "hw:mem_page_size"),
        ("page size 0", {"hw:mem_page_size": "0"}, {}, "hw:mem_page_size"),
        ("the image's size alone", {}, {"hw_mem_page_size": "2MB"}, "image:hw_mem_page_size"),
        (
            "the image's size over small",
            {"hw:mem_page_size": "small"},
            {"hw_mem_page_size": "2MB"},
            "image:hw_mem_page_size",
        ),
        ("policy", {"hw:cpu_policy": "mine"}, {}, "hw:cpu_policy"),
        ("shared and dedicated", {"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}, "image:hw_cpu_policy"),
        ("threads without CPUs", {"hw:cpu_thread_policy": "isolate"}, {}, "hw:cpu_thread_policy"),
        ("the image's threads without CPUs", {}, {"hw_cpu_thread_policy": "isolate"}, "image:hw_cpu_thread_policy"),
        (
            "threads by both",
            {**OWN, "hw:cpu_thread_policy": "isolate"},
            {"hw_cpu_thread_policy": "require"},
            "image:hw_cpu_thread_policy",
        ),
        ("mixed without a mask", {"hw:cpu_policy": "mixed"}, {}, "hw:cpu_policy"),
        ("a mask without mixed", {**OWN, "hw:cpu_dedicated_mask": "0"}, {}, "hw:cpu_dedicated_mask"),
        ("a mask of all", {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-3"}, {}, "hw:cpu_dedicated_mask"),
    ],
)
def test_contradictions_are_named(name, specs, properties, field):
    """The error names the extra spec, or the image property."""
    with pytest.raises(errors.InvalidInput) as invalid:
        ask(specs, properties)
    path = "request.image.properties." if field.startswith("image:") else "request.flavor.extra_specs."
    assert path + field.removeprefix("image:") == invalid.value.field, name


NIC = '{"name": "nic", "vendor_id": "8086", "product_id": "1520", "device_type": "type-VF", "numa_policy": "preferred"}'
GPUS = ['{"name": "gpu", "vendor_id": "10de"}', '{"name": "gpu", "vendor_id": "1002"}']
ALIASES = aliases.parse_aliases([NIC, *GPUS])


def devices(text, image=None, **more):
    specs = {"pci_passthrough:alias": text, **{f"hw:{key}": value for key, value in more.items()}}
    return aliases.requested_devices(Flavor(1, 512, extra_specs=specs), Image(properties=image or {}), ALIASES)


def test_aliases_become_requests():
    """Name and count; the entries of one name are alternatives."""
    nic, gpu = devices("nic:2, gpu")
    assert (2, "preferred") == (nic.count, nic.numa_policy)
    assert ({"vendor_id": "8086", "product_id": "1520", "dev_type": "type-VF"},) == nic.spec
    assert (1, None, ({"vendor_id": "10de"}, {"vendor_id": "1002"})) == (gpu.count, gpu.numa_policy, gpu.spec)
    assert nic.request_id != gpu.request_id


def test_flavor_and_image_outdo_the_alias_policy():
    """Flavor or image may set the affinity of a device; they must not contradict each other."""
    assert "required" == devices("nic", pci_numa_affinity_policy="required")[0].numa_policy
    assert "socket" == devices("nic", {"hw_pci_numa_affinity_policy": "socket"})[0].numa_policy
    with pytest.raises(errors.InvalidInput):
        devices("nic", {"hw_pci_numa_affinity_policy": "socket"}, pci_numa_affinity_policy="required")


@pytest.mark.parametrize("text", ["tpu:1", "nic:0", "nic:x", "nic:", "nic:1,", ":1", "nic:65"])
def test_bad_requests_for_devices_are_named(text):
    """An unknown name, or a count that is none."""
    with pytest.raises(errors.InvalidInput) as invalid:
        devices(text)
    assert "request.flavor.extra_specs.pci_passthrough:alias" == invalid.value.field


@pytest.mark.parametrize(
    "texts",
    [
        ["{"],
        ['{"vendor_id": "1"}'],
        ['{"name": "a"}'],
        ['{"name": "a", "vendor_id": "1", "device_type": "type-X"}'],
        [NIC, '{"name": "nic", "vendor_id": "1"}'],
    ],
)
def test_bad_aliases_stop_the_service(texts):
    """The error names the option."""
    with pytest.raises(errors.ConfigError) as wrong:
        aliases.parse_aliases(texts)
    assert "[pci] alias" == wrong.value.option
