# SPDX-License-Identifier: Apache-2.0
"""Moves that operators ask for: the RPC surface. :mod:`.acceptance` has the transactions."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping

from oslo_log import log as logging
from oslo_utils import uuidutils

from conductor_stub.moves import acceptance, live, ways
from conductor_stub.moves.machine import Move
from conductor_stub.moves.placement import MovePlacement
from conductor_stub.moves.views import view
from conductor_stub.steps.acts import Acts
from conductor_stub.steps.flavor_check import check_image, requested_hardware
from fleet import move_states
from fleet.context import RequestContext
from fleet.db.catalog import flavors
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.instances import instance_values, instances, moves
from fleet.db.tables.instances import RequestedInstance
from fleet.db.volumes import attachments
from fleet.hardware.aliases import Aliases
from fleet.json_codec import JSONObject
from fleet.objects import Flavor, Image, fields
from fleet.objects.answers.instances import MigrationView
from fleet.objects.build_request import parse_flavor
from fleet.rpc.endpoint import endpoint, served

LOG = logging.getLogger(__name__)


class MoveIntake:
    """Accepts moves and hands them out: the RPC surface of the namespace ``operator`` for moves.

    Each method returns the migration record as :func:`views.view` shows it.
    """

    target = served("conductor", "operator")

    def __init__(
        self,
        database: Database,
        placement: MovePlacement,
        aliases: Aliases = types.MappingProxyType({}),
        require_in_step: Callable[[], None] = lambda: None,
    ) -> None:
        """:param require_in_step: raises if this machine's clock is wrong: the conductor then accepts no evacuation"""
        self._database = database
        self._placement = placement
        self._aliases = aliases
        self._require_in_step = require_in_step
        self._acts = Acts(database, placement.now)

    @endpoint
    def resize_instance(self, context: RequestContext, name: fields.Name, flavor: object) -> MigrationView:
        """:raises errors.NotFound: errors.Conflict: errors.InvalidInput: errors.QuotaExceeded:"""
        asked = parse_flavor(flavor, "flavor")

        def read(connection: Connection) -> tuple[RequestedInstance, Flavor]:
            wanted = asked if isinstance(asked, Flavor) else flavors.find(connection, asked, context.scope)
            return instances.find(connection, name), wanted

        row, wanted = self._database.read(read)
        instance_values.require_readable(row)
        image = Image(**instance_values.spec_of(row)["image"])
        check_image(image, wanted, "flavor")
        spec = {"flavor": wanted.to_wire(), **requested_hardware(wanted, image, self._aliases)}
        return self._accept(context, row, move_states.RESIZE, spec)

    @endpoint
    def migrate_instance(
        self, context: RequestContext, name: fields.Name, host: fields.Name | None = None
    ) -> MigrationView:
        """Resize to the same flavor: a move to another host.

        :param host: the only host to consider; it must pass the filters
        :raises errors.NotFound: errors.Conflict: errors.InvalidInput:
        """
        return self._accept(context, self._database.read(instances.find, name), move_states.RESIZE, None, host)

    @endpoint
    def live_migrate_instance(
        self, context: RequestContext, name: fields.Name, host: fields.Name | None = None
    ) -> MigrationView:
        """Move an instance to another host while its guest runs.

        :param host: the only host to consider; it must pass the filters
        :raises errors.NotFound: errors.Conflict: errors.InvalidInput: errors.VersionPinned: an agent may be too old
        """
        self._placement.require_live_migration()
        return self._accept(context, self._database.read(instances.find, name), move_states.LIVE_MIGRATION, None, host)

    @endpoint
    def live_obstacles(self, context: RequestContext, uuids: fields.Uuids) -> dict[str, str]:
        """Return, by uuid, why the guest of an instance cannot leave its host while it runs; "" if it can.

        Instances that do not exist are left out.
        """
        return self._database.read(ways.obstacles, uuids)

    @endpoint
    def abort_live_migration(
        self, context: RequestContext, name: fields.Name, migration: fields.Uuid | None = None
    ) -> MigrationView:
        """End a live migration; the guest stays where it is.

        :param migration: the record, if it must be this one
        :raises errors.NotFound: errors.Conflict: none is under way, or the guest has arrived
        """
        return self._decide(context, name, live.abort, migration)

    @endpoint
    def evacuate_instance(
        self, context: RequestContext, name: fields.Name, host: fields.Name | None = None
    ) -> MigrationView:
        """Move an instance away from a host that is down.

        :param host: the only host to consider; it must pass the filters
        :raises errors.NotFound: errors.Conflict: errors.InvalidInput: errors.ClockSkewed:
        """
        self._require_in_step()
        return self._accept(context, self._database.read(instances.find, name), move_states.EVACUATION, None, host)

    @endpoint
    def confirm_resize(self, context: RequestContext, name: fields.Name) -> MigrationView:
        """Keep the new flavor and host. :raises errors.NotFound: errors.Conflict: no resize waits for it"""
        return self._decide(context, name, acceptance.confirm)

    @endpoint
    def revert_resize(self, context: RequestContext, name: fields.Name) -> MigrationView:
        """Return to the former flavor and host. :raises errors.NotFound: errors.Conflict: no resize waits for it"""
        return self._decide(context, name, acceptance.revert)

    def _accept(
        self,
        context: RequestContext,
        row: RequestedInstance,
        kind: str,
        spec: Mapping[str, object] | None,
        destination: str | None = None,
    ) -> MigrationView:
        if self._database.read(attachments.of_instances, [row.uuid]):
            self._placement.require_volumes()
        if row.interfaces:
            self._placement.require_networks()
        uuid = uuidutils.generate_uuid()
        ctx = self._placement.step_context(context)
        subject, shown = f"{row.name} ({row.uuid})", functools.partial(_whereabouts, uuid=row.uuid)
        asked = (uuid, row.uuid, kind, spec, ctx, destination, self._placement.same_host)
        move = self._acts.write(context, f"server.{kind}", subject, shown, acceptance.accept, *asked)
        context = context.about(instance_uuid=row.uuid, host=row.host, migration=uuid)
        LOG.info("Accepted a %s of instance %s", kind, row.name)
        self._placement.hand_out(context, [uuid], move.attempt)
        return view(move.record)

    def _decide(
        self, context: RequestContext, name: str, work: Callable[..., Move], *more: str | None
    ) -> MigrationView:
        row = self._database.read(instances.find, name)
        move = self._database.write(work, row.uuid, self._placement.step_context(context), *more)
        self._placement.notify(context, move)
        return view(move.record)


def _whereabouts(tx: Transaction, uuid: str) -> JSONObject:
    """Return the host and the task of an instance, and the destination of its move."""
    row = instances.get(tx, uuid)
    record = moves.of_instance(tx, uuid)
    plan = {} if record is None else record.plan
    return {"host": row.host, "task_state": row.task_state, "destination": plan.get("destination")}
