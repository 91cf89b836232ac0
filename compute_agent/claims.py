# SPDX-License-Identifier: Apache-2.0
"""Whether a node can take one more instance, and what it then holds for it.

The test is a function of what is asked, what is used and what is allowed; all resources are tested, so that a refusal
names everything that is short. Only after it is anything held: see ``resource_tracker``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Annotated, Any, Self

import pydantic
from oslo_log import log as logging

from fleet import capacity, errors
from fleet.objects import Flavor, Instance, fields

LOG = logging.getLogger(__name__)

_Number = Annotated[float, pydantic.Field(allow_inf_nan=False)]


@dataclasses.dataclass(frozen=True)
class Resources:
    """Amounts of what a node has: memory in MB, disk in GB, virtual CPUs."""

    memory_mb: int = 0
    disk_gb: int = 0
    vcpus: int = 0

    @classmethod
    def of_flavor(cls, flavor: Flavor, overhead_memory_mb: int = 0) -> Resources:
        """What an instance of ``flavor`` holds; swap is not held."""
        return cls(flavor.memory_mb + overhead_memory_mb, flavor.claimed_disk_gb, flavor.vcpus)

    @classmethod
    def claimed_by(cls, instance: Instance) -> Resources:
        """What the ledger says that a claimed instance holds."""
        return cls(instance.claimed_memory_mb, instance.claimed_disk_gb, instance.claimed_vcpus)

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.memory_mb + other.memory_mb, self.disk_gb + other.disk_gb, self.vcpus + other.vcpus)

    def to_wire(self) -> dict[str, int]:
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return f"memory {self.memory_mb} MB, disk {self.disk_gb} GB, vcpus {self.vcpus} VCPU"


@dataclasses.dataclass(frozen=True)
class Limits:
    """The ceilings that the scheduler's filters set for the chosen host; None is no ceiling (nova's rule)."""

    memory_mb: _Number | None = None
    disk_gb: _Number | None = None
    vcpu: _Number | None = None
    numa_topology: Any = None

    @classmethod
    def from_wire(cls, data: object, field: str = "limits") -> Limits:
        return fields.parse(cls, data or {}, field)


@dataclasses.dataclass(frozen=True)
class ClaimRequest:
    """What one claim is tested on."""

    instance: Instance
    requested: Resources
    total: Resources
    used: Resources
    limits: Limits


Test = Callable[[ClaimRequest], str | None]


def _memory(claim: ClaimRequest) -> str | None:
    free = _free("memory", "MB", claim.total.memory_mb, claim.used.memory_mb, claim.limits.memory_mb)
    return _short("memory", "MB", free, claim.requested.memory_mb)


def _disk(claim: ClaimRequest) -> str | None:
    free = _free("disk", "GB", claim.total.disk_gb, claim.used.disk_gb, claim.limits.disk_gb)
    return _short("disk", "GB", free, claim.requested.disk_gb)


def _vcpus(claim: ClaimRequest) -> str | None:
    # Half a virtual CPU cannot be sold: the ceiling is cut to whole ones.
    limit = None if claim.limits.vcpu is None else int(claim.limits.vcpu)
    return _short(
        "CPUs", "VCPUs", _free("CPUs", "VCPUs", claim.total.vcpus, claim.used.vcpus, limit), claim.requested.vcpus
    )


#: In the order in which a refusal names them; NUMA and PCI belong between disk and vcpus.
TESTS: tuple[Test, ...] = (_memory, _disk, _vcpus)


def _free(kind: str, unit: str, total: int, used: int, limit: float | None) -> float | None:
    """What may still be asked for; None is unlimited."""
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


def refusals(claim: ClaimRequest, tests: Sequence[Test] = TESTS) -> list[str]:
    """Why the node cannot take the instance: every resource that is short. Empty when it can."""
    return [reason for test in tests if (reason := test(claim)) is not None]


def require_room(claim: ClaimRequest) -> None:
    """:raises errors.ComputeResourcesUnavailable: with all the reasons joined"""
    LOG.debug("Attempting claim: %s", claim.requested)
    reasons = refusals(claim)
    if reasons:
        raise errors.ComputeResourcesUnavailable(reason="; ".join(reasons))


class Claim:
    """What a tracker holds for one instance; leaving the ``with`` by an exception gives it back."""

    def __init__(self, resources: Resources, give_back: Callable[[], None]) -> None:
        self.resources = resources
        self.claimed_numa_topology: dict[str, Any] | None = None
        self._give_back = give_back

    def abort(self) -> None:
        """Give everything back; a second time does nothing."""
        self._give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc_type is not None:
            self.abort()

    def __str__(self) -> str:
        return f"[Claim: {self.resources.memory_mb} MB memory, {self.resources.disk_gb} GB disk]"


class NopClaim(Claim):
    """The claim on a node that is not tracked (its driver reports no resources): holds nothing."""

    def __init__(self) -> None:
        super().__init__(Resources(), lambda: None)
