# SPDX-License-Identifier: Apache-2.0
"""Drives moves to their end: what operators ask for comes in here, and what hosts have done."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_log import log as logging
from oslo_utils import uuidutils

from conductor_stub.builds.failures import Failure
from conductor_stub.builds.intake import check_image, requested_hardware
from conductor_stub.moves import claims, failures, intake
from conductor_stub.moves.claims import Move
from conductor_stub.moves.placement import Placer
from conductor_stub.steps.limits import Limits
from fleet import errors, move_states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db import flavors, instances, moves, services
from fleet.db.engine import Database
from fleet.hardware.aliases import Aliases
from fleet.objects import Claimed, Flavor, Image, Migration

LOG = logging.getLogger(__name__)

_RECORDS = moves.MIGRATIONS.c
_FILTERS: Mapping[str, Callable[[Any], Any]] = {
    "uuids": _RECORDS.uuid.in_,
    "instance_uuid": lambda uuid: _RECORDS.instance_uuid == uuid,
    "status": lambda status: _RECORDS.status == status,
    "migration_type": lambda kind: _RECORDS.migration_type == kind,
    "host": lambda host: sa.or_(_RECORDS.source_compute == host, _RECORDS.dest_compute == host),
}


class Mover:
    """Every conductor has one; none holds anything of a move."""

    def __init__(
        self,
        database: Database,
        placer: Placer,
        limits: Limits,
        aliases: Aliases = types.MappingProxyType({}),
        clock: Clock = utcnow,
        require_in_step: Callable[[], None] = lambda: None,
    ) -> None:
        """``require_in_step`` raises where the clock is wrong: such a conductor accepts no evacuation."""
        self._require_in_step = require_in_step
        self._database = database
        self._placer = placer
        self._limits = limits
        self._aliases = aliases
        self._clock = clock

    # For operators

    def resize(self, context: RequestContext, name: str, flavor: str | Flavor) -> dict[str, Any]:
        """Accept a resize: the migration record. :raises errors.NotFound: errors.Conflict: errors.InvalidInput:"""

        def read(connection: sa.Connection) -> tuple[sa.Row, Flavor]:
            wanted = flavor if isinstance(flavor, Flavor) else flavors.find(connection, flavor)
            return instances.find(connection, name), wanted

        row, wanted = self._database.read(read)
        image = Image(**row.spec["image"])
        check_image(image, wanted, "flavor")
        spec = {"flavor": wanted.to_wire(), **requested_hardware(wanted, image, self._aliases)}
        return self._accept(context, row, move_states.RESIZE, spec)

    def migrate(self, context: RequestContext, name: str) -> dict[str, Any]:
        """Accept a resize to the same flavor: a move to another host. :raises errors.NotFound: errors.Conflict:"""
        row = self._database.read(instances.find, name)
        return self._accept(context, row, move_states.RESIZE, None)

    def evacuate(self, context: RequestContext, name: str) -> dict[str, Any]:
        """Accept an evacuation of an instance whose host is down.

        :raises errors.NotFound: errors.Conflict: errors.ClockSkewed:
        """
        self._require_in_step()
        row = self._database.read(instances.find, name)
        return self._accept(context, row, move_states.EVACUATION, None)

    def _accept(
        self, context: RequestContext, row: sa.Row, kind: str, spec: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        uuid = uuidutils.generate_uuid()
        move = self._database.write(
            intake.accept, uuid, row.uuid, kind, spec, self._limits, context.request_id, self._clock()
        )
        context = context.about(instance_uuid=row.uuid, host=row.host, migration=uuid)
        LOG.info("Accepted a %s of instance %s", kind, row.name)
        self._placer.hand_out(context, uuid, move.record.attempt)
        return view(move.record)

    def confirm(self, context: RequestContext, name: str) -> dict[str, Any]:
        """The resized instance stays. :raises errors.NotFound: errors.Conflict: no resize of it waits"""
        return self._decide(context, name, intake.confirm)

    def revert(self, context: RequestContext, name: str) -> dict[str, Any]:
        """The resized instance goes back. :raises errors.NotFound: errors.Conflict: no resize of it waits"""
        return self._decide(context, name, intake.revert)

    def _decide(self, context: RequestContext, name: str, work: Any) -> dict[str, Any]:
        row = self._database.read(instances.find, name)
        move = self._database.write(work, row.uuid, self._limits, context.request_id, self._clock())
        self._placer.tell(context, move)
        return view(move.record)

    def force_down(self, host: str, binary: str, forced: bool) -> None:
        """Somebody knows that the host is dead, before its silence tells. :raises errors.NotFound:"""
        self._database.write(services.force_down, host, binary, forced, self._clock())
        LOG.warning("Service %s on host %s is %s", binary, host, "forced down" if forced else "no longer forced down")

    def migrations(self, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The newest first. :raises errors.InvalidInput: an unknown filter; errors.NotFound: an unknown host"""
        for name in filters:
            if name not in _FILTERS:
                reason = f"is not one of {', '.join(sorted(_FILTERS))}"
                raise errors.InvalidInput(field=f"filters.{name}", reason=reason)
        where = [_FILTERS[name](value) for name, value in filters.items()]
        found = self._database.read(moves.list_all, *where)
        if not found and filters.get("host"):
            self._database.read(services.require_host, filters["host"])
        return [view(row) for row in found]

    # For conductors and agents

    def place(self, context: RequestContext, uuid: str, attempt: int) -> None:
        self._placer.place(context, uuid, attempt)

    def of_host(self, host: str, instance_uuids: Sequence[str] | None) -> list[Migration]:
        """All that the host has, or may come to have, to do with."""
        found = self._database.read(moves.of_host, host, instance_uuids)
        return [self._value(Move(instance, record)) for instance, record in found]

    def claim(
        self,
        context: RequestContext,
        uuid: str,
        attempt: int,
        host: str,
        node: str,
        incarnation: str,
        claimed: Claimed,
    ) -> Migration:
        """The destination holds what is needed.

        :raises errors.StaleBuild: errors.StaleIncarnation: errors.GroupAffinityViolation: errors.NotFound:
        """
        move = self._database.write(
            claims.claim,
            uuid,
            attempt,
            host,
            node,
            incarnation,
            claimed,
            self._limits,
            context.request_id,
            self._clock(),
        )
        return self._told(context, move, host)

    def advance(self, context: RequestContext, uuid: str, attempt: int, host: str, done: str) -> Migration:
        """The host has done its part of status ``done``; returns the move as it is now. :raises errors.NotFound:"""
        move = self._database.write(
            claims.advance, uuid, attempt, host, done, self._limits, context.request_id, self._clock()
        )
        return self._told(context, move, host)

    def fail(
        self, context: RequestContext, uuid: str, attempt: int, host: str, status: str, failure: Failure
    ) -> Migration:
        """The host cannot do its part of ``status``; returns the move as it is now. :raises errors.NotFound:"""
        now = self._clock()
        following = self._database.write(
            failures.fail, uuid, attempt, host, status, failure, self._limits, context.request_id, now
        )
        self._placer.follow(context, following, failure)
        return self._value(self._database.write(claims.read, uuid))

    def _told(self, context: RequestContext, move: Move, host: str) -> Migration:
        """The answer tells the host that has called what is next; another is told by a cast."""
        record = move.record
        LOG.info("The %s of instance %s is %s", record.migration_type, record.instance_uuid, record.status)
        migration = self._value(move)
        if migration.actor not in (None, host):
            self._placer.tell(context, move)
        return migration

    def _value(self, move: Move) -> Migration:
        return moves.to_migration(move.instance, move.record, self._limits.spawn_timeout_s)


def view(record: Any) -> dict[str, Any]:
    """For operators: times as ISO 8601 UTC text."""
    names = ("uuid", "instance_uuid", "migration_type", "status", "attempt", "failure", "request_id")
    places = ("source_compute", "source_node", "dest_compute", "dest_node")
    shown = {name: getattr(record, name) for name in (*names, *places)}
    for name in ("created_at", "updated_at", "deadline"):
        moment = getattr(record, name)
        shown[name] = moment and moment.isoformat(timespec="milliseconds") + "Z"
    shown["old_flavor"] = record.old_spec["flavor"].get("name")
    shown["new_flavor"] = record.new_spec["flavor"].get("name")
    # False: it only changes its host.
    shown["resized"] = record.new_spec["flavor"] != record.old_spec["flavor"]
    return shown
