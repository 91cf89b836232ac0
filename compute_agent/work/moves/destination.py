# SPDX-License-Identifier: Apache-2.0
"""The steps of moves that their destination does: claim, build or take in the guest, and undo.

Called by :mod:`compute_agent.work.moves.mover`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from oslo_log import log as logging

from compute_agent.ledger.notifications import END
from compute_agent.node import claims
from compute_agent.node.resource_tracker import ResourceTracker
from compute_agent.work import reach
from compute_agent.work.moves import live_migration
from compute_agent.work.moves.steps import MoveSteps
from fleet import errors, failpoints, move_states, states
from fleet.agent.patience import Unanswered
from fleet.context import RequestContext
from fleet.objects import HostLimits, Migration

LOG = logging.getLogger(__name__)

#: Reasons why a destination does not take an instance.
_REFUSALS = (
    *(errors.ComputeResourcesUnavailable, errors.GroupAffinityViolation, errors.InvalidInput),
    *(errors.NotSupported, reach.VolumeUnreachable),
)


class Destination(MoveSteps):
    def claim(self, context: RequestContext, migration: Migration) -> Migration:
        """Claim the resources that the instance will need. As for a build, both this host and the ledger must agree."""
        started = self._clock()
        try:
            tracker = self._host.tracker(migration.dest_node)
        except errors.NotFound as unknown:
            return self.failed(context, migration, "claim", unknown, started)
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
            return self.failed(context, migration, "claim", refusal, started)
        LOG.info("Move claim successful on node %s: %s", tracker.node, claim.resources)
        self.tell(context, END, migration, claimed.instance)
        return claimed

    def _hold(self, tracker: ResourceTracker, migration: Migration) -> claims.Claim:
        instance = migration.at_destination
        limits = HostLimits.from_wire(migration.limits)
        overhead_mb = self._host.driver.estimate_instance_overhead(instance.flavor).get("memory_mb", 0)
        evacuated = migration.migration_type == move_states.EVACUATION
        claim = tracker.rebuild_claim if evacuated else tracker.resize_claim
        return claim(instance, limits, overhead_mb)

    def start(self, context: RequestContext, migration: Migration) -> Migration:
        driver, instance, source = self._host.driver, migration.at_destination, migration.source_compute
        volumes = reach.given(self._host, migration.volumes)

        def start() -> None:
            if not migration.on_one_host:
                shown = self.shown(context, migration)
                driver.fetch_disks(context, instance, source, migration.uuid, shown.copied)
            driver.finish_migration(context, instance, instance.image, **volumes)

        return self.attempt(context, migration, "finish", start)

    def rebuild(self, context: RequestContext, migration: Migration) -> Migration:
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

        return self.attempt(
            context, migration, states.SPAWN_STEP, rebuild, lambda: self.require_no_remains(context, instance.uuid)
        )

    def undo(
        self, context: RequestContext, migration: Migration, require_unneeded: Callable[[], None] = lambda: None
    ) -> Migration:
        """Remove the guest from this host. If this host is also the source, only the running guest is ended.

        :param require_unneeded: called right before the guest is removed
        """
        instance = migration.at_destination

        def undo() -> None:
            if instance.uuid not in self._host.driver.list_instance_uuids():
                return
            if migration.on_one_host:
                self.end_former_resize(context, migration)
                self.switch_off(context, instance, migration)
            else:
                require_unneeded()
                self._host.driver.destroy(context, instance.uuid)

        return self.attempt(context, migration, "revert", undo)

    def prepare(self, context: RequestContext, migration: Migration) -> Migration:
        instance = migration.at_destination
        # Only drivers that report to take running guests with volumes get any.
        volumes = reach.given(self._host, migration.volumes) if migration.volumes else {}
        return self.attempt(
            context,
            migration,
            "prepare",
            lambda: self._host.driver.pre_live_migration(context, instance, migration.source_compute, **volumes),
            lambda: self.destroy_remains(context, instance.uuid),
        )

    def take_in(self, context: RequestContext, migration: Migration) -> Migration:
        driver, instance = self._host.driver, migration.at_destination
        return self.attempt(
            context, migration, "arrive", lambda: driver.post_live_migration_at_destination(context, instance)
        )

    def look_and_undo(self, context: RequestContext, migration: Migration) -> Migration:
        """Remove the prepared files, unless the guest is found here.

        :raises live_migration.Unknown: half of its memory is here, or it arrives meanwhile
        """
        live_migration.require_over(self._host, migration)
        live_migration.end_half(context, self._host, migration)
        if live_migration.has_arrived(self._host, migration):
            arrived = dataclasses.replace(migration, status=move_states.RUNNING)
            return self._calls.done(context, arrived, self._host.name)
        return self.undo(context, migration, lambda: live_migration.require_not_here(self._host, migration))
