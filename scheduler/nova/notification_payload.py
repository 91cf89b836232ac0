# SPDX-License-Identifier: Apache-2.0
"""The payloads of nova's notifications about a request: the versioned one is nova's ``RequestSpecPayload``.

``notifications`` calls it. nova documents the form by samples in its ``doc/notification_samples``. A test of ``make nova``
compares it with nova's own for all recorded requests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from fleet.json_codec import JSONMapping, JSONObject


@dataclasses.dataclass(frozen=True)
class _Kind:
    """An object of a payload.

    :param names: its fields that are those of the object in the request; null where that object has no such field
    """

    name: str
    version: str
    names: Sequence[str]

    def made(self, found: JSONMapping, **more: object) -> JSONObject:
        """Return the object in nova's envelope. :param more: further fields, or other values"""
        return _enveloped(self, {**{name: found.get(name) for name in self.names}, **more})

    def sparse(self, found: JSONMapping) -> JSONObject:
        """Return the object with the fields only that are there."""
        return _enveloped(self, {name: found[name] for name in self.names if name in found})


def _enveloped(kind: _Kind, data: JSONObject) -> JSONObject:
    return {
        "nova_object.name": kind.name,
        "nova_object.namespace": "nova",
        "nova_object.version": kind.version,
        "nova_object.data": data,
    }


_PLAIN = (
    "availability_zone",
    "ignore_hosts",
    "instance_uuid",
    "num_instances",
    "project_id",
    "user_id",
    "scheduler_hints",
)
_REQUEST = _Kind("RequestSpecPayload", "1.1", _PLAIN)
_FLAVOR = _Kind(
    "FlavorPayload",
    "1.4",
    (
        *("flavorid", "name", "memory_mb", "vcpus", "root_gb", "ephemeral_gb", "swap", "rxtx_factor", "vcpu_weight"),
        *("disabled", "is_public", "extra_specs", "projects", "description"),
    ),
)
_IMAGE = _Kind(
    "ImageMetaPayload",
    "1.0",
    (
        *("id", "name", "status", "visibility", "protected", "checksum", "owner", "size", "virtual_size", "direct_url"),
        *("container_format", "disk_format", "created_at", "updated_at", "tags", "min_ram", "min_disk"),
    ),
)
#: The version of image properties is nova 34's.
_PROPERTIES = "1.20"
_NUMA = _Kind("InstanceNUMATopologyPayload", "1.0", ("emulator_threads_policy",))
_NUMA_CELL = _Kind(
    "InstanceNUMACellPayload",
    "1.2",
    (
        *("id", "cpuset", "pcpuset", "cpuset_reserved", "memory", "pagesize", "cpu_pinning_raw", "cpu_policy"),
        "cpu_thread_policy",
    ),
)
_CPU_TOPOLOGY = _Kind("VirtCPUTopologyPayload", "1.0", ("sockets", "cores", "threads"))
_PCI = _Kind("InstancePCIRequestsPayload", "1.0", ())
_PCI_REQUEST = _Kind("InstancePCIRequestPayload", "1.1", ("count", "spec", "alias_name", "request_id", "numa_policy"))
_GROUP = _Kind(
    "ServerGroupPayload", "1.1", ("uuid", "name", "project_id", "user_id", "policies", "members", "hosts", "policy")
)
_DESTINATION = _Kind("DestinationPayload", "1.0", ("host", "node"))
#: Without the URLs of the cell, which have passwords.
_CELL = _Kind("CellMappingPayload", "2.0", ("uuid", "name", "disabled"))
_RETRY = _Kind("SchedulerRetriesPayload", "1.0", ("num_attempts",))


