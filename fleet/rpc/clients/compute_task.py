# SPDX-License-Identifier: Apache-2.0
"""Calls of users to conductors, and between conductors: builds."""

from __future__ import annotations

from typing import Any

from fleet.context import RequestContext
from fleet.objects import FailedAttempt
from fleet.rpc.clients.api import API, Message


class ComputeTaskAPI(API):
    """Starts, advances and ends builds."""

    topic = "conductor"
    namespace = "compute_task"

    def create(
        self, context: RequestContext, request: dict[str, Any], client_token: str | None = None
    ) -> dict[str, Any]:
        """:param client_token: with a token, the request may be repeated after a timeout
        :raises errors.VersionPinned: a conductor may be too old for tokens, or for builds that wait for room
        """
        said = {"request": request, **({"client_token": client_token} if client_token is not None else {})}
        # An older conductor would ignore the key, and end the build at once.
        since = "1.11" if request.get("wait_for_capacity_s") else "1.2" if client_token is not None else ""
        return self._ask(context, Message("create", said, version=since))

    def build_instances(self, context: RequestContext, instance_uuids: list[str], attempt: int) -> None:
        self._cast(context, "build_instances", instance_uuids=instance_uuids, attempt=attempt)

    def reschedule(self, context: RequestContext, failed: FailedAttempt, alternates: list[dict[str, Any]]) -> bool:
        """Return True if the attempt counts. A conductor of an earlier release does not return it: then False."""
        answer = self._call(context, "reschedule", **failed.to_wire(), alternates=alternates)
        return bool(answer and answer.get("counted"))

    def abort_build(self, context: RequestContext, failed: FailedAttempt) -> None:
        self._call(context, "abort_build", **failed.to_wire())

    def terminate_instances(self, context: RequestContext, instance_uuids: list[str]) -> None:
        self._call(context, "terminate_instances", instance_uuids=instance_uuids)
