# SPDX-License-Identifier: Apache-2.0
"""The steps of moves that their source does: let the guest go, forget it, or take it up again.

Called by :mod:`compute_agent.work.moves.mover`.
"""

from __future__ import annotations

from compute_agent.work import reach
from compute_agent.work.moves import live_migration
from compute_agent.work.moves.steps import MoveSteps
from fleet.context import RequestContext
from fleet.objects import Migration


class Source(MoveSteps):
    def migrate(self, context: RequestContext, migration: Migration) -> Migration:
        """Migrate the guest without a time limit: only this host knows where the guest is. A conductor may abort it.

        It may take hours, in which builds need the slot. The conductor bounds live migrations by slots of its own.
        """
        self._give_back_slot(migration.instance.uuid)
        shown = self.shown(context, migration)
        return self.attempt(
            context,
            migration,
            "migrate",
            lambda: live_migration.run(context, self._host, migration, shown.copied),
            bounded=False,
        )

    def power_off(self, context: RequestContext, migration: Migration) -> Migration:
        def power_off() -> None:
            self.end_former_resize(context, migration, is_first=True)
            self.switch_off(context, migration.at_source, migration)

        return self.attempt(context, migration, "migrate", power_off)

    def confirm(self, context: RequestContext, migration: Migration) -> Migration:
        """Remove the files that were kept for a revert.

        :raises live_migration.Unknown: the destination still needs the memory that is here
        """

        def forget() -> None:
            uuid = migration.instance.uuid
            if migration.on_one_host:
                self._host.driver.forget_former_size(context, uuid)
            elif uuid in self._host.driver.list_instance_uuids():
                live_migration.require_over(self._host, migration)
                self._host.driver.confirm_migration(context, uuid)

        return self.attempt(context, migration, "confirm", forget)

    def resume(self, context: RequestContext, migration: Migration) -> Migration:
        driver, instance = self._host.driver, migration.at_source
        volumes = reach.given(self._host, migration.volumes)

        def resume() -> None:
            self.end_former_resize(context, migration)
            driver.finish_revert_migration(context, instance, **volumes)

        return self.attempt(context, migration, "resume", resume)
