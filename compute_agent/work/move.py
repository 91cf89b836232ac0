# SPDX-License-Identifier: Apache-2.0
"""One host's part of moves: reads the record, does what its status asks of this host, reports it, and reads on.

Nothing is stored between two reads. After a repeated order, a restart or a lost answer the record is simply read
again. Every driver call below may be repeated.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from oslo_log import log as logging

from compute_agent.drivers import time_limit
from compute_agent.drivers.base import SpawnFailed
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.ledger.notifications import END, ERROR, START, Notifications
from compute_agent.node import claims
from compute_agent.node.host import Host
from compute_agent.node.resource_tracker import ResourceTracker
from compute_agent.work import live_migration, orders, reach
from compute_agent.work.build import SPAWN_SHARE, SpawnTimeout, failure_record
from fleet import errors, failpoints, move_states, states
from fleet.agent.patience import Unanswered
from fleet.context import RequestContext
from fleet.objects import HostLimits, Instance, Migration

LOG = logging.getLogger(__name__)

#: More steps than a host has in one move. It bounds the loop if the ledger's answers repeat.
MOST_STEPS = 8
#: Seconds between two messages about a copy. Users look at them; nothing else depends on them.
COPIES_S = 2.0


#: Reasons why a destination does not take an instance.
_REFUSALS = (
    *(errors.ComputeResourcesUnavailable, errors.GroupAffinityViolation, errors.InvalidInput),
    *(errors.NotSupported, reach.VolumeUnreachable),
)


class Shown:
    """Passes on how much is copied: not more often than users look at it."""

    def __init__(self, send: Callable[[int], None], clock: Callable[[], float]) -> None:
        self._send = send
        self._clock = clock
        self._percent, self._next = -1, clock()

    def copied(self, percent: int) -> None:
        if percent != self._percent and self._clock() >= self._next:
            self._percent, self._next = percent, self._clock() + COPIES_S
            self._send(percent)


class Mover:
    """Runs moves on one host. The caller ensures that no other work on the instance runs."""

    def __init__(
        self,
        host: Host,
        calls: MoveCalls,
        notifications: Notifications,
        clock: Callable[[], float] = time.monotonic,
        within: time_limit.Within = time_limit.run_within,
    ) -> None:
        self._host = host
        self._calls = calls
        self._notifications = notifications
        self._clock = clock
        self._within = within
        self._steps: dict[tuple[str, str], Callable[[RequestContext, Migration], Migration]] = {
            (move_states.RESIZE, move_states.PREPARING): self._claim,
            (move_states.RESIZE, move_states.PRE_MIGRATING): self._power_off,
            (move_states.RESIZE, move_states.POST_MIGRATING): self._start,
            (move_states.RESIZE, move_states.CONFIRMING): self._confirm,
            (move_states.RESIZE, move_states.REVERTING): self._undo,
            (move_states.RESIZE, move_states.RESUMING): self._resume,
            (move_states.EVACUATION, move_states.PREPARING): self._claim,
            (move_states.EVACUATION, move_states.PRE_MIGRATING): self._rebuild,
            (move_states.LIVE_MIGRATION, move_states.PREPARING): self._claim,
            (move_states.LIVE_MIGRATION, move_states.PRE_MIGRATING): self._prepare,
            (move_states.LIVE_MIGRATION, move_states.RUNNING): self._migrate,
            (move_states.LIVE_MIGRATION, move_states.POST_MIGRATING): self._take_in,
            (move_states.LIVE_MIGRATION, move_states.CONFIRMING): self._confirm,
            (move_states.LIVE_MIGRATION, move_states.REVERTING): self._look_and_undo,
        }

    def run(self, context: RequestContext, instance_uuid: str) -> None:
        """Do this host's part. It raises nothing that a move may meet; the record and its sweeper decide how the move
        continues.
        """
        context = context.about(instance_uuid=instance_uuid, host=self._host.name)
        try:
            migration = self._calls.find(context, self._host.name, instance_uuid)
            if migration is None:
                reason = "the ledger has no move of it to or from this host"
                orders.unwanted(orders.ADVANCE, instance_uuid, self._host.name, reason)
                return
            self._carry_on(context, migration)
        except (errors.StaleBuild, errors.NotFound) as stale:
            LOG.info("Dropping this step of a move: %s", stale.message)
        except errors.StaleIncarnation as stale:
            self._host.superseded(stale.message)
        except errors.FleetError as refused:
            LOG.error("The conductor refused this step of a move: %s", refused.message)
        except Unanswered as unanswered:
            LOG.warning("Giving up this move; the conductor will send the order again: %s", unanswered)
        except live_migration.Unknown as unknown:
            LOG.warning("The place of the guest is unknown; the conductor will send the order again: %s", unknown)

    def abort(self, context: RequestContext, instance_uuid: str) -> None:
        """Do this beside :meth:`run`, which may be moving the guest meanwhile."""
        live_migration.abort(context, self._host, self._calls, instance_uuid)

    def _carry_on(self, context: RequestContext, migration: Migration) -> None:
        for _step in range(MOST_STEPS):
            if migration.instance.task_state == states.DELETING:
                # The order to destroy the instance is on its way.
                return
            self._host.count(migration.instance.uuid, migration.instance, migration)
            if migration.actor != self._host.name:
                break
            before = migration
            context = context.about(
                instance_uuid=migration.instance.uuid,
                attempt=migration.attempt,
                host=self._host.name,
                migration=migration.uuid,
            )
            self._tell(context, START, migration, migration.instance)
            migration = self._steps[migration.migration_type, migration.status](context, migration)
            if (migration.status, migration.attempt) == (before.status, before.attempt):
                self._host.count(migration.instance.uuid, migration.instance, migration)
                return
        self._leave_nothing(context, migration)

    def _leave_nothing(self, context: RequestContext, migration: Migration) -> None:
        """The move has continued without this host: destroy what this host started."""
        held = migration.held
        mine = self._host.name in (migration.instance.host, held and held.host)
        if not mine and migration.instance.uuid in self._host.driver.list_instance_uuids():
            LOG.warning("Destroying a guest whose move has continued without this host")
            self._destroy(context, migration.instance.uuid)

    # A destination

    def _claim(self, context: RequestContext, migration: Migration) -> Migration:
        """Hold what the instance will need. As for a build, both this host and the ledger must agree."""
        started = self._clock()
        try:
            tracker = self._host.tracker(migration.dest_node)
        except errors.NotFound as unknown:
            return self._failed(context, migration, "claim", unknown, started)
        failpoints.hit("agent.move_claim.before")
        try:
            reach.require_all(self._host, migration.volumes)
            with self._hold(tracker, migration) as claim:
                failpoints.hit("agent.move_claim.after")
                try:
                    claimed = self._calls.claim(
                        context, migration, self._host.name, tracker.node, self._host.incarnation, claim.claimed()
                    )
                except Unanswered:
                    # The ledger may have the claim: the next read of the record shows it.
                    claim.keep()
                    raise
        except _REFUSALS as refusal:
            LOG.info("Move claim refused: %s", refusal.message)
            return self._failed(context, migration, "claim", refusal, started)
        LOG.info("Move claim successful on node %s: %s", tracker.node, claim.resources)
        self._tell(context, END, migration, claimed.instance)
        return claimed

    def _hold(self, tracker: ResourceTracker, migration: Migration) -> claims.Claim:
        instance = migration.at_destination
        limits = HostLimits.from_wire(migration.limits)
        overhead_mb = self._host.driver.estimate_instance_overhead(instance.flavor).get("memory_mb", 0)
        evacuated = migration.migration_type == move_states.EVACUATION
        claim = tracker.rebuild_claim if evacuated else tracker.resize_claim
        return claim(instance, limits, overhead_mb)

    def _start(self, context: RequestContext, migration: Migration) -> Migration:
        driver, instance, source = self._host.driver, migration.at_destination, migration.source_compute
        volumes = reach.given(self._host, migration.volumes)

        def start() -> None:
            if not migration.on_one_host:
                shown = self._shown(context, migration)
                driver.fetch_disks(context, instance, source, migration.uuid, shown.copied)
            driver.finish_migration(context, instance, instance.image, **volumes)

        return self._try(context, migration, "finish", start)

    def _rebuild(self, context: RequestContext, migration: Migration) -> Migration:
        """Take the evacuated guest over, or spawn it again; one that was stopped or suspended is then off. The remains of an
        earlier try are destroyed first.
        """
        driver, instance = self._host.driver, migration.at_destination
        volumes = reach.given(self._host, migration.volumes)

        def rebuild() -> None:
            if instance.uuid in driver.list_instance_uuids():
                driver.destroy(context, instance.uuid)
            if not driver.take_over(context, instance, migration.source_compute, **volumes):
                driver.spawn(context, instance, instance.image, **volumes)
            if instance.vm_state in states.AT_REST:
                driver.power_off(context, instance)

        return self._try(context, migration, states.SPAWN_STEP, rebuild, lambda: self._destroy(context, instance.uuid))

    def _undo(self, context: RequestContext, migration: Migration) -> Migration:
        """Remove the guest from this host. If this host is also the source, only the running guest is ended."""
        instance = migration.at_destination

        def undo() -> None:
            if instance.uuid not in self._host.driver.list_instance_uuids():
                return
            if migration.on_one_host:
                self._switch_off(context, instance, migration)
            else:
                self._host.driver.destroy(context, instance.uuid)

        return self._try(context, migration, "revert", undo)

    def _prepare(self, context: RequestContext, migration: Migration) -> Migration:
        instance = migration.at_destination
        return self._try(
            context,
            migration,
            "prepare",
            lambda: self._host.driver.pre_live_migration(context, instance, migration.source_compute),
            lambda: self._destroy(context, instance.uuid),
        )

    def _take_in(self, context: RequestContext, migration: Migration) -> Migration:
        driver, instance = self._host.driver, migration.at_destination
        return self._try(
            context, migration, "arrive", lambda: driver.post_live_migration_at_destination(context, instance)
        )

    def _look_and_undo(self, context: RequestContext, migration: Migration) -> Migration:
        """Remove what was prepared, unless the guest is found here."""
        if live_migration.has_arrived(self._host, migration):
            arrived = dataclasses.replace(migration, status=move_states.RUNNING)
            return self._calls.done(context, arrived, self._host.name)
        return self._undo(context, migration)

    # A source

    def _migrate(self, context: RequestContext, migration: Migration) -> Migration:
        """It has no limit of time: meanwhile only this host knows where the guest is. The conductor has it aborted."""
        shown = self._shown(context, migration)
        return self._try(
            context,
            migration,
            "migrate",
            lambda: live_migration.run(context, self._host, migration, shown.copied),
            bounded=False,
        )

    def _power_off(self, context: RequestContext, migration: Migration) -> Migration:
        return self._try(
            context, migration, "migrate", lambda: self._switch_off(context, migration.at_source, migration)
        )

    def _switch_off(self, context: RequestContext, instance: Instance, migration: Migration) -> None:
        self._host.driver.migrate_disk_and_power_off(
            context, instance, migration.dest_compute or "", migration.new.flavor
        )

    def _confirm(self, context: RequestContext, migration: Migration) -> Migration:
        """Remove what was kept for a revert."""

        def forget() -> None:
            uuid = migration.instance.uuid
            if migration.on_one_host:
                self._host.driver.forget_former_size(context, uuid)
            elif uuid in self._host.driver.list_instance_uuids():
                self._host.driver.confirm_migration(context, uuid)

        return self._try(context, migration, "confirm", forget)

    def _resume(self, context: RequestContext, migration: Migration) -> Migration:
        driver, instance = self._host.driver, migration.at_source
        volumes = reach.given(self._host, migration.volumes)
        return self._try(
            context, migration, "resume", lambda: driver.finish_revert_migration(context, instance, **volumes)
        )

    # Every step

    def _shown(self, context: RequestContext, migration: Migration) -> Shown:
        return Shown(lambda percent: self._calls.copied(context, migration, self._host.name, percent), self._clock)

    def _try(
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
            return self._failed(context, migration, step, failure, started)
        failpoints.hit("agent.move.after")
        LOG.info("Step %s of a %s is done after %.2f s", step, migration.migration_type, self._clock() - started)
        self._let_go(migration)
        following = self._calls.done(context, migration, self._host.name)
        self._tell(context, END, migration, following.instance)
        return following

    def _let_go(self, migration: Migration) -> None:
        """Release before the ledger does: it must not give out room that this host still holds."""
        if migration.status == move_states.REVERTING:
            self._host.drop_move_claim(migration.instance.uuid)
        elif migration.status == move_states.CONFIRMING and not migration.on_one_host:
            self._host.release(migration.instance.uuid)

    def _failed(
        self, context: RequestContext, migration: Migration, step: str, cause: Exception, started: float
    ) -> Migration:
        failure = failure_record(step, cause, self._clock() - started)
        LOG.warning("Step %s of a %s failed: %s", step, migration.migration_type, failure["message"])
        self._tell(context, ERROR, migration, migration.instance, cause)
        return self._calls.failed(context, migration, self._host.name, failure)

    def _tell(
        self,
        context: RequestContext,
        suffix: str,
        migration: Migration,
        instance: Instance,
        cause: Exception | None = None,
    ) -> None:
        self._notifications.move(context, suffix, self._host.name, migration, instance, cause)

    def _destroy(self, context: RequestContext, instance_uuid: str) -> None:
        """Destroy the guest. If that fails, the next comparison with the ledger finds it; until then it counts as an
        orphan.
        """
        try:
            self._host.destroy(context, instance_uuid)
        except Exception:
            LOG.exception("Cannot destroy the remains of a move")
