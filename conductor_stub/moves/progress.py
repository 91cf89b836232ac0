# SPDX-License-Identifier: Apache-2.0
"""The conductor's methods for agents about moves. Agents call them over RPC (:mod:`fleet.rpc.clients.conductor`)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence

from oslo_log import log as logging

from conductor_stub.moves import claims, machine
from conductor_stub.moves.machine import Move
from conductor_stub.moves.placement import MovePlacement
from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.steps.limits import StepLimits
from fleet import errors, move_states
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.db.instances import moves
from fleet.db.tables.moves import MigrationRow
from fleet.db.volumes import attachments
from fleet.objects import Attachment, Claimed, Migration

LOG = logging.getLogger(__name__)


class MoveProgress:
    """Each method may be repeated without harm. The calling host acts on the status in the answer."""

    def __init__(self, database: Database, placement: MovePlacement, limits: StepLimits) -> None:
        self._database = database
        self._placement = placement
        self._limits = limits

    def of_host(self, host: str, instance_uuids: Sequence[str] | None) -> list[Migration]:
        """The moves that the host takes part in, or may come to take part in."""

        def read(connection: Connection) -> tuple[list[Move], dict[str, list[Attachment]]]:
            found = [Move(*pair) for pair in moves.of_host(connection, host, instance_uuids)]
            return found, _volumes(connection, [move.instance.uuid for move in found])

        found, volumes = self._database.read(read)
        return [self._value(move, volumes.get(move.instance.uuid, ())) for move in found]

    def claim(self, context: RequestContext, attempt: Attempt, claimed: Claimed) -> Migration:
        """Record that the destination has claimed the instance's resources.

        :raises errors.StaleBuild: errors.StaleIncarnation: errors.GroupAffinityViolation: errors.NotFound:
        """
        ctx = self._placement.step_context(context)
        return self._answer(context, self._database.write(claims.claim, attempt, claimed, ctx), attempt.host)

    def advance(self, context: RequestContext, attempt: Attempt, done: str) -> Migration:
        """The host has done its part of status ``done``. :raises errors.NotFound:"""
        ctx = self._placement.step_context(context)
        return self._answer(context, self._database.write(claims.advance, attempt, done, ctx), attempt.host)

    def copied(self, attempt: Attempt, percent: int) -> None:
        """Keep how much of the guest is copied to the destination, for users."""
        with contextlib.suppress(errors.NotFound):
            self._database.write(claims.copied, attempt, percent, self._placement.step_context())

    def fail(self, context: RequestContext, attempt: Attempt, status: str, failure: Failure) -> Migration:
        """The host cannot do its part of ``status``. :raises errors.NotFound:"""
        self._placement.fail(context, attempt, status, failure)
        return self._shown(self._database.write(machine.read, attempt.uuid), attempt.host)

    def _answer(self, context: RequestContext, move: Move, host: str) -> Migration:
        """The answer to ``host``. If another host must act next, that host is notified."""
        record = move.record
        shown = self._shown(move, host)
        LOG.info("The %s of instance %s is %s", record.migration_type, record.instance_uuid, record.status)
        if move.actor not in (None, host):
            self._placement.notify(context, move)
        return shown

    def _shown(self, move: Move, host: str) -> Migration:
        """The move as ``host`` may see it. A host that was tried before learns only that it has no part in it any more.

        :raises errors.NotFound: ``host`` never had a part in the move
        """
        record, uuid = move.record, move.instance.uuid
        if host in (record.source_compute, record.dest_compute):
            return self._value(move, self._database.read(_volumes, [uuid]).get(uuid, ()))
        machine.require_part(move, host)
        shown = self._value(move, ())
        return dataclasses.replace(shown, dest_compute=None, dest_node=None, limits=None, held=None, failure=None)

    def _value(self, move: Move, volumes: Iterable[Attachment]) -> Migration:
        return moves.to_migration(move.instance, move.record, self._step_within_s(move.record), list(volumes))

    def _step_within_s(self, record: MigrationRow) -> float:
        """Return the limit of a step. Copying disks may take the rest of the whole move's time."""
        limit_s = float(self._limits.spawn_timeout_s)
        if record.status != move_states.POST_MIGRATING or record.source_compute == record.dest_compute:
            return limit_s
        left = record.deadline - self._placement.step_context().now if record.deadline else None
        return max(limit_s, left.total_seconds()) if left is not None else limit_s


def _volumes(connection: Connection, uuids: Sequence[str]) -> dict[str, list[Attachment]]:
    """Return the attachments by instance. These volumes follow the instance to its new host."""
    found: dict[str, list[Attachment]] = {}
    for row in attachments.that_follow(connection, uuids):
        found.setdefault(row.instance_uuid, []).append(attachments.to_attachment(row))
    return found
