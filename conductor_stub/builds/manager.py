# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of builds, namespace ``compute_task``. Clients and agents call it."""

from __future__ import annotations

import threading

from conductor_stub.builds.intake import Intake
from conductor_stub.builds.placement import BuildPlacement
from conductor_stub.builds.termination import Termination
from conductor_stub.steps.attempt import Attempt, Failure
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import BuildRequest, Place, fields, request_keys
from fleet.objects.answers.instances import AcceptedRequest
from fleet.rpc.endpoint import endpoint, require_size, served


class AgentTaskManager:
    """The methods that agents call."""

    target = served("conductor", "compute_task")

    def __init__(self, placement: BuildPlacement) -> None:
        self._placement = placement

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
        here = Attempt(instance_uuid, attempt, host, node)
        return {"counted": self._placement.reschedule(context, here, failure, alternates)}

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
        self._placement.abort(context, Attempt(instance_uuid, attempt, host, node), failure)


class ComputeTaskManager(AgentTaskManager):
    """Builds are accepted, placed and deleted."""

    def __init__(
        self,
        intake: Intake,
        placement: BuildPlacement,
        termination: Termination,
        draining: threading.Event | None = None,
    ) -> None:
        super().__init__(placement)
        self._intake = intake
        self._termination = termination
        self._draining = draining or threading.Event()

    @endpoint
    def create(
        self, context: RequestContext, request: JSONObject, client_token: fields.Token | None = None
    ) -> AcceptedRequest:
        require_size(request, "request")
        warnings = request_keys.examine(request)
        accepted = self._intake.accept(context, BuildRequest.from_wire(request), client_token)
        warnings += accepted.get("warnings", ())
        return {**accepted, "warnings": warnings} if warnings else accepted

    @endpoint
    def build_instances(
        self, context: RequestContext, instance_uuids: list[fields.Uuid], attempt: fields.Natural
    ) -> None:
        if self._draining.is_set():
            # Another worker takes them at once. The sweeper would too, but only when they are overdue.
            self._placement.hand_out(context, instance_uuids, attempt)
            return
        self._placement.place(context, instance_uuids, attempt)

    @endpoint
    def terminate_instances(self, context: RequestContext, instance_uuids: list[fields.Uuid]) -> None:
        self._termination.terminate(context, instance_uuids)
