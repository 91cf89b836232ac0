# SPDX-License-Identifier: Apache-2.0
"""Finds a pool for a volume, claims its space, and notifies the agent of the backend.

The intake of volumes calls it. The sweeper calls it again for a volume whose step is overdue.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from oslo_log import log as logging

from conductor_stub.steps import casting
from conductor_stub.steps.attempt import Attempt, Failure, no_queue
from conductor_stub.steps.group_commit import GroupCommit
from conductor_stub.steps.limits import StepContext, StepLimits
from conductor_stub.steps.placement import Batch, Kind, Placement, knows_no_host
from conductor_stub.volumes import claims, failures, request_spec
from conductor_stub.volumes.machine import VolumeMachine
from conductor_stub.volumes.together import Step, Steps
from fleet import errors, states, volume_states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.db.hosts import services
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import volumes
from fleet.json_codec import JSONObject
from fleet.objects import Place, Selection, location
from fleet.rpc.clients import VolumeAPI, VolumeSchedulerAPI, VolumeTaskAPI

LOG = logging.getLogger(__name__)


class VolumePlacement(Placement[VolumeRow, VolumeRow]):
    def __init__(
        self,
        database: Database,
        scheduler: VolumeSchedulerAPI,
        backends: VolumeAPI,
        tasks: VolumeTaskAPI,
        limits: StepLimits,
        clock: Clock = utcnow,
        grouped: Callable[..., GroupCommit[object, object]] = GroupCommit,
    ) -> None:
        def select(context: RequestContext, spec: JSONObject, properties: JSONObject) -> list[JSONObject]:
            others = {request_spec.RETYPE: scheduler.retype, request_spec.MANAGE: scheduler.manage_existing}
            decide = others.get(spec["operation"], scheduler.select_backend)
            return decide(context, spec, properties)

        kind = Kind(
            noun="volume",
            select=select,
            cast=self._cast,
            split=self._split,
            about=self._about,
            request=self._request,
            send=self._send,
            ask_again_at=self._ask_again_at,
            give_up=self._give_up,
            # New volumes of one request.
            together=scheduler.takes_several,
            apart=True,
            take=self._take_together,
        )
        super().__init__(database, VolumeMachine(), kind, limits, clock)
        self.steps = Steps(database, grouped)
        self._backends = backends
        self._tasks = tasks

    def notify(self, context: RequestContext, row: VolumeRow) -> None:
        """Cast to the agent or the conductor that must act next, if any."""
        if row.step == volume_states.SCHEDULING:
            self.hand_out(context, [row.uuid], row.attempt)
        elif row.step == volume_states.PLACING:
            self._claim(context, row, [Place(**each) for each in row.plan["alternates"]])
        elif (host := volumes.acting_host(row)) is not None:
            self._order(context, row, host)

    def _order(self, context: RequestContext, row: VolumeRow, host: str) -> None:
        about = context.about(volume=row.uuid, attempt=row.attempt, host=host)
        reached = casting.reaches(host, lambda: self._backends.advance_volume(about, host, row.uuid))
        # The sweeper repeats other orders.
        if not reached and claims.is_replaceable(row):
            self.fail(about, Attempt(row.uuid, row.attempt, host), row.status, no_queue(host, services.VOLUME))

    def fail(self, context: RequestContext, attempt: Attempt, status: str, failure: Failure) -> None:
        """The backend could not do its part of ``status``: release its claim, and go on.

        :raises errors.NotFound:
        """
        following = self._database.write(failures.fail, attempt, status, failure, self.step_context(context))
        if following is None:
            LOG.info("Backend %s could not end step %s: %s", attempt.host, status, failure.message)
            return
        LOG.info(
            "Attempt %d on backend %s failed in step %s: %s; the volume is %s now",
            *(attempt.number, attempt.host, failure.step, failure.message, following.step or following.status),
        )
        if failure.step != states.CAST_STEP or following.step != volume_states.SCHEDULING:
            self.notify(context, following)
        # Otherwise the sweeper does: an agent that is restarted has a queue again after some seconds.

    # How volumes are requested and sent

    def _take_together(self, context: RequestContext, uuids: Sequence[str], attempt: int) -> Sequence[VolumeRow]:
        ctx = self.step_context(context)
        taken = [self.steps.write(self._machine.take, uuid, [uuid], attempt, ctx) for uuid in uuids]
        return [row for rows in taken for row in rows]

    def _cast(self, context: RequestContext, uuids: Sequence[str], attempt: int) -> None:
        for uuid in uuids:
            self._tasks.place_volume(context, uuid, attempt)

    def _split(self, rows: Sequence[VolumeRow], attempt: int) -> list[Batch[VolumeRow]]:
        return [Batch([row], attempt) for row in rows]

    def _about(self, context: RequestContext, row: VolumeRow, attempt: int) -> RequestContext:
        return context.about(volume=row.uuid, attempt=attempt)

    def _request(self, batch: Batch[VolumeRow]) -> tuple[JSONObject, JSONObject]:
        row, *others = batch.rows
        volumes.require_readable(row)
        several = {"volume_ids": batch.uuids} if others else {}
        return {**request_spec.build_request_spec(row), **several}, request_spec.build_filter_properties(row)

    def _send(
        self, context: RequestContext, batch: Batch[VolumeRow], selections: Sequence[Selection], properties: JSONObject
    ) -> None:
        """Claim the space of several new volumes together."""
        if len(batch.rows) == 1:
            self._send_one(context, batch, batch.rows[0], selections[0])
            return
        ctx = self.step_context(context)
        asked = [(row, _places(selection)) for row, selection in zip(batch.rows, selections, strict=True)]
        answers = self.steps.write_each([_claim_step(row, places, ctx) for row, places in asked])
        for (row, places), answer in zip(asked, answers, strict=True):
            about = self._about(context, row, batch.attempt)
            if isinstance(answer, errors.PoolSpaceUnavailable):
                self._claim(about, row, places[1:], answer)
            elif isinstance(answer, Exception):
                LOG.error("The claim failed; the sweeper will try again: %s", answer)
            elif answer is not None:
                self.notify(about, answer)

    def _send_one(self, context: RequestContext, batch: Batch[VolumeRow], row: VolumeRow, selection: Selection) -> None:
        places = [each for each in _places(selection) if _may_be(row, each)]
        if places:
            self._claim(context, row, places)
        else:
            here = location.append_host(row.host, row.pool)
            reason = f"The scheduler has only pool {here}, where the volume is; enable IgnoreAttemptedHostsFilter."
            self._give_up(context, batch, errors.NoValidHost(reason=reason))

    def _claim(
        self,
        context: RequestContext,
        row: VolumeRow,
        places: Sequence[Place],
        refusal: errors.PoolSpaceUnavailable | None = None,
    ) -> None:
        """Claim space on the first of ``places`` that has it. Without one, the volume waits for another decision.

        :param refusal: of a place before them
        """
        if refusal is not None:
            LOG.info("The claim is refused: %s", refusal.message)
        for index in range(len(places)):
            try:
                claimed = self.steps.record(_claim_step(row, places[index:], self.step_context(context)))
            except errors.PoolSpaceUnavailable as full:
                LOG.info("The claim is refused: %s", full.message)
                if (places[index].host, places[index].nodename) == (row.host, row.pool):
                    # The scheduler would choose it again: it has the volume.
                    self._go_elsewhere(context, row, full)
                    return
                refusal = full
                continue
            if claimed is not None:
                self.notify(context, claimed)
            return
        ctx = self.step_context(context)
        due = ctx.due(self._limits.retry_interval_s, row.deadline)
        self._database.write(self._machine.put_back, [row.uuid], row.attempt, due, ctx, refusal)

    def _go_elsewhere(self, context: RequestContext, row: VolumeRow, refusal: errors.PoolSpaceUnavailable) -> None:
        """A volume that is retyped cannot stay where it is."""
        ctx = self.step_context(context)
        following = self._database.write(failures.unfit, row.uuid, row.attempt, refusal, ctx)
        if following is not None:
            self.notify(context, following)

    def _ask_again_at(self, batch: Batch[VolumeRow], refusal: Exception) -> datetime.datetime | None:
        (row,) = batch.rows
        if not knows_no_host(refusal):
            return None
        return self.step_context().due(self._limits.retry_interval_s, row.deadline)

    def _give_up(self, context: RequestContext, batch: Batch[VolumeRow], refusal: Exception) -> None:
        ctx = self.step_context(context)
        for row in self._database.write(self._machine.refuse, batch.uuids, batch.attempt, refusal, ctx):
            LOG.warning("The volume is %s now: %s", row.status, row.failure and row.failure["message"])


def _places(selection: Selection) -> list[Place]:
    return [Place(selection.host, selection.nodename, selection.limits), *selection.alternates]


def _claim_step(row: VolumeRow, places: Sequence[Place], ctx: StepContext) -> Step:
    """The claim on the first of ``places``; the others are its alternates."""
    place, *others = places
    return Step(claims.claim, row.uuid, (place.host, place.nodename or ""), (row.uuid, row.attempt, place, others, ctx))


def _may_be(row: VolumeRow, place: Place) -> bool:
    """Return True if the volume may be placed there: only a retype may leave it on its pool."""
    return row.status == volume_states.RETYPING or (place.host, place.nodename) != (row.host, row.pool)
