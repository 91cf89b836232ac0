# SPDX-License-Identifier: Apache-2.0
"""Audits a host: reads its inventory, finds orphans, and makes reports.

Called by :mod:`compute_agent.ledger.reporter`. Usage does not come from the hypervisor's figures. It is the sum of
reserved resources, orphans and claims.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from oslo_log import log as logging

from compute_agent.node import inventory
from compute_agent.node.host import Host
from compute_agent.node.resource_tracker import ResourceTracker
from fleet import capacity, errors
from fleet.agent import time_limit
from fleet.json_codec import JSONObject
from fleet.objects import HostReport, Inventory

LOG = logging.getLogger(__name__)


class Auditor:
    """Audits one host, and stores which orphans it has warned of."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._warned: frozenset[str] = frozenset()
        self._alarmed: dict[str, str] = {}

    def audit(self) -> list[HostReport]:
        """Return one report for each tracked node. A node whose inventory was refused has no report and takes no claims.

        Nor have the nodes of a driver that does not answer.
        """
        try:
            reports = self._read()
        except time_limit.Overrun:
            self._host.hangs = True
            for tracker in self._host.trackers():
                reason = "cannot be read: the driver does not answer"
                refused = errors.ReportRefused(host=tracker.host, node=tracker.node, field="it", reason=reason)
                self._alarm(tracker, refused.message)
            return []
        self._host.hangs = False
        return reports

    def _read(self) -> list[HostReport]:
        """:raises time_limit.Overrun:"""
        driver, ask = self._host.driver, self._host.ask_for_audit
        trackers = self._host.set_nodes(ask(lambda: driver.get_available_nodes(refresh=True)))
        self._alarmed = {node: reason for node, reason in self._alarmed.items() if node in trackers}
        orphans = self._orphans()
        self._warn(orphans)
        reports = [
            self._audit_node(tracker, _orphaned_mb(orphans, node, trackers)) for node, tracker in trackers.items()
        ]
        return [report for report in reports if report is not None]

    def _orphans(self) -> dict[str, JSONObject]:
        """Return guests without a claim.

        The claims are read before and after the guests. A build claims before it spawns, and a termination destroys
        before it releases. So a guest that is missing from both reads did not belong to a claim during the audit.
        """
        before = self._host.tracked()
        guests = self._host.ask_for_audit(self._host.driver.get_per_instance_usage)
        known = before | self._host.tracked()
        return {uuid: usage for uuid, usage in guests.items() if uuid not in known}

    def _warn(self, orphans: Mapping[str, JSONObject]) -> None:
        for uuid in sorted(orphans.keys() - self._warned):
            LOG.warning(
                "Host %s has an orphan (not in the ledger): %s with %s MB of memory. It is counted, not destroyed",
                self._host.name,
                uuid,
                orphans[uuid].get("memory_mb", 0),
            )
        self._warned = frozenset(orphans)

    def _audit_node(self, tracker: ResourceTracker, orphaned_mb: int) -> HostReport | None:
        try:
            resources = self._host.ask_for_audit(lambda: self._host.driver.get_available_resource(tracker.node))
            before = tracker.report or self._host.recorded.get(tracker.node)
            if not resources and before is not None:
                # Claims of a node that is not tracked are not tested, and schedulers know this one.
                reason = "cannot be read: the driver reports no resources"
                raise errors.ReportRefused(host=tracker.host, node=tracker.node, field="it", reason=reason)
            if not resources:
                LOG.info("The driver reports no resources for %s:%s: it is not tracked", tracker.host, tracker.node)
                tracker.set_report(None)
                return None
            report = inventory.to_report(
                tracker.host, tracker.node, resources, self._host.policy, orphaned_mb, tracker.failed_builds
            )
            require_room(report, before, tracker)
        except errors.ReportRefused as refused:
            self._alarm(tracker, refused.message)
            return None
        self._calm(tracker)
        tracker.set_report(report, inventory.pci_devices(resources))
        view = tracker.view()
        LOG.debug("Node %s:%s: total %s; used %s", tracker.host, tracker.node, view.total, view.used)
        return dataclasses.replace(report, orphaned_memory_mb=orphaned_mb + tracker.orphaned_memory_mb())

    def _alarm(self, tracker: ResourceTracker, reason: str) -> None:
        """Log one line for each reason, not for each audit."""
        tracker.suspend(reason)
        if self._alarmed.get(tracker.node) != reason:
            LOG.error("%s The previous inventory is kept, and there are no new claims.", reason)
        self._alarmed[tracker.node] = reason

    def _calm(self, tracker: ResourceTracker) -> None:
        if self._alarmed.pop(tracker.node, None) is not None:
            LOG.info("The inventory of %s:%s is good again", tracker.host, tracker.node)


def require_room(report: HostReport, before: HostReport | Inventory | None, tracker: ResourceTracker) -> None:
    """Refuse an inventory that is smaller than what instances hold: a fault of the machine or of its driver.

    :param before: the last good inventory, or after a start the ledger's; None: the node is new
    :raises errors.ReportRefused: naming the resource that is too small
    """
    held = tracker.held()
    if before is None:
        return
    for field, reserved, ratio, used in (
        ("vcpus", report.reserved_vcpus, report.cpu_allocation_ratio, held.vcpus),
        ("memory_mb", report.reserved_memory_mb, report.ram_allocation_ratio, held.memory_mb),
        ("local_gb", report.reserved_disk_gb, report.disk_allocation_ratio, held.disk_gb),
    ):
        total, was = getattr(report, field), getattr(before, field)
        # Usage may exceed the limit legitimately: without its filter a resource has no limit.
        if total < was and capacity.limit(total, reserved, ratio) < reserved + used:
            reason = f"has shrunk from {was} to {total}, of which {reserved} are reserved; instances hold {used}"
            raise errors.ReportRefused(host=tracker.host, node=tracker.node, field=field, reason=reason)


def _orphaned_mb(orphans: Mapping[str, JSONObject], node: str, trackers: Mapping[str, ResourceTracker]) -> int:
    """Return the memory of the orphans on ``node``; an orphan without a node counts on the first."""
    first = next(iter(trackers))
    here = [usage for usage in orphans.values() if (usage["node"] if usage.get("node") in trackers else first) == node]
    return sum(int(usage.get("memory_mb", 0)) for usage in here)
