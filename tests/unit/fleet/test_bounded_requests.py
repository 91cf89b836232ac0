# SPDX-License-Identifier: Apache-2.0
"""What a request costs is bounded by its size, whatever numbers it names."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from fleet import errors
from fleet.hardware import constraints, cpu_spec
from fleet.hardware.aliases import requested_devices
from fleet.objects import (
    BuildRequest,
    Flavor,
    HostReport,
    Image,
    ImageRecord,
    RequestSpec,
    fields,
    numa,
    pci,
)
from fleet.objects.pool_report import PoolReport
from fleet.objects.volume import VolumeRequest

HUGE = [2**31 - 1, 2**31, 2**63, 2**64, 10**300, -1, 1e308, float("inf"), "9" * 255, "9" * 5000, "0-99999"]
#: Far more than any of them takes, far less than a set of 2**31 vcpus.
MOST_S, MOST_MB = 2.0, 200


def hardware(specs: dict[str, str], properties: dict[str, Any], vcpus: Any = 2) -> None:
    flavor = Flavor.from_wire({"vcpus": vcpus, "memory_mb": 64, "extra_specs": specs})
    image = Image.from_wire({"properties": properties})
    constraints.requested_topology(flavor, image)
    requested_devices(flavor, image, {})


def build(**request: Any) -> None:
    BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 64}, **request})


#: Each makes something of one value.
KINDS: dict[str, Callable[[Any], object]] = {
    "vcpus": lambda value: build(flavor={"vcpus": value, "memory_mb": 1}),
    "pinned vcpus": lambda value: hardware({"hw:cpu_policy": "dedicated"}, {}, vcpus=value),
    "cells of vcpus": lambda value: hardware({"hw:numa_nodes": "1"}, {}, vcpus=value),
    "cells": lambda value: hardware({"hw:numa_nodes": str(value)}, {}),
    "cells of an image": lambda value: hardware({}, {"hw_numa_nodes": value}),
    "CPUs of a cell": lambda value: hardware({"hw:numa_nodes": "1", "hw:numa_cpus.0": str(value)[:255]}, {}),
    "CPUs of a cell of an image": lambda value: hardware(
        {}, {"hw_numa_nodes": 1, "hw_numa_cpus.0": ",".join([str(value)] * 1000)[:60_000], "hw_numa_mem.0": 64}
    ),
    "mask": lambda value: hardware({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": str(value)[:255]}, {}),
    "pages": lambda value: hardware({"hw:mem_page_size": f"{value}"[:255]}, {}),
    "pages with a unit": lambda value: hardware({"hw:mem_page_size": f"{value}"[:250] + "KB"}, {}),
    "pages of an image": lambda value: hardware({"hw:mem_page_size": "any"}, {"hw_mem_page_size": f"{value}GB"}),
    "devices": lambda value: hardware({"pci_passthrough:alias": f"a:{value}"[:255]}, {}),
    "count": lambda value: build(count=value),
    "counts": lambda value: build(min_count=value, max_count=value),
    "hints": lambda value: build(scheduler_hints={"free": [value] * 1000}),
    "query": lambda value: build(scheduler_hints={"query": json.dumps([">=", "$free_ram_mb", value])}),
    "cidr": lambda value: build(scheduler_hints={"build_near_host_ip": "10.0.0.1", "cidr": f"/{value}"}),
    "properties": lambda value: build(image={"properties": {"a": value}}),
    "size of an image": lambda value: ImageRecord.from_wire({"name": "x", "location": "/x", "size": value}),
    "attempts": lambda value: build(max_attempts=value),
    "volumes": lambda value: VolumeRequest.from_wire({"size": value, "count": value}),
    "hosts": lambda value: HostReport.from_wire(
        {"host": "h", "node": "n", "vcpus": value, "memory_mb": value, "local_gb": value, "stats": {"a": value}}
    ),
    "cells of hosts": lambda value: numa.HostTopology.from_wire(
        {"cells": [{"id": value, "cpuset": [value], "memory": value, "siblings": [[value]]}]}
    ),
    "cells of instances": lambda value: numa.InstanceTopology.from_wire(
        {"cells": [{"id": 0, "cpuset": [value], "memory": 1, "cpu_topology": {"sockets": value}}]}
    ),
    "requests of devices": lambda value: pci.requests_from_wire([{"count": value, "spec": [{"a": "b"}]}] * 100),
    "pools": lambda value: PoolReport.from_wire(
        {"host": "m@b", "pool": "p", "capabilities": {"total_capacity_gb": value, "free_capacity_gb": value}}
    ),
    "requests of schedulers": lambda value: RequestSpec.from_wire(
        {
            "num_instances": value,
            "instance_type": {"vcpus": value, "memory_mb": 1},
            "instance_properties": {"uuid": "x", "numa_topology": {"cells": [{"id": 0, "cpuset": [value], "memory": 1}]}},
        },
        {},
    ),
    "CPU sets": lambda value: cpu_spec.parse(",".join([str(value)] * 10_000)[:60_000], "field"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=KINDS)
@pytest.mark.parametrize("value", HUGE, ids=lambda value: str(value)[:12])
def test_a_huge_number_costs_no_more_than_a_small_one(kind: str, value: Any) -> None:
    """It is taken, or refused by name; nothing of its size is made of it."""
    message = ""
    tracemalloc.start()
    began = time.process_time()
    try:
        KINDS[kind](value)
    except errors.InvalidInput as refused:
        message = refused.message
    took_s, (_now, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(message) < 1000
    assert took_s < MOST_S
    assert peak < MOST_MB * 2**20


def test_sixteen_kibibytes_of_free_form_values() -> None:
    """In all, and not of each: lists read them."""
    limit = "at most 16384 are allowed"
    many = {f"key{number}": "x" * 200 for number in range(100)}
    for name in ("metadata", "scheduler_hints"):
        with pytest.raises(errors.InvalidInput, match=f"request.{name} has .* bytes as JSON, {limit}"):
            build(**{name: many})
        with pytest.raises(errors.InvalidInput, match=f"request.{name} has .* bytes as JSON, {limit}"):
            VolumeRequest.from_wire({"size": 1, name: many})
    with pytest.raises(errors.InvalidInput, match=f"request.image.properties has .* bytes as JSON, {limit}"):
        build(image={"properties": {"a": "x" * 20_000}})
    with pytest.raises(errors.InvalidInput, match=f"request.flavor.extra_specs has .* bytes as JSON, {limit}"):
        build(flavor={"vcpus": 1, "memory_mb": 1, "extra_specs": many})
    build(metadata={f"key{number}": "x" * 200 for number in range(50)})


def test_vcpus_are_limited_by_name() -> None:
    """The largest number of one instance is in the message."""
    build(flavor={"vcpus": 4096, "memory_mb": 1})
    with pytest.raises(
        errors.InvalidInput, match="request.flavor.vcpus must be a whole number from 1 to 4096, got 4097"
    ):
        build(flavor={"vcpus": 4097, "memory_mb": 1})


def test_objects_of_earlier_releases_are_read() -> None:
    """The bounds are of what is asked for, and not of what is stored: a list with such an image or flavor goes on."""
    Flavor.from_wire({"vcpus": 100_000, "memory_mb": 1})
    ImageRecord.from_wire({"name": "x", "location": "/x", "properties": {"a": "x" * 60_000}})
    assert fields.MOST_BYTES < 60_000


def test_cpu_sets() -> None:
    """Ranges and exceptions, in any order."""
    assert {0, 1, 3, 8} == cpu_spec.parse("0-3,^2,8", "field")
    assert {1} == cpu_spec.parse("^0,0-1", "field")
    assert frozenset() == cpu_spec.parse("^0", "field")
