# SPDX-License-Identifier: Apache-2.0
"""Random fleets and requests for the property tests, and the scheduler's own parts over the same fleet.

Few distinct values each, so that hosts tie, requests just fit, and requirements are met by some hosts.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import Any

from hypothesis import strategies as st

from fleet.objects.numa import Pages
from scheduler.compute import filters, weights
from scheduler.compute.domain import attestation
from scheduler.engine.hosts.candidates import Candidates
from tests import factories
from tests.factories import NOW, Node, PlacedInstance, Service, uuid
from tests.unit.hardware import builders
from tests.unit.scheduler.reference_filters import Context
from tests.unit.scheduler.reference_weighers import MIX

NAMES = [f"host{number}" for number in range(7)]
FEATURES = json.dumps({"arch": "x86_64", "features": ["avx", "sse"], "maxphysaddr": {"bits": 46}})
KINDS = [("x86_64", "kvm", "hvm"), ("i686", "qemu", "hvm"), ("x86_64", "xen", "xen")]
MEMBERS = [uuid(1), uuid(2), uuid(1000), uuid(1001)]

NODES = st.fixed_dictionaries(
    {
        "vcpus": st.sampled_from([0, 4, 8]),
        "vcpus_used": st.integers(0, 9),
        "reserved_vcpus": st.sampled_from([0, 1]),
        "cpu_allocation_ratio": st.sampled_from([1.0, 1.5, 16.0]),
        "memory_mb": st.sampled_from([4096, 8192]),
        "memory_mb_used": st.sampled_from([0, 512, 4096, 9000]),
        "reserved_memory_mb": st.sampled_from([0, 512]),
        "ram_allocation_ratio": st.sampled_from([1.0, 1.5]),
        "local_gb": st.sampled_from([20, 100]),
        "local_gb_used": st.sampled_from([0, 10, 95]),
        "reserved_disk_gb": st.sampled_from([0, 5]),
        "disk_allocation_ratio": st.sampled_from([1.0, 2.0]),
        "io_workload": st.integers(0, 3),
        "running_vms": st.integers(0, 3),
        "failed_builds": st.sampled_from([0, 0, 1, 4]),
        "hypervisor_type": st.sampled_from(["QEMU", "KVM", None]),
        "hypervisor_version": st.sampled_from([0, 2005000, 6000001]),
        "cpu_info": st.sampled_from(["", "no json", FEATURES, '{"arch": "aarch64", "features": []}']),
        "supported_instances": st.sampled_from([(), *(tuple(KINDS[start:]) for start in range(3)), tuple(KINDS)]),
        "host_ip": st.sampled_from(["192.0.2.1", "192.0.2.200", "198.51.100.7"]),
        "stats": st.sampled_from(
            [
                *(None, {"rack": "7"}, {"rack": "8", "deep": {"er": "yes"}, "hypervisor_type": "QEMU"}),
                *({"bridges": ""}, {"bridges": "br0"}, {"bridges": "br0,br1", "rack": "7"}),
                *({"labels": {"rack": "r1"}}, {"labels": {"rack": "r2", "room": "a"}}),
            ]
        ),
        "labels": st.sampled_from([None, {"rack": "r2"}, {"rack": "r3", "room": "b"}, {"rack": ""}]),
        "metrics": st.sampled_from(
            [
                None,
                [{"name": "load", "value": 0.5}],
                [{"name": "load", "value": 2.0}, {"name": "heat", "value": 40}],
            ]
        ),
    }
)
SERVICES = st.sampled_from(
    [{}, {}, {"disabled": True}, {"forced_down": True}, {"last_seen_up": NOW - datetime.timedelta(seconds=61)}]
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "ram_allocation_ratio": st.sampled_from(["1.0", "2.0", "bad"]),
        "cpu_allocation_ratio": st.sampled_from(["1.0", "4", "x"]),
        "disk_allocation_ratio": st.sampled_from(["1.0", "1.5"]),
        "max_io_ops_per_host": st.sampled_from(["1", "2", "2.5"]),
        "max_instances_per_host": st.sampled_from(["1", "3", ""]),
        "availability_zone": st.sampled_from(["east", "west, east"]),
        "instance_type": st.sampled_from(["small", "large, small", "large"]),
        "filter_tenant_id": st.sampled_from(["t1", "t2,t1", ""]),
        "filter_tenant_id2": st.just("t3"),
        "ssd": st.sampled_from(["true", "1, 2", "12"]),
        "os": st.sampled_from(["linux", "linux, windows"]),
        "ns.os": st.sampled_from(["linux", "windows"]),
        "ram_weight_multiplier": st.sampled_from(["2.0", "-1", "bad"]),
        "io_ops_weight_multiplier": st.sampled_from(["0.5", "-3"]),
        "build_failure_weight_multiplier": st.sampled_from(["0", "2"]),
        "metrics_weight_multiplier": st.sampled_from(["-1", "3.5"]),
        "failure_domain_weight_multiplier": st.sampled_from(["0", "3"]),
        "soft_affinity_weight_multiplier": st.sampled_from(["0", "5"]),
    },
)
AGGREGATES = st.lists(st.tuples(st.lists(st.sampled_from(NAMES), unique=True), METADATA), max_size=3)
OPTIONS = st.fixed_dictionaries(
    {
        "max_io_ops_per_host": st.sampled_from([1, 3, 8]),
        "max_instances_per_host": st.sampled_from([1, 3, 50]),
        "isolated_images": st.sampled_from([[], ["image1"]]),
        "isolated_hosts": st.sampled_from([[], ["host0", "host3", "elsewhere"]]),
        "restrict_isolated_hosts_to_isolated_images": st.booleans(),
        "image_properties_default_architecture": st.sampled_from([None, None, "x86_64"]),
        "aggregate_image_properties_isolation_namespace": st.sampled_from([None, "ns"]),
        "weight_setting": st.sampled_from([[], [("load", 1.0)], [("load", -2.0), ("heat", 0.1)], [("heat", 0.0)]]),
        "required": st.booleans(),
        "metrics_multiplier": st.sampled_from([1.0, -1.5, 0.0]),
        "image_props_multiplier": st.sampled_from([0.0, 1.0, -2.0]),
        "image_props_setting": st.sampled_from([[], [("os", 2.0)]]),
    }
)
EXTRA_SPECS = st.lists(
    st.sampled_from(
        [
            ("capabilities:hypervisor_type", "s== QEMU"),
            ("capabilities:hypervisor_type", "<or> QEMU <or> KVM"),
            ("capabilities:hypervisor_type", "KVM"),
            ("capabilities:cpu_info:arch", "x86_64"),
            ("capabilities:cpu_info:features", "<in> avx"),
            ("capabilities:cpu_info:features", "<all-in> avx sse"),
            ("capabilities:supported_instances", "<in> ['x86_64', 'kvm'"),
            ("capabilities:free_ram_mb", ">= 4096"),
            ("capabilities:free_ram_mb", "= 3584 and more"),
            ("capabilities:hypervisor_version", "!= 0"),
            ("capabilities:stats:rack", "s<= 7"),
            ("capabilities:rack", "<or> 7 <or> 9"),
            ("capabilities:deep:er", "yes"),
            ("capabilities:host", "s> host2"),
            ("capabilities:host_ip", "<in> 192.0.2."),
            ("capabilities:service:disabled", "False"),
            ("capabilities:nothing", "1"),
            ("vcpus_total", "<= 4"),
            ("rack", "s!= 7"),
            ("unscoped", "x"),
            ("hw:maxphysaddr_bits", "40"),
            ("quota:cpu", "no matter"),
            ("aggregate_instance_extra_specs:ssd", "true"),
            ("aggregate_instance_extra_specs:ssd", ">= 2"),
            ("ssd", "<in> 1"),
        ]
    ),
    max_size=2,
).map(dict)


def _cell(number: int, threads: int, pinned: int, usage: int) -> Any:
    cpus = range(4 * number, 4 * number + 4)
    return builders.host_cell(
        number, cpus, threads=threads, pinned=cpus[:pinned], cpu_usage=pinned, memory_usage=usage, mempages=PAGES
    )


#: 4 CPUs and 4096 MB a cell, 1024 MB of these in pages of 2 MiB.
PAGES = (Pages(4, 786432), Pages(2048, 512))
HOST_CELLS = st.builds(_cell, st.just(0), st.sampled_from([1, 2]), st.integers(0, 2), st.sampled_from([0, 0, 3500]))
TOPOLOGIES = st.lists(HOST_CELLS, max_size=3).map(
    lambda cells: (
        builders.host(*(_moved(cell, number) for number, cell in enumerate(cells))).to_wire() if cells else None
    )
)


def _moved(cell: Any, number: int) -> Any:
    """The same cell, with numbers of its own."""
    return _cell(number, 2 if cell.siblings else 1, len(cell.pinned_cpus), cell.memory_usage)


POOLS = st.lists(
    st.fixed_dictionaries(
        {
            "vendor_id": st.just("8086"),
            "product_id": st.sampled_from(["1", "2"]),
            "numa_node": st.sampled_from([None, 0, 1]),
            "count": st.integers(1, 2),
        },
        optional={"dev_type": st.sampled_from(["type-PF", "type-VF", "type-VF"])},
    ),
    max_size=3,
    unique_by=lambda pool: tuple(sorted((key, str(value)) for key, value in pool.items() if key != "count")),
)
INSTANCE_CELLS = st.lists(
    st.sampled_from(
        [
            builders.cell(memory=500),
            builders.cell(vcpus=range(3), memory=2000),
            builders.cell(memory=600, pagesize=2048),
            builders.pinned(vcpus=[0], memory=500),
            builders.pinned(vcpus=[0, 1], memory=500, cpu_thread_policy="require"),
            builders.pinned(vcpus=[0], memory=500, cpu_thread_policy="isolate"),
        ]
    ),
    min_size=1,
    max_size=2,
).map(lambda cells: builders.instance(*cells).to_wire())
PCI_REQUESTS = st.lists(
    st.builds(
        builders.devices,
        st.sampled_from([1, 1, 2]),
        st.sampled_from([None, "required", "preferred"]),
        st.sampled_from(
            [*[{"vendor_id": "8086"}] * 3, {"product_id": "1"}, {"dev_type": "type-PF"}, {"numa_node": "1"}]
        ),
    ).map(lambda request: request.to_wire()),
    min_size=1,
    max_size=2,
)
_BOTH = st.fixed_dictionaries({"numa_topology": INSTANCE_CELLS, "pci_requests": PCI_REQUESTS})
HARDWARE_ASKED = st.one_of(
    _BOTH,
    _BOTH,
    st.fixed_dictionaries({"numa_topology": INSTANCE_CELLS}),
    st.fixed_dictionaries({"pci_requests": PCI_REQUESTS}),
)
#: Most requests ask for nothing of the kind.
SOME_HARDWARE_ASKED = st.one_of(st.just({}), st.just({}), HARDWARE_ASKED)
THREADS = st.sampled_from([{}, {}, {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}])
LEVELS = st.sampled_from([None, None, "trusted", "untrusted", "unknown"])
IMAGES = st.fixed_dictionaries(
    {},
    optional={
        "hw_architecture": st.sampled_from(["x86_64", "AMD64", "AMD64", "i386", "aarch64"]),
        "architecture": st.just("i686"),
        "img_hv_type": st.sampled_from(["kvm", "xapi"]),
        "vm_mode": st.sampled_from(["hv", "pv"]),
        "img_hv_requested_version": st.sampled_from([">= 2.5", "> 2.5, < 7.0", "== 6.0.1", "!= 2.5.0"]),
        "hw_maxphysaddr_bits": st.sampled_from([42, "48"]),
        "os": st.sampled_from(["linux", "windows", ""]),
        "ns.os": st.sampled_from(["linux", "bsd"]),
    },
)
_VARIABLES = st.sampled_from(
    [
        "$free_ram_mb",
        "$vcpus_used",
        "$num_instances",
        "$hypervisor_version",
        "$hypervisor_type",
        "$stats.rack",
        "$service.disabled",
        "$nothing",
    ]
)
_LEAVES = st.one_of(_VARIABLES, st.sampled_from([0, 2, 4096, 1.5, True, False, None, "", "7", "QEMU"]))
_NUMERIC = st.tuples(
    st.sampled_from(["=", "<", ">", "<=", ">="]),
    st.sampled_from(["$free_ram_mb", "$vcpus_used", "$num_instances", "$hypervisor_version", 2]),
    st.sampled_from([0, 2, 4096, 3584.0, "$vcpus_total"]),
).map(list)
_COMPARISONS = st.tuples(st.sampled_from(["=", "<", ">", "<=", ">=", "in"]), st.lists(_LEAVES, max_size=3)).map(
    lambda pair: [pair[0], *pair[1]]
)
QUERIES = st.recursive(
    st.one_of(_NUMERIC, _COMPARISONS, st.just([])),
    lambda inner: st.tuples(st.sampled_from(["and", "or", "not"]), st.lists(inner, max_size=3)).map(
        lambda pair: [pair[0], *pair[1]]
    ),
    max_leaves=4,
)
HINTS = st.fixed_dictionaries(
    {},
    optional={
        "query": QUERIES.map(json.dumps),
        "same_host": st.sampled_from([uuid(5), [uuid(5), uuid(6)], []]),
        "different_host": st.sampled_from([uuid(5), [uuid(5), uuid(6)], uuid(99)]),
        "build_near_host_ip": st.sampled_from(["192.0.2.9", "198.51.100.1"]),
        "cidr": st.sampled_from(["/24", "/25", "/0"]),
    },
)
LABELS = st.sampled_from(["rack", "rack", "room"])
RULES = st.one_of(
    st.fixed_dictionaries(
        {"policy": st.just("anti-affinity"), "label": LABELS, "max_members": st.sampled_from([1, 2])}
    ),
    st.fixed_dictionaries({"policy": st.just("spread"), "label": LABELS, "max_skew": st.sampled_from([1, 2])}),
    st.fixed_dictionaries(
        {
            "policy": st.sampled_from(["must", "should", "must-not"]),
            "label": LABELS,
            "values": st.sampled_from([["r1"], ["r2", "r3"], ["a"]]),
        }
    ),
    st.fixed_dictionaries(
        {
            "policy": st.sampled_from(["affinity", "soft-affinity", "soft-anti-affinity", "soft-spread"]),
            "label": LABELS,
        }
    ),
)
#: Of two members, and of one that is moved.
PLACES = st.one_of(
    st.just([]), st.lists(st.tuples(st.sampled_from(MEMBERS[:2]), st.sampled_from(NAMES[:3])), max_size=3)
)
GROUPS = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "group_policies": st.sampled_from(
                [["affinity"], ["anti-affinity"], ["soft-affinity"], ["soft-anti-affinity"]]
            ),
            "group_updated": st.just(True),
            "group_hosts": st.lists(st.sampled_from(NAMES[:3]), max_size=2),
            "group_members": st.sampled_from([[], MEMBERS]),
            "group_max_server_per_host": st.sampled_from([1, 2]),
            "group_places": PLACES,
        }
    ),
    st.fixed_dictionaries(
        {
            "group_rules": st.lists(
                RULES,
                min_size=1,
                max_size=2,
                unique_by=lambda rule: json.dumps({**rule, "max_members": 0, "max_skew": 0}, sort_keys=True),
            ),
            "group_hosts": st.lists(st.sampled_from(NAMES[:3]), max_size=2),
            "group_members": st.sampled_from([[], MEMBERS]),
            "group_places": PLACES,
        }
    ),
)
RETRIES = st.one_of(
    st.none(),
    st.lists(st.sampled_from(NAMES), max_size=2).map(lambda hosts: {"hosts": [[host, host] for host in hosts]}),
)
SIZES = st.fixed_dictionaries(
    {
        "vcpus": st.sampled_from([1, 2, 4]),
        "memory_mb": st.sampled_from([512, 3584, 4096]),
        "root_gb": st.sampled_from([0, 5, 20]),
        "ephemeral_gb": st.sampled_from([0, 5]),
        "swap": st.sampled_from([0, 0, 512]),
        "id": st.sampled_from([1, 2]),
        "name": st.sampled_from(["small", "large"]),
    }
)


@dataclasses.dataclass
class Scene:
    """One fleet and one request, in the factories' terms."""

    nodes: list[Node]
    world: Context
    aggregates: list[Any]
    request: dict[str, Any]

    def __post_init__(self) -> None:
        known = [node for node in self.nodes if node.host in self.world.services]
        means = [sum(getattr(node, name) for node in known) / max(len(known), 1) for name in ("vcpus", "memory_mb")]
        self.world.options |= {"fragmentation_multiplier": 0.0, "alignment_multiplier": 0.0}
        self.world.options["mean_host"] = [float(f"{mean:.2g}") or 1.0 for mean in means]

    def asked(self, count: int = 1) -> Any:
        made = dict(self.request)
        image = {"id": "image1", "properties": made.pop("image")}
        return factories.request(made.pop("sizes"), made.pop("instance"), count, image=image, **made)

    def candidates(self) -> Candidates:
        return factories.candidates(
            *self.nodes,
            services=list(self.world.services.values()),
            instances=list(self.world.instances),
            aggregates=self.aggregates,
        )

    def filters(self) -> dict[str, filters.BaseHostFilter]:
        """One of every built-in filter that the reference knows, made with the scene's options."""
        options = self.world.options
        made: dict[str, filters.BaseHostFilter] = {
            "AggregateImagePropertiesIsolation": filters.AggregateImagePropertiesIsolation(
                options["aggregate_image_properties_isolation_namespace"]
            ),
            "AggregateIoOpsFilter": filters.AggregateIoOpsFilter(options["max_io_ops_per_host"]),
            "AggregateNumInstancesFilter": filters.AggregateNumInstancesFilter(options["max_instances_per_host"]),
            "ImagePropertiesFilter": filters.ImagePropertiesFilter(options["image_properties_default_architecture"]),
            "IoOpsFilter": filters.IoOpsFilter(options["max_io_ops_per_host"]),
            "IsolatedHostsFilter": filters.IsolatedHostsFilter(
                options["isolated_images"],
                options["isolated_hosts"],
                options["restrict_isolated_hosts_to_isolated_images"],
            ),
            "MetricsFilter": filters.MetricsFilter(name for name, _ratio in options["weight_setting"]),
            "NumInstancesFilter": filters.NumInstancesFilter(options["max_instances_per_host"]),
            "TrustedFilter": filters.TrustedFilter(_trust(self.world.trust)),
        }
        return made

    def filter(self, name: str) -> filters.BaseHostFilter:
        made = self.filters()
        return made[name] if name in made else getattr(filters, name)()

    def weigher(self, name: str, multiplier: float) -> weights.BaseHostWeigher:
        options = self.world.options
        if name == "FragmentationWeigher":
            return weights.FragmentationWeigher(multiplier, MIX)
        if name == "MetricsWeigher":
            return weights.MetricsWeigher(options["weight_setting"], multiplier, options["required"])
        if name == "ImagePropertiesWeigher":
            return weights.ImagePropertiesWeigher(multiplier, options["image_props_setting"])
        return getattr(weights, name)(multiplier)


