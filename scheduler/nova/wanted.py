# SPDX-License-Identifier: Apache-2.0
"""Translates a flavor, an image and resources from elsewhere (ports, accelerators, PCI devices) into a resource request.

Called by :mod:`scheduler.nova.decoder` and :mod:`scheduler.nova.endpoint`. The rules are those of nova-scheduler 34.
Its API has checked the values; values that it lets pass and placement cannot have are refused here by name.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pydantic
from oslo_utils import strutils

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet.objects import RequestSpec, fields
from scheduler.nova.domain_columns import DISABLED
from scheduler.nova.resource_request import MAIN, OF_HOSTS, Group, ResourceRequest

_KEY = re.compile(r"(resources|trait)([a-zA-Z0-9_-]{0,64}):(.+)")
_SUFFIX = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_REQUIRED, _FORBIDDEN = "required", "forbidden"
_ISOLATE = "isolate"
_DEDICATED = "dedicated"
_Amount = Annotated[int, pydantic.Field(ge=0, le=fields.INT32_MAX)]


@dataclasses.dataclass(frozen=True)
class _Outside:
    """A group of ``requested_resources``."""

    requester_id: Annotated[str, pydantic.Field(pattern=_SUFFIX.pattern)]
    resources: dict[fields.Name, _Amount] | None = None
    required_traits: list[fields.Name] | None = None
    forbidden_traits: list[fields.Name] | None = None
    aggregates: list[list[fields.Uuid]] | None = None
    forbidden_aggregates: list[fields.Uuid] | None = None
    in_tree: fields.Uuid | None = None


@dataclasses.dataclass(frozen=True)
class _Level:
    """``request_level_params``."""

    root_required: list[fields.Name] | None = None
    root_forbidden: list[fields.Name] | None = None
    same_subtree: list[list[fields.Name]] | None = None


@dataclasses.dataclass
class _Making:
    """A group while it is made."""

    resources: dict[str, int] = dataclasses.field(default_factory=dict)
    required: set[str] = dataclasses.field(default_factory=set)
    forbidden: set[str] = dataclasses.field(default_factory=set)

    def trait(self, name: str, value: object, field: str) -> None:
        if value not in (_REQUIRED, _FORBIDDEN):
            raise errors.InvalidInput(field=field[:255], reason="must be required or forbidden")
        (self.required if value == _REQUIRED else self.forbidden).add(name)

    def made(self) -> Group:
        amounts = {name: amount for name, amount in self.resources.items() if amount}
        return Group(amounts, frozenset(self.required), frozenset(self.forbidden))


class _Properties:
    """Properties of flavor and image under one name: ``hw:NAME`` and ``hw_NAME``."""

    def __init__(self, specs: Mapping[str, object], image: JSONMapping) -> None:
        self.specs = specs
        self.image = image

    def text(self, name: str, prefix: str = "hw") -> str:
        found = self.specs.get(f"{prefix}:{name}") or self.image.get(f"{prefix}_{name}") or ""
        return str(found)

    def flag(self, name: str) -> bool:
        values = self.specs.get(f"hw:{name}"), self.image.get(f"hw_{name}")
        return any(strutils.bool_from_string(str(each)) for each in values if each is not None)


def of_request(spec: Mapping[str, object], request: RequestSpec, is_bfv: bool) -> ResourceRequest:
    """Return the amounts that one instance takes.

    :param spec: the RequestSpec as nova sent it, without envelopes
    :raises errors.InvalidInput: an extra spec, an image property or a group; the field is named
    """
    image = spec.get("image")
    raw = image.get("properties") if isinstance(image, Mapping) else None
    properties = _Properties(request.flavor.extra_specs, raw if isinstance(raw, Mapping) else {})
    found = _of_request(spec, request, is_bfv, properties, pinned=True)
    if properties.text("cpu_policy") != _DEDICATED:
        return found
    unpinned = _of_request(spec, request, is_bfv, properties, pinned=False)
    return dataclasses.replace(found, unpinned=unpinned.groups)


def _of_request(
    spec: Mapping[str, object], request: RequestSpec, is_bfv: bool, properties: _Properties, pinned: bool
) -> ResourceRequest:
    """:param pinned: False to take VCPU for dedicated CPUs, and to ignore threads"""
    groups: dict[str, _Making] = collections.defaultdict(_Making)
    policy = _extra_specs(groups, properties.specs)
    of_flavor = len(groups.keys() - {MAIN})
    main = groups[MAIN]
    required = fields.parse(
        list[fields.Name], properties.image.get("traits_required") or [], "image.properties.traits_required"
    )
    main.required.update(required)
    if pinned:
        _pinned(main, request, properties)
    outside = dict(_outside(spec, groups.keys()))
    merged = {name for each in groups.values() for name in each.resources}
    merged |= {name for each in outside.values() for name in each.resources}
    overridden = not merged.isdisjoint(OF_HOSTS)
    for name, amount in _of_flavor(request, is_bfv).items():
        alike = {"VCPU", "PCPU"} if name == "VCPU" else {name}
        if merged.isdisjoint(alike):
            main.resources[name] = amount
    _features(main, properties)
    level = fields.parse(_Level, _known(spec.get("request_level_params"), _Level), "request_level_params")
    made = {suffix: each.made() for suffix, each in groups.items()} | outside
    made = {suffix: group for suffix, group in made.items() if suffix == MAIN or not group.is_empty}
    if len(made.keys() - {MAIN}) >= 2 and policy is None and of_flavor <= 1:
        policy = "none"  # groups of ports and devices come without a policy
    return ResourceRequest(
        made,
        policy,
        frozenset(level.root_required or ()) | frozenset(_of_root(spec, properties)),
        frozenset(level.root_forbidden or ()) | {DISABLED},
        tuple(frozenset(each) for each in level.same_subtree or ()),
        overridden,
    )


def _extra_specs(groups: Mapping[str, _Making], specs: Mapping[str, object]) -> str | None:
    """Read ``resources*:``, ``trait*:`` and ``group_policy``. Return the policy."""
    for key, value in specs.items():
        match = _KEY.fullmatch(str(key))
        if match is None:
            continue
        kind, suffix, name = match.groups()
        field = f"flavor.extra_specs.{key}"
        if kind == "trait":
            groups[suffix].trait(name, value, field)
        else:
            groups[suffix].resources[name] = fields.parse(_Amount, value, field)
    policy = specs.get("group_policy")
    return policy if policy in ("none", _ISOLATE) else None


def _of_flavor(request: RequestSpec, is_bfv: bool) -> dict[str, int]:
    """Return the flavor's own amounts. The root disk of a server on a volume is 0 in the parsed flavor already."""
    flavor = request.flavor
    root_gb = 0 if is_bfv else flavor.root_gb
    disk_gb = root_gb + flavor.ephemeral_gb + -(-flavor.swap // 1024)
    return {"VCPU": flavor.vcpus, "MEMORY_MB": flavor.memory_mb, "DISK_GB": disk_gb}


def _pinned(main: _Making, request: RequestSpec, properties: _Properties) -> None:
    """Take dedicated CPUs of the class PCPU."""
    policy = properties.text("cpu_policy")
    if policy in (_DEDICATED, "mixed"):
        vcpus = request.flavor.vcpus
        dedicated = vcpus
        if policy == "mixed":
            mask = str(properties.specs.get("hw:cpu_dedicated_mask") or "")
            mask = mask or str(
                properties.image.get("hw_cpu_realtime_mask") or properties.specs.get("hw:cpu_realtime_mask") or ""
            )
            dedicated = len(_cpus(mask, vcpus))
            main.resources["VCPU"] = vcpus - dedicated
        isolated = properties.specs.get("hw:emulator_threads_policy") == _ISOLATE
        main.resources["PCPU"] = dedicated + isolated
    threads = properties.text("cpu_thread_policy")
    if threads in (_ISOLATE, "require"):
        (main.forbidden if threads == _ISOLATE else main.required).add("HW_CPU_HYPERTHREADING")


def _cpus(mask: str, vcpus: int) -> set[int]:
    """Return the CPUs of a mask such as ``0-2,^1``. A mask that begins with ^ starts from all CPUs of the flavor."""
    field = "hw:cpu_dedicated_mask"
    if len(mask) > fields.MOST_CHARACTERS:  # properties of images may be long
        raise errors.InvalidInput(field=field, reason=f"must have at most {fields.MOST_CHARACTERS} characters")
    found: set[int] = set(range(vcpus)) if mask.strip().startswith("^") else set()
    out: set[int] = set()
    for part in filter(None, (each.strip() for each in mask.split(","))):
        first, _dash, last = part.removeprefix("^").partition("-")
        if not first.strip().isdecimal() or not (last or first).strip().isdecimal() or int(last or first) > 10_000:
            raise errors.InvalidInput(field=field, reason="must be a list of CPUs such as 0-2,^1")
        cpus = range(int(first), int(last or first) + 1)
        (out if part.startswith("^") else found).update(cpus)
    return found - out


def _features(main: _Making, properties: _Properties) -> None:
    """Add the resources and traits that features of the guest need."""
    if properties.text("secure_boot", "os") == _REQUIRED:
        main.required.add("COMPUTE_SECURITY_UEFI_SECURE_BOOT")
    mode = properties.text("maxphysaddr_mode")
    if mode in ("passthrough", "emulate"):
        main.required.add(f"COMPUTE_ADDRESS_SPACE_{'PASSTHROUGH' if mode == 'passthrough' else 'EMULATED'}")
    stateless = properties.image.get("hw_firmware_stateless")
    if properties.image.get("hw_firmware_type") == "uefi" and strutils.bool_from_string(str(stateless)):
        main.required.add("COMPUTE_SECURITY_STATELESS_FIRMWARE")
    if version := properties.text("tpm_version"):
        model = "CRB" if properties.text("tpm_model") == "tpm-crb" else "TIS"
        main.required.update(
            (f"COMPUTE_SECURITY_TPM_{model}", f"COMPUTE_SECURITY_TPM_{'2_0' if version == '2.0' else '1_2'}")
        )
    if properties.flag("mem_encryption"):
        main.resources["MEM_ENCRYPTION_CONTEXT"] = 1
        model = properties.text("mem_encryption_model")
        main.required.add("HW_CPU_X86_AMD_SEV_ES" if model == "amd-sev-es" else "HW_CPU_X86_AMD_SEV")
    labels = [each.strip() for each in str(properties.specs.get("hw:pmem") or "").split(",")]
    for label, amount in collections.Counter(filter(None, labels)).items():
        name = re.sub("[^0-9A-Z]+", "_", f"PMEM_NAMESPACE_{label}".upper())
        main.resources[f"CUSTOM_{name}"] = amount
    if properties.text("pci_numa_affinity_policy") == "socket":
        main.required.add("COMPUTE_SOCKET_PCI_NUMA_AFFINITY")


def _of_root(spec: Mapping[str, object], properties: _Properties) -> Iterable[str]:
    """Yield the traits that the compute node itself must have."""
    if properties.specs.get("accel:device_profile"):
        yield "COMPUTE_ACCELERATORS"
    if properties.flag("virtio_packed_ring"):
        yield "COMPUTE_NET_VIRTIO_PACKED"
    if properties.flag("ephemeral_encryption"):
        yield "COMPUTE_EPHEMERAL_ENCRYPTION"
        if form := properties.text("ephemeral_encryption_format"):
            yield f"COMPUTE_EPHEMERAL_ENCRYPTION_{form.upper()}"
    if properties.text("sound_model") == "virtio":
        yield "COMPUTE_SOUND_MODEL_VIRTIO"
    if properties.text("tpm_version"):
        security = str(properties.specs.get("hw:tpm_secret_security") or "user")
        yield f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{security.upper()}"
    if any(_is_remote_managed(each) for each in _pci_specs(spec)):
        yield "COMPUTE_REMOTE_MANAGED_PORTS"


def _pci_specs(spec: Mapping[str, object]) -> Iterable[object]:
    found = spec.get("pci_requests")
    requests = found.get("requests") if isinstance(found, Mapping) else None
    for each in requests if isinstance(requests, list) else ():
        wanted = each.get("spec") if isinstance(each, Mapping) else None
        yield from wanted if isinstance(wanted, list) else ()


def _is_remote_managed(wanted: object) -> bool:
    return isinstance(wanted, Mapping) and strutils.bool_from_string(str(wanted.get("remote_managed")))


def _outside(spec: JSONMapping, taken: Iterable[str]) -> Iterable[tuple[str, Group]]:
    """Yield the groups of ``requested_resources`` by suffix. :raises errors.InvalidInput:"""
    known = set(taken)
    groups = fields.parse(list[Any], spec.get("requested_resources") or [], "requested_resources")
    for number, each in enumerate(groups):
        field = f"requested_resources[{number}]"
        found = fields.parse(_Outside, _known(each, _Outside), field)
        if found.requester_id in known:
            raise errors.InvalidInput(field=f"{field}.requester_id", reason="is the suffix of another group")
        known.add(found.requester_id)
        amounts = {name: amount for name, amount in (found.resources or {}).items() if amount}
        yield (
            found.requester_id,
            Group(
                amounts,
                frozenset(found.required_traits or ()),
                frozenset(found.forbidden_traits or ()),
                tuple(frozenset(one) for one in found.aggregates or ()),
                frozenset(found.forbidden_aggregates or ()),
                found.in_tree,
            ),
        )


def _known(data: object, cls: type[Any]) -> object:
    """Return the fields of an object of nova that ``cls`` has: others are ignored, as of later releases."""
    names = {each.name for each in dataclasses.fields(cls)}
    return {name: value for name, value in data.items() if name in names} if isinstance(data, Mapping) else data or {}
