# SPDX-License-Identifier: Apache-2.0
"""The meaning of every built-in filter for one host, as simply as possible."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import ipaddress
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fleet.objects import RequestSpec
from fleet.objects.group_rule import GroupRule
from tests.factories import NOW, Node, PlacedInstance, Service
from tests.unit.scheduler import reference_hardware

Host = Node


@dataclasses.dataclass
class Context:
    """All that is around a host: what was picked in this request, and what is where."""

    picked: list[str] = dataclasses.field(default_factory=list)
    #: Members of the group, and where they are.
    placed: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Per host the metadata of its aggregates.
    aggregates: Mapping[str, Sequence[Mapping[str, str]]] = dataclasses.field(default_factory=dict)
    services: Mapping[str, Service] = dataclasses.field(default_factory=dict)
    instances: Sequence[PlacedInstance] = ()
    trust: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    #: All hosts of the fleet.
    nodes: Sequence[Host] = ()
    #: Per host, how many PCI devices its picks were promised that it has not.
    missing_devices: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def on(self, host: str) -> list[PlacedInstance]:
        return [instance for instance in self.instances if instance.host == host]


Check = Callable[[Host, RequestSpec, Context], bool]


def raw_values(host: Host, world: Context, key: str) -> list[str]:
    return [metadata[key] for metadata in world.aggregates.get(host.host, ()) if key in metadata]


def split_values(host: Host, world: Context, key: str) -> list[str]:
    return [piece.strip() for value in raw_values(host, world, key) for piece in value.split(",")]


def smallest(host: Host, world: Context, key: str, default: Any, cast: Callable[[str], Any] = float) -> Any:
    try:
        return min((cast(value) for value in raw_values(host, world, key)), default=default)
    except ValueError:
        return default


# -- room ---------------------------------------------------------------------------------------------------------------


def ram(host: Host, request: RequestSpec, world: Context, ratio: float | None = None) -> bool:
    asked = request.flavor.memory_mb
    if host.memory_mb - host.reserved_memory_mb < asked:
        return False
    ratio = host.ram_allocation_ratio if ratio is None else ratio
    limit = (host.memory_mb - host.reserved_memory_mb) * ratio + host.reserved_memory_mb
    return limit - (host.memory_mb - host.free_ram_mb) >= asked


def core(host: Host, request: RequestSpec, world: Context, ratio: float | None = None) -> bool:
    asked = request.flavor.vcpus
    if host.vcpus == 0:
        return True
    if host.vcpus - host.reserved_vcpus < asked:
        return False
    ratio = host.cpu_allocation_ratio if ratio is None else ratio
    return (host.vcpus - host.reserved_vcpus) * ratio + host.reserved_vcpus - host.vcpus_used >= asked


def disk(host: Host, request: RequestSpec, world: Context, ratio: float | None = None) -> bool:
    asked = requested_disk_mb(request)
    total = host.local_gb * 1024
    reserved = host.reserved_disk_gb * 1024
    if total - reserved < asked:
        return False
    ratio = host.disk_allocation_ratio if ratio is None else ratio
    return (total - reserved) * ratio + reserved - (total - host.free_disk_gb * 1024) >= asked


def requested_disk_mb(request: RequestSpec) -> int:
    return 1024 * (request.flavor.root_gb + request.flavor.ephemeral_gb) + request.flavor.swap


def aggregate_ram(host: Host, request: RequestSpec, world: Context) -> bool:
    return ram(host, request, world, smallest(host, world, "ram_allocation_ratio", None))


def aggregate_core(host: Host, request: RequestSpec, world: Context) -> bool:
    return core(host, request, world, smallest(host, world, "cpu_allocation_ratio", None))


def aggregate_disk(host: Host, request: RequestSpec, world: Context) -> bool:
    return disk(host, request, world, smallest(host, world, "disk_allocation_ratio", None))


def exact_ram(host: Host, request: RequestSpec, world: Context) -> bool:
    return host.free_ram_mb == request.flavor.memory_mb


def exact_core(host: Host, request: RequestSpec, world: Context) -> bool:
    return host.vcpus != 0 and host.vcpus - host.vcpus_used == request.flavor.vcpus


def exact_disk(host: Host, request: RequestSpec, world: Context) -> bool:
    return host.free_disk_gb * 1024 == requested_disk_mb(request)


def io_ops(host: Host, request: RequestSpec, world: Context) -> bool:
    return host.io_workload < world.options["max_io_ops_per_host"]


def aggregate_io_ops(host: Host, request: RequestSpec, world: Context) -> bool:
    return host.io_workload < smallest(host, world, "max_io_ops_per_host", world.options["max_io_ops_per_host"], int)


def num_instances(host: Host, request: RequestSpec, world: Context) -> bool:
    return host.running_vms < world.options["max_instances_per_host"]


def aggregate_num_instances(host: Host, request: RequestSpec, world: Context) -> bool:
    most = smallest(host, world, "max_instances_per_host", world.options["max_instances_per_host"], int)
    return host.running_vms < most


# -- liveness, placement ------------------------------------------------------------------------------------------------


def compute(host: Host, request: RequestSpec, world: Context) -> bool:
    service = world.services.get(host.host, Service(host.host))
    if service.disabled or service.forced_down or service.last_seen_up is None:
        return False
    return abs(NOW - service.last_seen_up) <= datetime.timedelta(seconds=60)


def retry(host: Host, request: RequestSpec, world: Context) -> bool:
    return request.retry is None or (host.host, host.hypervisor_hostname) not in request.retry.hosts


def availability_zone(host: Host, request: RequestSpec, world: Context) -> bool:
    zones = split_values(host, world, "availability_zone")
    wanted = request.instance.availability_zone
    return not wanted or (wanted in zones if zones else wanted == "nova")


def type_affinity(host: Host, request: RequestSpec, world: Context) -> bool:
    return all(instance.instance_type_id == request.flavor.id for instance in world.on(host.host))


def aggregate_type_affinity(host: Host, request: RequestSpec, world: Context) -> bool:
    names = split_values(host, world, "instance_type")
    return not names or request.flavor.name in names


def aggregate_multitenancy(host: Host, request: RequestSpec, world: Context) -> bool:
    keys = {key for metadata in world.aggregates.get(host.host, ()) for key in metadata}
    tenants = [
        tenant for key in keys if key.startswith("filter_tenant_id") for tenant in split_values(host, world, key)
    ]
    return not tenants or request.instance.project_id in tenants


def isolated_hosts(host: Host, request: RequestSpec, world: Context) -> bool:
    image_isolated = request.instance.image_ref in world.options["isolated_images"]
    host_isolated = host.host in world.options["isolated_hosts"]
    if world.options["restrict_isolated_hosts_to_isolated_images"]:
        return image_isolated == host_isolated
    return not image_isolated or host_isolated


# -- hints, groups ------------------------------------------------------------------------------------------------------


def _hinted(request: RequestSpec, name: str) -> list[str]:
    hint = request.scheduler_hints.get(name) or []
    return [hint] if isinstance(hint, str) else hint


def same_host(host: Host, request: RequestSpec, world: Context) -> bool:
    wanted = _hinted(request, "same_host")
    return not wanted or any(instance.uuid in wanted for instance in world.on(host.host))


def different_host(host: Host, request: RequestSpec, world: Context) -> bool:
    unwanted = _hinted(request, "different_host")
    return not any(instance.uuid in unwanted for instance in world.on(host.host))


def cidr(host: Host, request: RequestSpec, world: Context) -> bool:
    near = request.scheduler_hints.get("build_near_host_ip")
    if not near:
        return True
    network = ipaddress.ip_network(near + request.scheduler_hints.get("cidr", "/24"), strict=False)
    return bool(host.host_ip) and ipaddress.ip_address(host.host_ip) in network


def anti_affinity(host: Host, request: RequestSpec, world: Context) -> bool:
    if "anti-affinity" not in request.group_policies:
        return True
    named = request.group_hosts.difference(world.placed.get(uuid) for uuid in request.instance_uuids)
    if not request.group_members:
        return host.host not in {*named, *world.picked}
    if request.group_max_server_per_host == 1 and host.host in named:
        return False
    return members_on(host, request, world) < request.group_max_server_per_host


def affinity(host: Host, request: RequestSpec, world: Context) -> bool:
    if "affinity" not in request.group_policies:
        return True
    others = request.group_members - set(request.instance_uuids)
    for uuid in {uuid for uuid, _host in request.group_places} - set(request.instance_uuids):
        if len({host for other, host in request.group_places if other == uuid}) > 1:
            # It moves: nobody knows yet where the group will be.
            return False
    hosts = {*request.group_hosts, *world.picked, *(world.placed[uuid] for uuid in others if uuid in world.placed)}
    return not hosts or host.host in hosts


def places(request: RequestSpec, world: Context) -> set[tuple[str, str]]:
    others = request.group_members - set(request.instance_uuids)
    known = {(uuid, world.placed[uuid]) for uuid in others if uuid in world.placed}
    sent = {(uuid, host) for uuid, host in request.group_places if uuid not in request.instance_uuids}
    return known | sent | {(f"pick {number}", host) for number, host in enumerate(world.picked)}


def members_on(host: Host, request: RequestSpec, world: Context) -> int:
    return [there for _uuid, there in places(request, world)].count(host.host)


def members_in_domains(label: str, request: RequestSpec, world: Context) -> dict[str | None, int]:
    """The number of members of the group by value of the label, 0 for values without any."""
    there = places(request, world)
    there |= {(f"at {host}", host) for host in request.group_hosts if host not in {at for _uuid, at in there}}
    domains = {node.host: labels_of(node).get(label) for node in world.nodes}
    counts = collections.Counter(
        domain for _uuid, domain in {(uuid, domains[host]) for uuid, host in there if host in domains}
    )
    return {domain: counts[domain] for domain in domains.values()}


def labels_of(host: Host) -> dict[str, str]:
    both = {**(host.stats or {}).get("labels", {}), **(host.labels or {})}
    return {key: value for key, value in both.items() if value}


def failure_domain(host: Host, request: RequestSpec, world: Context) -> bool:
    return all(_keeps(rule, host, request, world) for rule in request.group_rules)


def _keeps(rule: GroupRule, host: Host, request: RequestSpec, world: Context) -> bool:
    domain = labels_of(host).get(rule.label)
    members = members_in_domains(rule.label, request, world)
    if rule.policy == "must":
        return domain in rule.values
    if rule.policy == "must-not":
        return domain not in rule.values
    if rule.policy == "anti-affinity":
        return domain is None or members[domain] < rule.max_members
    if rule.policy == "affinity":
        domains = {node.host: labels_of(node).get(rule.label) for node in world.nodes}
        sent = {(uuid, domains[there]) for uuid, there in request.group_places if there in domains}
        moving = len(sent) > len({uuid for uuid, _domain in sent})
        return domain is not None and not moving and (members[domain] > 0 or not any(members.values()))
    if rule.policy == "spread":
        served = {
            labels_of(node).get(rule.label)
            for node in world.nodes
            if compute(node, request, world) and availability_zone(node, request, world)
        }
        emptiest = min((members[each] for each in served if each is not None), default=0)
        return domain is not None and members[domain] + 1 - emptiest <= rule.max_skew
    return True


# -- extra specs --------------------------------------------------------------------------------------------------------


def match(value: str, wanted: str) -> bool:
    words = wanted.split()
    name, rest = (words[0], words[1:]) if words else ("", [])
    if name == "<or>":
        return value in [word for word in rest if word != "<or>"]
    if name == "<all-in>":
        return rest != [] and all(word in value for word in rest)
    if name == "<in>":
        return rest != [] and rest[0] in value
    if name in ("s==", "s!=", "s<", "s<=", "s>", "s>="):
        return rest != [] and eval(f"value {name[1:]} rest[0]", {"value": value, "rest": rest})
    if name in ("=", "==", "!=", "<=", ">="):
        try:
            numbers = {"value": float(value), "operand": float(rest[0])} if rest else None
        except ValueError:
            return False
        return bool(numbers) and eval(f"value {'>=' if name == '=' else name} operand", numbers)
    return value == wanted


def attributes(host: Host, world: Context) -> dict[str, Any]:
    """nova's names of what a host has."""
    stats = host.stats or {}
    return {
        "host": host.host,
        "nodename": host.hypervisor_hostname,
        "free_ram_mb": host.free_ram_mb,
        "total_usable_ram_mb": host.memory_mb,
        "free_disk_mb": host.free_disk_gb * 1024,
        "vcpus_total": host.vcpus,
        "vcpus_used": host.vcpus_used,
        "num_instances": host.running_vms,
        "num_io_ops": host.io_workload,
        "hypervisor_type": host.hypervisor_type,
        "hypervisor_version": host.hypervisor_version,
        "cpu_info": host.cpu_info,
        "supported_instances": [list(kind) for kind in host.supported_instances],
        "host_ip": host.host_ip,
        "stats": stats,
        "service": {"host": host.host, "disabled": world.services.get(host.host, Service()).disabled},
    }


