# SPDX-License-Identifier: Apache-2.0
"""Hosts must be able to run the image. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self

import numpy
from oslo_config import cfg
from oslo_utils import versionutils

from fleet import errors
from fleet.objects import RequestSpec, request_parts
from scheduler.compute.domain import extra_spec_lookup, guest_kinds
from scheduler.compute.domain.host_state import Capabilities
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates

#: nova's later name of an image property, then the earlier one.
ARCHITECTURE = ("hw_architecture", "architecture")
HYPERVISOR_TYPE = ("img_hv_type", "hypervisor_type")
VM_MODE = ("hw_vm_mode", "vm_mode")
HYPERVISOR_VERSION = ("img_hv_requested_version", "hypervisor_version_requires")
MAXPHYSADDR = ("hw_maxphysaddr_bits",)


class ImagePropertiesFilter(ColumnFilter):
    """Hosts pass that support the image's architecture, hypervisor type and version, and vm mode.

    One kind of guest that the host supports must have all that the image names. Of an image that names none, the
    required hypervisor version is not looked at, as in nova.
    """

    judges = (request_parts.IMAGE,)
    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def __init__(self, default_architecture: str | None = None) -> None:
        self._default_architecture = default_architecture

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.image_properties_default_architecture)

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        wanted = self._wanted(request)
        version = _parsed(request, HYPERVISOR_VERSION, versionutils.VersionPredicate)
        bits = _parsed(request, MAXPHYSADDR, int)
        mask: numpy.ndarray | None = None
        if wanted:
            mask = hosts.by_capabilities(lambda kind: any(wanted <= each for each in _guests(kind.supported_instances)))
            if version:
                mask = mask & hosts.by_number("hypervisor_version", lambda number: _satisfies(number, version))
        if bits is not None:
            wide = hosts.by_capabilities(lambda kind: _address_bits(kind) >= bits)
            mask = wide if mask is None else mask & wide
        return mask

    def _wanted(self, request: RequestSpec) -> set[str]:
        found = {
            _parsed(request, ARCHITECTURE, guest_kinds.architecture) or self._default_architecture,
            _parsed(request, HYPERVISOR_TYPE, guest_kinds.hypervisor_type),
            _parsed(request, VM_MODE, guest_kinds.vm_mode),
        }
        return {name for name in found if name}


@functools.lru_cache(1024)
def _guests(supported: tuple[tuple[str, ...], ...]) -> tuple[frozenset[str], ...]:
    """Return the kinds of guest that a host supports, in the canonical names of image properties."""
    parsers = (guest_kinds.architecture, guest_kinds.hypervisor_type, guest_kinds.vm_mode)
    return tuple(
        frozenset(_canonical(parse, name) for parse, name in zip(parsers, kind, strict=False)) for kind in supported
    )


def _canonical(parse: Callable[[str], str], name: str) -> str:
    """Return the canonical name; an unknown name stays as the host reports it, and no image can request it."""
    try:
        return parse(str(name))
    except ValueError:
        return str(name)


def _parsed(request: RequestSpec, names: tuple[str, ...], parse: Callable[[str], object]) -> Any:
    """The image's property of the first of these names that it has, parsed; None if it has none."""
    for name in names:
        value = request.image.properties.get(name)
        if not value:
            continue
        try:
            return parse(str(value))
        except ValueError as wrong:
            field = f"request_spec.image.properties.{name}"
            raise errors.InvalidInput(field=field, reason=f"cannot be read: {wrong}") from None
    return None


def _satisfies(version: int, required: versionutils.VersionPredicate) -> bool:
    """Return True if the version satisfies the predicate, or is not positive: the host reports none."""
    return version <= 0 or required.satisfied_by(versionutils.convert_version_to_str(version))


def _address_bits(kind: Capabilities) -> float:
    """Return the physical address bits of the host's processor; infinity if the host does not report them."""
    bits = extra_spec_lookup.follow(kind.cpu_info, ["maxphysaddr", "bits"])
    return bits if isinstance(bits, int | float) else numpy.inf
