# SPDX-License-Identifier: Apache-2.0
"""Shared by all steps of moves: a limit of time, the report to the conductor, and the removal of remains.

Called by :mod:`compute_agent.work.moves.destination` and :mod:`compute_agent.work.moves.source`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from oslo_log import log as logging

from compute_agent.drivers.base import SpawnFailed
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.ledger.notifications import END, ERROR, Notifications
from compute_agent.node.host import Host
from compute_agent.work import former_resize
from compute_agent.work.build import SPAWN_SHARE, SpawnTimeout, failure_record
from compute_agent.work.moves import live_migration
from fleet import errors, failpoints, move_states
from fleet.agent import time_limit
from fleet.context import RequestContext
from fleet.objects import Instance, Migration

LOG = logging.getLogger(__name__)

#: Seconds between two messages about a copy. Users look at them; nothing else depends on them.
COPIES_S = 2.0


class Shown:
    """Sends the copied percentage, at most once in :data:`COPIES_S` seconds."""

    def __init__(self, send: Callable[[int], None], clock: Callable[[], float]) -> None:
        self._send = send
        self._clock = clock
        self._percent, self._next = -1, clock()

    def copied(self, percent: int) -> None:
        if percent != self._percent and self._clock() >= self._next:
            self._percent, self._next = percent, self._clock() + COPIES_S
            self._send(percent)


class MoveSteps:
    """One step of a move at a time, on one host."""

    def __init__(
        self,
        host: Host,
        calls: MoveCalls,
        notifications: Notifications,
        clock: Callable[[], float] = time.monotonic,
        within: time_limit.Within = time_limit.run_within,
        give_back_slot: Callable[[str], object] = lambda _uuid: None,
    ) -> None:
        """:param give_back_slot: called with an instance whose step only waits for the hypervisor from now on"""
        self._give_back_slot = give_back_slot
        self._host = host
        self._calls = calls
        self._notifications = notifications
        self._clock = clock
        self._within = within

    def shown(self, context: RequestContext, migration: Migration) -> Shown:
        return Shown(lambda percent: self._calls.copied(context, migration, self._host.name, percent), self._clock)

    def attempt(
        self,
        context: RequestContext,
        migration: Migration,
        step: str,
        work: Callable[[], None],
        clean_up: Callable[[], None] = lambda: None,
        bounded: bool = True,
    ) -> Migration:
        """:raises live_migration.Unknown: from ``work``; nothing is reported"""
        started = self._clock()
        limit_s = migration.step_within_s * SPAWN_SHARE if bounded and migration.step_within_s else None
        try:
            failpoints.hit("agent.move.before")
            self._within(context, limit_s, work)
        except live_migration.Unknown:
            raise
        except Exception as failed:
            failure: Exception = failed
            if isinstance(failed, time_limit.Overrun):
                failure = SpawnTimeout(f"The driver of {self._host.name} did not end step {step}: {failed}")
            elif not isinstance(failed, errors.FleetError | SpawnFailed):
                LOG.warning("Step %s of a move failed", step, exc_info=True)
            clean_up()
            return self.failed(context, migration, step, failure, started)
        failpoints.hit("agent.move.after")
        LOG.info("Step %s of a %s is done after %.2f s", step, migration.migration_type, self._clock() - started)
        self._let_go(migration)
        following = self._calls.done(context, migration, self._host.name)
        self.tell(context, END, migration, following.instance)
        return following

    def _let_go(self, migration: Migration) -> None:
        """Release before the ledger does: it must not give out room that this host still holds."""
        if migration.status == move_states.REVERTING:
            self._host.drop_move_claim(migration.instance.uuid)
        elif migration.status == move_states.CONFIRMING and not migration.on_one_host:
            self._host.release(migration.instance.uuid)

    def failed(
        self, context: RequestContext, migration: Migration, step: str, cause: Exception, started: float
    ) -> Migration:
        failure = failure_record(step, cause, self._clock() - started)
        LOG.warning("Step %s of a %s failed: %s", step, migration.migration_type, failure["message"])
        self.tell(context, ERROR, migration, migration.instance, cause)
        return self._calls.failed(context, migration, self._host.name, failure)

    def tell(
        self,
        context: RequestContext,
        suffix: str,
        migration: Migration,
        instance: Instance,
        cause: Exception | None = None,
    ) -> None:
        self._notifications.move(context, suffix, self._host.name, migration, instance, cause)

    def destroy_remains(self, context: RequestContext, instance_uuid: str) -> None:
        """Destroy the guest. If that fails, the next comparison with the ledger finds it; until then it counts as an
        orphan.
        """
        try:
            self._host.destroy(context, instance_uuid)
        except Exception:
            LOG.exception("Cannot destroy the remains of a move")

    def require_no_remains(self, context: RequestContext, instance_uuid: str) -> None:
        """Destroy the guest. :raises live_migration.Unknown: it may run on: no other host may have the instance"""
        try:
            self._host.destroy(context, instance_uuid)
        except Exception as failed:
            LOG.exception("Cannot destroy the remains of a move; its step is repeated")
            raise live_migration.Unknown(f"{type(failed).__name__}: {failed}") from failed

    def end_former_resize(self, context: RequestContext, migration: Migration, is_first: bool = False) -> None:
        """End a resize on this host that was over before this move, and that the host has missed.

        A later step would take the disks that are kept for its revert for those of this move, and give them back.

        :param is_first: this move has not been here yet. Else a resize to its new size is its own
        """
        driver, instance = self._host.driver, migration.at_source
        guest = driver.get_per_instance_usage().get(instance.uuid, {})
        # A guest that this move has switched off had its former resize ended first.
        if not former_resize.is_left(guest) or guest.get("switched_off"):
            return
        if is_first or former_resize.was_confirmed(guest, instance):
            step, end = former_resize.step(context, driver, instance, guest)
            LOG.warning("%s guest %s before its next move", step, instance.uuid)
            end()

    def switch_off(self, context: RequestContext, instance: Instance, migration: Migration) -> None:
        self._host.driver.migrate_disk_and_power_off(
            context, instance, migration.dest_compute or "", migration.new.flavor
        )
