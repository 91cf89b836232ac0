# SPDX-License-Identifier: Apache-2.0
"""Finds rows whose step is overdue: a message or a worker was lost. Each kind of row has a sweeper of its own.

The sweepers of builds, moves, power tasks, attachments and volumes inherit from it.

::

    overdue ──▶ is its deadline over? ── yes ──▶ end
                        └──── no ──▶ repeat the step: notify its host, or hand it out again

Every conductor sweeps. Each act compares and sets the row, so of two sweepers, or of a sweeper and a slow worker, one wins.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Sequence
from typing import Generic

from oslo_log import log as logging

from conductor_stub.steps.apart import apart
from conductor_stub.steps.limits import StepContext, StepLimits
from conductor_stub.steps.machine import EndT, PlacedRow, RowT, TimedRow
from conductor_stub.steps.placement import Placement
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Database

LOG = logging.getLogger(__name__)


class Sweeper(abc.ABC, Generic[RowT, EndT]):
    def __init__(
        self, database: Database, machine: TimedRow[RowT, EndT], limits: StepLimits, clock: Clock = utcnow
    ) -> None:
        self._database = database
        self._machine = machine
        self._limits = limits
        self._clock = clock

    @abc.abstractmethod
    def sweep(self) -> int:
        """Act on every overdue step; return how many there were."""

    @abc.abstractmethod
    def _context(self, row: RowT) -> RequestContext:
        """Context of the request that asked for ``row``, so that log lines go on under its id."""

    @abc.abstractmethod
    def _ended(self, context: RequestContext, row: RowT, result: EndT) -> None:
        """The deadline of ``row`` has passed. :param result: of ``TimedRow.time_out``"""

    def _step_context(self, row: RowT) -> StepContext:
        return StepContext(self._limits, self._clock(), row.request_id)

    @contextlib.contextmanager
    def _apart(self, row: RowT) -> Iterator[None]:
        """A row that cannot be acted on does not hold the others up, and comes behind them in the next sweeps."""
        with apart(f"The sweep of row {row.uuid}") as failed:
            yield
        if failed.problem:
            with apart(f"The delay of row {row.uuid}"):
                self._postpone(row)

    def _end(self, row: RowT) -> bool:
        """End the row if its deadline has passed; return whether it has."""
        context = self._context(row)
        result = self._database.write(self._machine.time_out, row.uuid, self._step_context(row))
        if result is not None:
            self._ended(context, row, result)
        return result is not None

    def _postpone(self, row: RowT) -> RowT | None:
        """The row, if its step is still overdue and this sweeper repeats it; None otherwise."""
        return next(iter(self._database.write(self._machine.postpone, [row], self._step_context(row))), None)


class TimedSweeper(Sweeper[RowT, EndT]):
    """The host is known: it is notified again."""

    @abc.abstractmethod
    def _overdue(self) -> Sequence[RowT]:
        """Rows whose step is overdue."""

    @abc.abstractmethod
    def _again(self, context: RequestContext, row: RowT) -> None:
        """Notify the host of a row that repeats its step."""

    def sweep(self) -> int:
        overdue = self._overdue()
        for row in overdue:
            with self._apart(row):
                if not self._end(row) and (repeated := self._postpone(row)) is not None:
                    self._again(self._context(row), repeated)
        return len(overdue)


class PlacedSweeper(Sweeper[RowT, EndT]):
    """A row without a host is handed out again. What a claimed one does depends on its host."""

    _machine: PlacedRow[RowT, EndT]

    def __init__(
        self,
        database: Database,
        machine: PlacedRow[RowT, EndT],
        placement: Placement[RowT, EndT],
        limits: StepLimits,
        clock: Clock = utcnow,
    ) -> None:
        super().__init__(database, machine, limits, clock)
        self._placement = placement

    def _hand_out_again(self, rows: Sequence[RowT]) -> int:
        """Postpone rows of one request and attempt that wait for a host, and hand them out; return how many."""
        status = self._machine.status(rows[0])
        postponed = self._database.write(self._machine.postpone, rows, self._step_context(rows[0]))
        if postponed:
            context, number = self._context(postponed[0]), len(postponed)
            level = logging.DEBUG if self._machine.waits(rows[0]) else logging.WARNING
            LOG.log(
                level, "%d %ss were overdue in step %s and are handed out again", number, self._placement.noun, status
            )
            self._placement.hand_out(context, [row.uuid for row in postponed], postponed[0].attempt)
        return len(postponed)
