# SPDX-License-Identifier: Apache-2.0
"""Acts on moves whose step is overdue: hand out again, notify the host again, or go on without it.

Confirms resizes that nobody decided on in time. Called by :mod:`conductor_stub.moves.wiring`.
"""

from __future__ import annotations

from oslo_log import log as logging

from conductor_stub.moves import acceptance, failures
from conductor_stub.moves.machine import Move, MoveMachine
from conductor_stub.moves.placement import MovePlacement
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.sweeper import PlacedSweeper
from fleet import errors
from fleet.clock import Clock, seconds, utcnow
from fleet.context import RequestContext, new_context
from fleet.db.engine.database import Database
from fleet.db.hosts import services
from fleet.db.instances import moves
from fleet.db.operations import arrivals
from fleet.db.tables.moves import MigrationRow

LOG = logging.getLogger(__name__)

#: Records that one sweep reads; the others wait for the next sweep.
BATCH = 200


class MoveSweeper(PlacedSweeper[Move, Move]):
    _placement: MovePlacement

    def __init__(self, database: Database, placement: MovePlacement, limits: StepLimits, clock: Clock = utcnow) -> None:
        super().__init__(database, MoveMachine(), placement, limits, clock)

    def sweep(self) -> int:
        overdue = [Move(*pair) for pair in self._database.read(moves.due, self._clock(), BATCH)]
        for move in overdue:
            with self._apart(move):
                self._sweep_one(move)
        return len(overdue) + self._confirm_waiting()

    def _sweep_one(self, move: Move) -> None:
        if move.record.status not in self._machine.unclaimed:
            self._go_on(move)
        elif not self._end(move):
            self._hand_out_again([move])

    def _ended(self, context: RequestContext, row: Move, result: Move) -> None:
        failure = result.record.failure
        LOG.warning("The %s is given up: %s", row.record.migration_type, failure and failure["message"])

    def _go_on(self, move: Move) -> None:
        """A host is late, or silent."""
        context, ctx, record = self._context(move), self._step_context(move), move.record
        hosts = {host for host in (record.source_compute, record.dest_compute) if host is not None}
        silent = self._database.read(services.silent, hosts, ctx.now, self._limits.service_down_time_s)
        following = self._database.write(failures.overdue, move, silent, ctx)
        if following is None:
            following = self._postpone(move)
        if following is not None:
            self._tell(record, following.record.status, silent)
            self._placement.notify(context, following)

    def _tell(self, record: MigrationRow, status: str, silent: frozenset[str]) -> None:
        kind, before, host = record.migration_type, record.status, record.dest_compute
        if status == before and host in silent and arrivals.is_one(record):
            LOG.warning(
                "An overdue %s stays %s: host %s is silent, and may run the guest. It goes on when the host is off "
                "for certain ('fleet recovery start', or 'fleet service force-down' if you have switched it off), or back",
                *(kind, before, host),
            )
        else:
            LOG.warning("An overdue %s was %s; it is %s now", kind, before, status)

    def _confirm_waiting(self) -> int:
        """Confirm resizes that users neither confirmed nor reverted within ``resize_confirm_window``; return the count.

        A resize whose guest is on a host that is down waits on: the former host may have the only guest that is left.
        """
        window_s, now = self._limits.resize_confirm_window_s, self._clock()
        since, alive_since = now - seconds(window_s), now - seconds(self._limits.service_down_time_s)
        waiting = self._database.read(moves.unconfirmed, since, alive_since, BATCH) if window_s else []
        for pair in waiting:
            move = Move(*pair)
            with self._apart(move):
                self._confirm(move)
        return len(waiting)

    def _confirm(self, move: Move) -> None:
        context = self._context(move)
        try:
            confirmed = self._database.write(acceptance.confirm, move.instance.uuid, self._step_context(move))
        except (errors.Conflict, errors.NotFound) as decided:
            LOG.debug("A resize is not confirmed, because it has changed meanwhile: %s", decided)
            return
        LOG.info("Confirming a resize by itself: it has waited for %.0f s", self._limits.resize_confirm_window_s)
        self._placement.notify(context, confirmed)

    def _context(self, row: Move) -> RequestContext:
        context = new_context().under(row.request_id)
        return context.about(instance_uuid=row.instance.uuid, attempt=row.attempt, migration=row.uuid)