def _found(host: Host, world: Context, path: Sequence[str]) -> Any:
    value = attributes(host, world).get(path[0])
    if value is None:
        value = (host.stats or {}).get(path[0])
    for part in path[1:]:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        value = value.get(part) if isinstance(value, dict) else None
    return value


def compute_capabilities(host: Host, request: RequestSpec, world: Context) -> bool:
    for key, wanted in request.flavor.extra_specs.items():
        scope, *path = key.split(":")
        if key == "hw:maxphysaddr_bits":
            path, wanted = ["cpu_info", "maxphysaddr", "bits"], f">= {wanted}"
        elif not path:
            if key not in attributes(host, world) and key not in (host.stats or {}):
                continue
            path = [key]
        elif scope != "capabilities":
            continue
        found = _found(host, world, path)
        if found is None or not match(str(found), wanted):
            return False
    return True


def aggregate_extra_specs(host: Host, request: RequestSpec, world: Context) -> bool:
    for key, wanted in request.flavor.extra_specs.items():
        scope, colon, rest = key.partition(":")
        if colon and scope != "aggregate_instance_extra_specs":
            continue
        values = split_values(host, world, rest if colon else key)
        if not any(match(value, wanted) for value in values):
            return False
    return True


def trusted(host: Host, request: RequestSpec, world: Context) -> bool:
    wanted = request.flavor.extra_specs.get("trust:trusted_host")
    return not wanted or world.trust.get(host.hypervisor_hostname, "unknown") == wanted


