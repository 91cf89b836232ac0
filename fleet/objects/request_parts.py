# SPDX-License-Identifier: Apache-2.0
"""The parts of a request for instances that filters judge, and the remarks on parts that no filter judges.

A filter names the kinds of parts that it judges (``judges``). A scheduler reports the kinds that its filters judge, so
that a conductor can remark the other parts of a request when it accepts it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from fleet.objects.instance_group import AFFINITY, ANTI_AFFINITY
from fleet.objects.request_spec import RequestSpec

VCPUS = "vcpus"
MEMORY = "memory_mb"
DISK = "disk_gb"
ZONE = "availability_zone"
GROUP = {policy: f"group/{policy}" for policy in (AFFINITY, ANTI_AFFINITY)}
GROUP_RULES = "group/rules"
IMAGE = "image"
NUMA = "numa_topology"
PCI = "pci_requests"
NETWORKS = "networks"
GUEST_CPU = "guest_cpu"
#: By scope, the extra specs of a flavor that filters judge. An empty scope is a key without one.
EXTRA_SPECS = {
    scope: f"extra_specs/{scope}" for scope in ("", "capabilities", "aggregate_instance_extra_specs", "trust")
}
#: Every hint. A plugin of a user that does not name the parts that it judges may read any of them.
ANY_HINT = "hint/*"

#: Image properties that a host must meet: nova's later names, then the earlier ones.
_IMAGE_PROPERTIES = (
    *("hw_architecture", "architecture", "img_hv_type", "hypervisor_type", "hw_vm_mode", "vm_mode"),
    *("img_hv_requested_version", "hypervisor_version_requires", "hw_maxphysaddr_bits"),
)
#: The hint that names a group, which its policy stands for.
_GROUP_HINT = "group"
#: An extra spec whose scope is of other filters.
_MAXPHYSADDR = "hw:maxphysaddr_bits"


class Part(NamedTuple):
    """``kind`` is what filters name in ``judges``. ``shown`` is the part in the words of the request."""

    kind: str
    shown: str


def hint(name: str) -> str:
    """Return the kind of the hint ``name``."""
    return f"hint/{name}"


def of(request: RequestSpec) -> Iterator[Part]:
    """Yield the parts of a request that restrict hosts.

    Nothing is yielded for a request that forces its host or node, because no filter runs for it.
    """
    if request.force_hosts or request.force_nodes:
        return
    sizes = {VCPUS: request.vcpus, MEMORY: request.memory_mb, DISK: request.flavor.requested_disk_mb}
    yield from (Part(kind, kind) for kind, size in sizes.items() if size)
    if request.instance.availability_zone:
        yield Part(ZONE, ZONE)
    yield from (Part(kind, _GROUP_HINT) for policy, kind in GROUP.items() if policy in request.group_policies)
    if any(rule.is_hard for rule in request.group_rules):
        yield Part(GROUP_RULES, "rules of the group")
    properties = request.image.properties
    yield from (Part(IMAGE, f"image property {name}") for name in _IMAGE_PROPERTIES if properties.get(name))
    if request.numa_topology is not None:
        yield Part(NUMA, "NUMA topology")
    if request.pci_requests:
        yield Part(PCI, "PCI devices")
    if request.instance.bridges:
        yield Part(NETWORKS, NETWORKS)
    if request.guest_cpu is not None:
        yield Part(GUEST_CPU, "processor of a running guest")
    yield from _extra_specs(request.flavor.extra_specs)
    yield from (
        Part(hint(name), f"hint {name}") for name, value in request.scheduler_hints.items() if _asks(name, value)
    )


def _extra_specs(specs: Mapping[str, str]) -> Iterator[Part]:
    for key in specs:
        scope, colon, _name = key.partition(":")
        kind = EXTRA_SPECS["capabilities"] if key == _MAXPHYSADDR else EXTRA_SPECS.get(scope if colon else "")
        if kind is not None:
            yield Part(kind, f"extra spec {key}")


def _asks(name: str, value: object) -> bool:
    return bool(value) and name != _GROUP_HINT


def remarks(request: RequestSpec, judged: Collection[str]) -> Sequence[str]:
    """Return a sentence for each part of ``request`` that no filter judges.

    :param judged: kinds of parts that the scheduler's filters judge
    """
    missing = [part.shown for part in of(request) if not _is_judged(part.kind, judged)]
    return [f"{shown}: no filter judges it" for shown in dict.fromkeys(missing)]


def _is_judged(kind: str, judged: Collection[str]) -> bool:
    return kind in judged or (kind.startswith(hint("")) and ANY_HINT in judged)
