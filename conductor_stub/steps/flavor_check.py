# SPDX-License-Identifier: Apache-2.0
"""Checks that a flavor and an image fit each other, and reads their demands on a host.

The intakes of builds, moves and rebuilds call it.
"""

from __future__ import annotations

from oslo_utils import units

from fleet import errors
from fleet.hardware import constraints
from fleet.hardware.aliases import Aliases, requested_devices
from fleet.objects import Flavor, Image


def requested_hardware(flavor: Flavor, image: Image, aliases: Aliases) -> dict[str, object]:
    """Return the NUMA topology and the PCI devices of each instance. :raises errors.InvalidInput: they contradict"""
    topology = constraints.requested_topology(flavor, image)
    devices = requested_devices(flavor, image, aliases)
    return {
        "numa_topology": topology and topology.to_wire(),
        "pci_requests": [request.to_wire() for request in devices] or None,
    }


def check_image(image: Image, flavor: Flavor, field: str = "request.flavor") -> None:
    """:raises errors.InvalidInput: the flavor is too small for the image, or the image cannot be used"""
    if image.status != "active":
        raise errors.InvalidInput(field="request.image.status", reason=f"is {image.status!r}, must be 'active'")
    if flavor.memory_mb < image.min_ram:
        reason = f"is {flavor.memory_mb}, but the image needs {image.min_ram} MB"
        raise errors.InvalidInput(field=f"{field}.memory_mb", reason=reason)
    if flavor.root_gb and image.size > flavor.root_gb * units.Gi:
        reason = f"is {flavor.root_gb}, but the image has {image.size / units.Gi:.1f} GB ({image.size} bytes)"
        raise errors.InvalidInput(field=f"{field}.root_gb", reason=reason)
    if 0 < flavor.root_gb < image.min_disk:
        raise errors.InvalidInput(
            field=f"{field}.root_gb", reason=f"is {flavor.root_gb}, the image needs {image.min_disk} GB"
        )
