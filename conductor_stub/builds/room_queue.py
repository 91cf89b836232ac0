# SPDX-License-Identifier: Apache-2.0
"""Acts on builds that wait for room: wakes them, and ends those that have waited as long as they may.

Called by :mod:`conductor_stub.builds.wiring`.

::

    placing ── no host has room ──▶ queued ── a change may help ──▶ scheduling ──▶ handed out to any conductor
                                      ├────── recheck interval ───▶ scheduling
                                      └────── wait_until ─────────▶ error, with the last refusal

A queued build is a row. No thread and no message belongs to it, so it survives any daemon. Changes are read by their
generations, up to the one that the queue's own row names; so a change while no conductor runs wakes builds as well.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping, Sequence

from oslo_log import log as logging

from conductor_stub.builds import wake_choice
from conductor_stub.builds.machine import BuildMachine
from conductor_stub.builds.placement import BuildPlacement
from conductor_stub.builds.wake_choice import Choice, Wake
from conductor_stub.steps.apart import apart
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import failpoints, states
from fleet.clock import Clock, seconds, utcnow
from fleet.context import RequestContext, new_context
from fleet.db.engine.database import Database, Transaction
from fleet.db.instances.waiting import kept_host, queued_builds, room_changes, room_queue
from fleet.db.instances.waiting.kept_host import Kept
from fleet.db.instances.waiting.queued_builds import DueBuild
from fleet.db.instances.waiting.room_queue import Pulse
from fleet.db.tables.instances import InstanceRow, RequestedInstance
from fleet.db.tables.queue import RoomQueueRow
from fleet.json_codec import JSONObject
from fleet.objects.room import ReturnedRoom, Room
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Rows that one look reads; the others wait for the next look.
BATCH = 500
#: Shapes of builds of which one look tries the oldest again although nothing has woken it.
RECHECKED = 20
#: Seconds between two counts for the metrics.
COUNT_EVERY_S = 15
#: Seconds by which the clocks of conductors, and a transaction's time and its commit, may differ.
_OVERLAP_S = 10

_machine = BuildMachine()


class RoomQueue:
    """Every conductor calls :meth:`look` each second. While nothing has changed, that is one query of indexes."""

    def __init__(
        self, database: Database, placement: BuildPlacement, limits: StepLimits, clock: Clock = utcnow
    ) -> None:
        self._database = database
        self._placement = placement
        self._limits = limits
        self._clock = clock
        self._counted_at: datetime.datetime | None = None

    def look(self) -> int:
        """Wake and end builds; return how many."""
        pulse = self._database.read(room_queue.pulse)
        self._keep(pulse)
        self._count()
        if pulse.first_due is None:
            return 0
        now = self._clock()
        acted = self._act_on_due(pulse) if pulse.first_due <= now else 0
        if pulse.news:
            woken = self._database.write(wake_by_changes, self._step_context())
            metrics.WAKES.labels("change").inc(len(woken))
            acted += self._hand_out(woken)
        return acted

    def _count(self) -> None:
        now = self._clock()
        if self._counted_at is not None and now - self._counted_at < seconds(COUNT_EVERY_S):
            return
        self._counted_at = now
        number, oldest = self._database.read(room_queue.totals)
        metrics.QUEUED_BUILDS.set(number)
        metrics.OLDEST_QUEUED.set(max((now - oldest).total_seconds(), 0.0) if oldest else 0.0)

    def _keep(self, pulse: Pulse) -> None:
        """Let the builds of this process leave the kept host alone, and choose another one when it is time."""
        kept = Kept(pulse.kept_host, pulse.kept_for) if pulse.kept_host and pulse.kept_for else None
        now, down_time_s = self._clock(), self._limits.service_down_time_s
        over = kept is not None and not self._database.read(kept_host.is_valid, kept, now, down_time_s)
        if over or (kept is None and pulse.first_due is not None and pulse.first_due <= now):
            kept = self._database.write(kept_host.choose, now, self._limits.queue_patience_s, down_time_s)
            if kept is not None:
                LOG.info("Host %s is kept for build %s, which has waited longest for room", kept.host, kept.uuid)
        self._placement.kept = kept

    def _act_on_due(self, pulse: Pulse) -> int:
        due = self._database.read(queued_builds.due, self._clock(), BATCH)
        over = [row for row in due if row.wait_until <= self._clock()]
        for row in over:
            with apart(f"The end of build {row.uuid}"):
                self._end(row)
        left = [row for row in due if row not in over]
        woken = self._database.write(recheck, left, self._step_context())
        metrics.WAKES.labels("recheck").inc(len(woken))
        return len(over) + self._hand_out(woken)

    def _hand_out(self, rows: Sequence[RequestedInstance]) -> int:
        """Hand out builds in their order, those of one request together."""

        def request(row: RequestedInstance) -> tuple[str, int]:
            return row.reservation_id, row.attempt

        for (_reservation, attempt), group in itertools.groupby(rows, request):
            those = list(group)
            self._placement.hand_out(self._context(those[0]), [row.uuid for row in those], attempt)
        return len(rows)

    def _end(self, row: InstanceRow) -> None:
        context = self._context(row)
        error = self._database.write(_machine.time_out, row.uuid, self._step_context(context))
        if error is None:
            self._database.write(queued_builds.wake, [row.uuid])
            return
        metrics.BUILDS_ENDED.labels(states.ERROR, error.reason_code.value).inc()
        LOG.warning("Setting instance to ERROR state: %s: %s", error.reason_code.value, error)

    def _step_context(self, context: RequestContext | None = None) -> StepContext:
        return StepContext(self._limits, self._clock(), context.request_id if context else None)

    @staticmethod
    def _context(row: InstanceRow) -> RequestContext:
        context = new_context(project_id=row.project_id, user_id=row.user_id).under(row.request_id)
        return context.about(instance_uuid=row.uuid, attempt=row.attempt)


@failpoints.commits("conductor.wake")
def wake_by_changes(tx: Transaction, ctx: StepContext) -> list[RequestedInstance]:
    """Wake the builds that changes since the last pass may help. Return the rows that the caller must hand out."""
    queue = room_queue.lock(tx, ctx.now)
    newest = room_queue.newest(tx)
    oldest_refusal, returned = room_queue.fresh(tx)
    since = queue.generation if oldest_refusal is None else min(queue.generation, oldest_refusal)
    nodes = {each.node_id for each in returned}
    looked_at = queue.looked_at - seconds(_OVERLAP_S)
    rooms = room_changes.rooms(tx, since, nodes, looked_at, ctx.now, ctx.limits.service_down_time_s)
    resting = room_queue.resting(tx, ctx.now)
    choice, has_read_all = _choose(tx, queue, rooms, returned, resting)
    woken: list[RequestedInstance] = []
    for wake in choice.wakes:
        waiter = wake.waiter
        uuids = room_queue.placed_together(tx, *waiter.request) if waiter.together else [waiter.uuid]
        woken += _machine.wake(tx, uuids, ctx)
        room_queue.note_woken(tx, uuids, wake.node_id, wake.depth)
    room_queue.serve(tx, {wake.waiter.project_id for wake in choice.wakes}, ctx.now)
    if has_read_all:
        room_queue.close(tx, newest, ctx.now)
    for wake in choice.backing_off:
        room_queue.try_later(tx, wake.waiter.uuid, wake.node_id, resting[wake.waiter.shape])
    return woken


def _choose(
    tx: Transaction,
    queue: RoomQueueRow,
    rooms: Sequence[Room],
    returned: Sequence[ReturnedRoom],
    resting: Mapping[str, datetime.datetime],
) -> tuple[Choice, bool]:
    """Read the builds in portions until one is woken. Return the choice, and whether no build is left to look at.

    The scheduler answers alike for builds of one shape. So the next portion has none of the shapes that were read in vain,
    and many of them do not hide the builds behind them.
    """
    taken, kept = room_queue.taken(tx), (queue.kept_host, queue.kept_for)
    backing_off: list[Wake] = []
    passed: set[str] = set()
    while True:
        rows = room_queue.in_order(tx, rooms, BATCH, passed, queue.kept_for)
        waiters = map(room_queue.waiter, rows.values())
        choice = wake_choice.choose(waiters, rooms, queue.generation, taken, returned, resting, kept)
        backing_off += choice.backing_off
        shapes = {row.shape for row in rows.values()} - passed
        has_read_all = len(rows) < BATCH or not shapes
        if choice.wakes or has_read_all:
            return Choice(choice.wakes, backing_off), has_read_all
        passed |= shapes


@failpoints.commits("conductor.recheck")
def recheck(tx: Transaction, seen: Sequence[DueBuild], ctx: StepContext) -> list[RequestedInstance]:
    """Wake the oldest build of each shape, and let the others wait on. Return the rows that the caller must hand out.

    They are tried although no host has changed: a booking that ends without a claim, or a promise that is taken back,
    changes none.

    :param seen: queued builds that are due, the oldest first
    """
    due = queued_builds.still_due(tx, [row.uuid for row in seen], ctx.now)
    oldest: JSONObject = {}
    for row in seen:
        if row.uuid in due and len(oldest) < RECHECKED:
            oldest.setdefault(row.shape, row)
    woken: list[RequestedInstance] = []
    for row in oldest.values():
        uuids = room_queue.placed_together(tx, row.reservation_id, row.attempt) or [row.uuid]
        woken += _machine.wake(tx, uuids, ctx)
        queued_builds.wake(tx, uuids)
    again = ctx.now + seconds(ctx.limits.queue_recheck_interval_s)
    queued_builds.postpone(tx, due - {row.uuid for row in woken}, again, ctx.now)
    return woken
