# SPDX-License-Identifier: Apache-2.0
"""The state machines of the rows that a conductor drives.

A row has a *status*, an *attempt*, a *step deadline* and a *deadline*. The host of a :class:`TimedRow` (a power task, an
attachment) is known when it is accepted. A :class:`PlacedRow` (a build, a move, a volume) waits for a host first::

                    put back, postpone
              ┌──────────────────────────┐
              ▼                          │
    accept ▶ waiting ────── take ─────▶ placing ────── claim, by the host ─────▶ claimed ───▶ … ───▶ done
              ▲                         ▲  │                                       │
              │                         │  ├── refuse: no host ──▶ error           │
              │ ask the scheduler again │  │ try the next alternate                │
              └─────────────────────────┴──┴────────── fail: attempt + 1 ──────────┘

    from every status above:  time out, or fail without an attempt left ──▶ error

The row is the ledger and a message is only a hint. So each method here is one transaction: it locks the row, compares its
status and attempt with what the caller expects, and writes only if both match. Of two conductors that act on one step
one wins; a message that is repeated or late changes nothing. A worker that dies leaves a row whose step deadline passes:
the sweeper then postpones the row, which hands it out again. After its deadline the row ends.

A kind of row supplies its statuses and how it is locked, written and ended; see ``builds.machine``, ``moves.machine``,
``volumes.machine``, ``power.machine`` and ``attachments.machine``.
"""

from __future__ import annotations

import abc
import datetime
from collections.abc import Collection, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from conductor_stub.steps.limits import StepContext
from fleet.db.engine.database import Transaction
from fleet.objects import Place


