# SPDX-License-Identifier: Apache-2.0
"""Tests whether a node can take one more instance, and represents what it then holds for it.

Called by :mod:`compute_agent.node.resource_tracker`. The test is a function of request, usage and limits. It covers
all resources, so a refusal names everything that is short. ``resource_tracker`` holds resources only after the test.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import TracebackType
from typing import Self

from oslo_log import log as logging

from compute_agent.node.hardware import NOTHING, Holding
from fleet import capacity, errors
from fleet.hardware import pools
from fleet.hardware.node import Hardware, Held, Wanted, fit
from fleet.json_codec import JSONObject
from fleet.objects import Claimed, Flavor, HostLimits, Instance

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Resources:
    """Amounts of a node's resources: memory in MB, disk in GB, virtual CPUs."""

    memory_mb: int = 0
    disk_gb: int = 0
    vcpus: int = 0

    @classmethod
    def of_flavor(cls, flavor: Flavor, overhead_memory_mb: int = 0) -> Resources:
        """Return the amounts that an instance of ``flavor`` holds; swap is not held."""
        return cls(flavor.memory_mb + overhead_memory_mb, flavor.claimed_disk_gb, flavor.vcpus)

    @classmethod
    def claimed_by(cls, instance: Instance) -> Resources:
        """Return the amounts that a claimed instance holds in the ledger."""
        return cls(instance.claimed_memory_mb, instance.claimed_disk_gb, instance.claimed_vcpus)

    @classmethod
    def of_claim(cls, claimed: Claimed) -> Resources:
        return cls(claimed.memory_mb, claimed.disk_gb, claimed.vcpus)

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.memory_mb + other.memory_mb, self.disk_gb + other.disk_gb, self.vcpus + other.vcpus)

    def __str__(self) -> str:
        return f"memory {self.memory_mb} MB, disk {self.disk_gb} GB, vcpus {self.vcpus} VCPU"


@dataclasses.dataclass(frozen=True)
class ClaimRequest:
    """The input of the test.

    ``packing``: prefer the fullest of several NUMA cells; otherwise the emptiest.
    """

    requested: Resources
    total: Resources
    used: Resources
    limits: HostLimits
    wanted: Wanted = Wanted()
    hardware: Hardware = Hardware()
    packing: bool = False

    @functools.cached_property
    def fit(self) -> Held | None:
        """Return the cells and devices that the instance would get. A topology is not tested on a host that reports
        none.
        """
        hardware = dataclasses.replace(self.hardware, limits=self.limits.numa_topology)
        wanted = self.wanted if hardware.topology else dataclasses.replace(self.wanted, topology=None)
        return fit(hardware, wanted, self.packing)


Test = Callable[[ClaimRequest], str | None]


def _memory(claim: ClaimRequest) -> str | None:
    free = _free("memory", "MB", claim.total.memory_mb, claim.used.memory_mb, claim.limits.memory_mb)
    return _short("memory", "MB", free, claim.requested.memory_mb)


def _disk(claim: ClaimRequest) -> str | None:
    free = _free("disk", "GB", claim.total.disk_gb, claim.used.disk_gb, claim.limits.disk_gb)
    return _short("disk", "GB", free, claim.requested.disk_gb)


def _vcpus(claim: ClaimRequest) -> str | None:
    free = _free("CPUs", "VCPUs", claim.total.vcpus, claim.used.vcpus, claim.limits.vcpus)
    return _short("CPUs", "VCPUs", free, claim.requested.vcpus)


def _numa(claim: ClaimRequest) -> str | None:
    if claim.wanted.topology is None or claim.hardware.topology is None or claim.fit is not None:
        return None
    asked = "topology and PCI devices do" if claim.wanted.devices else "topology does"
    return f"The requested NUMA {asked} not fit what is free of the host's topology"


def _pci(claim: ClaimRequest) -> str | None:
    if claim.fit is not None or pools.allocate(claim.hardware.pools, claim.wanted.devices) is not None:
        return None
    wanted = ", ".join(f"{each.count} {each.alias_name or 'unnamed'}" for each in claim.wanted.devices)
    return f"The PCI claim failed: not enough free devices for {wanted}"


#: The resources, in the order in which a refusal names them.
TESTS: tuple[Test, ...] = (_memory, _disk, _vcpus, _numa, _pci)


def _free(kind: str, unit: str, total: int, used: int, limit: float | None) -> float | None:
    """Return the free amount; None is unlimited."""
    LOG.debug("Total %s: %d %s, used: %.2f %s", kind, total, unit, used, unit)
    if limit is None:
        LOG.debug("%s limit not specified, defaulting to unlimited", kind)
        return None
    free = capacity.usable(limit, used)
    LOG.debug("%s limit: %.2f %s, free: %.2f %s", kind, limit, unit, free, unit)
    return free


def _short(kind: str, unit: str, free: float | None, requested: int) -> str | None:
    if free is None or requested <= free:
        return None
    return f"Free {kind} {free:.2f} {unit} < requested {requested} {unit}"


def refusals(claim: ClaimRequest) -> list[str]:
    """Return every resource that is short; empty if the node can take the instance."""
    return [reason for test in TESTS if (reason := test(claim)) is not None]


def require_room(claim: ClaimRequest) -> None:
    """:raises errors.ComputeResourcesUnavailable: with all reasons"""
    LOG.debug("Attempting claim: %s", claim.requested)
    reasons = refusals(claim)
    if reasons:
        raise errors.ComputeResourcesUnavailable(reason="; ".join(reasons))


class Claim:
    """Resources that a tracker holds for one instance. An exception that leaves the ``with`` gives them back."""

    def __init__(self, resources: Resources, give_back: Callable[[], None], hardware: Holding = NOTHING) -> None:
        self.resources = resources
        self.hardware = hardware
        self._give_back = give_back
        self._kept = False

    @property
    def claimed_numa_topology(self) -> JSONObject | None:
        topology = self.hardware.topology
        return topology.to_wire() if topology else None

    def claimed(self) -> Claimed:
        """Return the claim for the ledger."""
        devices = [device.to_wire() for device in self.hardware.devices]
        return Claimed(
            **dataclasses.asdict(self.resources),
            numa_topology=self.claimed_numa_topology,
            pci_devices=devices or None,
        )

    def abort(self) -> None:
        """Give everything back; a second call does nothing."""
        self._give_back()

    def keep(self) -> None:
        """Keep the resources when the claim ends. The agent does not know whether the ledger holds them too."""
        self._kept = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc_type is not None and not self._kept:
            self.abort()

    def __str__(self) -> str:
        return f"[Claim: {self.resources.memory_mb} MB memory, {self.resources.disk_gb} GB disk]"


class MoveClaim(Claim):
    """Resources that the destination holds for an instance that is to arrive, besides those it may already hold for it."""


class NopClaim(Claim):
    """The claim on a node that is not tracked (its driver reports no resources). It holds nothing."""

    def __init__(self) -> None:
        super().__init__(Resources(), lambda: None)
