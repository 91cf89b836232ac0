# SPDX-License-Identifier: Apache-2.0
"""Finds rows whose step is overdue: a message or a worker was lost. Each kind of row has a sweeper of its own.

Every conductor sweeps. Each act compares and sets the row, so of two sweepers, or of a sweeper and a slow worker, one wins.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Generic

from oslo_log import log as logging

from conductor_stub.steps.limits import StepContext, StepLimits
from conductor_stub.steps.machine import Machine, RowT
from conductor_stub.steps.placement import Placement
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Database

LOG = logging.getLogger(__name__)


class Sweeper(abc.ABC, Generic[RowT]):
    def __init__(
        self,
        database: Database,
        machine: Machine[RowT],
        placement: Placement[RowT],
        limits: StepLimits,
        clock: Clock = utcnow,
    ) -> None:
        self._database = database
        self._machine = machine
        self._placement = placement
        self._limits = limits
        self._clock = clock

    @abc.abstractmethod
    def sweep(self) -> int:
        """Act on every overdue step; return how many there were."""

    @abc.abstractmethod
    def _context(self, row: Any) -> RequestContext:
        """Context of the request that asked for ``row``, so that log lines go on under its id."""

    def _step_context(self, row: Any) -> StepContext:
        return StepContext(self._limits, self._clock(), row.request_id)

    def _hand_out_again(self, rows: Sequence[Any]) -> int:
        """Postpone rows of one request and attempt that wait for a host, and hand them out; return how many."""
        status = self._machine.status(rows[0])
        postponed: list[Any] = self._database.write(self._machine.postpone, rows, self._step_context(rows[0]))
        if postponed:
            context, number = self._context(postponed[0]), len(postponed)
            LOG.warning("%d %ss were overdue in step %s and are handed out again", number, self._placement.noun, status)
            self._placement.hand_out(context, [row.uuid for row in postponed], postponed[0].attempt)
        return len(postponed)
