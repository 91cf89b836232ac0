# SPDX-License-Identifier: Apache-2.0
"""The periodic task of a conductor for recoveries. :mod:`conductor_stub.recovery.wiring` starts it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence

from oslo_log import log as logging
from oslo_utils import uuidutils

from conductor_stub.moves.placement import MovePlacement
from conductor_stub.recovery import evacuation, fencing, watch
from conductor_stub.recovery.racks import Racks
from conductor_stub.recovery.watch import Watch
from conductor_stub.steps.apart import apart
from conductor_stub.steps.beside import Beside, Spawn
from conductor_stub.steps.fence import Fence, Order
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.recovery_settings import RecoverySettings
from conductor_stub.steps.waking import Waking
from fleet import errors, recovery_states
from fleet.clock import Clock
from fleet.context import new_context
from fleet.db.engine.database import Database
from fleet.db.operations import recoveries
from fleet.db.tables.operations.recovery import RecoveryRow
from fleet.telemetry import metrics
from fleet.telemetry.rate_limited_log import RateLimit

LOG = logging.getLogger(__name__)

#: Seconds between two looks.
EVERY_S = 2
#: Fences that one conductor runs at a time.
_FENCES = 16


#: (host, guests) -> their new hosts by uuid, and a sentence about the plan.
Plan = Callable[[str, Sequence[str]], tuple[Mapping[str, str], str]]


class RecoveryKeeper:
    def __init__(
        self,
        database: Database,
        placement: MovePlacement,
        settings: RecoverySettings,
        clock: Clock,
        fence: Fence,
        spawn: Spawn,
        plan: Plan,
    ) -> None:
        """
        :param clock: the database's time, read for each call
        :param spawn: runs a fence beside the caller; the lease of one that is broken off ends by itself
        :param plan: finds a host for each guest of a lost one
        """
        self._database = database
        self._placement = placement
        self._settings = settings
        self._clock = clock
        self._fence = fence
        self._plan = plan
        self._fences = Beside(_FENCES, spawn)
        self._said = RateLimit()
        self._racks = Racks(database, settings.domain_label, clock)
        self._waking = Waking()
        self._told: dict[str, tuple[int, int]] = {}

    def look(self) -> None:
        """Begin the recoveries that are due, and continue all others."""
        if not self._database.read(watch.is_used, self._settings):
            return
        limits = self._placement.step_context().limits
        racks = self._racks.members()
        seen: Watch = self._database.write(watch.look, self._settings, racks, limits.service_down_time_s, self._clock())
        self._tell(seen)
        if seen.paused:
            return
        due = self._database.read(recoveries.due, self._clock())
        tried_since = self._waking.look(self._database, self._clock(), limits.service_down_time_s) if due else None
        for row in due:
            if seen.stops(row.host) and not row.asked:
                continue
            with apart(f"The recovery of host {row.host}"):
                self._go_on(row, limits, tried_since)

    def _go_on(self, row: RecoveryRow, limits: StepLimits, tried_since: datetime.datetime | None) -> None:
        # For the log lines, also of the transactions.
        new_context().about(host=row.host)
        if row.status == recovery_states.FENCING:
            self._begin_fence(row, limits)
        else:
            self._move(row, tried_since)

    def _tell(self, seen: Watch) -> None:
        for host in seen.lied:
            LOG.error("Host %s was not off after its fence, and its guests ran elsewhere: its recovery is held", host)
        for uuid, host in seen.begun.items():
            LOG.warning("Host %s is down: recovery %s begins", host, uuid)
        for name in sorted(seen.domains.keys() - self._told.keys()):
            silent, hosts = seen.domains[name]
            where = f"{self._settings.domain_label} {name}" if name else "the fleet"
            LOG.error("Recoveries are stopped in %s: %d of %d hosts are silent at once", where, silent, hosts)
        self._told = dict(seen.domains)
        metrics.RECOVERIES_STOPPED.set(len(seen.domains))
        counts = self._database.read(recoveries.open_by_status)
        for status in (*recovery_states.OPEN, "paused"):
            metrics.RECOVERIES.labels(status).set(counts.get(status, 0))

    def _begin_fence(self, row: RecoveryRow, limits: StepLimits) -> None:
        lease = uuidutils.generate_uuid()

        def take() -> Order | None:
            order = self._database.write(fencing.take, row.uuid, lease, self._settings, limits, self._clock)
            if order is not None:
                LOG.warning("Fencing host %s, try %d", order.host, order.attempt)
            return order

        self._fences.begin(take, lambda order: self._run_fence(order, lease))

    def _run_fence(self, order: Order, lease: str) -> None:
        if self._clock() >= order.begin_by:
            # This process stood still: another conductor may have fenced the host, and its guests may run there again.
            LOG.warning("Fence of host %s: it would begin too late, and is left to the next try", order.host)
            return
        outcome = self._fence(order)
        attempts = self._settings.fence_attempts
        counts = self._database.write(fencing.finish, order, lease, outcome, attempts, self._clock)
        late = "" if counts else "; this comes too late and counts for nothing"
        level = logging.INFO if outcome.is_off and counts else logging.WARNING
        LOG.log(level, "Fence of host %s: %s%s", order.host, outcome.message, late)

    def _move(self, row: RecoveryRow, tried_since: datetime.datetime | None) -> None:
        parallel, ctx = self._settings.parallel, self._placement.step_context()
        try:
            self._placement.require_parts()
        except errors.VersionPinned as old:
            if self._said.due(row.host) is not None:
                LOG.warning("The recovery of host %s waits: %s", row.host, old.message)
            return
        state = self._database.write(evacuation.settle, row.uuid, parallel, ctx, tried_since)
        if state.status != recovery_states.MOVING:
            LOG.warning("The recovery of host %s is %s", row.host, state.status)
            return
        if state.unplanned:
            plan, message = self._plan(row.host, [each.instance_uuid for each in state.waiting])
            self._database.write(evacuation.take_plan, row.uuid, plan, message, self._clock())
        for guest in state.waiting:
            with apart(f"The evacuation of {guest.instance_uuid} from host {row.host}"):
                context = new_context().about(instance_uuid=guest.instance_uuid, host=row.host)
                uuid = uuidutils.generate_uuid()
                asked = self._placement.step_context(context)
                move = self._database.write(evacuation.begin_move, row.uuid, guest.id, uuid, parallel, asked)
                if move is not None:
                    self._placement.hand_out(context.about(migration=uuid), [uuid], move.attempt)
