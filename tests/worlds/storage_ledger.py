# SPDX-License-Identifier: Apache-2.0
"""The ledger of volumes in memory, for tests of volume agents: the calls of ``VolumeTaskAPI``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from fleet.context import RequestContext
from fleet.objects import Volume


def _following(volume: Volume) -> Volume:
    """The volume after its backend has done its part."""
    if volume.step == "copying":
        now = {"host": volume.held_host, "pool": volume.held_pool}
        places = {**now, "held_host": volume.host, "held_pool": volume.pool}
        return dataclasses.replace(volume, **places, status="available", step="removing", attempt=volume.attempt + 1)
    if volume.step == "removing":
        return dataclasses.replace(volume, held_host=None, held_pool=None, step=None)
    ended = "deleted" if volume.status in ("deleting", "unmanaging") else "available"
    return dataclasses.replace(volume, status=ended, step=None)


class StorageLedger:
    """The part of ``VolumeTaskAPI`` that agents use: a ledger of volumes that moves on as the real one does."""

    def __init__(self, *volumes: Volume) -> None:
        self.volumes = {each.uuid: each for each in volumes}
        #: False: a conductor of an earlier release, which answers with all volumes at once.
        self.gives_parts = True
        #: Most volumes in one answer.
        self.largest = 0
        #: Volumes that the ledger has deleted.
        self.gone: set[str] = set()
        #: Pools on which volumes that are elsewhere have left data, by uuid.
        self.left_on: dict[str, Sequence[str]] = {}
        self.failures: list[dict[str, Any]] = []
        #: GiB of each volume that was measured, and GiB that lie there.
        self.measured: list[tuple[int, int]] = []
        self.reports: list[dict[str, Any]] = []
        self.pools: dict[str, list[str]] = {}
        self.copies: list[dict[str, dict[str, int]]] = []

    def get_host_volumes(
        self,
        context: RequestContext,
        host: str,
        volume_uuids: list[str] | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> list[dict[str, Any]]:
        there = [each for each in self.volumes.values() if each.pools_on(host) and each.status != "deleted"]
        wanted = [each.to_wire() for each in there if volume_uuids is None or each.uuid in volume_uuids]
        found = sorted(wanted, key=lambda each: each["uuid"])
        if not self.gives_parts:
            return found
        self.largest = max(self.largest, len(found[:limit]))
        return [each for each in found if each["uuid"] > (marker or "")][:limit]

    def get_removable_volumes(
        self, context: RequestContext, host: str, volume_uuids: list[str], pool: str
    ) -> list[str]:
        return [uuid for uuid in volume_uuids if uuid in self.gone or pool in self.left_on.get(uuid, ())]

    def volume_done(
        self, context: RequestContext, volume_uuid: str, attempt: int, host: str, status: str
    ) -> dict[str, Any]:
        found = self.volumes[volume_uuid]
        if (found.attempt, found.acting[0], found.status) == (attempt, host, status):
            self.volumes[volume_uuid] = found = _following(found)
        return found.to_wire()

    def volume_measured(
        self, context: RequestContext, volume_uuid: str, attempt: int, host: str, size_gb: int, stored_gb: int
    ) -> dict[str, Any]:
        self.measured.append((size_gb, stored_gb))
        found = dataclasses.replace(self.volumes[volume_uuid], size_gb=size_gb, claimed_gb=size_gb)
        self.volumes[volume_uuid] = found
        return found.to_wire()

    def takes_steps(self) -> bool:
        return False

    def volume_failed(
        self, context: RequestContext, volume_uuid: str, attempt: int, host: str, status: str, failure: dict[str, Any]
    ) -> dict[str, Any]:
        self.failures.append(failure)
        found = self.volumes[volume_uuid]
        if (found.attempt, found.acting[0], found.status) == (attempt, host, status):
            lost = {"held_host": None, "held_pool": None} if found.step == "copying" else {"host": None, "pool": None}
            self.volumes[volume_uuid] = found = dataclasses.replace(found, status="error", step=None, **lost)
        return found.to_wire()

    def report_pools(
        self, context: RequestContext, reports: list[dict[str, Any]], pools: dict[str, list[str]]
    ) -> list[dict[str, Any]]:
        self.reports, self.pools = reports, pools
        return [{"host": each["host"], "pool": each["pool"], "accepted": True, "reason": ""} for each in reports]

    def takes_copies(self) -> bool:
        return True

    def report_copies(self, context: RequestContext, copies: dict[str, dict[str, int]]) -> None:
        self.copies.append(copies)
