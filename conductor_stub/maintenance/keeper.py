# SPDX-License-Identifier: Apache-2.0
"""The periodic task of a conductor for maintenances. :mod:`conductor_stub.maintenance.wiring` starts it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence

from oslo_log import log as logging
from oslo_utils import uuidutils

from conductor_stub.maintenance import draining, working
from conductor_stub.moves.placement import MovePlacement
from conductor_stub.parts import Tell
from conductor_stub.steps.apart import apart
from conductor_stub.steps.beside import Beside, Spawn
from conductor_stub.steps.hook import Ended
from conductor_stub.steps.maintenance_settings import MaintenanceSettings
from conductor_stub.steps.waking import Waking
from fleet import maintenance_states
from fleet.clock import Clock
from fleet.context import RequestContext, new_context
from fleet.db.engine.database import Database, Transaction
from fleet.db.operations import maintenances
from fleet.db.tables.operations.maintenance import MaintenanceHostRow, MaintenanceRow
from fleet.telemetry import metrics
from fleet.telemetry.rate_limited_log import RateLimit

LOG = logging.getLogger(__name__)

#: Seconds between two looks.
EVERY_S = 2
#: Hooks that one conductor runs at a time.
_HOOKS = 32
#: Guests of a host that are tried in one look.
_TRIES = 50
#: Runs a command with an environment and a time limit; the last argument is for messages.
Hook = Callable[[Sequence[str], Mapping[str, str], float, str], Ended]


class MaintenanceKeeper:
    def __init__(
        self,
        database: Database,
        placement: MovePlacement,
        settings: MaintenanceSettings,
        clock: Clock,
        hook: Hook,
        spawn: Spawn,
        tell: Tell,
    ) -> None:
        """
        :param tell: sends a notification
        :param clock: the database's time, read for each call
        :param spawn: runs a hook beside the caller; the lease of one that is broken off ends by itself
        """
        self._database = database
        self._placement = placement
        self._settings = settings
        self._clock = clock
        self._hook = hook
        self._hooks = Beside(_HOOKS, spawn)
        self._tell = tell
        self._said = RateLimit()
        #: By host with more guests than a look tries, where the next look begins.
        self._first: dict[int, int] = {}
        self._waking = Waking()

    def look(self) -> None:
        """Go on with all maintenances."""
        self._measure()
        plans = self._database.read(maintenances.going_on)
        down_time_s = self._placement.step_context().limits.service_down_time_s
        tried_since = self._waking.look(self._database, self._clock(), down_time_s) if plans else None
        for plan in plans:
            for row in self._database.read(maintenances.wave, plan.uuid):
                with apart(f"Maintenance {plan.name}: host {row.host}") as failed:
                    self._go_on(plan, row, tried_since)
                if failed.problem:
                    self._database.write(draining.tell, row.id, [failed.problem], self._clock())
            ended = not self._database.read(maintenances.wave, plan.uuid)
            if ended and self._database.write(_end, plan.uuid, self._clock()):
                self._notify(plan, None, maintenance_states.ENDED)

    def _notify(self, plan: MaintenanceRow, host: str | None, status: str, problem: str = "") -> None:
        """:param host: None: of the whole maintenance"""
        event = f"maintenance.host.{status}" if host else f"maintenance.{status}"
        about = {"uuid": plan.uuid, "name": plan.name, "host": host, "status": status, "problem": problem}
        self._tell(new_context(), event, about)

    def _measure(self) -> None:
        hosts = self._database.read(maintenances.open_by_status)
        for status in maintenance_states.OPEN:
            metrics.MAINTENANCE_HOSTS.labels(status).set(hosts.get(status, 0))

    def _go_on(self, plan: MaintenanceRow, row: MaintenanceHostRow, tried_since: datetime.datetime | None) -> None:
        # Log lines of this host have it, and a request of their own.
        context = new_context().about(host=row.host)
        if row.status == maintenance_states.WAITING:
            ctx = self._placement.step_context()
            status = self._database.write(draining.begin, plan.uuid, row.id, self._settings, ctx)
            if status == maintenance_states.SKIPPED:
                LOG.warning("Maintenance %s: host %s is left out: it is down or gone", plan.name, row.host)
            elif status == maintenance_states.DRAINING:
                LOG.info("Maintenance %s: host %s is being drained", plan.name, row.host)
                self._notify(plan, row.host, maintenance_states.DRAINING)
        elif row.status == maintenance_states.DRAINING:
            self._drain(context, plan, row, tried_since)
        elif row.status == maintenance_states.WORKING:
            self._work(plan, row)
        elif row.status == maintenance_states.FAILED:
            self._database.write(working.hold, plan.uuid, row.id, self._placement.step_context())
        elif row.status == maintenance_states.RETURNING:
            failure = self._database.write(
                working.come_back, plan.uuid, row.id, self._settings, self._placement.step_context()
            )
            if failure:
                self._failed(plan, row.host, failure)
            elif failure is not None:
                LOG.info("Maintenance %s: host %s is done", plan.name, row.host)
                self._notify(plan, row.host, maintenance_states.DONE)

    def _failed(self, plan: MaintenanceRow, host: str, problem: str) -> None:
        LOG.warning("Maintenance %s: host %s: %s", plan.name, host, problem)
        self._notify(plan, host, maintenance_states.FAILED, problem)

    def _drain(
        self,
        context: RequestContext,
        plan: MaintenanceRow,
        row: MaintenanceHostRow,
        tried_since: datetime.datetime | None,
    ) -> None:
        ctx = self._placement.step_context(context)
        state = self._database.write(draining.settle, plan.uuid, row.id, self._settings, ctx, tried_since)
        for each in state.confirmed:
            self._placement.notify(context.about(instance_uuid=each.instance.uuid, migration=each.uuid), each)
        if state.status == maintenance_states.WORKING:
            LOG.info("Maintenance %s: host %s is empty", plan.name, row.host)
            self._notify(plan, row.host, maintenance_states.WORKING)
        elif state.status == maintenance_states.FAILED:
            self._failed(plan, row.host, "; ".join(state.problems))
        problems, room = list(state.problems), state.room
        pinned = self._placement.why_pinned() if state.guests else ""
        if pinned:
            problems, room = [*problems, pinned], 0
            if self._said.due(row.host) is not None:
                LOG.warning("Maintenance %s waits with host %s: %s", plan.name, row.host, pinned)
        guests = self._turn(row.id, state.guests) if room else ()
        for guest in guests:
            asked = context.about(instance_uuid=guest.uuid)
            uuid = uuidutils.generate_uuid()
            ctx = self._placement.step_context(asked)
            move = self._database.write(draining.begin_move, plan.uuid, row.id, guest, uuid, ctx)
            if isinstance(move, str):
                problems.append(move)
            elif move is not None:
                self._placement.hand_out(asked.about(migration=uuid), [uuid], move.attempt)
                room -= 1
                if not room:
                    break
        # If no guest was tried for want of room, the problem of the last try stays.
        if state.status == maintenance_states.DRAINING and (problems or state.room or not state.guests):
            self._database.write(draining.tell, row.id, problems, self._clock())

    def _turn(self, key: int, guests: Sequence[draining.Guest]) -> Sequence[draining.Guest]:
        """Return the guests that are tried in this look: those that were not tried in the last one come first."""
        first = self._first.pop(key, 0) % max(len(guests), 1)
        if len(guests) > _TRIES:
            self._first[key] = first + _TRIES
        return [*guests[first:], *guests[:first]][:_TRIES]

    def _work(self, plan: MaintenanceRow, row: MaintenanceHostRow) -> None:
        lease = uuidutils.generate_uuid()

        def take() -> working.Order | None:
            ctx = self._placement.step_context()
            order = self._database.write(working.take, plan.uuid, row.id, lease, self._settings, ctx)
            if isinstance(order, str):
                self._failed(plan, row.host, order)
                return None
            if order is not None:
                LOG.info(
                    "Maintenance %s: hook %s runs for host %s, try %d", plan.name, plan.hook, order.host, order.attempt
                )
            return order

        if plan.hook is None:
            # Nothing is run, so it waits for no hook of another maintenance.
            take()
        elif not self._hooks.begin(take, lambda order: self._run(order, plan, row.id, lease)):
            self._database.write(working.wait, row.id, f"its hook waits: {_HOOKS} hooks run already", self._clock())

    def _run(self, order: working.Order, plan: MaintenanceRow, key: int, lease: str) -> None:
        if self._clock() >= order.begin_by:
            # This process stood still: another conductor may have run the hook, and guests may run on the host again.
            late = "its hook would begin too late, and is left to the next try"
            LOG.warning("Maintenance %s: host %s: %s", order.maintenance, order.host, late)
            return
        ended = self._hook(order.command, order.environment(), self._settings.hook_timeout_s, "the hook")
        counts = self._database.write(working.finish, key, lease, ended, self._clock)
        late = "" if counts else "; this comes too late and counts for nothing"
        level = logging.INFO if ended.succeeded and counts else logging.WARNING
        LOG.log(level, "Maintenance %s: host %s: %s%s", order.maintenance, order.host, ended.message, late)
        if counts and not ended.succeeded:
            self._notify(plan, order.host, maintenance_states.FAILED, ended.message)


def _end(tx: Transaction, uuid: str, now: datetime.datetime) -> bool:
    """Return True if it ends now."""
    row = maintenances.lock(tx, uuid)
    ends = row.status == maintenance_states.RUNNING
    if ends:
        maintenances.update(tx, uuid, now, status=maintenance_states.ENDED, open_name=None, ended_at=now)
    return ends
