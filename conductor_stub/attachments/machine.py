# SPDX-License-Identifier: Apache-2.0
"""The state machine of attachments.

See ``steps.machine``. Called by the modules beside it.

The host is that of the instance, so an attachment never waits for one. The volume is not available before the host has
reported that its guest does not have it, or the instance is deleted.

While an instance is evacuated, its attachments keep their status: those that are attached follow the guest, and the others
are dropped when the guest runs elsewhere. If the evacuation fails, the host that comes back ends them.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Sequence
from typing import Literal

from conductor_stub.steps.limits import StepContext, not_after
from conductor_stub.steps.machine import TimedRow
from fleet import errors, failpoints, volume_states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.instances import history, instances, moves
from fleet.db.tables.volumes import AttachmentRow
from fleet.db.volumes import attachments, volumes
from fleet.objects import fields

#: Of the first step of an attachment.
FIRST_ATTEMPT = 1
#: Events of an instance.
_EVENTS = {volume_states.ATTACHING: "attach_volume", volume_states.DETACHING: "detach_volume"}


class AttachmentTimeout(errors.FleetError):
    """The host did not attach or detach the volume in time. Its agent may be down: 'fleet service list' shows it."""

    code = 504
    template = "Host {host} did not end {status} of device {device} within {timeout_s} s."


@dataclasses.dataclass(frozen=True)
class AttachmentReport:
    """The report of a host. ``status`` and ``attempt`` are those that it has read. ``failure`` is "" if it is done."""

    uuid: fields.Uuid
    host: fields.Name
    status: Literal["attaching", "detaching"]
    attempt: fields.Natural
    failure: fields.LongText = ""


@failpoints.commits_inherited(time_out="conductor.attach_overdue")
class AttachmentMachine(TimedRow[AttachmentRow, AttachmentTimeout]):
    def lock(self, tx: Transaction, uuids: Collection[str]) -> list[AttachmentRow]:
        return list(attachments.lock_all(tx, uuids))

    def status(self, row: AttachmentRow) -> str | None:
        return row.status if row.status in volume_states.WITH_A_HOST else None

    def enter(
        self, tx: Transaction, rows: Sequence[AttachmentRow], status: str, due: datetime.datetime, ctx: StepContext
    ) -> list[AttachmentRow]:
        return [_set(tx, row, status=status, step_deadline=not_after(due, _coming(row, ctx))) for row in rows]

    def timed_out(self, tx: Transaction, row: AttachmentRow, ctx: StepContext) -> AttachmentTimeout | None:
        if _is_moving(tx, row):
            return None
        timeout_s = f"{ctx.limits.attach_timeout_s:.0f}"
        host = instances.get(tx, row.instance_uuid).host
        late = AttachmentTimeout(host=host, status=row.status, device=row.device, timeout_s=timeout_s)
        _fail(tx, row, type(late).__name__, late.message, ctx)
        return late


@failpoints.commits("conductor.attach_done")
def done(tx: Transaction, report: AttachmentReport, ctx: StepContext) -> AttachmentRow | None:
    """The host has done its part, or cannot. Return the attachment as it is now; None if there is none any more.

    A late or repeated report changes nothing. But one of a detachment that was given up counts, unless the volume is
    following the guest to another host meanwhile.
    """
    row = attachments.lock(tx, report.uuid)
    if row is None or row.attempt != report.attempt:
        return row
    gave_up = (row.status, report.status) == (volume_states.ATTACHED, volume_states.DETACHING)
    if row.status != report.status and (report.failure or not gave_up):
        return row
    if instances.get(tx, row.instance_uuid).host != report.host:
        return row
    is_detached = row.status == volume_states.DETACHING and not report.failure
    if not is_detached and _is_moving(tx, row):
        return row
    if report.failure:
        return _fail(tx, row, "failed", report.failure, ctx)
    if report.status == volume_states.ATTACHING:
        volume = volumes.lock(tx, row.volume_uuid)
        volumes.write(tx, volume, ctx.now, status=volume_states.IN_USE)
        _add_event(tx, row, ctx)
        return _set(tx, row, status=volume_states.ATTACHED, deadline=None, step_deadline=None)
    attachments.remove(tx, row, ctx.now)
    _add_event(tx, row, ctx, status=volume_states.DETACHING)
    return None


def release(tx: Transaction, row: AttachmentRow, ctx: StepContext) -> None:
    """``reserved → (gone)``, of a locked attachment whose instance is on no host."""
    attachments.remove(tx, row, ctx.now)
    _add_event(tx, row, ctx, status=volume_states.DETACHING)


def begin_detaching(
    tx: Transaction, row: AttachmentRow, deadline: datetime.datetime | None, ctx: StepContext
) -> AttachmentRow:
    """``→ detaching``, of a locked attachment. A report of what was begun before is not about this."""
    due = ctx.due(ctx.limits.placing_timeout_s, deadline)
    begun = {"status": volume_states.DETACHING, "deadline": deadline, "step_deadline": due}
    return _set(tx, row, **begun, attempt=row.attempt + 1)


def deadline(ctx: StepContext) -> datetime.datetime:
    return ctx.now + seconds(ctx.limits.attach_timeout_s)


def _is_moving(tx: Transaction, row: AttachmentRow) -> bool:
    """Return True if a move of the instance of a locked attachment has not ended."""
    return moves.of_instance(tx, row.instance_uuid) is not None


def _coming(row: AttachmentRow, ctx: StepContext) -> datetime.datetime | None:
    """The deadline of an attachment; None if it has none, or it passed while the instance was moving."""
    return row.deadline if row.deadline is not None and row.deadline > ctx.now else None


def _fail(tx: Transaction, row: AttachmentRow, result: str, message: str, ctx: StepContext) -> AttachmentRow:
    """``attaching → detaching``: the guest may have the volume. ``detaching → attached``; but an undoing goes on."""
    _add_event(tx, row, ctx, result, message)
    volume, failure = volumes.lock(tx, row.volume_uuid), {"error": result, "message": message, "details": {}}
    if row.status == volume_states.ATTACHING:
        volumes.write(tx, volume, ctx.now, status=volume_states.DETACHING, failure=failure)
        return begin_detaching(tx, row, None, ctx)
    if row.deadline is None:
        # The sweeper repeats it.
        return row
    volumes.write(tx, volume, ctx.now, status=volume_states.IN_USE, failure=failure)
    return _set(tx, row, status=volume_states.ATTACHED, deadline=None, step_deadline=None)


def _set(tx: Transaction, row: AttachmentRow, **values: object) -> AttachmentRow:
    tx.update(attachments.ATTACHMENTS, row.uuid, values)
    return attachments.changed(row, values)


def _add_event(
    tx: Transaction,
    row: AttachmentRow,
    ctx: StepContext,
    result: str = history.SUCCESS,
    message: str = "",
    status: str | None = None,
) -> None:
    instance = instances.get(tx, row.instance_uuid)
    where = {"host": instance.host, "node": instance.node, "attempt": instance.attempt, "request_id": row.request_id}
    event = _EVENTS[status or row.status]
    history.add_outcome(tx, row.instance_uuid, event, now=ctx.now, result=result, message=message, **where)
