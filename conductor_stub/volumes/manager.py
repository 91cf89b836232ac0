# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of volumes for conductors and agents.

``intake`` has that for users. Called by :mod:`conductor_stub.volumes.wiring`.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import pydantic

from conductor_stub.steps import requester
from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.volumes.placement import VolumePlacement
from conductor_stub.volumes.progress import Done, Find, VolumeProgress
from fleet import errors
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Volume, fields
from fleet.objects.volume import Size
from fleet.rpc import batch_answers
from fleet.rpc.endpoint import endpoint, served

#: Steps in one message. An agent sends far fewer.
MOST_STEPS = 256
Percent = Annotated[int, pydantic.Strict(), pydantic.Field(ge=0, le=100)]
_Method: Any = Literal["get_host_volumes", "volume_done"]
#: Statuses in which a backend must act.
Status = Literal["creating", "managing", "extending", "migrating", "retyping", "unmanaging", "deleting", "available"]


class VolumeManager:
    """Namespace ``volume``: volumes are placed, made and removed; pools are reported."""

    target = served("conductor", "volume")

    def __init__(self, placement: VolumePlacement, progress: VolumeProgress) -> None:
        self._placement = placement
        self._progress = progress

    @endpoint
    def place_volume(self, context: RequestContext, volume_uuid: fields.Uuid, attempt: fields.Natural) -> None:
        self._placement.place(context, [volume_uuid], attempt)

    @endpoint
    def report_pools(
        self,
        context: RequestContext,
        reports: list[JSONObject],
        pools: dict[fields.Name, list[fields.Name]],
        copies: Annotated[dict[fields.Name, dict[fields.Uuid, Percent]], pydantic.Field(max_length=MOST_STEPS)]
        | None = None,
    ) -> list[JSONObject]:
        self._progress.copied(copies or {})
        return self._progress.report(reports, pools)

    @endpoint
    def get_host_volumes(
        self,
        context: RequestContext,
        host: fields.Name,
        volume_uuids: list[fields.Uuid] | None = None,
        limit: fields.Positive | None = None,
        marker: fields.Uuid | None = None,
    ) -> list[JSONObject]:
        return [volume.to_wire() for volume in self._progress.of_host(host, volume_uuids, limit, marker)]

    @endpoint
    def get_removable_volumes(
        self,
        context: RequestContext,
        host: fields.Name,
        volume_uuids: list[fields.Uuid],
        pool: fields.Name | None = None,
    ) -> list[str]:
        return self._progress.removable(host, volume_uuids, pool)

    @endpoint
    def volume_done(
        self,
        context: RequestContext,
        volume_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        status: Status,
    ) -> JSONObject:
        return self._progress.done(context, Attempt(volume_uuid, attempt, host), status).to_wire()

    @endpoint
    def volume_failed(
        self,
        context: RequestContext,
        volume_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        status: Status,
        failure: Failure,
    ) -> JSONObject:
        return self._progress.fail(context, Attempt(volume_uuid, attempt, host), status, failure).to_wire()

    @endpoint
    def volume_measured(
        self,
        context: RequestContext,
        volume_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        size_gb: Size,
        stored_gb: fields.Natural = 0,
    ) -> JSONObject:
        found = self._progress.measured(context, Attempt(volume_uuid, attempt, host), size_gb, stored_gb)
        return found.to_wire()

    @endpoint
    def volume_steps(
        self, context: RequestContext, steps: Annotated[list[JSONObject], pydantic.Field(max_length=MOST_STEPS)]
    ) -> list[JSONObject]:
        """Do each step; return their answers in the same order. A refused step holds back no other."""
        parsed = [_parse_step(context, each, f"steps.{number}") for number, each in enumerate(steps)]
        # Log lines about all steps name no single volume.
        context.about()
        found = iter(self._progress.of_hosts([each for each in parsed if isinstance(each, Find)]))
        done = iter(self._progress.done_all([each for each in parsed if isinstance(each, Done)]))
        return [
            batch_answers.result([volume.to_wire() for volume in next(found)])
            if isinstance(each, Find)
            else _told(next(done) if isinstance(each, Done) else each)
            for each in parsed
        ]


def _told(answer: Volume | errors.FleetError) -> JSONObject:
    if isinstance(answer, errors.FleetError):
        return batch_answers.refusal(answer)
    return batch_answers.result(answer.to_wire())


@dataclasses.dataclass(frozen=True)
class _Find:
    """``get_host_volumes`` of some volumes."""

    host: fields.Name
    volume_uuids: Annotated[list[fields.Uuid], pydantic.Field(max_length=MOST_STEPS)]


@dataclasses.dataclass(frozen=True)
class _Done:
    """``volume_done``."""

    volume_uuid: fields.Uuid
    attempt: fields.Natural
    host: fields.Name
    status: Status


def _parse_step(context: RequestContext, data: JSONObject, field: str) -> Find | Done | errors.InvalidInput:
    """The step; or the error, if it is invalid."""
    try:
        if fields.parse(_Method, data.get("method"), f"{field}.method") == "get_host_volumes":
            find = fields.parse(_Find, data, field)
            return Find(find.host, find.volume_uuids)
        done = fields.parse(_Done, data, field)
        about = {"volume": done.volume_uuid, "attempt": done.attempt, "host": done.host}
        asked_by = requester.on_behalf(context, data, field, **about)
        return Done(asked_by, Attempt(done.volume_uuid, done.attempt, done.host), done.status)
    except errors.InvalidInput as wrong:
        return wrong
