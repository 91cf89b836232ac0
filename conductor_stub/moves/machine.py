# SPDX-License-Identifier: Apache-2.0
"""The state machine of moves: migration records with the row of their instance. See ``steps.machine``.

Called by the modules beside it. The record's status says which host must act and what it must do
(``fleet.move_states``). The instance's task follows it.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Mapping, Sequence

from oslo_log import log as logging

from conductor_stub.moves import slots
from conductor_stub.steps import faults
from conductor_stub.steps.limits import StepContext, not_after
from conductor_stub.steps.machine import PlacedRow
from fleet import errors, failpoints, move_states, states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.hosts import hosts, services
from fleet.db.instances import history, instances, moves
from fleet.db.operations import recoveries
from fleet.db.tables.instances import RequestedInstance
from fleet.db.tables.moves import MigrationRow
from fleet.objects import host_report
from fleet.objects.plans import StoredFailure

LOG = logging.getLogger(__name__)

INSTANCES = instances.INSTANCES

#: The instance's task while a record has this status, once a destination has claimed.
_TASKS: Mapping[tuple[str, str], str] = {
    (move_states.RESIZE, move_states.PRE_MIGRATING): states.RESIZE_MIGRATING,
    (move_states.RESIZE, move_states.POST_MIGRATING): states.RESIZE_FINISH,
    (move_states.RESIZE, move_states.CONFIRMING): states.RESIZE_CONFIRMING,
    (move_states.RESIZE, move_states.REVERTING): states.RESIZE_REVERTING,
    (move_states.RESIZE, move_states.RESUMING): states.RESIZE_REVERTING,
    (move_states.EVACUATION, move_states.PRE_MIGRATING): states.REBUILD_SPAWNING,
    **{
        (move_states.LIVE_MIGRATION, status): states.MIGRATING
        for status in (
            move_states.PRE_MIGRATING,
            move_states.RUNNING,
            move_states.POST_MIGRATING,
            move_states.CONFIRMING,
            move_states.REVERTING,
        )
    },
}


class MoveTimeout(errors.FleetError):
    """The move did not end in time; the message names the status in which it was last seen."""

    code = 504
    template = "The move did not end within {timeout_s} s: it was {status}, on its way to {place}."

    @classmethod
    def of(cls, record: MigrationRow, ctx: StepContext) -> MoveTimeout:
        timeout_s, place = f"{ctx.limits.move_timeout_s:.0f}", record.dest_compute or "no host"
        return cls(timeout_s=timeout_s, status=record.status, place=place)


@dataclasses.dataclass(frozen=True)
class Move:
    """A record with the row of its instance, as one transaction has read or left them."""

    instance: RequestedInstance
    record: MigrationRow

    @property
    def uuid(self) -> str:
        return self.record.uuid

    @property
    def attempt(self) -> int:
        return self.record.attempt

    @property
    def request_id(self) -> str | None:
        return self.record.request_id

    @property
    def step_deadline(self) -> datetime.datetime | None:
        return self.record.step_deadline

    @property
    def deadline(self) -> datetime.datetime | None:
        return self.record.deadline

    @property
    def actor(self) -> str | None:
        """The host that must act; None if a conductor must act, or the move is over."""
        record = self.record
        return move_states.actor(record.migration_type, record.status, record.source_compute, record.dest_compute)

    @property
    def under_way(self) -> bool:
        """False once the instance is being deleted, which may happen in any status."""
        return not self.instance.deleted and self.instance.task_state != states.DELETING


@failpoints.commits_inherited(take="conductor.move_take", refuse="conductor.move_refuse")
class MoveMachine(PlacedRow[Move, Move]):
    waiting, placing = move_states.ACCEPTED, move_states.PREPARING

    def lock(self, tx: Transaction, uuids: Collection[str]) -> list[Move]:
        """:raises errors.NotFound:"""
        return [read(tx, uuid) for uuid in sorted(uuids)]

    def status(self, row: Move) -> str | None:
        return row.record.status if row.under_way and row.record.status in move_states.UNDER_WAY else None

    def enter(
        self, tx: Transaction, rows: Sequence[Move], status: str, due: datetime.datetime, ctx: StepContext
    ) -> list[Move]:
        entered = []
        for row in rows:
            # A claimed move past its deadline still repeats its step: its host may have to undo what it did.
            step_deadline = not_after(due, row.deadline if status in self.unclaimed else None)
            nowhere = {"dest_compute": None, "dest_node": None} if status == self.placing else {}
            moves.update(tx, row.uuid, ctx.now, status=status, step_deadline=step_deadline, **nowhere)
            entered.append(read(tx, row.uuid))
        return entered

    def refused(self, tx: Transaction, row: Move, error: Exception, ctx: StepContext) -> Move:
        name, _code, message, details = faults.describe(error)
        add_event(tx, row, row.record.migration_type, ctx, result=name, message=message, step="schedule")
        return end_unmoved(tx, row, {"error": name, "message": message, "details": details}, ctx)

    def timed_out(self, tx: Transaction, row: Move, ctx: StepContext) -> Move | None:
        """A claimed move is ended by ``failures.overdue``, and one that waits for a slot is handed out again.

        That one is late only if no conductor has looked for so long: it has not begun.
        """
        may_end = row.record.status in self.unclaimed and not self.waits(row)
        return self.refused(tx, row, MoveTimeout.of(row.record, ctx), ctx) if may_end else None

    def begin(self, tx: Transaction, row: Move, ctx: StepContext) -> Move | None:
        """A live migration whose host, or the fleet, has no slot waits on. Once it has one, its time counts."""
        record = row.record
        if why := slots.taken(tx, record, record.source_compute, ctx):
            wait(tx, row, why, ctx)
            return None
        if not record.plan.get("waits"):
            return row
        deadline = ctx.now + seconds(ctx.limits.move_timeout_s)
        moves.change_plan(tx, record, ctx.now, {"waits": False}, deadline=deadline)
        return read(tx, row.uuid)

    def waits(self, row: Move) -> bool:
        return row.record.status == move_states.ACCEPTED and bool(row.record.plan.get("waits"))


def read(tx: Transaction, uuid: str) -> Move:
    """The move, locked. :raises errors.NotFound:"""
    return Move(*moves.lock(tx, uuid))


def require_part(move: Move, host: str) -> None:
    """:raises errors.NotFound: ``host`` never had a part in the move; the error has no facts of the move"""
    record = move.record
    tried = {tried for tried, _node in record.plan.get("tried", ())}
    if host not in (record.source_compute, record.dest_compute) and host not in tried:
        raise errors.NotFound(kind="Migration", name=f"{move.uuid} on host {host}")


def set_status(tx: Transaction, move: Move, status: str, ctx: StepContext, **values: object) -> Move:
    """Write the status of a locked move, the task of its instance, and the usage of both hosts."""
    task = _TASKS.get((move.record.migration_type, status))
    due = ctx.due(ctx.limits.placing_timeout_s) if status in move_states.UNDER_WAY else None
    moves.update(tx, move.uuid, ctx.now, status=status, step_deadline=due, **values)
    set_instance(tx, move.instance, ctx, task_state=task)
    refresh_usage(tx, move, ctx)
    return read(tx, move.uuid)


def wait(tx: Transaction, move: Move, why: str, ctx: StepContext) -> Move:
    """Let a locked move that no host has claimed wait for a slot."""
    # The plan of a move that has waited before has the key. Only the first wait is logged at INFO.
    level = logging.DEBUG if "waits" in move.record.plan else logging.INFO
    LOG.log(level, "The live migration of instance %s waits: %s", move.instance.uuid, why)
    due, deadline = slots.until(move.record, ctx)
    dates = {"step_deadline": due, "deadline": deadline}
    moves.change_plan(tx, move.record, ctx.now, {"waits": True}, status=move_states.ACCEPTED, **dates)
    return read(tx, move.uuid)


def why_it_stays(tx: Transaction, record: MigrationRow, ctx: StepContext) -> str:
    """Return why a move is not begun on another host, because of its source; "" if all is well.

    If the source of an evacuation is up, a second guest may ruin the data of the first. If the source of a live migration is
    off for certain, it moves no guest; one that only sends no heartbeats may be back soon.
    """
    source = record.source_compute
    if record.migration_type == move_states.EVACUATION:
        return f"host {source} is up again" if is_up(tx, source, ctx) else ""
    is_live = record.migration_type == move_states.LIVE_MIGRATION
    return f"host {source} is off for certain" if is_live and recoveries.is_off(tx, source) else ""


def shares_disks(tx: Transaction, record: MigrationRow) -> bool:
    """Return True for an evacuation that starts the guest from its own disks, on storage that hosts share."""
    source = (record.source_compute, record.source_node)
    return record.migration_type == move_states.EVACUATION and bool(hosts.stat_of(tx, *source, host_report.SHARED))


def is_up(tx: Transaction, host: str | None, ctx: StepContext) -> bool:
    """Return True if the agent of the host sends heartbeats."""
    service = services.get(tx, host, services.COMPUTE)
    return service is not None and services.is_up(service, ctx.now, ctx.limits.service_down_time_s)


def end_unmoved(tx: Transaction, move: Move, failure: StoredFailure, ctx: StepContext) -> Move:
    """End a move that has changed nothing."""
    return set_status(tx, move, move_states.ERROR, ctx, failure=failure, **moves.NOTHING_HELD)


def set_instance(tx: Transaction, row: RequestedInstance, ctx: StepContext, **values: object) -> None:
    tx.update(INSTANCES, row.uuid, {"updated_at": ctx.now, **values})
    tx.touch(INSTANCES, row.uuid)


def refresh_usage(tx: Transaction, move: Move, ctx: StepContext) -> None:
    """Recount the usage of every node that the move concerns."""
    record, row = move.record, move.instance
    places = [(record.source_compute, record.source_node), (record.dest_compute, record.dest_node)]
    hosts.refresh_usages(tx, [*places, (row.host, row.node)], ctx.now)


def add_event(
    tx: Transaction,
    move: Move,
    event: str,
    ctx: StepContext,
    host: str | None = None,
    node: str | None = None,
    **result: object,
) -> None:
    result.update(host=host, node=node, request_id=ctx.request_id)
    history.add_event(tx, move.instance.uuid, event, now=ctx.now, attempt=move.attempt, **result)