class _Attested:
    """An attestation service that knows every host."""

    def __init__(self, levels: dict[str, str]) -> None:
        self._levels = levels

    def poll(self, hosts: Any) -> list[dict[str, str]]:
        return [
            {"host_name": host, "trust_lvl": self._levels[host], "vtime": NOW.isoformat()}
            for host in hosts
            if host in self._levels
        ]


def _trust(levels: Any) -> attestation.TrustLevels:
    return attestation.TrustLevels(_Attested(levels), clock=lambda: NOW)  # type: ignore[arg-type]


@st.composite
def scenes(draw: Any, asking: st.SearchStrategy = SOME_HARDWARE_ASKED) -> Scene:
    columns = draw(st.lists(NODES, min_size=1, max_size=len(NAMES)))
    names = NAMES[: len(columns)]
    has = [{"numa_topology": draw(TOPOLOGIES), "pci_stats": draw(POOLS)} for _name in names]
    nodes = [factories.node(name, **each, **more) for name, each, more in zip(names, columns, has, strict=True)]
    aggregates = draw(AGGREGATES)
    placed = draw(st.dictionaries(st.sampled_from(MEMBERS[:2]), st.sampled_from(NAMES[:2])))
    others = draw(st.lists(st.sampled_from(NAMES), max_size=4))
    types, pictures = (
        st.sampled_from([1, 2]),
        st.sampled_from([None, {"os": "linux"}, {"os": "windows", "ns.os": "bsd"}]),
    )
    where = [*placed.items(), *((uuid(5 + number), host) for number, host in enumerate(others))]
    world = Context(
        placed=placed,
        aggregates={name: [metadata for hosts, metadata in aggregates if name in hosts] for name in names},
        services={name: Service(name, **draw(SERVICES)) for name in names},
        instances=[
            PlacedInstance(each, host, host, instance_type_id=draw(types), image_properties=draw(pictures))
            for each, host in where
        ],
        trust=draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["trusted", "untrusted"]))),
        options=draw(OPTIONS),
        nodes=nodes,
    )
    level = draw(LEVELS)
    trust = {"trust:trusted_host": level} if level else {}
    request = {
        "sizes": {**draw(SIZES), "extra_specs": {**draw(EXTRA_SPECS), **trust, **draw(THREADS)}},
        "instance": {
            "project_id": draw(st.sampled_from(["t1", "t3", None])),
            "availability_zone": draw(st.sampled_from(["", "east", "nova"])),
            "bridges": draw(st.sampled_from([None, None, ["br0"], ["br0", "br1"]])),
            "image_ref": draw(st.sampled_from(["image1", "image2"])),
            **draw(asking),
        },
        "image": draw(IMAGES),
        "scheduler_hints": draw(HINTS),
        "retry": draw(RETRIES),
        **draw(GROUPS),
    }
    made = [factories.aggregate(hosts, number, **metadata) for number, (hosts, metadata) in enumerate(aggregates, 1)]
    return Scene(nodes, world, made, request)
