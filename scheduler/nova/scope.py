# SPDX-License-Identifier: Apache-2.0
"""Refuses requests that need more of placement than this scheduler does for nova. ``docs/nova.md`` lists them.

It claims VCPU, MEMORY_MB and DISK_GB on the compute node's own provider, and looks at that provider's traits. A request that
needs other resources or other providers would be placed wrongly, so it is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet import errors
from fleet.reasons import Reason
from scheduler.nova.request import NovaRequest

#: Beginnings of extra specs and image properties that change what is claimed → what they need.
_SPECS: Mapping[str, str] = {
    "resources": "resources of placement by name",
    "group_policy": "resources of placement in groups",
    "trait1": "traits of nested providers",
    "accel:": "accelerators",
    "hw:mem_encryption": "memory encryption contexts",
    "hw:pmem": "persistent memory",
    "hw:tpm_version": "a virtual TPM",
    "os:secure_boot": "secure boot",
}
_PROPERTIES: Mapping[str, str] = {
    "hw_mem_encryption": "memory encryption contexts",
    "hw_tpm_version": "a virtual TPM",
    "os_secure_boot": "secure boot",
}
_PINNED = ("dedicated", "mixed")
_OFF = ("", "false", "disabled", "optional", "no", "0")


class OutOfScope(errors.FleetError):
    """A request needs a feature of nova or placement that this scheduler does not have. ``docs/nova.md`` has the list."""

    code = 501
    reason_code = Reason.MISCONFIGURED
    template = "fleet-scheduler does not serve requests with {what}."
    what: str


def check(spec: Mapping[str, Any], request: NovaRequest) -> None:
    """:raises OutOfScope:"""
    for what in _needs(spec, request):
        raise OutOfScope(what=what)


def _needs(spec: Mapping[str, Any], request: NovaRequest) -> list[str]:
    found = []
    if spec.get("requested_resources"):
        found.append("resources of ports, accelerators or PCI devices in placement (requested_resources)")
    specs, properties = request.flavor.extra_specs, request.image.properties
    for name, value in specs.items():
        found += [_described(name, needs) for start, needs in _SPECS.items() if _asks(name, start, value)]
        if name.startswith("trait") and not name.startswith("trait:"):
            found.append(_described(name, _SPECS["trait1"]))
    for name, each in properties.items():
        found += [
            _described(name, needs, "image property")
            for start, needs in _PROPERTIES.items()
            if _asks(name, start, each)
        ]
    policy = properties.get("hw_cpu_policy") or specs.get("hw:cpu_policy")
    if policy in _PINNED:
        found.append(f"CPU policy {policy}, which needs the resource PCPU")
    return found


def _asks(name: str, start: str, value: object) -> bool:
    return name.startswith(start) and str(value).lower() not in _OFF


def _described(name: str, needs: str, kind: str = "extra spec") -> str:
    return f"{needs} ({kind} {name})"
