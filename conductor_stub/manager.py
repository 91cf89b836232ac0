# SPDX-License-Identifier: Apache-2.0
"""The conductor's RPC surface: three namespaces on one topic, each a thin door to the part that does the work."""

from __future__ import annotations

import dataclasses
import threading
from typing import Annotated, Any, Literal

import oslo_messaging
import pydantic

from conductor_stub.agents.api import Records
from conductor_stub.agents.guests import Observation
from conductor_stub.builds.failures import Failure
from conductor_stub.builds.intake import Intake
from conductor_stub.builds.placement import Builder
from conductor_stub.builds.termination import Termination
from conductor_stub.operators.announcements import Announcements
from conductor_stub.operators.api import OperatorAPI
from conductor_stub.operators.diagnosis import Examination
from conductor_stub.operators.dry_run import DryRun
from fleet import errors, states
from fleet.context import RequestContext
from fleet.db.services import Beat
from fleet.objects import (
    BuildRequest,
    BuildStep,
    Claim,
    Claimed,
    Finish,
    Flavor,
    HostLimits,
    Place,
    build_steps,
    fields,
    instance_group,
    request_keys,
)
from fleet.rpc import batch_answers, versions
from fleet.rpc.endpoint import endpoint, require_size
from fleet.rpc.pins import Pins

PowerState = Literal[tuple(states.POWER_NAMES)]  # type: ignore[valid-type]
#: In one message: far more than an agent sends.
MOST_STEPS = 256


