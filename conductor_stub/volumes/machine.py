# SPDX-License-Identifier: Apache-2.0
"""The state machine of volumes.

See ``steps.machine``; here a step's status is the column ``step``. Called by the modules beside it.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence

from conductor_stub.steps import faults
from conductor_stub.steps.limits import StepContext, not_after
from conductor_stub.steps.machine import PlacedRow
from fleet import errors, failpoints, volume_states
from fleet.db.engine.database import Transaction
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import volumes
from fleet.json_codec import JSONMapping
from fleet.objects.plans import VolumePlan
from fleet.reasons import Reason

#: Columns of a volume that nothing is done with.
SETTLED: JSONMapping = {"step": None, "step_deadline": None, "deadline": None}


#: What a volume is at the end of what is done with it, by its status.
_WANTED: Mapping[str, str] = {
    volume_states.CREATING: "available",
    volume_states.EXTENDING: "extended",
    volume_states.MIGRATING: "migrated",
    volume_states.RETYPING: "retyped",
    volume_states.MANAGING: "managed",
    volume_states.UNMANAGING: "given up",
    volume_states.DELETING: "removed",
}


class VolumeTimeout(errors.FleetError):
    """A step of the volume did not end in time; the message names the step in which it was last seen."""

    code = 504
    template = "The {kind} was not {wanted} within {timeout_s} s: lost in step {step} on {place}."

    def __init__(self, *, kind: str, wanted: str, timeout_s: str, step: str, place: str) -> None:
        super().__init__(kind=kind, wanted=wanted, timeout_s=timeout_s, step=step, place=place)
        self.reason_code = Reason.HOSTS_DOWN if step in volume_states.ACTING else Reason.MESSAGING

    @classmethod
    def of(cls, row: VolumeRow, ctx: StepContext) -> VolumeTimeout:
        kind, host = "volume" if row.snapshot_of is None else "snapshot", volumes.acting_host(row)
        place = f"backend {host}" if host else "no backend"
        timeout_s = f"{ctx.limits.volume_timeout_s:.0f}"
        return cls(kind=kind, wanted=_WANTED[row.status], timeout_s=timeout_s, step=str(row.step), place=place)


@failpoints.commits_inherited(take="conductor.volume_take", refuse="conductor.volume_refuse")
class VolumeMachine(PlacedRow[VolumeRow, VolumeRow]):
    waiting, placing = volume_states.SCHEDULING, volume_states.PLACING

    def lock(self, tx: Transaction, uuids: Collection[str]) -> list[VolumeRow]:
        return list(volumes.lock_all(tx, uuids))

    def status(self, row: VolumeRow) -> str | None:
        return None if row.deleted else row.step

    def enter(
        self, tx: Transaction, rows: Sequence[VolumeRow], status: str, due: datetime.datetime, ctx: StepContext
    ) -> list[VolumeRow]:
        entered = []
        for row in rows:
            # A volume past its deadline that a backend works on still repeats its step.
            step_deadline = not_after(due, row.deadline if status in self.unclaimed else None)
            entered.append(volumes.write(tx, row, ctx.now, step=status, step_deadline=step_deadline))
        return entered

    def refused(self, tx: Transaction, row: VolumeRow, error: Exception, ctx: StepContext) -> VolumeRow:
        return give_up(tx, row, error, ctx)

    def timed_out(self, tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
        return give_up(tx, row, VolumeTimeout.of(row, ctx), ctx)

    def put_back(
        self,
        tx: Transaction,
        uuids: Collection[str],
        attempt: int,
        due: datetime.datetime,
        ctx: StepContext,
        refusal: Exception | None = None,
    ) -> list[VolumeRow]:
        """Count refused claims: a scheduler that does not see that the pools are full would choose them for ever."""
        rows = super().put_back(tx, uuids, attempt, due, ctx, refusal)
        return [self._count_refusal(tx, row, refusal, ctx) for row in rows] if refusal and _is_race(refusal) else rows

    def _count_refusal(self, tx: Transaction, row: VolumeRow, refusal: Exception, ctx: StepContext) -> VolumeRow:
        refusals = row.plan.get("refusals", 0) + 1
        plan: VolumePlan = {**row.plan, "refusals": refusals}
        if refusals > ctx.limits.claim_refusals:
            return give_up(tx, row, refusal, ctx, plan=plan)
        return volumes.write(tx, row, ctx.now, plan=plan)


def listed(tried: Sequence[Mapping[str, object]]) -> str:
    """Return the pools that failed, with the step and the reason."""
    return "; ".join(f"{each['backend']} in step {each['step']}: {each['reason']}" for each in tried)


def _spare(tx: Transaction, uuid: str) -> None:
    """A snapshot cannot be deleted, so its volume does not follow."""
    # Its row may have been removed by hand: the snapshot ends all the same.
    for volume in volumes.lock_all(tx, [uuid]):
        if volumes.WITH_SNAPSHOTS in volume.spec:
            kept = {name: value for name, value in volume.spec.items() if name != volumes.WITH_SNAPSHOTS}
            volumes.note(tx, volume, spec=kept)


def _is_race(refusal: Exception) -> bool:
    return isinstance(refusal, errors.PoolSpaceUnavailable)


def give_up(tx: Transaction, row: VolumeRow, error: Exception, ctx: StepContext, **values: object) -> VolumeRow:
    """End the step of a locked volume: it is in error, or, after a failed migration, available where it is.

    What it claims stays claimed: its backend may have made it.
    """
    name, _code, message, details = faults.describe(error)
    tried = row.plan.get("tried")
    if tried and not isinstance(error, errors.MaxRetriesExceeded):
        # The scheduler leaves out the pools that failed. Why they did is part of the reason.
        message, details = f"{message} Tried before: {listed(tried)}", {**details, "attempts": tried}
    failure = {"error": name, "message": message, "details": details}
    if row.snapshot_of is not None and row.status == volume_states.DELETING:
        _spare(tx, row.snapshot_of)
    status = volume_states.FAILED[row.status]
    return volumes.write(tx, row, ctx.now, **{**SETTLED, "status": status, "failure": failure, **values})
