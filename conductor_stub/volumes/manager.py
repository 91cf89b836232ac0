# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of volumes for conductors and agents. ``intake`` has that for users."""

from __future__ import annotations

from typing import Any, Literal

import oslo_messaging

from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.volumes.placement import VolumePlacement
from conductor_stub.volumes.progress import VolumeProgress
from fleet.context import RequestContext
from fleet.objects import fields
from fleet.rpc import versions
from fleet.rpc.endpoint import endpoint

#: Statuses in which a backend must act.
Status = Literal["creating", "extending", "migrating", "retyping", "deleting", "available"]


class VolumeManager:
    """Namespace ``volume``: volumes are placed, made and removed; pools are reported."""

    target = oslo_messaging.Target(namespace="volume", version=versions.CURRENT["conductor"])

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
        reports: list[dict[str, Any]],
        pools: dict[fields.Name, list[fields.Name]],
    ) -> list[dict[str, Any]]:
        return self._progress.report(reports, pools)

    @endpoint
    def get_host_volumes(
        self, context: RequestContext, host: fields.Name, volume_uuids: list[fields.Uuid] | None = None
    ) -> list[dict[str, Any]]:
        return [volume.to_wire() for volume in self._progress.of_host(host, volume_uuids)]

    @endpoint
    def get_removable_volumes(
        self, context: RequestContext, host: fields.Name, volume_uuids: list[fields.Uuid]
    ) -> list[str]:
        return self._progress.removable(host, volume_uuids)

    @endpoint
    def volume_done(
        self,
        context: RequestContext,
        volume_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        status: Status,
    ) -> dict[str, Any]:
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
    ) -> dict[str, Any]:
        return self._progress.fail(context, Attempt(volume_uuid, attempt, host), status, failure).to_wire()
