# SPDX-License-Identifier: Apache-2.0
"""The request in the two forms of nova's plugins: the dict ``filter_properties``, and the object RequestSpec.

Plugins for nova up to Liberty read keys, later ones read attributes. :class:`RequestFaces` answers both.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fleet.objects import RequestSpec
from scheduler.engine.prepared_request import PARSED

#: Names of image properties before Kilo, and nova's names since then.
_LATER_PROPERTIES = {
    "architecture": "hw_architecture",
    "hypervisor_type": "img_hv_type",
    "vm_mode": "hw_vm_mode",
    "hypervisor_version_requires": "img_hv_requested_version",
}
#: The image property that nova has as a number.
_ADDRESS_BITS = "hw_maxphysaddr_bits"


class Record(types.SimpleNamespace):
    """Values by attribute. As with nova's objects, ``"name" in record`` is true if there is such a value."""

    def __contains__(self, name: object) -> bool:
        return name in vars(self)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def get(self, name: str, default: Any = None) -> Any:
        return vars(self).get(name, default)

    def obj_attr_is_set(self, name: str) -> bool:
        return name in self

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


class PciRequests(Record):
    """nova's InstancePCIRequests: ``requests`` in nova's form. True in a condition, as nova's objects are."""


def _flavor(request: RequestSpec) -> Record:
    flavor = request.flavor
    return Record(**{**vars(flavor), "extra_specs": dict(flavor.extra_specs)})


def _image(request: RequestSpec) -> Record | None:
    """Return the image with the later names of its properties; None if the request has none."""
    image, number = request.image, request.instance.image_ref or request.image.id
    if not number and not image.properties:
        return None
    properties = {name: value for name, value in image.properties.items() if name not in _LATER_PROPERTIES}
    older = {_LATER_PROPERTIES[name]: value for name, value in image.properties.items() if name in _LATER_PROPERTIES}
    found = Record(**{**vars(image), "id": number, "properties": Record(**_typed({**older, **properties}))})
    if not number:
        del found.id
    return found


def _typed(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the properties with numbers where nova has them. A text that is no number stays."""
    bits = properties.get(_ADDRESS_BITS)
    if isinstance(bits, str) and bits.isdecimal():
        properties[_ADDRESS_BITS] = int(bits)
    return properties


def _group(request: RequestSpec) -> Record | None:
    if not request.group_policies:
        return None
    policies = sorted(request.group_policies)
    return Record(
        uuid=request.group_uuid,
        policies=policies,
        policy=policies[0],
        members=sorted(request.group_members),
        hosts=sorted(request.group_hosts),
        rules={"max_server_per_host": request.group_max_server_per_host},
    )


def _retry(request: RequestSpec) -> Record | None:
    if request.retry is None:
        return None
    tried = [Record(host=host, hypervisor_hostname=node_) for host, node_ in request.retry.hosts]
    return Record(num_attempts=request.retry.num_attempts, hosts=tried)


def _destination(request: RequestSpec) -> Record | None:
    if not request.requested_hosts and not request.requested_nodes:
        return None
    host, node = (next(iter(names), None) for names in (request.requested_hosts, request.requested_nodes))
    return Record(host=host, node=node)


def _pci_requests(request: RequestSpec) -> PciRequests | None:
    return PciRequests(requests=request.pci_requests) if request.pci_requests else None


#: Attributes of nova's RequestSpec that filters and weighers read.
ATTRIBUTES: Mapping[str, Callable[[RequestSpec], Any]] = {
    "flavor": _flavor,
    "image": _image,
    "instance_group": _group,
    "retry": _retry,
    "pci_requests": _pci_requests,
    "requested_destination": _destination,
    "numa_topology": lambda request: request.numa_topology,
    "project_id": lambda request: request.instance.project_id,
    "user_id": lambda request: request.instance.user_id,
    "availability_zone": lambda request: request.instance.availability_zone,
    "instance_uuid": lambda request: request.instance_uuids[0] if request.instance_uuids else None,
    "num_instances": lambda request: request.num_instances,
    "ignore_hosts": lambda request: list(request.ignore_hosts),
    "force_hosts": lambda request: list(request.force_hosts),
    "force_nodes": lambda request: list(request.force_nodes),
    "scheduler_hints": lambda request: dict(request.scheduler_hints),
    "memory_mb": lambda request: request.flavor.memory_mb,
    "vcpus": lambda request: request.flavor.vcpus,
    "root_gb": lambda request: request.flavor.root_gb,
    "ephemeral_gb": lambda request: request.flavor.ephemeral_gb,
    "swap": lambda request: request.flavor.swap,
}
#: Names that plugins look for in the dict, where they may be absent.
_OF_DICT = frozenset(
    ["retry", "pci_requests", "ignore_hosts", "force_hosts", "force_nodes", "requested_destination", "scheduler_hints"]
)


class RequestFaces(dict[str, Any]):
    """``filter_properties`` with the attributes and methods of nova's RequestSpec.

    ``in`` is true for keys, and for attributes that are no keys of nova's dict. An attribute is read from the parsed
    request under the key ``spec_obj``, so it changes as the instances of the request are placed.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in ATTRIBUTES or PARSED not in self:
            raise AttributeError(f"a request has no attribute {name!r}; it has {', '.join(sorted(ATTRIBUTES))}")
        return ATTRIBUTES[name](self[PARSED])

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (name in ATTRIBUTES and name not in _OF_DICT)

    def get_scheduler_hint(self, hint_name: str, default: Any = None) -> Any:
        """Return a hint. Of a list with one value the value is returned, as in nova."""
        value = self[PARSED].scheduler_hints.get(hint_name, default)
        return value[0] if isinstance(value, list) and len(value) == 1 else value

    def obj_attr_is_set(self, name: str) -> bool:
        return name in ATTRIBUTES

    def obj_clone(self) -> RequestFaces:
        return RequestFaces(self)
