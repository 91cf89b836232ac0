# SPDX-License-Identifier: Apache-2.0
"""Finds moves whose step is overdue: hands them out, asks their host again, or goes on without it. Confirms resizes on
which nobody has decided."""

from __future__ import annotations

import datetime

import sqlalchemy as sa
from oslo_log import log as logging

from conductor_stub.moves import claims, failures, intake
from conductor_stub.moves.claims import Move
from conductor_stub.moves.placement import Placer
from conductor_stub.steps.limits import Limits, step_deadline
from fleet import errors, move_states
from fleet.clock import Clock, seconds, utcnow
from fleet.context import RequestContext, new_context
from fleet.db import moves, services
from fleet.db.engine import Database, Transaction

LOG = logging.getLogger(__name__)

#: Records looked at in one sweep; the rest waits for the next.
BATCH = 200


class MoveSweeper:
    """Every conductor sweeps; each act is a compare-and-set, so that two sweepers cannot both win."""

    def __init__(self, database: Database, placer: Placer, limits: Limits, clock: Clock = utcnow) -> None:
        self._database = database
        self._placer = placer
        self._limits = limits
        self._clock = clock

    def sweep(self) -> int:
        """Act on every overdue step; returns how many there were."""
        overdue = self._database.read(moves.due, self._clock(), BATCH)
        for record in overdue:
            self._sweep_one(record)
        return len(overdue) + self._confirm_waiting()

    def _confirm_waiting(self) -> int:
        """Confirm what nobody has decided on within ``resize_confirm_window``; returns how many there were."""
        now, window_s = self._clock(), self._limits.resize_confirm_window_s
        waiting = self._database.read(moves.unconfirmed, now - seconds(window_s), BATCH) if window_s else []
        for record in waiting:
            context = _context(record)
            try:
                move = self._database.write(intake.confirm, record.instance_uuid, self._limits, context.request_id, now)
            except (errors.Conflict, errors.NotFound) as decided:
                LOG.debug("A resize is not confirmed, as somebody was faster: %s", decided)
                continue
            LOG.info("Confirming a resize by itself: it has waited for %.0f s", window_s)
            self._placer.tell(context, move)
        return len(waiting)

    def _sweep_one(self, record: sa.Row) -> None:
        now = self._clock()
        context = _context(record)
        down = self._database.read(_down, record, now, self._limits.service_down_time_s)
        at = (record.uuid, record.attempt, record.status)
        following = self._database.write(failures.overdue, *at, down, self._limits, context.request_id, now)
        if following is None:
            following = self._database.write(_ask_again, *at, self._limits, now)
        if following is not None:
            LOG.warning(
                "A %s was lost while %s: it is %s now", record.migration_type, record.status, following.record.status
            )
            self._placer.tell(context, following)


def _down(connection: sa.Connection, record: sa.Row, now: datetime.datetime, down_time_s: float) -> frozenset[str]:
    """Those of the two hosts that have not been heard of in time."""
    names = {record.source_compute, record.dest_compute} - {None}
    found = {host: services.get(connection, host, services.COMPUTE) for host in names}
    return frozenset(host for host, row in found.items() if row is None or not services.is_up(row, now, down_time_s))


def _ask_again(
    tx: Transaction, uuid: str, attempt: int, status: str, limits: Limits, now: datetime.datetime
) -> Move | None:
    """Whoever is to act may not have heard of it: due again after a while. None when the move has gone on."""
    move = claims.read(tx, uuid)
    record = move.record
    if (record.status, record.attempt) != (status, attempt) or record.step_deadline > now or not claims.is_moving(move):
        return None
    unclaimed = status in move_states.UNCLAIMED
    allowed_s = limits.retry_interval_s if unclaimed else limits.placing_timeout_s
    due = step_deadline(now, allowed_s, record.deadline if unclaimed else None)
    moves.update(tx, uuid, now, status=move_states.ACCEPTED if unclaimed else status, step_deadline=due)
    return claims.read(tx, uuid)


def _context(record: sa.Row) -> RequestContext:
    """The request that asked for the move: its lines go on under its id."""
    context = new_context().under(record.request_id)
    return context.about(instance_uuid=record.instance_uuid, attempt=record.attempt, migration=record.uuid)