class Timed(Protocol):
    """The columns that every kind of row has while it is under way."""

    @property
    def uuid(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def step_deadline(self) -> datetime.datetime | None: ...
    @property
    def deadline(self) -> datetime.datetime | None: ...
    @property
    def request_id(self) -> str | None: ...


RowT = TypeVar("RowT", bound=Timed)
#: What a kind of row returns of one that has timed out
EndT = TypeVar("EndT")


class TimedRow(abc.ABC, Generic[RowT, EndT]):
    """The steps of one kind of row. Of a row that a sweeper or a worker saw, only one of them goes on."""

    # Supplied by each kind of row

    @abc.abstractmethod
    def lock(self, tx: Transaction, uuids: Collection[str]) -> list[RowT]:
        """The rows, locked in an order that two transactions cannot contradict."""

    @abc.abstractmethod
    def status(self, row: RowT) -> str | None:
        """Status of a row that is under way; None if it has ended or is being deleted."""

    @abc.abstractmethod
    def enter(
        self, tx: Transaction, rows: Sequence[RowT], status: str, due: datetime.datetime, ctx: StepContext
    ) -> list[RowT]:
        """Write the status of locked rows, and ``due`` as their step deadline, or the row's deadline if that is earlier."""

    @abc.abstractmethod
    def timed_out(self, tx: Transaction, row: RowT, ctx: StepContext) -> EndT | None:
        """End a locked row whose deadline has passed; return what :meth:`time_out` is to return."""

    # The same for all

    def postpone(self, tx: Transaction, seen: Sequence[RowT], ctx: StepContext) -> list[RowT]:
        """Take rows whose step is overdue, and repeat it. Return those taken.

        :param seen: rows as the sweeper read them; one that has changed since is left out
        """
        return self._repeat(tx, self._overdue(tx, seen, ctx), ctx)

    def time_out(self, tx: Transaction, uuid: str, ctx: StepContext) -> EndT | None:
        """End the row if its time is over while it is under way; None if it is not."""
        for row in self.lock(tx, [uuid]):
            if self.status(row) is not None and self.is_over(tx, row, ctx):
                return self.timed_out(tx, row, ctx)
        return None

    def is_over(self, tx: Transaction, row: RowT, ctx: StepContext) -> bool:
        """Return True if a locked row is to end: its deadline has passed."""
        return row.deadline is not None and row.deadline <= ctx.now

    def _overdue(self, tx: Transaction, seen: Sequence[RowT], ctx: StepContext) -> list[RowT]:
        """Lock the rows that are still as they were ``seen``, and overdue."""
        expected = {row.uuid: (self.status(row), row.attempt, row.step_deadline) for row in seen}
        due = [row for row in self.lock(tx, expected) if row.step_deadline is not None and row.step_deadline <= ctx.now]
        return [row for row in due if (self.status(row), row.attempt, row.step_deadline) == expected[row.uuid]]

    def _repeat(self, tx: Transaction, rows: Sequence[RowT], ctx: StepContext) -> list[RowT]:
        """Give locked rows more time for the step that they are in."""
        repeated = []
        for row in rows:
            if (status := self.status(row)) is not None:
                repeated += self.enter(tx, [row], status, ctx.due(ctx.limits.placing_timeout_s), ctx)
        return repeated


class PlacedRow(TimedRow[RowT, EndT]):
    """A row that a scheduler finds a host for."""

    waiting: ClassVar[str]
    placing: ClassVar[str]

    @abc.abstractmethod
    def refused(self, tx: Transaction, row: RowT, error: Exception, ctx: StepContext) -> RowT:
        """Supplied by each kind of row: end a locked row that no host can take."""

    @property
    def unclaimed(self) -> tuple[str, str]:
        """Statuses in which no host holds anything for the row."""
        return self.waiting, self.placing

    def is_at(self, row: RowT, attempt: int, statuses: Collection[str]) -> bool:
        return row.attempt == attempt and self.status(row) in statuses

    def begin(self, tx: Transaction, row: RowT, ctx: StepContext) -> RowT | None:
        """Return a locked row as it begins; None if it waits on, for a reason of its kind."""
        return row

    def take(self, tx: Transaction, uuids: Collection[str], attempt: int, ctx: StepContext) -> list[RowT]:
        """``waiting → placing``. Return the rows that the caller has taken and must place."""
        mine = [row for row in self.lock(tx, uuids) if self.is_at(row, attempt, (self.waiting,))]
        begun = [row for each in mine if (row := self.begin(tx, each, ctx)) is not None]
        return self.enter(tx, begun, self.placing, ctx.due(ctx.limits.placing_timeout_s), ctx) if begun else []

    def put_back(
        self,
        tx: Transaction,
        uuids: Collection[str],
        attempt: int,
        due: datetime.datetime,
        ctx: StepContext,
        refusal: Exception | None = None,
    ) -> list[RowT]:
        """``placing → waiting``: the sweeper hands the rows out again when they are due.

        :param refusal: of the scheduler, if it had no host; None if it gave no answer
        """
        mine = [row for row in self.lock(tx, uuids) if self.is_at(row, attempt, (self.placing,))]
        return self.enter(tx, mine, self.waiting, due, ctx) if mine else []

    def refuse(
        self, tx: Transaction, uuids: Collection[str], attempt: int, error: Exception, ctx: StepContext
    ) -> list[RowT]:
        """End the rows for which the scheduler has no host. Return those that were still waiting for one."""
        rows = [row for row in self.lock(tx, uuids) if self.is_at(row, attempt, self.unclaimed)]
        return [self.refused(tx, row, error, ctx) for row in rows]

    def postpone(self, tx: Transaction, seen: Sequence[RowT], ctx: StepContext) -> list[RowT]:
        """Take rows whose step is overdue: unclaimed ones wait again, others repeat their step. Return those taken.

        :param seen: rows as the sweeper read them; one that has changed since is left out
        """
        rows = self._overdue(tx, seen, ctx)
        waiting = [row for row in rows if self.status(row) in self.unclaimed]
        claimed = [row for row in rows if self.status(row) not in self.unclaimed]
        postponed = self.enter(tx, waiting, self.waiting, ctx.due(ctx.limits.retry_interval_s), ctx) if waiting else []
        return postponed + self._repeat(tx, claimed, ctx)

    def waits(self, row: RowT) -> bool:
        """Return True if an overdue row was not forgotten, but waits for something that is taken."""
        return False

    def after_failure(
        self, deadline: datetime.datetime | None, places: Sequence[Place], ctx: StepContext
    ) -> tuple[str, datetime.datetime]:
        """Status and step deadline of a row that goes on to the first of ``places``, or to the scheduler if none is left."""
        if places:
            return self.placing, ctx.due(ctx.limits.placing_timeout_s, deadline)
        return self.waiting, ctx.due(ctx.limits.retry_interval_s, deadline)
