# SPDX-License-Identifier: Apache-2.0
"""The conductor's methods for agents: services, inventories, instances, and the steps of builds.

Called by :mod:`conductor_stub.agents.manager`; :mod:`conductor_stub.agents.wiring` makes it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from conductor_stub.agents import guests
from conductor_stub.builds import claims, left_guest, termination
from conductor_stub.builds.claims import Recorded, StepReport
from conductor_stub.power import machine as power
from conductor_stub.power.machine import PowerReport
from conductor_stub.steps.group_commit import GroupCommit
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import errors, states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.catalog import images
from fleet.db.engine.database import Database
from fleet.db.hosts import heartbeats, hosts, services
from fleet.db.hosts.heartbeats import Heartbeat, HeartbeatAnswer
from fleet.db.instances import boot_data, instance_values, instances
from fleet.db.schema import identity
from fleet.db.tables.instances import RequestedInstance
from fleet.json_codec import JSONMapping, JSONObject
from fleet.ledger_identity import LedgerIdentity
from fleet.objects import BootData, BuildStep, Finish, HostReport, ImageRecord, Instance
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Heartbeats in one transaction.
MOST_HEARTBEATS = 1024


class AgentAPI:
    """Each method is one transaction, or one per host, and may be repeated without harm."""

    def __init__(
        self,
        database: Database,
        limits: StepLimits,
        enable_new_services: bool = True,
        clock: Clock = utcnow,
        ledger: LedgerIdentity | None = None,
        grouped: Callable[..., GroupCommit[Any, Any]] = GroupCommit,
    ) -> None:
        """:param ledger: its identity goes into the answer of a registration
        :param grouped: makes a group commit; the simulation has its own, because it has no threads
        """
        self._ledger = ledger or LedgerIdentity()
        self._database = database
        self._limits = limits
        self._enable_new_services = enable_new_services
        self._clock = clock
        self._heartbeats: GroupCommit[Heartbeat, HeartbeatAnswer] = grouped(
            self._write_heartbeats, most=MOST_HEARTBEATS
        )
        self._steps: GroupCommit[StepReport, Recorded] = grouped(
            self._write_steps, key=lambda report: report.step.instance_uuid
        )

    def register_services(self, registrations: Sequence[JSONMapping]) -> list[JSONObject]:
        """Register all, or none. :raises errors.HostTaken: another live process serves one of the hosts"""
        self.require_free(registrations)
        now, down_time_s = self._clock(), self._limits.service_down_time_s
        rows = [
            self._database.write(services.register, each, now, down_time_s, self._enables(each["binary"]))
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

    def _enables(self, binary: str) -> bool:
        return self._enable_new_services or binary not in (services.COMPUTE, services.VOLUME)

    def require_free(self, registrations: Sequence[Mapping[str, object]]) -> None:
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
            self._database.write(services.set_alarm, host, services.STOPPING, self._clock(), incarnation)

    def now(self) -> datetime.datetime:
        """Return the time of the database's clock."""
        return self._clock()

    def report_state(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        return self._heartbeats.write(heartbeat)

    def _write_heartbeats(self, group: Sequence[Heartbeat]) -> Sequence[HeartbeatAnswer]:
        return self._database.write(heartbeats.write, group, self._clock(), self._limits.service_down_time_s)

    def lowest_versions(self) -> dict[str, str]:
        """Return, by topic, the API version of the oldest live service."""
        return self._database.read(services.lowest_versions, self._clock(), self._limits.service_down_time_s)

    def report_hosts(
        self,
        reports: Sequence[Mapping[str, object]],
        nodes: Mapping[str, Sequence[str]],
        alarms: Mapping[str, str] | None = None,
    ) -> list[JSONObject]:
        """Store inventories, each in a transaction of its own, so that a refused one does not hold back the others.

        :param alarms: by host, why its agent takes no builds; "" if it does. None: the agent speaks a version without them,
            and reports no inventory of a host with one
        """
        answers = [self._report(report) for report in reports]
        wrong = {answer["host"]: "" for answer in answers if answer["accepted"]} if alarms is None else dict(alarms)
        refused = [answer for answer in answers if not answer["accepted"] and isinstance(answer["host"], str)]
        wrong.update({answer["host"]: answer["reason"] for answer in refused})
        for host in self._database.read(services.alarms_to_change, wrong):
            self._database.write(services.set_alarm, host, wrong[host], self._clock())
            if wrong[host]:
                LOG.error("Host %s is disabled until its agent reports a valid inventory: %s", host, wrong[host])
            else:
                LOG.info("Host %s is enabled again: its inventory is valid", host)
        for host, names in nodes.items():
            for gone in self._database.write(hosts.remove_nodes_except, host, names, self._clock()):
                LOG.info("Node %s:%s is no longer reported: removed", host, gone)
        return answers

    def _report(self, data: Mapping[str, object]) -> JSONObject:
        answer = {"host": data.get("host"), "node": data.get("node"), "accepted": True, "reason": ""}
        try:
            self._database.write(hosts.report, HostReport.from_wire(data), self._clock())
        except errors.InvalidInput as bad:
            LOG.warning("Inventory of %s:%s refused: %s", data.get("host"), data.get("node"), bad)
            return {**answer, "accepted": False, "reason": bad.message}
        return answer

    def host_instances(self, host: str, uuids: Sequence[str] | None = None) -> list[Instance]:
        """Live instances on ``host``. :param uuids: only these of them, and also guests that it is to remove"""
        rows = [*self._database.read(instances.on_host, host, uuids)]
        if missing := set(uuids or ()) - {row.uuid for row in rows}:
            rows += self._database.read(left_guest.on_host, host, missing)
        return [instance_values.to_instance(row) for row in rows]

    def compare_instances(
        self, held: Mapping[str, Sequence[str]], power: Mapping[str, Mapping[str, int]] | None = None
    ) -> dict[str, list[str]]:
        """Return, by host, instances that its agent should read: see :func:`fleet.db.instances.instances.compare`."""
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

    def image(self, image_id: str) -> ImageRecord:
        """Return the record of an image, with the place of its bytes. :raises errors.NotFound: no record has this uuid"""
        return self._database.read(images.by_uuid, image_id)

    def boot_data(self, instance_uuid: str, host: str) -> BootData:
        """Return the boot data of an instance. :raises errors.NotFound: it is not on ``host``, nor on its way there"""
        return self._database.read(boot_data.of_instance, instance_uuid, host)

    def power_done(self, context: RequestContext, report: PowerReport) -> bool:
        """A host has carried out a power task, or cannot; return whether the row still had the task."""
        context = context.about(instance_uuid=report.instance_uuid, host=report.host)
        try:
            ended = self._database.write(power.done, report, self._step_context(context))
        except errors.NotFound:
            return False
        if ended and report.failure:
            LOG.warning("Task %s failed: %s", report.task_state, report.failure)
        elif ended:
            LOG.info("Task %s is done; the guest is %s", report.task_state, states.POWER_NAMES[report.power_state])
        return ended

    def take(self, context: RequestContext, step: BuildStep) -> Instance:
        """Record a step of a build. A repeated step is answered as the first one was.

        :raises errors.StaleBuild: errors.StaleIncarnation: errors.GroupAffinityViolation: errors.NotFound:
        :raises errors.ComputeResourcesUnavailable: the ledger counts more on the host than the host does
        """
        return self._taken(context, step, self._steps.write(StepReport(step, context.request_id)))

    def _write_steps(self, reports: Sequence[StepReport]) -> Sequence[Recorded | errors.FleetError]:
        return self._database.write(claims.transaction(reports, StepContext(self._limits, self._clock())))

    def take_all(self, steps: Sequence[tuple[RequestContext, BuildStep]]) -> list[Instance | errors.FleetError]:
        """Record steps of many builds, in one transaction if none is refused.

        :raises errors.DatabaseError: the outcome of each is unknown
        """
        reports = [StepReport(step, context.request_id) for context, step in steps]
        answers: list[Instance | errors.FleetError] = []
        for (context, step), answer in zip(steps, self._steps.write_each(reports) if steps else (), strict=True):
            if isinstance(answer, Recorded):
                answers.append(self._taken(context, step, answer))
            elif isinstance(answer, errors.FleetError) and not isinstance(answer, errors.DatabaseUnavailable):
                answers.append(answer)
            else:
                raise answer
        return answers

    @staticmethod
    def _taken(context: RequestContext, step: BuildStep, recorded: Recorded) -> Instance:
        # Any other time the agent repeats the step because the answer was lost, and the line is written already.
        if recorded.now and isinstance(step, Finish):
            _log_active(
                context.about(instance_uuid=step.instance_uuid, attempt=step.attempt, host=step.host), recorded.row
            )
        return instance_values.to_instance(recorded.row)

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


def _log_active(_context: RequestContext, row: RequestedInstance) -> None:
    """The conductor's one line of a build that has succeeded (docs/operate.md).

    :param _context: of the line: creating it has made it current
    """
    assert row.launched_at is not None, "an active instance was launched"
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
