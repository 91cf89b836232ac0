# SPDX-License-Identifier: Apache-2.0
"""The ledger of moves in memory, for tests of compute agents: the calls of ``MigrationAPI``.

A record moves through the statuses of ``fleet.move_states``; the claims of record and instance follow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import oslo_messaging

from fleet import errors, move_states, states
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Claimed, Holding, Migration

_NEXT = {
    move_states.PRE_MIGRATING: move_states.POST_MIGRATING,
    move_states.POST_MIGRATING: move_states.FINISHED,
    move_states.CONFIRMING: move_states.CONFIRMED,
    move_states.REVERTING: move_states.RESUMING,
    move_states.RESUMING: move_states.REVERTED,
}
_NEXT_LIVE = {
    move_states.PRE_MIGRATING: move_states.RUNNING,
    move_states.RUNNING: move_states.POST_MIGRATING,
    move_states.POST_MIGRATING: move_states.CONFIRMING,
    move_states.CONFIRMING: move_states.COMPLETED,
    move_states.REVERTING: move_states.ERROR,
}


class MoveLedger:
    """``records`` by migration uuid; ``told`` holds the hosts' reports: (status, "done" or the step of the failure)."""

    def __init__(self) -> None:
        self.records: dict[str, Migration] = {}
        self.told: list[tuple[str, str]] = []
        #: Times that a host has read its moves.
        self.reads = 0
        #: Per cents that a destination has sent. None: the message is lost.
        self.copied: list[int] | None = []
        #: Called before the next answer: something else happens meanwhile.
        self.meanwhile: Callable[[], None] = lambda: None
        #: The next claim is refused with it.
        self.refusal: errors.FleetError | None = None

    def put(self, migration: Migration, **changes: Any) -> Migration:
        self.records[migration.uuid] = dataclasses.replace(migration, **changes)
        return self.records[migration.uuid]

    def place_migration(self, context: RequestContext, migration_uuid: str, attempt: int) -> None:
        raise NotImplementedError

    def get_host_migrations(
        self, context: RequestContext, host: str, instance_uuids: list[str] | None = None
    ) -> list[JSONObject]:
        self.reads += 1
        return [
            each.to_wire()
            for each in self.records.values()
            if host in (each.source_compute, each.dest_compute)
            and (instance_uuids is None or each.instance.uuid in instance_uuids)
        ]

    def claim_migration(
        self,
        context: RequestContext,
        migration_uuid: str,
        attempt: int,
        host: str,
        node: str,
        incarnation: str,
        claim: JSONObject,
    ) -> JSONObject:
        self._interrupt()
        if self.refusal is not None:
            raise self.refusal
        record = self.records[migration_uuid]
        if (record.status, record.attempt) != (move_states.PREPARING, attempt):
            raise errors.StaleBuild(instance_uuid=record.instance.uuid, attempt=attempt, reason=record.status)
        held = Holding(record.instance.uuid, host, node, Claimed.from_wire(claim))
        return self.put(record, status=move_states.PRE_MIGRATING, dest_node=node, held=held).to_wire()

    def migration_done(
        self, context: RequestContext, migration_uuid: str, attempt: int, host: str, status: str
    ) -> JSONObject:
        self._interrupt()
        record = self.records[migration_uuid]
        self.told.append((status, "done"))
        found = (record.status, status) == (move_states.REVERTING, move_states.RUNNING)
        if record.actor == host and (found or (record.status, record.attempt) == (status, attempt)):
            record = self._advance(dataclasses.replace(record, status=status))
        return record.to_wire()

    def migration_copied(
        self, context: RequestContext, migration_uuid: str, attempt: int, host: str, percent: int
    ) -> None:
        if self.copied is None:
            raise oslo_messaging.MessageDeliveryFailure("nobody listens")
        self.copied.append(percent)

    def migration_failed(
        self,
        context: RequestContext,
        migration_uuid: str,
        attempt: int,
        host: str,
        status: str,
        failure: JSONObject,
    ) -> JSONObject:
        self._interrupt()
        record = self.records[migration_uuid]
        self.told.append((status, failure["step"]))
        claimed = status in (move_states.PRE_MIGRATING, move_states.POST_MIGRATING)
        if status == move_states.RUNNING:
            return self.put(record, status=move_states.REVERTING, failure=failure).to_wire()
        if claimed and record.migration_type == move_states.RESIZE:
            return self.put(record, status=move_states.REVERTING, failure=failure).to_wire()
        return self.put(record, status=move_states.ERROR, failure=failure, held=None).to_wire()

    def _advance(self, record: Migration) -> Migration:
        if record.migration_type == move_states.EVACUATION:
            return self.put(self._arrived(record), status=move_states.DONE, held=None)
        if record.migration_type == move_states.LIVE_MIGRATION:
            return self._advance_live(record)
        if record.status == move_states.POST_MIGRATING:
            record = self._arrived(record)
        if record.status == move_states.REVERTING or _NEXT[record.status] in (move_states.CONFIRMED,):
            record = dataclasses.replace(record, held=None)
        return self.put(record, status=_NEXT[record.status])

    def _advance_live(self, record: Migration) -> Migration:
        following = _NEXT_LIVE[record.status]
        if record.status == move_states.RUNNING:
            record = dataclasses.replace(self._arrived(record), failure=None)
        if following not in move_states.UNDER_WAY:
            record = dataclasses.replace(record, held=None)
        return self.put(record, status=following)

    @staticmethod
    def _arrived(record: Migration) -> Migration:
        """The instance and the record change places."""
        before, held = record.instance, record.held
        assert held is not None
        assert held.claimed is not None
        names = [field.name for field in dataclasses.fields(Claimed)]
        kept = Claimed(**{name: getattr(before, f"claimed_{name}") for name in names})
        claimed = {f"claimed_{name}": getattr(held.claimed, name) for name in names}
        after = dataclasses.replace(record.new.of(before), host=held.host, node=held.node, vm_state=states.RESIZED)
        instance = dataclasses.replace(after, **claimed)
        return dataclasses.replace(record, instance=instance, held=Holding(before.uuid, before.host, before.node, kept))

    def _interrupt(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
