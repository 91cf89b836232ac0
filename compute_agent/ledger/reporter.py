# SPDX-License-Identifier: Apache-2.0
"""Sends registrations, heartbeats and reports for all hosts of an agent.

:mod:`compute_agent.agent` calls it, at start and by its periodic tasks.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping, Sequence

from oslo_log import log as logging

from compute_agent.ledger import last_report
from compute_agent.ledger.last_report import LastReports, Reported
from compute_agent.ledger.notifications import Notifications
from compute_agent.monitors import Monitors
from compute_agent.node.audit import Auditor
from compute_agent.node.guest_loads import GuestLoads
from compute_agent.node.host import Host
from fleet import context as fleet_context
from fleet.agent.identity import Identity
from fleet.agent.patience import UNKNOWN_OUTCOME, Patience
from fleet.agent.presence import Presence
from fleet.clock.skew import ClockSkew
from fleet.objects import HostReport, Inventory
from fleet.objects.guest_load import GuestLoad
from fleet.rpc.clients import ConductorAPI

LOG = logging.getLogger(__name__)

BINARY = "fleet-compute"
TOPIC = "compute"
#: Reports in one message; a host with more nodes has a message of its own.
REPORTS_A_CALL = 200


class Reporter:
    """Reports for ``hosts``."""

    def __init__(
        self,
        conductor: ConductorAPI,
        patience: Patience,
        hosts: Sequence[Host],
        incarnation: str,
        identities: Mapping[str, Identity] = types.MappingProxyType({}),
        monitors: Monitors | None = None,
        notifications: Notifications | None = None,
        last_told: LastReports | None = None,
        registered: Callable[[str], object] = lambda ledger: None,
        skew: ClockSkew | None = None,
    ) -> None:
        """``registered`` is called with the identity of the hosts' ledger; ``skew`` learns from answers."""
        self._presence = Presence(conductor, patience, BINARY, TOPIC, incarnation, identities, registered, skew)
        self._conductor = conductor
        self._hosts = {host.name: host for host in hosts}
        self._auditors = {host.name: Auditor(host) for host in hosts}
        self._loads = {host.name: GuestLoads(host.driver) for host in hosts}
        self._monitors = monitors or Monitors()
        self._notifications = notifications or Notifications()
        self._told = last_told or LastReports()

    def forget(self, host: str) -> None:
        """Send no more reports for ``host``."""
        self._hosts = {name: served for name, served in self._hosts.items() if name != host}

    def register(self) -> None:
        """Register, and repeat until the conductor has answered.

        :raises errors.HostTaken:
        :raises patience.Unanswered: only when the agent stops
        """
        answer = self._presence.register(self._hosts)
        self._told.forget()
        for service in answer:
            # An older conductor does not send them.
            known = [Inventory.from_wire(node) for node in service.get("nodes", ())]
            self._hosts[service["host"]].recorded = {node.node: node for node in known}

    def leave(self, idle: bool) -> None:
        """Report that this process stops (:meth:`fleet.agent.presence.Presence.leave`)."""
        self._presence.leave(list(self._hosts), idle)

    def heartbeat(self) -> None:
        answer = self._presence.heartbeat(list(self._hosts))
        if answer is None:
            return
        # The alarm may be an operator's, or be over: the next audit reports the state. (Older conductors do not send
        # alarms.)
        self._told.forget(answer.get("alarmed", ()))
        for name in answer["superseded"]:
            if name in self._hosts:
                self._hosts[name].superseded(f"Host {name} was removed, or another process serves it now.")

    def audit(self) -> list[HostReport]:
        """Audit all hosts. A host whose driver fails is logged, and the others are audited."""
        reports: list[HostReport] = []
        for name in list(self._hosts):
            try:
                reports.extend(self._auditors[name].audit())
            except Exception as failure:
                LOG.exception("The audit of host %s failed; its last report stays valid", name)
                kind = type(failure).__name__
                self._hosts[name].suspend_unread(f"its inventory is not known: the driver failed with {kind}")
        metrics = self._monitors.collect()
        if metrics:
            reports = [dataclasses.replace(report, metrics=metrics) for report in reports]
        return self._with_guests(reports) if self._monitors.of_guests else reports

    def _with_guests(self, reports: Sequence[HostReport]) -> list[HostReport]:
        """Add the loads of a host's guests to the report of its first node."""
        loads = {name: self._loads[name].sample() for name, host in self._hosts.items() if not host.hangs}
        return [
            dataclasses.replace(
                each, guest_loads={uuid: GuestLoad(**load) for uuid, load in loads.pop(each.host, {}).items()}
            )
            for each in reports
        ]

    def report(self) -> None:
        """Audit, and send the result."""
        self.send(self.audit())

    def send(self, reports: Sequence[HostReport]) -> None:
        """Send changed inventories, and the hosts that take no builds because they have none."""
        context = fleet_context.new_context()
        hosts = self._hosts
        found = last_report.of_hosts([report for report in reports if report.host in hosts])
        # A node that exists but is not reported (refused, not tracked) keeps its record.
        said = {
            name: Reported(found.get(name, ()), tuple(tracker.node for tracker in host.trackers()), host.alarm())
            for name, host in hosts.items()
        }
        news = {name: each for name, each in said.items() if self._told.is_news(name, each)}
        # Hosts without an inventory report an alarm, or that an earlier alarm is over.
        silent = sorted(name for name, each in news.items() if not each.reports)
        with_reports = _with_names(batches(report for each in news.values() for report in each.reports))
        for batch, names in [*with_reports, *([([], silent)] if silent else [])]:
            nodes = {host: list(news[host].nodes) for host in names}
            alarms = {host: news[host].alarm for host in names}
            self._told.forget(names)
            try:
                answer = self._conductor.report_hosts(context, [report.to_wire() for report in batch], nodes, alarms)
            except UNKNOWN_OUTCOME as silence:
                self._presence.unanswered(silence)
                return
            self._presence.answered()
            for report in batch:
                self._notifications.metrics(context, report)
            for host in names:
                self._told.remember(host, news[host])
            self._told.forget(verdict["host"] for verdict in answer if not verdict["accepted"])
            for verdict in answer:
                _hear(hosts[verdict["host"]], verdict["node"], "" if verdict["accepted"] else verdict["reason"])


def _hear(host: Host, node: str, refusal: str) -> None:
    tracker = host.tracker(node)
    if refusal and not tracker.alarm:
        LOG.error("The report of %s:%s was refused: %s. There are no new claims on it.", host.name, node, refusal)
    tracker.refuse(refusal and f"the report of {host.name}:{node} was refused: {refusal}")


def _with_names(found: Iterable[list[HostReport]]) -> list[tuple[list[HostReport], list[str]]]:
    return [(batch, sorted({report.host for report in batch})) for batch in found]


def batches(reports: Iterable[HostReport], size: int = REPORTS_A_CALL) -> list[list[HostReport]]:
    """Return reports in messages of about ``size``. A host is never split: its list of nodes must be complete."""
    result: list[list[HostReport]] = []
    for of_host in last_report.of_hosts(reports).values():
        if not result or len(result[-1]) + len(of_host) > size:
            result.append([])
        result[-1].extend(of_host)
    return result
