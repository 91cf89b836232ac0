# SPDX-License-Identifier: Apache-2.0
"""Finds hosts for waiting rows: take them, call the scheduler, send the order to the chosen host.

::

    place ── take ──▶ call the scheduler ──▶ hosts: send each order
                              ├──▶ no answer: put back, the sweeper tries again
                              └──▶ no host: refuse, or put back while a host may become free
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Generic

import oslo_messaging
from oslo_log import log as logging

from conductor_stub.steps.avoidance import Avoidance
from conductor_stub.steps.limits import StepContext, StepLimits
from conductor_stub.steps.machine import EndT, PlacedRow, RowT
from conductor_stub.steps.request_spec import Select
from fleet import errors, failpoints
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.json_codec import JSONObject
from fleet.objects import Selection
from fleet.reasons import Reason

LOG = logging.getLogger(__name__)

#: The scheduler gave no answer, or cannot answer now: the row is tried again until its deadline.
NO_ANSWER = (
    oslo_messaging.MessagingException,
    errors.DatabaseError,
    errors.StaleState,
    errors.RequestExpired,
    errors.NotTrusted,
    errors.ForeignLedger,
)


@dataclasses.dataclass(frozen=True)
class Batch(Generic[RowT]):
    """Rows that are placed with one call of the scheduler, at the same attempt.

    :param avoided: hosts that the scheduler must leave out
    """

    rows: Sequence[RowT]
    attempt: int
    avoided: Avoidance = Avoidance()

    @property
    def uuids(self) -> list[str]:
        return [row.uuid for row in self.rows]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind(Generic[RowT]):
    """The functions that request hosts for one kind of row, and send its orders.

    :param noun: in log lines
    :param select: calls the scheduler
    :param cast: casts the order to place rows to any conductor
    :param split: the rows of one request, split where they avoid different hosts
    :param about: the context of log lines about a row, which stands for its batch
    :param request: request spec and filter properties for the scheduler
    :param send: sends the order for each row of a batch to its selected host
    :param ask_again_at: when to call the scheduler again after a refusal; None to give up
    :param give_up: ends the rows of a batch: the scheduler has no host for them
    :param explain: adds to a refusal what the request has left out
    :param together: whether the scheduler can choose for several rows of a batch now
    :param apart: whether rows that were refused together are then placed one by one
    :param take: ``waiting → placing``; None: in one transaction
    """

    noun: str
    select: Select
    cast: Callable[[RequestContext, Sequence[str], int], None]
    split: Callable[[Sequence[RowT], int], list[Batch[RowT]]]
    about: Callable[[RequestContext, RowT, int], RequestContext]
    request: Callable[[Batch[RowT]], tuple[JSONObject, JSONObject]]
    send: Callable[[RequestContext, Batch[RowT], Sequence[Selection], JSONObject], None]
    ask_again_at: Callable[[Batch[RowT], Exception], datetime.datetime | None]
    give_up: Callable[[RequestContext, Batch[RowT], Exception], None]
    explain: Callable[[Batch[RowT], errors.NoValidHost], errors.NoValidHost] = lambda _batch, refusal: refusal
    together: Callable[[], bool] = lambda: True
    apart: bool = False
    take: Callable[[RequestContext, Sequence[str], int], Sequence[RowT]] | None = None


class Placement(Generic[RowT, EndT]):
    """Moves rows from ``waiting`` to the queue of a host. It holds no state: the rows do."""

    def __init__(
        self,
        database: Database,
        machine: PlacedRow[RowT, EndT],
        kind: Kind[RowT],
        limits: StepLimits,
        clock: Clock = utcnow,
    ) -> None:
        self._database = database
        self._machine = machine
        self._kind = kind
        self._limits = limits
        self._clock = clock

    @property
    def noun(self) -> str:
        """The word for a row in log lines."""
        return self._kind.noun

    def now(self) -> datetime.datetime:
        """The database's time."""
        return self._clock()

    def step_context(self, context: RequestContext | None = None) -> StepContext:
        return StepContext(self._limits, self._clock(), context.request_id if context else None)

    def hand_out(self, context: RequestContext, uuids: Sequence[str], attempt: int) -> None:
        """Offer waiting rows to any conductor."""

        def cast() -> None:
            try:
                self._kind.cast(context, uuids, attempt)
            except oslo_messaging.MessagingException as lost:
                LOG.warning("Could not hand out %d %ss (%s); the sweeper will", len(uuids), self.noun, lost)

        self._pass_on(cast)

    @staticmethod
    def _pass_on(work: Callable[[], None]) -> None:
        failpoints.hit("conductor.hand_out.before")
        work()
        failpoints.hit("conductor.hand_out.after")

    def place_here(
        self, context: RequestContext, rows: Sequence[RowT], attempt: int, run: Callable[[Callable[[], None]], None]
    ) -> None:
        """Place rows of one request that this process has accepted as taken.

        :param rows: as they were written
        :param run: has a thread do the work
        """
        self._pass_on(lambda: run(lambda: self._place(context, Batch(rows, attempt))))

    def place(self, context: RequestContext, uuids: Sequence[str], attempt: int) -> None:
        """Take the rows of one request that still wait at ``attempt``, and find hosts for them."""
        taken = self._take(context, uuids, attempt)
        if not taken:
            LOG.debug("None of %d %ss still waits at attempt %d", len(uuids), self.noun, attempt)
            return
        for batch in self._kind.split(taken, attempt):
            self._place(context, batch)

    def _take(self, context: RequestContext, uuids: Sequence[str], attempt: int) -> Sequence[RowT]:
        if self._kind.take is not None:
            return self._kind.take(context, uuids, attempt)
        return self._database.write(self._machine.take, uuids, attempt, self.step_context(context))

    def _place(self, context: RequestContext, batch: Batch[RowT]) -> None:
        if len(batch.rows) > 1 and not self._kind.together():
            self._place_each(context, batch)
            return
        context = self._kind.about(context, batch.rows[0], batch.attempt)
        answer = self._ask(context, batch)
        if isinstance(answer, Exception):
            explained = self._kind.explain(batch, answer) if isinstance(answer, errors.NoValidHost) else answer
            self._handle(context, batch, explained)
            return
        selections, properties = answer
        self._kind.send(context, batch, selections, properties)

    def _place_each(self, context: RequestContext, batch: Batch[RowT]) -> None:
        for row in batch.rows:
            self._place(context, Batch([row], batch.attempt, batch.avoided))

    def _ask(self, context: RequestContext, batch: Batch[RowT]) -> tuple[Sequence[Selection], JSONObject] | Exception:
        """Selections, and the filter properties that were sent. An error is returned, and handled outside of ``except``."""
        try:
            spec, properties = self._kind.request(batch)
            failpoints.hit("conductor.select.before")
            answer = self._kind.select(context, spec, properties)
            failpoints.hit("conductor.select.after")
            return [Selection.from_wire(each) for each in answer], properties
        except (errors.FleetError, oslo_messaging.MessagingException) as refusal:
            return refusal
        except Exception as bug:
            LOG.exception("Placing %d %ss failed", len(batch.rows), self.noun)
            return bug

    def _handle(self, context: RequestContext, batch: Batch[RowT], error: Exception) -> None:
        ctx = self.step_context(context)
        if isinstance(error, NO_ANSWER):
            # An answer that still comes finds the rows moved on.
            kind, due = type(error).__name__, ctx.due(self._limits.retry_interval_s)
            LOG.warning(
                "The scheduler cannot answer now (%s); %d %ss will be tried again", kind, len(batch.rows), self.noun
            )
            self._database.write(self._machine.put_back, batch.uuids, batch.attempt, due, ctx)
            return
        if self._kind.apart and len(batch.rows) > 1:
            # They have no room together. Some may have.
            self._place_each(context, batch)
            return
        again = self._kind.ask_again_at(batch, error)
        if again is None:
            self._kind.give_up(context, batch, error)
            return
        wait_s = (again - ctx.now).total_seconds()
        LOG.info("No host now, the scheduler is called again in %.0f s: %s", wait_s, error)
        self._database.write(self._machine.put_back, batch.uuids, batch.attempt, again, ctx, error)


def knows_no_host(refusal: Exception) -> bool:
    """Return True if the scheduler knows no host at all."""
    if not isinstance(refusal, errors.NoValidHost) or refusal.reason_code is not Reason.HOSTS_DOWN:
        return False
    return refusal.details.get("considered") == 0