# -- images -------------------------------------------------------------------------------------------------------------

_CANONICAL = {"i386": "i686", "amd64": "x86_64", "xapi": "xen", "pv": "xen", "hv": "hvm"}


def image_properties(host: Host, request: RequestSpec, world: Context) -> bool:
    properties = request.image.properties
    bits = properties.get("hw_maxphysaddr_bits")
    has = _found(host, world, ["cpu_info", "maxphysaddr", "bits"])
    if bits and has is not None and has < int(bits):
        return False
    names = [
        properties.get("hw_architecture") or properties.get("architecture"),
        properties.get("img_hv_type") or properties.get("hypervisor_type"),
        properties.get("hw_vm_mode") or properties.get("vm_mode"),
    ]
    names[0] = names[0] or world.options["image_properties_default_architecture"]
    wanted = [_CANONICAL.get(name.lower(), name.lower()) for name in names if name]
    if not wanted:
        return True
    if not _version_fits(host.hypervisor_version, properties.get("img_hv_requested_version")):
        return False
    return any(all(name in kind for name in wanted) for kind in host.supported_instances)


def _version_fits(version: int, required: str | None) -> bool:
    if not version or not required:
        return True
    has = (version // 1000000, version // 1000 % 1000, version % 1000)
    for condition in required.split(","):
        operator, text = condition.split()
        asked = tuple(int(part) for part in (text + ".0.0").split(".")[:3])
        if not eval(f"has {operator} asked", {"has": has, "asked": asked}):
            return False
    return True


def aggregate_image_properties(host: Host, request: RequestSpec, world: Context) -> bool:
    namespace = world.options["aggregate_image_properties_isolation_namespace"]
    for metadata in world.aggregates.get(host.host, ()):
        for key in metadata:
            if namespace and not key.startswith(f"{namespace}."):
                continue
            value = request.image.properties.get(key)
            if value and str(value) not in split_values(host, world, key):
                return False
    return True


# -- queries, metrics ---------------------------------------------------------------------------------------------------


def json_query(host: Host, request: RequestSpec, world: Context) -> bool:
    text = request.scheduler_hints.get("query")
    # A version of 0 is one that the host has not told.
    known = {**attributes(host, world), "hypervisor_version": host.hypervisor_version or None}
    return not text or _evaluate(json.loads(text), known)


def _evaluate(query: Any, known: dict[str, Any]) -> Any:
    if query == []:
        return True
    values = []
    for argument in query[1:]:
        if isinstance(argument, list):
            argument = _evaluate(argument, known)
        elif isinstance(argument, str) and argument.startswith("$"):
            first, *keys = argument[1:].split(".")
            argument = known.get(first)
            for key in keys:
                argument = argument.get(key) if isinstance(argument, dict) else None
        if argument is not None and argument != "":
            values.append(argument)
    return _apply(query[0], values)


def _apply(name: str, values: list[Any]) -> bool:
    if name == "and":
        return all(values)
    if name == "or":
        return any(values)
    if name == "not":
        return any(not value for value in values)
    if len(values) < 2:
        return False
    if name == "in":
        return values[0] in values[1:]
    try:
        names = {"one": values[0]}
        code = f"one {'==' if name == '=' else name} other"
        return all(eval(code, {**names, "other": other}) for other in values[1:])
    except TypeError:
        return False


def metrics(host: Host, request: RequestSpec, world: Context) -> bool:
    reported = {metric["name"] for metric in host.metrics or ()}
    return all(name in reported for name, _ratio in world.options["weight_setting"])


def bridge(host: Node, request: Any, world: Context) -> bool:
    """Every bridge is there, or the host does not say which are."""
    there = (host.stats or {}).get("bridges")
    return there is None or all(each in there.split(",") for each in request.instance.bridges or ())


def guest_cpu(host: Node, request: Any, world: Context) -> bool:
    """A guest that moves while it runs needs every feature, of the same vendor."""
    wanted = request.guest_cpu
    if wanted is None:
        return True
    there = json.loads(host.cpu_info or "{}")
    same_vendor = wanted.vendor in ("", there.get("vendor", ""))
    return same_vendor and all(each in there.get("features", []) for each in wanted.features)


CHECKS: dict[str, Check] = {
    "AggregateCoreFilter": aggregate_core,
    "AggregateDiskFilter": aggregate_disk,
    "AggregateImagePropertiesIsolation": aggregate_image_properties,
    "AggregateInstanceExtraSpecsFilter": aggregate_extra_specs,
    "AggregateIoOpsFilter": aggregate_io_ops,
    "AggregateMultiTenancyIsolation": aggregate_multitenancy,
    "AggregateNumInstancesFilter": aggregate_num_instances,
    "AggregateRamFilter": aggregate_ram,
    "AggregateTypeAffinityFilter": aggregate_type_affinity,
    "AllHostsFilter": lambda host, request, world: True,
    "AvailabilityZoneFilter": availability_zone,
    "BridgeFilter": bridge,
    "ComputeCapabilitiesFilter": compute_capabilities,
    "ComputeFilter": compute,
    "CoreFilter": core,
    "DifferentHostFilter": different_host,
    "DiskFilter": disk,
    "ExactCoreFilter": exact_core,
    "ExactDiskFilter": exact_disk,
    "ExactRamFilter": exact_ram,
    "FailureDomainFilter": failure_domain,
    "GuestCpuFilter": guest_cpu,
    "ImagePropertiesFilter": image_properties,
    "IoOpsFilter": io_ops,
    "IsolatedHostsFilter": isolated_hosts,
    "JsonFilter": json_query,
    "MetricsFilter": metrics,
    "NUMATopologyFilter": lambda host, request, world: reference_hardware.numa_passes(host, request),
    "NumInstancesFilter": num_instances,
    "PciPassthroughFilter": lambda host, request, world: reference_hardware.pci_passes(host, request),
    "RamFilter": ram,
    "RetryFilter": retry,
    "SameHostFilter": same_host,
    "ServerGroupAffinityFilter": affinity,
    "ServerGroupAntiAffinityFilter": anti_affinity,
    "SimpleCIDRAffinityFilter": cidr,
    "TrustedFilter": trusted,
    "TypeAffinityFilter": type_affinity,
}

#: Asked for the first instance of a request only, as in nova 12.0.0.
ONCE: frozenset[str] = frozenset(
    [
        "AggregateImagePropertiesIsolation",
        "AggregateInstanceExtraSpecsFilter",
        "AggregateMultiTenancyIsolation",
        "AggregateTypeAffinityFilter",
        "AllHostsFilter",
        "AvailabilityZoneFilter",
        "BridgeFilter",
        "ComputeCapabilitiesFilter",
        "ComputeFilter",
        "DifferentHostFilter",
        "GuestCpuFilter",
        "ImagePropertiesFilter",
        "IsolatedHostsFilter",
        "SameHostFilter",
        "SimpleCIDRAffinityFilter",
        "TrustedFilter",
    ]
)
