# SPDX-License-Identifier: Apache-2.0
"""What agents read and write: their services, inventories, instances, and the steps of builds."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from conductor_stub.agents import guests
from conductor_stub.agents.heartbeats import Heartbeats
from conductor_stub.builds import claims, termination
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import errors, states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db import hosts, identity, instances, services
from fleet.db.engine import Database
from fleet.db.heartbeats import Heartbeat, HeartbeatAnswer
from fleet.ledger_identity import LedgerIdentity
from fleet.objects import BuildStep, Finish, HostReport, Instance
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Reason why the host of a stopping agent is disabled.
STOPPING = "its agent is stopping"


class AgentAPI:
    """Each method is one transaction, or one per host, and may be repeated without harm."""

    def __init__(
        self,
        database: Database,
        limits: StepLimits,
        enable_new_services: bool = True,
        clock: Clock = utcnow,
        turn: contextlib.AbstractContextManager[Any] | None = None,
        ledger: LedgerIdentity | None = None,
    ) -> None:
        """:param ledger: its identity goes into the answer of a registration
        :param turn: see :class:`Heartbeats`
        """
        self._ledger = ledger or LedgerIdentity()
        self._database = database
        self._limits = limits
        self._enable_new_services = enable_new_services
        self._clock = clock
        self._heartbeats = Heartbeats(database, clock, turn)

    def register_services(self, registrations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Register all, or none. :raises errors.HostTaken: another live process serves one of the hosts"""
        self.require_free(registrations)
        now, down_time_s = self._clock(), self._limits.service_down_time_s
        rows = [
            self._database.write(services.register, each, now, down_time_s, self._enable_new_services)
            for each in registrations
        ]
        agents = [row.host for row in rows if row.binary == services.COMPUTE]
        known = self._database.read(hosts.totals, agents) if agents else {}
        return [
            {
                "host": row.host,
                "binary": row.binary,
                "disabled": row.disabled,
                "ledger": self._ledger.uuid,
                "nodes": [node.to_wire() for node in known.get(row.host, ())],
            }
            for row in rows
        ]

    def require_free(self, registrations: Sequence[Mapping[str, Any]]) -> None:
        """:raises errors.HostTaken: another live process serves one of these hosts"""
        now, down_time_s = self._clock(), self._limits.service_down_time_s
        self._database.read(services.require_free, registrations, now, down_time_s)

    def learn_ledger(self) -> None:
        """Read the identity of the ledger again: the database may have been replaced."""
        self._ledger.learn(self._database.read(identity.read))

    def leave(self, binary: str, host_names: Sequence[str], incarnation: str, idle: bool = True) -> None:
        """A process is stopping. :param idle: False while it still ends its work; its hosts then take no new builds"""
        if idle:
            self._database.write(services.leave, binary, host_names, incarnation, self._clock())
            return
        for host in host_names:
            self._database.write(services.set_alarm, host, STOPPING, self._clock(), incarnation)

    def now(self) -> datetime.datetime:
        """By the database's clock."""
        return self._clock()

    def report_state(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        return self._heartbeats.write(heartbeat)

    def lowest_versions(self) -> dict[str, str]:
        """By topic, the API version of the oldest live service."""
        return self._database.read(services.lowest_versions, self._clock(), self._limits.service_down_time_s)

    def report_hosts(
        self,
        reports: Sequence[Mapping[str, Any]],
        nodes: Mapping[str, Sequence[str]],
        alarms: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Store inventories, each in a transaction of its own, so that a refused one does not hold back the others.

        :param alarms: by host, why its agent takes no builds; "" if it does
        """
        answers = [self._report(report) for report in reports]
        wrong = dict(alarms or {})
        wrong.update({answer["host"]: answer["reason"] for answer in answers if not answer["accepted"]})
        for host in self._database.read(services.alarms_to_change, wrong):
            self._database.write(services.set_alarm, host, wrong[host], self._clock())
            if wrong[host]:
                LOG.error("Host %s is disabled until its inventory is good again: %s", host, wrong[host])
            else:
                LOG.info("Host %s is enabled again: its inventory is good", host)
        for host, names in nodes.items():
            for gone in self._database.write(hosts.remove_nodes_except, host, names, self._clock()):
                LOG.info("Node %s:%s is no longer reported: removed", host, gone)
        return answers

    def _report(self, data: Mapping[str, Any]) -> dict[str, Any]:
        answer = {"host": data.get("host"), "node": data.get("node"), "accepted": True, "reason": ""}
        try:
            report = HostReport.from_wire(data)
        except errors.InvalidInput as bad:
            LOG.warning("Inventory of %s:%s refused: %s", data.get("host"), data.get("node"), bad)
            return {**answer, "accepted": False, "reason": bad.message}
        self._database.write(hosts.report, report, self._clock())
        return answer

    def host_instances(self, host: str, uuids: Sequence[str] | None = None) -> list[Instance]:
        """Live instances on ``host``. :param uuids: only these of them"""
        rows = self._database.read(instances.on_host, host, uuids)
        return [instances.to_instance(row) for row in rows]

    def compare_instances(
        self, held: Mapping[str, Sequence[str]], power: Mapping[str, Mapping[str, int]] | None = None
    ) -> dict[str, list[str]]:
        """By host, the instances that its agent should read again: see :func:`fleet.db.instances.compare`."""
        return self._database.read(instances.compare, held, power or {})

    def observed(self, context: RequestContext, seen: guests.Observation) -> bool:
        """Store the power state that an agent found; return whether the row shows it now."""
        context = context.about(instance_uuid=seen.instance_uuid, host=seen.host)
        try:
            shown = self._database.write(guests.record, seen, self._step_context(context))
        except errors.NotFound:
            return False
        if shown and seen.power_state in states.DOWN:
            ending = "the instance is in ERROR" if seen.failed else "nothing else is known to be wrong with it"
            LOG.warning("The guest does not run: %s; %s", states.DOWN[seen.power_state], ending)
        return shown

    def take(self, context: RequestContext, step: BuildStep) -> Instance:
        """Record a step of a build. A repeated step is answered as the first one was.

        :raises errors.StaleBuild: errors.StaleIncarnation: errors.GroupAffinityViolation: errors.NotFound:
        :raises errors.ComputeResourcesUnavailable: the ledger counts more on the host than the host does
        """
        (instance,) = self._write([(context, step)])
        return instance

    def take_all(self, steps: Sequence[tuple[RequestContext, BuildStep]]) -> list[Instance | errors.FleetError]:
        """Record steps of many builds: all in one transaction, or one by one if any is refused."""
        if not steps:
            return []
        if 1 < len(steps) == len({step.instance_uuid for _context, step in steps}):
            try:
                return list(self._write(steps))
            except errors.DatabaseError:
                # The transaction was repeated as often as [database] allows; one by one each step would take as long.
                raise
            except errors.FleetError as refusal:
                LOG.debug("Of %d steps at least one is refused (%s): each is recorded by itself", len(steps), refusal)
        answers: list[Instance | errors.FleetError] = []
        for context, step in steps:
            context.update_store()
            try:
                answers.append(self.take(context, step))
            except errors.FleetError as refusal:
                answers.append(refusal)
        return answers

    def _write(self, steps: Sequence[tuple[RequestContext, BuildStep]]) -> list[Instance]:
        now = self._clock()
        reports = [claims.StepReport(step, context.request_id) for context, step in steps]
        rows = self._database.write(claims.transaction(reports, StepContext(self._limits, now)))
        for (context, step), row in zip(steps, rows, strict=True):
            # Any other time: the agent repeats the step because the answer was lost, and the line is written already.
            if isinstance(step, Finish) and row.launched_at == now:
                about = context.about(instance_uuid=row.uuid, attempt=step.attempt, host=step.host)
                _log_active(about, row)
        return [instances.to_instance(row) for row in rows]

    def _step_context(self, context: RequestContext) -> StepContext:
        return StepContext(self._limits, self._clock(), context.request_id)

    def destroyed(self, context: RequestContext, uuid: str, host: str) -> None:
        """The host has destroyed the guest of an instance that is being deleted."""
        try:
            gone = self._database.write(termination.destroyed, uuid, host, self._step_context(context))
        except errors.NotFound:
            return
        if gone:
            context.about(instance_uuid=uuid, host=host)
            LOG.info("Instance is DELETED")


def _log_active(_context: RequestContext, row: Any) -> None:
    """The conductor's one line of a build that has succeeded (docs/operate.md).

    :param _context: of the line: creating it has made it current
    """
    took_s = (row.launched_at - row.created_at).total_seconds()
    metrics.BUILDS_ENDED.labels(row.vm_state, "").inc()
    metrics.BUILD_SECONDS.observe(took_s)
    LOG.info(
        "Instance is ACTIVE on node %s, %.2f s after it was accepted in %s: name %s, flavor %s, project %s",
        row.node,
        took_s,
        row.reservation_id,
        row.name,
        row.flavor_name or "(inline)",
        row.project_id or "-",
    )
