# SPDX-License-Identifier: Apache-2.0
"""The conductor's methods for agents of storage backends: the ledger, and reports about pools and volumes.

Called by :mod:`conductor_stub.volumes.manager` and :mod:`conductor_stub.volumes.wiring`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from oslo_log import log as logging

from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.volumes import ends
from conductor_stub.volumes.placement import VolumePlacement
from conductor_stub.volumes.together import Step
from fleet import errors, volume_states
from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import pools, volumes
from fleet.json_codec import JSONObject
from fleet.objects import PoolReport, Volume
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Find:
    """A backend asks for some of its volumes."""

    host: str
    uuids: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Done:
    """A backend has done its part of ``status``."""

    context: RequestContext
    attempt: Attempt
    status: str


class VolumeProgress:
    """Each method may be repeated without harm. The calling agent acts on the status in the answer."""

    def __init__(self, database: Database, placement: VolumePlacement) -> None:
        self._database = database
        self._placement = placement

    def report(
        self, reports: Sequence[Mapping[str, object]], served: Mapping[str, Collection[str]]
    ) -> list[JSONObject]:
        """Store inventories, each in a transaction of its own, so that a refused one does not hold back the others.

        :param served: by backend, all its pools; others are removed
        :return: for each report ``host``, ``pool``, ``accepted``, ``reason``
        """
        answers = [self._report(each) for each in reports]
        for host, names in served.items():
            now = self._placement.step_context().now
            for gone in self._database.write(pools.remove_except, host, names, now):
                LOG.info("Pool %s#%s is no longer reported: removed", host, gone)
        return answers

    def _report(self, data: Mapping[str, object]) -> JSONObject:
        answer = {"host": data.get("host"), "pool": data.get("pool"), "accepted": True, "reason": ""}
        try:
            report = PoolReport.from_wire(data)
        except errors.InvalidInput as bad:
            LOG.warning("Inventory of pool %s#%s refused: %s", data.get("host"), data.get("pool"), bad)
            return {**answer, "accepted": False, "reason": bad.message}
        self._database.write(pools.report, report, self._placement.step_context().now)
        return answer

    def copied(self, copies: Mapping[str, Mapping[str, int]]) -> None:
        """Keep how much of each volume is copied, for users. :param copies: per cent by backend and uuid"""
        for host, percents in copies.items():
            self._database.write(ends.copied, host, percents)

    def of_host(
        self, host: str, uuids: Collection[str] | None, limit: int | None = None, marker: str | None = None
    ) -> list[Volume]:
        """The volumes that claim space of the backend; the parameters are those of ``fleet.db.volumes.volumes.on_host``."""
        rows = self._database.read(volumes.on_host, host, uuids, limit, marker)
        return [volumes.to_volume(row) for row in rows]

    def of_hosts(self, asked: Sequence[Find]) -> list[list[Volume]]:
        """Return, for each backend, those of its volumes that it requests. One query reads all of them."""
        if not asked:
            return []
        rows = self._database.read(volumes.live, {uuid for each in asked for uuid in each.uuids})
        known = {row.uuid: row for row in rows}
        return [
            [
                volumes.to_volume(known[uuid])
                for uuid in each.uuids
                if uuid in known and each.host in (known[uuid].host, known[uuid].held_host)
            ]
            for each in asked
        ]

    def removable(self, host: str, uuids: Collection[str], pool: str | None = None) -> list[str]:
        """Return the volumes that the backend may remove: they are deleted, or elsewhere and have left data there.

        :param pool: the pool to remove them from; None: an earlier agent removes them from each pool
        """
        return self._database.read(volumes.removable, host, uuids, pool)

    def done(self, context: RequestContext, attempt: Attempt, status: str) -> Volume:
        """The backend has done its part of ``status``. :raises errors.NotFound:"""
        (answer,) = self.done_all([Done(context, attempt, status)])
        if isinstance(answer, errors.FleetError):
            raise answer
        return answer

    def done_all(self, reports: Sequence[Done]) -> list[Volume | errors.FleetError]:
        """The answer to each report, or why it is refused; all in one transaction if none is refused.

        :raises errors.DatabaseError: the outcome of each is unknown
        """
        steps = [
            Step(
                ends.done,
                each.attempt.uuid,
                None,
                (each.attempt, each.status, self._placement.step_context(each.context)),
            )
            for each in reports
        ]
        answers: list[Volume | errors.FleetError] = []
        for each, answer in zip(reports, self._placement.steps.write_each(steps), strict=True):
            if not isinstance(answer, Exception):
                answers.append(self._taken(each, answer))
            elif isinstance(answer, errors.FleetError) and not isinstance(answer, errors.DatabaseUnavailable):
                answers.append(answer)
            else:
                raise answer
        return answers

    def _follow(self, context: RequestContext, uuid: str) -> None:
        """A snapshot is gone: its volume may be deleted after it."""
        for volume in self._database.read(volumes.live, [uuid]):
            if volume.spec.get(volumes.WITH_SNAPSHOTS) and volume.status == volume_states.DELETING:
                about = context.about(volume=uuid, attempt=volume.attempt, host=volume.host)
                self._placement.notify(about, volume)

    def _taken(self, done: Done, row: VolumeRow) -> Volume:
        host, attempt = done.attempt.host, done.attempt.number
        about = done.context.about(volume=row.uuid, attempt=attempt, host=host)
        metrics.VOLUME_REPORTS.labels(done.status, "done").inc()
        LOG.info("The volume is %s on backend %s", row.status, host)
        if row.deleted and row.snapshot_of is not None:
            self._follow(done.context, row.snapshot_of)
        if row.attempt != attempt and volumes.acting_host(row) not in (None, host):
            # Another backend must act now.
            self._placement.notify(about, row)
        return _answer(row, host)

    def measured(self, context: RequestContext, attempt: Attempt, size_gb: int, stored_gb: int) -> Volume:
        """A backend has read the size of what it is to manage: claim its space, or end it. :raises errors.NotFound:"""
        ctx = self._placement.step_context(context)
        try:
            return _answer(self._database.write(ends.measured, attempt, size_gb, stored_gb, ctx), attempt.host)
        except (errors.PoolSpaceUnavailable, errors.QuotaExceeded) as refused:
            refusal = Failure(volume_states.MANAGING, type(refused).__name__, refused.message)
            return self.fail(context, attempt, volume_states.MANAGING, refusal)

    def fail(self, context: RequestContext, attempt: Attempt, status: str, failure: Failure) -> Volume:
        """The backend cannot do its part of ``status``. :raises errors.NotFound:"""
        self._placement.fail(context, attempt, status, failure)
        metrics.VOLUME_REPORTS.labels(status, "failed").inc()
        return _answer(self._database.read(volumes.get, attempt.uuid), attempt.host)


def _answer(row: VolumeRow, host: str) -> Volume:
    """Return the volume as the backend ``host`` may see it. A volume elsewhere is DELETED for it, without other facts."""
    if host in (row.host, row.held_host):
        return volumes.to_volume(row)
    return Volume(uuid=row.uuid, name="", size_gb=0, status=volume_states.DELETED)
