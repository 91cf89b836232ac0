# SPDX-License-Identifier: Apache-2.0
"""The inventory of one node, and what each instance holds of it.

Builds and moves claim from it, and the audit of the node compares it with the ledger.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable

from compute_agent.node import claims
from compute_agent.node.claims import Resources
from compute_agent.node.hardware import NOTHING, Holding, Stock, wanted_by
from fleet import errors
from fleet.hardware.node import Hardware
from fleet.objects import Claimed, HostLimits, HostReport, Instance, numa, pci

FORGIVE_AFTER_S = 600.0


@dataclasses.dataclass(frozen=True)
class View:
    """A snapshot of a tracker. ``used`` includes reserved resources and orphans; ``hardware`` is what is free."""

    total: Resources
    used: Resources
    instances: frozenset[str]
    hardware: Hardware = Hardware()


@dataclasses.dataclass(frozen=True)
class _Held:
    """Resources of one instance."""

    resources: Resources
    hardware: Holding = NOTHING
    orphan: bool = False


class ResourceTracker:
    """Tracks one node of one host.

    The lock guards everything below; under it there is arithmetic only, no driver, no RPC. Life of an instance here::

        instance_claim ──▶ held ──▶ release (destroyed, or the claim aborted) ◀──┐
        track (from the ledger) ──▲ └──▶ orphan (a clean-up failed) ──────────────┘

    A move holds apart from its instance, which may be here, too::

        resize_claim, rebuild_claim ──▶ held for a move ──▶ drop_move_claim, or count (where the instance is by then)

    The tracker is *disabled* until an inventory is there (claims hold nothing), and *suspended* while the last
    inventory was refused, by the audit or by the ledger (claims are refused).
    """

    def __init__(
        self,
        host: str,
        node: str,
        packing: bool = False,
        forgive_after_s: float = FORGIVE_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param packing: claims take the fullest suitable NUMA cells instead of the emptiest
        :param forgive_after_s: failed builds are forgotten this many seconds after the last one
        """
        self.host = host
        self.node = node
        self._packing = packing
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        #: Held by moves, by instance.
        self._moves: dict[str, _Held] = {}
        self._stock = Stock()
        self._report: HostReport | None = None
        self._suspended = ""
        self._refused = ""
        self._failed_builds = 0
        self._failed_at = 0.0
        self._forgive_after_s = forgive_after_s
        self._clock = clock

    def instance_claim(self, instance: Instance, limits: HostLimits, overhead_memory_mb: int = 0) -> claims.Claim:
        """Test all resources and hold them, atomically.

        :raises errors.ComputeResourcesUnavailable: nothing is held
        :raises errors.StaleBuild: the instance already holds something: this is a repeated message
        """
        return self._claim(self._held, claims.Claim, instance, limits, overhead_memory_mb)

    def resize_claim(self, instance: Instance, limits: HostLimits, overhead_memory_mb: int = 0) -> claims.Claim:
        """Do :meth:`instance_claim` for the new flavor of an instance, which may be here with its present one.

        :raises errors.ComputeResourcesUnavailable:
        :raises errors.StaleBuild:
        """
        return self._claim(self._moves, claims.MoveClaim, instance, limits, overhead_memory_mb)

    def rebuild_claim(self, instance: Instance, limits: HostLimits, overhead_memory_mb: int = 0) -> claims.Claim:
        """Do :meth:`instance_claim` for an instance whose host is down; raises like :meth:`resize_claim`."""
        return self._claim(self._moves, claims.MoveClaim, instance, limits, overhead_memory_mb)

    def _claim(
        self,
        into: dict[str, _Held],
        kind: type[claims.Claim],
        instance: Instance,
        limits: HostLimits,
        overhead_memory_mb: int,
    ) -> claims.Claim:
        requested = Resources.of_flavor(instance.flavor, overhead_memory_mb)
        wanted = wanted_by(instance)
        with self._lock:
            if instance.uuid in into:
                raise errors.StaleBuild(
                    instance_uuid=instance.uuid, attempt=instance.attempt, reason="it holds resources here already"
                )
            if self._suspended or self._refused:
                raise errors.ComputeResourcesUnavailable(reason=self._suspended or self._refused)
            if self._report is None:
                return claims.NopClaim()
            request = claims.ClaimRequest(
                requested,
                _total(self._report),
                self._used(),
                limits,
                wanted,
                self._hardware() if wanted else Hardware(),
                self._packing,
            )
            claims.require_room(request)
            # Most instances ask for no cells or devices: nothing to fit.
            hardware = self._stock.take(request.fit, self._holdings()) if wanted and request.fit else NOTHING
            held = into[instance.uuid] = _Held(requested, hardware)
        return kind(requested, functools.partial(self._release_held, into, instance.uuid, held), hardware)

    def track(self, instance: Instance) -> None:
        """Count an instance that the ledger has here and that is not being moved."""
        self.count(instance.uuid, instance, None)

    def count(self, uuid: str, instance: Instance | None, moving: Claimed | None) -> None:
        """Hold for an instance exactly the resources in the ledger.

        :param instance: if it is here
        :param moving: what a move of it holds here
        """
        here = _Held(Resources.claimed_by(instance), Holding.of(instance)) if instance else None
        coming = _Held(Resources.of_claim(moving), Holding.of_claim(uuid, moving)) if moving else None
        with self._lock:
            for holdings, held in ((self._held, here), (self._moves, coming)):
                if held is not None:
                    holdings[uuid] = held
                else:
                    holdings.pop(uuid, None)

    def release(self, instance_uuid: str) -> None:
        """Give back all that the instance holds; nothing held is not an error."""
        with self._lock:
            self._held.pop(instance_uuid, None)
            self._moves.pop(instance_uuid, None)

    def drop_move_claim(self, instance_uuid: str) -> None:
        """Release the claim of a move of the instance. It is no error if there is none."""
        with self._lock:
            self._moves.pop(instance_uuid, None)

    def _release_held(self, holdings: dict[str, _Held], instance_uuid: str, held: _Held) -> None:
        """Release the resources of this claim. The instance may have been released and claimed again in the meantime."""
        with self._lock:
            if holdings.get(instance_uuid) is held:
                del holdings[instance_uuid]

    def orphan(self, instance_uuid: str) -> None:
        """Keep what the instance holds until its guest is destroyed: the build is over, but the guest may exist."""
        with self._lock:
            held = self._held.get(instance_uuid)
            if held is not None:
                # A new value, so that the claim's abort does not find its own and release it.
                self._held[instance_uuid] = dataclasses.replace(held, orphan=True)

    def is_orphan(self, instance_uuid: str) -> bool:
        with self._lock:
            held = self._held.get(instance_uuid)
            return held is not None and held.orphan

    def orphaned_memory_mb(self) -> int:
        """Return the memory of orphans that were built here. The ledger does not have them."""
        with self._lock:
            return sum(held.resources.memory_mb for held in self._held.values() if held.orphan)

    def set_report(self, report: HostReport | None, devices: tuple[pci.PciDevice, ...] = ()) -> None:
        """Store the audit's result and all PCI devices; None: the driver reports no resources for this node."""
        topology = numa.HostTopology.from_wire(report.numa_topology) if report else None
        with self._lock:
            self._report = report
            self._stock = Stock(topology, devices)
            self._suspended = ""

    def suspend(self, reason: str) -> None:
        """The last inventory was refused: keep the previous one, and take no new claims until a good one comes."""
        with self._lock:
            self._suspended = reason

    def refuse(self, reason: str) -> None:
        """The ledger refused the last report; "" when it has accepted one."""
        with self._lock:
            self._refused = reason

    @property
    def alarm(self) -> str:
        """Return why there are no new claims; "" if there are."""
        with self._lock:
            return self._suspended or self._refused

    @property
    def report(self) -> HostReport | None:
        """Return the last good inventory."""
        with self._lock:
            return self._report

    def held(self) -> Resources:
        """Return the sum of the resources that instances hold."""
        with self._lock:
            return self._held_resources()

    def view(self) -> View:
        with self._lock:
            total = _total(self._report) if self._report else Resources()
            return View(total, self._used(), frozenset(self._held | self._moves), self._hardware())

    def _holdings(self) -> list[Holding]:
        return [held.hardware for held in self._all_held()]

    def _hardware(self) -> Hardware:
        return self._stock.left(self._holdings())

    def _held_resources(self) -> Resources:
        return sum((held.resources for held in self._all_held()), Resources())

    def _all_held(self) -> list[_Held]:
        return [*self._held.values(), *self._moves.values()]

    def _used(self) -> Resources:
        used = self._held_resources()
        if self._report is None:
            return used
        report = self._report
        reserved = Resources(report.reserved_memory_mb, report.reserved_disk_gb, report.reserved_vcpus)
        return used + reserved + Resources(memory_mb=report.orphaned_memory_mb)

    def build_ended(self, failed: bool) -> None:
        """Count consecutive failures: a host where every build fails is sick."""
        with self._lock:
            self._failed_builds = self._failed_builds + 1 if failed else 0
            self._failed_at = self._clock()

    @property
    def failed_builds(self) -> int:
        """Return the number of consecutive failures. They are forgotten after a while, because a host without builds
        could not show that it works again.
        """
        with self._lock:
            forgiven = self._clock() - self._failed_at > self._forgive_after_s
            return 0 if forgiven else self._failed_builds


def _total(report: HostReport) -> Resources:
    return Resources(report.memory_mb, report.local_gb, report.vcpus)
