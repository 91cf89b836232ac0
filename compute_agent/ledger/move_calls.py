# SPDX-License-Identifier: Apache-2.0
"""Calls to the conductor for moves.

Called by modules of :mod:`compute_agent.work`. As in ``build_calls``, each call is repeated until it is answered.
"""

from __future__ import annotations

from collections.abc import Callable

import oslo_messaging
from oslo_log import log as logging

from fleet import errors
from fleet.agent.patience import Answer, P, Patience
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Claimed, Migration
from fleet.rpc.clients import MigrationAPI

LOG = logging.getLogger(__name__)


class MoveCalls:
    """``limit_s`` bounds every call but :meth:`of_host`. All raise ``patience.Unanswered``."""

    def __init__(self, conductor: MigrationAPI, patience: Patience, limit_s: float) -> None:
        self._conductor = conductor
        self._patience = patience
        self._limit_s = limit_s

    def of_host(self, context: RequestContext, host: str) -> dict[str, Migration]:
        """Return all moves to and from ``host``, by instance; repeated without a limit."""
        answer = self._patience.call(None, self._conductor.get_host_migrations, context, host)
        found = [Migration.from_wire(each) for each in answer]
        return {migration.instance.uuid: migration for migration in found}

    def find(self, context: RequestContext, host: str, instance_uuid: str) -> Migration | None:
        """Return the instance's move, if there is one to or from ``host``."""
        answer = self._ask(self._conductor.get_host_migrations, context, host, [instance_uuid])
        return Migration.from_wire(answer[0]) if answer else None

    def claim(
        self, context: RequestContext, migration: Migration, host: str, node: str, incarnation: str, claimed: Claimed
    ) -> Migration:
        """:raises StaleBuild: StaleIncarnation: GroupAffinityViolation: NotFound: (all of ``errors``)"""
        place = (migration.uuid, migration.attempt, host, node, incarnation, claimed.to_wire())
        return Migration.from_wire(self._ask(self._conductor.claim_migration, context, *place))

    def done(self, context: RequestContext, migration: Migration, host: str) -> Migration:
        """Report that this host's part of the migration's status is done; return the move as it is now.

        :raises errors.NotFound:
        """
        part = (migration.uuid, migration.attempt, host, migration.status)
        return Migration.from_wire(self._ask(self._conductor.migration_done, context, *part))

    def copied(self, context: RequestContext, migration: Migration, host: str, percent: int) -> None:
        """Send how much of the disks is copied. Nothing waits for it: what is lost comes with the next one."""
        try:
            self._conductor.migration_copied(context, migration.uuid, migration.attempt, host, percent)
        except (errors.FleetError, oslo_messaging.MessagingException) as lost:
            LOG.debug("The progress of a copy is not sent: %s", lost)

    def failed(self, context: RequestContext, migration: Migration, host: str, failure: JSONObject) -> Migration:
        """Report that this host cannot do its part; return the move as it is now. :raises errors.NotFound:"""
        part = (migration.uuid, migration.attempt, host, migration.status, failure)
        return Migration.from_wire(self._ask(self._conductor.migration_failed, context, *part))

    def _ask(self, call: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        return self._patience.call(self._limit_s, call, *args, **kwargs)
