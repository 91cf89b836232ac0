# SPDX-License-Identifier: Apache-2.0
"""One host's part of moves: reads the record, does what its status asks of this host, reports it, and reads on.

Nothing is stored between two reads. After a repeated order, a restart or a lost answer the record is simply read
again. Every driver call below may be repeated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from oslo_log import log as logging

from compute_agent.ledger.notifications import START
from compute_agent.work import orders
from compute_agent.work.moves import live_migration
from compute_agent.work.moves.destination import Destination
from compute_agent.work.moves.source import Source
from fleet import errors, move_states, states
from fleet.agent.patience import Unanswered
from fleet.context import RequestContext
from fleet.objects import Migration

LOG = logging.getLogger(__name__)

#: More steps than a host has in one move. It bounds the loop if the ledger's answers repeat.
MOST_STEPS = 8


class Mover(Destination, Source):
    """Runs moves on one host. The caller ensures that no other work on the instance runs."""

    @functools.cached_property
    def _steps(self) -> dict[tuple[str, str], Callable[[RequestContext, Migration], Migration]]:
        """The steps by type and status of the move."""
        return {
            (move_states.RESIZE, move_states.PREPARING): self.claim,
            (move_states.RESIZE, move_states.PRE_MIGRATING): self.power_off,
            (move_states.RESIZE, move_states.POST_MIGRATING): self.start,
            (move_states.RESIZE, move_states.CONFIRMING): self.confirm,
            (move_states.RESIZE, move_states.REVERTING): self.undo,
            (move_states.RESIZE, move_states.RESUMING): self.resume,
            (move_states.EVACUATION, move_states.PREPARING): self.claim,
            (move_states.EVACUATION, move_states.PRE_MIGRATING): self.rebuild,
            (move_states.LIVE_MIGRATION, move_states.PREPARING): self.claim,
            (move_states.LIVE_MIGRATION, move_states.PRE_MIGRATING): self.prepare,
            (move_states.LIVE_MIGRATION, move_states.RUNNING): self.migrate,
            (move_states.LIVE_MIGRATION, move_states.POST_MIGRATING): self.take_in,
            (move_states.LIVE_MIGRATION, move_states.CONFIRMING): self.confirm,
            (move_states.LIVE_MIGRATION, move_states.REVERTING): self.look_and_undo,
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
            self.tell(context, START, migration, migration.instance)
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
            self.destroy_remains(context, migration.instance.uuid)