class ConductorManager:
    """No namespace: the ledger, for agents and other daemons."""

    target = oslo_messaging.Target(version=versions.CURRENT["conductor"])

    def __init__(self, records: Records, pins: Pins) -> None:
        self._records = records
        self._pins = pins

    @endpoint
    def register_services(self, context: RequestContext, services: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return self._records.register_services([_service(each, index) for index, each in enumerate(services)])

    @endpoint
    def require_free(self, context: RequestContext, services: list[dict[str, Any]]) -> None:
        self._records.require_free([_service(each, index) for index, each in enumerate(services)])

    @endpoint
    def leave(
        self,
        context: RequestContext,
        binary: fields.Name,
        hosts: list[fields.Name],
        incarnation: fields.Token,
        idle: fields.Flag = True,
    ) -> None:
        self._records.leave(binary, hosts, incarnation, idle)

    @endpoint
    def report_state(
        self,
        context: RequestContext,
        binary: fields.Name,
        hosts: list[fields.Name],
        incarnation: fields.Token,
        rpc_version: fields.Token | None = None,
        release: fields.Token | None = None,
        clock_skew_s: fields.Finite | None = None,
    ) -> dict[str, Any]:
        heard = self._records.report_state(Beat(binary, hosts, incarnation, rpc_version, release, clock_skew_s))
        now = self._records.now().isoformat()
        return {**dataclasses.asdict(heard), "versions": dict(self._pins.lowest), "now": now}

    @endpoint
    def report_hosts(
        self,
        context: RequestContext,
        reports: list[dict[str, Any]],
        nodes: dict[fields.Name, list[fields.Name]],
        alarms: dict[fields.Name, fields.LongText] | None = None,
    ) -> list[dict[str, Any]]:
        return self._records.report_hosts(reports, nodes, alarms)

    @endpoint
    def get_host_instances(
        self, context: RequestContext, host: fields.Name, uuids: list[fields.Uuid] | None = None
    ) -> list[dict[str, Any]]:
        return [instance.to_wire() for instance in self._records.host_instances(host, uuids)]

    @endpoint
    def compare_instances(
        self,
        context: RequestContext,
        held: dict[fields.Name, list[fields.Uuid]],
        power: dict[fields.Name, dict[fields.Uuid, fields.Natural]] | None = None,
    ) -> dict[str, list[str]]:
        return self._records.compare_instances(held, power)

    @endpoint
    def report_guest(
        self,
        context: RequestContext,
        instance_uuid: fields.Uuid,
        host: fields.Name,
        power_state: PowerState,
        expected: fields.Natural,
        failed: fields.Flag = False,
    ) -> bool:
        return self._records.observed(context, Observation(instance_uuid, host, power_state, expected, failed))

    @endpoint
    def claim_instance(
        self,
        context: RequestContext,
        instance_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        node: fields.Name,
        incarnation: fields.Token,
        claim: dict[str, Any],
        limits: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        claimed, allowed = Claimed.from_wire(claim), HostLimits.from_wire(limits)
        step = Claim(instance_uuid, attempt, host, node, incarnation, claimed, allowed)
        return self._records.take(context, step).to_wire()

    @endpoint
    def finish_build(
        self,
        context: RequestContext,
        instance_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        power_state: fields.Natural,
        incarnation: fields.Token | None = None,
    ) -> dict[str, Any]:
        return self._records.take(context, Finish(instance_uuid, attempt, host, power_state, incarnation)).to_wire()

    @endpoint
    def build_steps(
        self, context: RequestContext, steps: Annotated[list[dict[str, Any]], pydantic.Field(max_length=MOST_STEPS)]
    ) -> list[dict[str, Any]]:
        """An answer for each, in their order: what is wrong with one is not the others' business."""
        asked = [_asked(context, step, f"steps.{number}") for number, step in enumerate(steps)]
        # What is said of them all is said of none.
        context.about()
        taken = iter(self._records.take_all([each for each in asked if isinstance(each, tuple)]))
        told = [next(taken) if isinstance(each, tuple) else each for each in asked]
        return [
            batch_answers.refusal(each) if isinstance(each, errors.FleetError) else batch_answers.result(each.to_wire())
            for each in told
        ]

    @endpoint
    def instance_destroyed(self, context: RequestContext, instance_uuid: fields.Uuid, host: fields.Name) -> None:
        self._records.destroyed(context, instance_uuid, host)


class AgentTaskManager:
    """Namespace ``compute_task``, as far as agents use it."""

    target = oslo_messaging.Target(namespace="compute_task", version=versions.CURRENT["conductor"])

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    @endpoint
    def reschedule(
        self,
        context: RequestContext,
        instance_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        node: fields.Name | None,
        failure: Failure,
        alternates: list[Place],
    ) -> dict[str, bool]:
        return {"counted": self._builder.reschedule(context, instance_uuid, attempt, host, node, failure, alternates)}

    @endpoint
    def abort_build(
        self,
        context: RequestContext,
        instance_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        node: fields.Name | None,
        failure: Failure,
    ) -> None:
        self._builder.abort(context, instance_uuid, attempt, host, node, failure)


class ComputeTaskManager(AgentTaskManager):
    """Namespace ``compute_task``: builds are accepted, driven and ended."""

    def __init__(
        self, intake: Intake, builder: Builder, termination: Termination, draining: threading.Event | None = None
    ) -> None:
        super().__init__(builder)
        self._intake = intake
        self._termination = termination
        self._draining = draining or threading.Event()

    @endpoint
    def create(
        self, context: RequestContext, request: dict[str, Any], client_token: fields.Token | None = None
    ) -> dict[str, Any]:
        require_size(request, "request")
        warnings = request_keys.examine(request)
        accepted = self._intake.accept(context, BuildRequest.from_wire(request), client_token)
        return {**accepted, "warnings": warnings} if warnings else accepted

    @endpoint
    def build_instances(
        self, context: RequestContext, instance_uuids: list[fields.Uuid], attempt: fields.Natural
    ) -> None:
        if self._draining.is_set():
            # Another worker takes them up at once; the sweeper would, but only when they are overdue.
            self._builder.hand_out(context, instance_uuids, attempt)
            return
        self._builder.build_instances(context, instance_uuids, attempt)

    @endpoint
    def terminate_instances(self, context: RequestContext, instance_uuids: list[fields.Uuid]) -> None:
        self._termination.terminate(context, instance_uuids)


class OperatorManager:
    """Namespace ``operator``: behind the ``fleet`` command."""

    target = oslo_messaging.Target(namespace="operator", version=versions.CURRENT["conductor"])

    def __init__(
        self, api: OperatorAPI, dry_run: DryRun, announcements: Announcements, examination: Examination
    ) -> None:
        self._api = api
        self._examination = examination
        self._dry_run = dry_run
        self._announcements = announcements

    @endpoint
    def list_instances(
        self,
        context: RequestContext,
        filters: dict[str, fields.Text | list[fields.Uuid] | None] | None = None,
        limit: fields.Positive | None = None,
    ) -> list[dict[str, Any]]:
        return self._api.list_instances(filters or {}, limit)

    @endpoint
    def show_instance(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._api.show_instance(name)

    @endpoint
    def trace(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._api.trace(name)

    @endpoint
    def examine(self, context: RequestContext) -> dict[str, Any]:
        return self._examination.examine()

    @endpoint
    def request_of(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._dry_run.request_of(name)

    @endpoint
    def request_for(self, context: RequestContext, request: dict[str, Any]) -> dict[str, Any]:
        require_size(request, "request")
        request_keys.examine(request)
        return self._dry_run.request_for(context, BuildRequest.from_wire(request))

    @endpoint
    def list_hosts(self, context: RequestContext) -> list[dict[str, Any]]:
        return self._api.list_hosts()

    @endpoint
    def show_host(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._api.show_host(name)

    @endpoint
    def list_services(self, context: RequestContext) -> list[dict[str, Any]]:
        return self._api.list_services()

    @endpoint
    def update_service(
        self,
        context: RequestContext,
        host: fields.Name,
        disabled: fields.Flag,
        binary: fields.Name = "fleet-compute",
        reason: fields.Text | None = None,
    ) -> dict[str, Any]:
        return self._api.update_service(host, binary, disabled, reason)

    @endpoint
    def list_flavors(self, context: RequestContext) -> list[dict[str, Any]]:
        return self._api.list_flavors()

    @endpoint
    def create_flavor(self, context: RequestContext, flavor: dict[str, Any]) -> dict[str, Any]:
        return self._api.create_flavor(Flavor.from_wire(flavor))

    @endpoint
    def list_aggregates(self, context: RequestContext) -> list[dict[str, Any]]:
        return self._api.list_aggregates()

    @endpoint
    def create_aggregate(
        self, context: RequestContext, name: fields.Name, metadata: fields.Texts | None = None
    ) -> dict[str, Any]:
        return self._announcements.aggregate_changed(context, self._api.create_aggregate(name, metadata or {}))

    @endpoint
    def add_aggregate_host(self, context: RequestContext, name: fields.Name, host: fields.Name) -> dict[str, Any]:
        return self._announcements.aggregate_changed(context, self._api.add_aggregate_host(name, host))

    @endpoint
    def remove_aggregate_host(self, context: RequestContext, name: fields.Name, host: fields.Name) -> dict[str, Any]:
        return self._announcements.aggregate_changed(context, self._api.remove_aggregate_host(name, host))

    @endpoint
    def set_aggregate_metadata(
        self, context: RequestContext, name: fields.Name, metadata: dict[fields.Name, fields.Text | None]
    ) -> dict[str, Any]:
        return self._announcements.aggregate_changed(context, self._api.set_aggregate_metadata(name, metadata))

    @endpoint
    def list_groups(self, context: RequestContext) -> list[dict[str, Any]]:
        return self._api.list_groups()

    @endpoint
    def create_group(
        self,
        context: RequestContext,
        name: fields.Name,
        policy: instance_group.Policy,
        max_server_per_host: fields.Positive = 1,
    ) -> dict[str, Any]:
        return self._api.create_group(name, policy, max_server_per_host, context.project_id)


def _asked(
    context: RequestContext, data: dict[str, Any], field: str
) -> tuple[RequestContext, BuildStep] | errors.InvalidInput:
    """A step, under the request that it belongs to; or what is wrong with it."""
    try:
        step = build_steps.from_wire(data, field)
        names = ("request_id", "project_id", "user_id")
        whose = {
            name: fields.parse(fields.Text | None, data.get(name), f"{field}.{name}")  # type: ignore[arg-type]
            for name in names
        }
    except errors.InvalidInput as wrong:
        return wrong
    about = context.about(instance_uuid=step.instance_uuid, attempt=step.attempt, host=step.host)
    return about.on_behalf(**whose), step


def _service(data: dict[str, Any], index: int) -> dict[str, Any]:
    """:raises errors.InvalidInput: naming the registration's field"""
    field = f"services.{index}"
    names = {key: fields.parse(fields.Name, data.get(key), f"{field}.{key}") for key in ("host", "binary", "topic")}
    pid = fields.parse(fields.Natural | None, data.get("pid"), f"{field}.pid")  # type: ignore[arg-type]
    hostname = fields.parse(fields.Text | None, data.get("hostname"), f"{field}.hostname")  # type: ignore[arg-type]
    identity = fields.parse(fields.Uuid | None, data.get("identity"), f"{field}.identity")  # type: ignore[arg-type]
    tokens = {
        key: fields.parse(fields.Token | None, data.get(key), f"{field}.{key}")  # type: ignore[arg-type]
        for key in ("incarnation", "rpc_version", "release")
    }
    return {**names, **tokens, "pid": pid, "hostname": hostname, "identity": identity}
