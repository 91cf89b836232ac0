# SPDX-License-Identifier: Apache-2.0
"""The query for allocation candidates is nova's own, for random flavors, images and groups of ports and devices."""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import urllib.parse
from typing import Any

from scheduler.nova import decoder
from scheduler.nova.request_filters import RequestFilters
from scheduler.nova.resource_request import ResourceRequest
from tests.factories import uuid
from tests.nova.cloud import VENV
from tests.unit.scheduler.nova.recordings import arguments, envelope, flavor

_PROGRAM = pathlib.Path(__file__).with_name("novas_queries.py")
_SPECS: dict[str, list[str]] = {
    "resources:VCPU": ["0", "3"],
    "resources:DISK_GB": ["0", "7"],
    "resources:MEMORY_MB": ["0", "64"],
    "resources:VGPU": ["1"],
    "resources1:VGPU": ["1", "2"],
    "resources_X:CUSTOM_GOLD": ["1"],
    "trait:HW_CPU_X86_AVX2": ["required", "forbidden"],
    "trait1:CUSTOM_A": ["required", "forbidden"],
    "trait_X:CUSTOM_B": ["required"],
    "group_policy": ["none", "isolate"],
    "hw:emulator_threads_policy": ["isolate", "share"],
    "hw:cpu_thread_policy": ["isolate", "require", "prefer"],
    "os:secure_boot": ["required", "disabled", "optional"],
    "hw:maxphysaddr_mode": ["passthrough", "emulate"],
    "hw:tpm_version": ["1.2", "2.0"],
    "hw:tpm_secret_security": ["user", "host", "deployment"],
    "hw:pmem": ["6GB", "6GB,16GB,6GB"],
    "hw:pci_numa_affinity_policy": ["socket", "legacy"],
    "hw:virtio_packed_ring": ["true", "false"],
    "hw:ephemeral_encryption": ["true", "false"],
    "hw:ephemeral_encryption_format": ["luks", "plain"],
    "hw:sound_model": ["virtio", "sb16"],
    "accel:device_profile": ["gpu"],
}
_PROPERTIES: dict[str, list[Any]] = {
    "traits_required": [["CUSTOM_A"], ["HW_CPU_X86_AVX2", "CUSTOM_C"]],
    "hw_disk_bus": ["virtio", "sata"],
    "hw_vif_model": ["e1000e"],
    "hw_video_model": ["qxl"],
    "hw_architecture": ["x86_64"],
    "hw_sound_model": ["virtio"],
    "hw_virtio_packed_ring": [True],
    "hw_ephemeral_encryption": [True],
}
#: Values that exclude each other, chosen together.
_TOGETHER: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {}),
    ({"hw:cpu_policy": "dedicated"}, {}),
    ({"hw:cpu_policy": "shared"}, {}),
    ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-1"}, {}),
    ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}, {}),
    ({"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0-1"}, {}),
    ({}, {"hw_cpu_policy": "dedicated"}),
    ({"hw:mem_encryption": "true"}, {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}),
    (
        {"hw:mem_encryption": "true", "hw:mem_encryption_model": "amd-sev-es"},
        {"hw_firmware_type": "uefi", "hw_machine_type": "q35"},
    ),
    ({}, {"hw_firmware_type": "uefi", "hw_firmware_stateless": True}),
    ({"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, {}),
]
_CASES = 400


def test_queries_are_those_of_nova() -> None:
    chance = random.Random(35)
    made = [random_spec(chance) for _case in range(_CASES)]
    done = subprocess.run(
        [str(VENV / "bin/python"), "-W", "ignore", str(_PROGRAM)],
        input=json.dumps(made),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert not done.returncode, done.stderr[-3000:]
    fell_back = 0
    for spec, (theirs, fallback) in zip(made, json.loads(done.stdout), strict=True):
        wanted = _ours(spec)
        other = wanted.fallback()
        shown = json.dumps(spec["nova_object.data"]["flavor"])[:3000]
        assert _set(theirs) == _set(wanted.query(1000)), shown
        assert (None if fallback is None else _set(fallback)) == (None if other is None else _set(other.query(1000))), (
            shown
        )
        fell_back += other is not None
    assert fell_back > _CASES // 20


def _ours(spec: Any) -> ResourceRequest:
    request = decoder.decode({"spec_obj": spec, "instance_uuids": [uuid(1)]}).request
    switches = RequestFilters(query_placement_for_image_type_support=True, image_metadata_prefilter=True)
    wanted = switches.apply(request, []).wanted
    assert wanted is not None
    return wanted


def _set(query: str) -> set[tuple[str, frozenset[str]]]:
    """Return the parameters, in no order. nova also sends groups without resources as an empty parameter."""
    return {(name, frozenset(value.split(","))) for name, value in urllib.parse.parse_qsl(query)}


def random_spec(chance: random.Random) -> Any:
    specs = {key: chance.choice(values) for key, values in _SPECS.items() if chance.random() < 0.15}
    properties = {key: chance.choice(values) for key, values in _PROPERTIES.items() if chance.random() < 0.15}
    together, of_image = chance.choice(_TOGETHER)
    if together.get("hw:tpm_version"):
        specs.pop("hw:tpm_version", None)
    if together.get("hw:cpu_policy") or of_image.get("hw_cpu_policy"):
        specs.pop("resources:VCPU", None)
    if any(key in specs for key in ("hw:virtio_packed_ring", "hw:ephemeral_encryption", "hw:sound_model")):
        for key in ("hw_virtio_packed_ring", "hw_ephemeral_encryption", "hw_sound_model"):
            properties.pop(key, None)
    asked = arguments(
        flavor=flavor(
            vcpus=4,
            memory_mb=chance.choice([512, 2048]),
            root_gb=chance.choice([0, 1, 20]),
            ephemeral_gb=chance.choice([0, 5]),
            swap=chance.choice([0, 1, 2049]),
            extra_specs={**specs, **together},
        ),
        image=envelope(
            "ImageMeta",
            "1.8",
            id=uuid(5),
            disk_format=chance.choice(["raw", "qcow2"]),
            properties=envelope("ImageMetaProps", "1.44", **{**properties, **of_image}),
        ),
        is_bfv=chance.random() < 0.3,
        scheduler_hints={},
        requested_resources=[_group(number, chance) for number in range(chance.choice([0, 0, 1, 2]))],
    )
    return asked["spec_obj"]


def _group(number: int, chance: random.Random) -> Any:
    """A group as a port with a minimum bandwidth has."""
    return envelope(
        "RequestGroup",
        "1.3",
        use_same_provider=True,
        resources={"NET_BW_EGR_KILOBIT_PER_SEC": chance.choice([1, 1000])},
        required_traits=["CUSTOM_PHYSNET_1"],
        forbidden_traits=[],
        aggregates=[],
        forbidden_aggregates=[],
        provider_uuids=[],
        requester_id=uuid(20 + number),
        in_tree=None,
    )