def request_spec(spec: JSONMapping) -> JSONObject:
    """:param spec: a RequestSpec of nova without envelopes (:func:`fleet.objects.structure.plain`)"""
    groups = spec.get("security_groups")
    named = groups.get("objects") if isinstance(groups, Mapping) else groups
    return _REQUEST.made(
        spec,
        flavor=_optional(spec.get("flavor"), _FLAVOR.made),
        image=_optional(spec.get("image"), _image),
        numa_topology=_optional(spec.get("numa_topology"), lambda found: _numa(found, spec)),
        pci_requests=_optional(spec.get("pci_requests"), lambda found: _pci(found, spec)),
        instance_group=_optional(spec.get("instance_group"), _group),
        requested_destination=_optional(spec.get("requested_destination"), _destination),
        retry=_optional(spec.get("retry"), _retry),
        force_hosts=_first(spec.get("force_hosts")),
        force_nodes=_first(spec.get("force_nodes")),
        security_groups=[each.get("uuid") or each.get("name") for each in _mappings(named)],
    )


def older(spec: JSONMapping) -> JSONObject:
    """Return the request in the form of unversioned notifications. :param spec: a RequestSpec of nova with its envelopes"""
    found = _content(spec)
    flavor, image = _content(found.get("flavor")), _content(found.get("image"))
    properties = {name: found.get(name) for name in ("numa_topology", "pci_requests", *_OLDER)}
    sizes = {name: flavor.get(name) for name in ("root_gb", "ephemeral_gb", "memory_mb", "vcpus")}
    wanted = {**image, "properties": dict(_content(image.get("properties")))} if image else {}
    return {
        "num_instances": found.get("num_instances", 1),
        "image": wanted,
        "instance_properties": {**properties, "uuid": found.get("instance_uuid"), **sizes},
        "instance_type": found.get("flavor"),
    }


_OLDER = ("project_id", "user_id", "availability_zone")


def _content(data: object) -> JSONMapping:
    content = data.get("nova_object.data", data) if isinstance(data, Mapping) else None
    return content if isinstance(content, Mapping) else {}


def _optional(found: object, made: Callable[[JSONMapping], JSONObject]) -> JSONObject | None:
    return made(found) if isinstance(found, Mapping) else None


def _first(found: object) -> object:
    return found[0] if isinstance(found, Sequence) and found and not isinstance(found, str) else None


def _mappings(found: object) -> list[JSONMapping]:
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _image(found: JSONMapping) -> JSONObject:
    properties = found.get("properties")
    names = sorted(properties) if isinstance(properties, Mapping) else []
    kind = _Kind("ImageMetaPropsPayload", _PROPERTIES, names)
    return _IMAGE.made(found, properties=kind.sparse(properties if isinstance(properties, Mapping) else {}))


def _numa(found: JSONMapping, spec: JSONMapping) -> JSONObject:
    cells = [
        _NUMA_CELL.made(cell, cpu_topology=_optional(cell.get("cpu_topology"), _CPU_TOPOLOGY.made))
        for cell in _mappings(found.get("cells"))
    ]
    return _NUMA.made(found, cells=cells, instance_uuid=found.get("instance_uuid") or spec.get("instance_uuid"))


def _pci(found: JSONMapping, spec: JSONMapping) -> JSONObject:
    requests = [_PCI_REQUEST.made(each) for each in _mappings(found.get("requests"))]
    return _PCI.made(found, requests=requests, instance_uuid=found.get("instance_uuid") or spec.get("instance_uuid"))


def _group(found: JSONMapping) -> JSONObject:
    return _GROUP.made(found, rules=found.get("_rules") or {})


def _destination(found: JSONMapping) -> JSONObject:
    given = {name: value for name, value in found.items() if value is not None}
    made = _DESTINATION.sparse(given)
    cell = _optional(found.get("cell"), _CELL.made)
    data = {**made["nova_object.data"], **({"cell": cell} if cell else {}), "aggregates": found.get("aggregates")}
    return _enveloped(_DESTINATION, data)


def _retry(found: JSONMapping) -> JSONObject:
    hosts = found.get("hosts")
    tried = hosts.get("objects") if isinstance(hosts, Mapping) else hosts
    return _RETRY.made(found, hosts=[each.get("hypervisor_hostname") for each in _mappings(tried)])
