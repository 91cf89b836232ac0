# SPDX-License-Identifier: Apache-2.0
"""The meaning of every built-in weigher for one host, as simply as possible."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from fleet import errors
from fleet.objects import RequestSpec
from fleet.objects.flavor_mix import Counts, FlavorMix, Shape
from tests.unit.scheduler import reference_hardware
from tests.unit.scheduler.reference_filters import Context, Host, labels_of, members_in_domains, members_on, smallest


@dataclasses.dataclass(frozen=True)
class Weigher:
    """``sign`` turns the multiplier round; ``key`` is the aggregate metadata that overrides it."""

    raw: Callable[[Host, RequestSpec, Context], float]
    key: str
    multiplier: float = 1.0
    minval: float | None = None
    sign: float = 1.0

    def multiplier_of(self, host: Host, world: Context) -> float:
        return self.sign * smallest(host, world, self.key, self.multiplier)

    def contributions(self, hosts: Sequence[Host], request: RequestSpec, world: Context) -> list[float]:
        raw = [float(self.raw(host, request, world)) for host in hosts]
        if self.minval is not None:
            raw = [max(weight, self.minval) for weight in raw]
        low = min(raw) if self.minval is None else self.minval
        high = max(raw)
        if low == high:
            return [0.0] * len(hosts)
        return [
            self.multiplier_of(host, world) * ((weight - low) / (high - low))
            for host, weight in zip(hosts, raw, strict=True)
        ]


def _cpu(host: Host, request: RequestSpec, world: Context) -> float:
    limit = (host.vcpus - host.reserved_vcpus) * host.cpu_allocation_ratio + host.reserved_vcpus
    return limit - host.vcpus_used


def _metrics(host: Host, request: RequestSpec, world: Context) -> float:
    reported = {metric["name"]: metric["value"] for metric in host.metrics or ()}
    total = 0.0
    for name, ratio in world.options["weight_setting"]:
        if name in reported:
            total += reported[name] * ratio
        elif world.options["required"]:
            raise errors.MetricNotFound(name=name, host=host.host, node=host.hypervisor_hostname)
        elif ratio * world.options["metrics_multiplier"]:
            return -10000.0
    return total


def _pci(host: Host, request: RequestSpec, world: Context) -> float:
    """What instances were promised is gone, there or not."""
    return 100 - min(reference_hardware.free_devices(host) - world.missing_devices[host.host], 99)


def _soft(policy: str, sign: float) -> Callable[[Host, RequestSpec, Context], float]:
    def count(host: Host, request: RequestSpec, world: Context) -> float:
        return sign * members_on(host, request, world) if policy in request.group_policies else 0.0

    return count


def _failure_domain(host: Host, request: RequestSpec, world: Context) -> float:
    total = 0.0
    for rule in request.group_rules:
        domain = labels_of(host).get(rule.label)
        members = members_in_domains(rule.label, request, world)
        if rule.policy == "should":
            total += domain in rule.values
        elif rule.policy == "soft-affinity" and domain is not None:
            total += members[domain]
        elif rule.policy in ("soft-anti-affinity", "soft-spread") and domain is not None:
            total -= members[domain]
    return total


def _image_properties(host: Host, request: RequestSpec, world: Context) -> float:
    if not world.options["image_props_multiplier"]:
        return 0.0
    wanted = {(name, str(value)) for name, value in request.image.properties.items()}
    total = 0.0
    for instance in world.on(host.host):
        for name, value in (instance.image_properties or {}).items():
            if (name, str(value)) in wanted:
                factors = dict(world.options["image_props_setting"])
                total += factors.get(name, 0.0) if factors else 1.0
    return total


#: What the fleet of the tests is asked for: the odd sizes make tables with many steps, and some shapes have disk.
MIX = FlavorMix(
    7,
    counts={
        Shape(1, 512): Counts(60, 30, 15),
        Shape(2, 3584, 10): Counts(25, 2, 40),
        Shape(4, 4096): Counts(14),
        Shape(3, 1001, 7): Counts(1, 1, 1),
    },
)


def _fragmentation(host: Host, request: RequestSpec, world: Context) -> float:
    """Minus the weighed number of instances of each shape that fit before and not after."""
    if not world.options["fragmentation_multiplier"]:
        return 0.0
    cores, memory_mb = world.options["mean_host"]
    shares = MIX.shares()
    sizes = {shape: share * (shape.vcpus / cores + shape.memory_mb / memory_mb) for shape, share in shares.items()}
    factor = 2**20 / max(sizes.values())
    free = _free(host)
    taken = [request.vcpus, request.memory_mb, 1024 * (request.root_gb + request.ephemeral_gb)]
    left = [there - size for there, size in zip(free, taken, strict=True)]
    return float(
        -sum(round(size * factor) * (_fitting(each, free) - _fitting(each, left)) for each, size in sizes.items())
    )


def _free(host: Host) -> list[float]:
    """Vcpus, memory in MB and disk in MB that may still be sold."""
    return [
        (host.vcpus - host.reserved_vcpus) * host.cpu_allocation_ratio + host.reserved_vcpus - host.vcpus_used,
        host.free_ram_mb + (host.memory_mb - host.reserved_memory_mb) * (host.ram_allocation_ratio - 1),
        1024 * (host.free_disk_gb + (host.local_gb - host.reserved_disk_gb) * (host.disk_allocation_ratio - 1)),
    ]


def _alignment(host: Host, request: RequestSpec, world: Context) -> float:
    """The cosine between two arrows, each with its length in mean hosts."""
    if not world.options["alignment_multiplier"]:
        return 0.0
    free = [there / mean for there, mean in zip(_free(host), world.options["mean_host"], strict=False)]
    asked = [
        size / mean for size, mean in zip((request.vcpus, request.memory_mb), world.options["mean_host"], strict=True)
    ]
    length = math.hypot(*free) * math.hypot(*asked)
    return (
        round(sum(one * other for one, other in zip(free, asked, strict=True)) / length * 2**20) / 2**20
        if length
        else 0.0
    )


def _fitting(shape: Shape, free: Sequence[float]) -> int:
    sizes = (shape.vcpus, shape.memory_mb, 1024 * shape.disk_gb)
    return min(int(max(there, 0) // size) for there, size in zip(free, sizes, strict=True) if size)


WEIGHERS: dict[str, Callable[..., Weigher]] = {}


def _known(
    name: str, raw: Callable[[Host, RequestSpec, Context], float], key: str, default: float = 1.0, **rest: float
):
    def make(multiplier: float = default) -> Weigher:
        return Weigher(raw, key, multiplier, **rest)

    WEIGHERS[name] = make


_known("RAMWeigher", lambda host, request, world: host.free_ram_mb, "ram_weight_multiplier", minval=0.0)
_known("DiskWeigher", lambda host, request, world: host.free_disk_gb * 1024, "disk_weight_multiplier", minval=0.0)
_known("PCIWeigher", _pci, "pci_weight_multiplier")
_known("CPUWeigher", _cpu, "cpu_weight_multiplier", minval=0.0)
_known("IoOpsWeigher", lambda host, request, world: host.io_workload, "io_ops_weight_multiplier", -1.0, minval=0.0)
_known("MetricsWeigher", _metrics, "metrics_weight_multiplier")
_known("ServerGroupSoftAffinityWeigher", _soft("soft-affinity", 1.0), "soft_affinity_weight_multiplier")
_known("ServerGroupSoftAntiAffinityWeigher", _soft("soft-anti-affinity", -1.0), "soft_anti_affinity_weight_multiplier")
_known("FailureDomainWeigher", _failure_domain, "failure_domain_weight_multiplier")
_known(
    "BuildFailureWeigher",
    lambda host, request, world: host.failed_builds,
    "build_failure_weight_multiplier",
    1000000.0,
    sign=-1.0,
)
_known(
    "HypervisorVersionWeigher",
    lambda host, request, world: host.hypervisor_version or 0,
    "hypervisor_version_weight_multiplier",
)
_known("NumInstancesWeigher", lambda host, request, world: host.running_vms, "num_instances_weight_multiplier", 0.0)
_known("ImagePropertiesWeigher", _image_properties, "image_props_weight_multiplier", 0.0)
_known("FragmentationWeigher", _fragmentation, "fragmentation_weight_multiplier", 0.0)
_known("AlignmentWeigher", _alignment, "alignment_weight_multiplier", 0.0, minval=0.0)
