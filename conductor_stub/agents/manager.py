# SPDX-License-Identifier: Apache-2.0
"""The RPC surface for agents: services, inventories, instances, and the steps of builds.

Called by :mod:`conductor_stub.agents.wiring`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Literal

import pydantic

from conductor_stub.agents.api import AgentAPI
from conductor_stub.agents.guests import Observation
from conductor_stub.agents.restarts import Answer, Death
from conductor_stub.power.machine import PowerReport
from conductor_stub.steps import requester
from fleet import errors
from fleet.context import RequestContext
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.json_codec import JSONObject
from fleet.objects import (
    BuildStep,
    Claim,
    Claimed,
    Finish,
    HostLimits,
    build_steps,
    fields,
)
from fleet.objects.answers.catalog import ImageView
from fleet.objects.guest_restarts import RestartLimits
from fleet.rpc import batch_answers
from fleet.rpc.endpoint import endpoint, served
from fleet.rpc.pins import Pins

#: The keys of states.POWER_NAMES.
PowerState = Literal[0, 1, 3, 4, 6, 7]
#: Steps in one message. An agent sends far fewer.
MOST_STEPS = 256


class ConductorManager:
    """No namespace: what agents and other daemons read from the ledger and write to it."""

    target = served("conductor")

    def __init__(self, api: AgentAPI, pins: Pins, restarts: Callable[[RequestContext, Death], Answer]) -> None:
        """:param restarts: decides about a guest that is down"""
        self._api = api
        self._restarts = restarts
        self._pins = pins

    @endpoint
    def register_services(self, context: RequestContext, services: list[JSONObject]) -> list[JSONObject]:
        return self._api.register_services([_service(each, index) for index, each in enumerate(services)])

    @endpoint
    def require_free(self, context: RequestContext, services: list[JSONObject]) -> None:
        self._api.require_free([_service(each, index) for index, each in enumerate(services)])

    @endpoint
    def leave(
        self,
        context: RequestContext,
        binary: fields.Name,
        hosts: list[fields.Name],
        incarnation: fields.Token,
        idle: fields.Flag = True,
    ) -> None:
        self._api.leave(binary, hosts, incarnation, idle)

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
    ) -> JSONObject:
        answer = self._api.report_state(Heartbeat(binary, hosts, incarnation, rpc_version, release, clock_skew_s))
        now = self._api.now().isoformat()
        return {**dataclasses.asdict(answer), "versions": dict(self._pins.lowest), "now": now}

    @endpoint
    def report_hosts(
        self,
        context: RequestContext,
        reports: list[JSONObject],
        nodes: dict[fields.Name, list[fields.Name]],
        alarms: dict[fields.Name, fields.LongText] | None = None,
    ) -> list[JSONObject]:
        return self._api.report_hosts(reports, nodes, alarms)

    @endpoint
    def get_host_instances(
        self, context: RequestContext, host: fields.Name, uuids: list[fields.Uuid] | None = None
    ) -> list[JSONObject]:
        return [instance.to_wire() for instance in self._api.host_instances(host, uuids)]

    @endpoint
    def compare_instances(
        self,
        context: RequestContext,
        held: dict[fields.Name, list[fields.Uuid]],
        power: dict[fields.Name, dict[fields.Uuid, fields.Natural]] | None = None,
    ) -> dict[str, list[str]]:
        return self._api.compare_instances(held, power)

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
        return self._api.observed(context, Observation(instance_uuid, host, power_state, expected, failed))

    @endpoint
    def restart_guest(
        self,
        context: RequestContext,
        instance_uuid: fields.Uuid,
        host: fields.Name,
        power_state: PowerState,
        limits: object,
        moves: fields.Flag = False,
    ) -> JSONObject:
        """Return ``fate`` (a value of Fate), ``count`` and ``why``."""
        parsed = fields.parse(RestartLimits, limits, "limits")
        answer = self._restarts(context, Death(instance_uuid, host, power_state, parsed, moves))
        return {"fate": answer.fate.value, "count": answer.count, "why": answer.why}

    @endpoint
    def get_image(self, context: RequestContext, image_id: fields.Name) -> ImageView:
        return self._api.image(image_id).to_wire()

    @endpoint
    def get_boot_data(self, context: RequestContext, instance_uuid: fields.Uuid, host: fields.Name) -> JSONObject:
        return self._api.boot_data(instance_uuid, host).to_wire()

    @endpoint
    def power_done(
        self,
        context: RequestContext,
        instance_uuid: fields.Uuid,
        host: fields.Name,
        task_state: fields.Name,
        power_state: PowerState,
        failure: fields.LongText = "",
        attempt: fields.Natural | None = None,
        deadline: fields.Text | None = None,
    ) -> bool:
        report = PowerReport(instance_uuid, host, task_state, power_state, failure, attempt, deadline)
        return self._api.power_done(context, report)

    @endpoint
    def claim_instance(
        self,
        context: RequestContext,
        instance_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        node: fields.Name,
        incarnation: fields.Token,
        claim: JSONObject,
        limits: JSONObject | None = None,
    ) -> JSONObject:
        claimed, allowed = Claimed.from_wire(claim), HostLimits.from_wire(limits)
        step = Claim(instance_uuid, attempt, host, node, incarnation, claimed, allowed)
        return self._api.take(context, step).to_wire()

    @endpoint
    def finish_build(
        self,
        context: RequestContext,
        instance_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        power_state: fields.Natural,
        incarnation: fields.Token | None = None,
    ) -> JSONObject:
        return self._api.take(context, Finish(instance_uuid, attempt, host, power_state, incarnation)).to_wire()

    @endpoint
    def build_steps(
        self, context: RequestContext, steps: Annotated[list[JSONObject], pydantic.Field(max_length=MOST_STEPS)]
    ) -> list[JSONObject]:
        """Record each step; return an answer for each, in their order. A refused step does not hold back the others."""
        parsed = [_parse_step(context, step, f"steps.{number}") for number, step in enumerate(steps)]
        # Log lines about all steps name no single build.
        context.about()
        recorded = iter(self._api.take_all([each for each in parsed if isinstance(each, tuple)]))
        answers = [next(recorded) if isinstance(each, tuple) else each for each in parsed]
        return [
            batch_answers.refusal(each) if isinstance(each, errors.FleetError) else batch_answers.result(each.to_wire())
            for each in answers
        ]

    @endpoint
    def instance_destroyed(self, context: RequestContext, instance_uuid: fields.Uuid, host: fields.Name) -> None:
        self._api.destroyed(context, instance_uuid, host)


def _parse_step(
    context: RequestContext, data: JSONObject, field: str
) -> tuple[RequestContext, BuildStep] | errors.InvalidInput:
    """A step with the context of the request that it belongs to; or the error, if the step is invalid."""
    try:
        step = build_steps.from_wire(data, field)
        about = {"instance_uuid": step.instance_uuid, "attempt": step.attempt, "host": step.host}
        return requester.on_behalf(context, data, field, **about), step
    except errors.InvalidInput as wrong:
        return wrong


@dataclasses.dataclass(frozen=True)
class _Registration:
    host: fields.Name
    binary: fields.Name
    topic: fields.Name
    incarnation: fields.Token | None = None
    identity: fields.Uuid | None = None
    life: fields.Natural | None = None
    pid: fields.Natural | None = None
    hostname: fields.Text | None = None
    rpc_version: fields.Token | None = None
    release: fields.Token | None = None


def _service(data: JSONObject, index: int) -> JSONObject:
    """:raises errors.InvalidInput: naming the registration's field"""
    return dict(vars(fields.parse(_Registration, data, f"services.{index}")))
