# SPDX-License-Identifier: Apache-2.0
"""Finds a destination for a move, and notifies the host that must act next.

The intake of moves calls it, and the tasks that begin moves by themselves.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from oslo_log import log as logging

from conductor_stub.moves import claims, failures, group_evacuation, ways
from conductor_stub.moves.machine import Move, MoveMachine
from conductor_stub.steps import casting, reach, request_spec
from conductor_stub.steps.attempt import Attempt, Failure, no_queue
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.placement import Batch, Kind, Placement, knows_no_host
from fleet import errors, move_states, stored_json
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.catalog import groups
from fleet.db.engine.database import Connection, Database
from fleet.db.instances import instance_values, moves
from fleet.json_codec import JSONObject
from fleet.objects import Place, Selection
from fleet.rpc.clients import ComputeAPI, MigrationAPI, SchedulerAPI

LOG = logging.getLogger(__name__)


class MovePlacement(Placement[Move, Move]):
    def __init__(
        self,
        database: Database,
        scheduler: SchedulerAPI,
        compute: ComputeAPI,
        tasks: MigrationAPI,
        limits: StepLimits,
        same_host: bool = False,
        clock: Clock = utcnow,
    ) -> None:
        """:param same_host: whether a resize may keep its host (``allow_resize_to_same_host``)"""
        kind = Kind(
            noun="move",
            select=request_spec.naming_few(database, scheduler.select_destinations),
            cast=self._cast,
            split=self._split,
            about=self._about,
            request=self._request,
            send=self._send,
            ask_again_at=self._ask_again_at,
            give_up=self._give_up,
            explain=self._explain,
        )
        super().__init__(database, MoveMachine(), kind, limits, clock)
        self._compute = compute
        self._tasks = tasks
        self.same_host = same_host

    def require_live_migration(self) -> None:
        """:raises errors.VersionPinned: an agent may be too old"""
        self._compute.require_live_migration()

    def require_volumes(self) -> None:
        """:raises errors.VersionPinned: an agent may start a guest that it gets without its volumes"""
        self._compute.require_volumes()

    def require_networks(self) -> None:
        """:raises errors.VersionPinned: an agent may start a guest that it gets without its networks"""
        self._compute.require_networks()

    def require_parts(self) -> None:
        """:raises errors.VersionPinned: an agent may start a guest that it gets without its volumes or its networks"""
        self.require_volumes()
        self.require_networks()

    def why_pinned(self) -> str:
        """Return why no running guest can be moved: an agent is too old; "" if none is."""
        try:
            self.require_live_migration()
            self.require_parts()
        except errors.VersionPinned as old:
            return old.message
        return ""

    def notify(self, context: RequestContext, move: Move) -> None:
        """Cast to the host or conductor that must act next, if any."""
        record, host = move.record, move.actor
        if record.status == move_states.ACCEPTED:
            self.hand_out(context, [move.uuid], move.attempt)
            return
        if host is None:
            return
        context = context.about(
            instance_uuid=record.instance_uuid, attempt=move.attempt, host=host, migration=move.uuid
        )
        aborted = move_states.is_aborted(record.migration_type, record.status, record.failure)
        order = self._compute.live_migration_abort if aborted else self._compute.advance_migration
        try:
            reached = casting.reaches(host, lambda: order(context, host, record.instance_uuid))
        except errors.VersionPinned as old:
            LOG.warning("Host %s is not notified: %s", host, old.message)
            return
        # A destination that was only chosen is replaced at once. The sweeper waits for a host that holds something.
        if not reached and record.status == move_states.PREPARING:
            self.fail(context, Attempt(move.uuid, move.attempt, host), record.status, no_queue(host))

    def fail(self, context: RequestContext, attempt: Attempt, status: str, failure: Failure) -> None:
        """The host could not do its part of ``status``: release its claim, and go on."""
        following = self._database.write(failures.fail, attempt, status, failure, self.step_context(context))
        if following is not None:
            record = following.record
            LOG.info(
                "A %s failed in step %s: %s; it is now %s",
                record.migration_type,
                failure.step,
                failure.message,
                record.status,
            )
            self.notify(context, following)

    # How moves are requested and sent

    def _cast(self, context: RequestContext, uuids: Sequence[str], attempt: int) -> None:
        for uuid in uuids:
            self._tasks.place_migration(context, uuid, attempt)

    def _split(self, rows: Sequence[Move], attempt: int) -> list[Batch[Move]]:
        return [Batch([row], attempt) for row in rows]

    def _about(self, context: RequestContext, row: Move, attempt: int) -> RequestContext:
        return context.about(instance_uuid=row.instance.uuid, attempt=attempt, migration=row.uuid)

    def _request(self, batch: Batch[Move]) -> tuple[JSONObject, JSONObject]:
        return self._database.read(self._read_request, batch.rows[0])

    def _read_request(self, connection: Connection, move: Move) -> tuple[JSONObject, JSONObject]:
        """Return the request as for a build, with the new flavor and without the source.

        A host that was forced on the build, or requested for it, does not bind its moves (as in nova).
        """
        record, row = move.record, move.instance
        instance_values.require_readable(row)
        if stored_json.is_unreadable(record.new_spec) or stored_json.is_unreadable(record.old_spec):
            raise errors.RequestUnreadable(kind="move", uuid=record.uuid)
        migration = moves.to_migration(row, record)
        spec = request_spec.build_request_spec([migration.new.of(migration.instance)])
        properties = request_spec.build_filter_properties({**instance_values.spec_of(row), **record.new_spec})
        for of_build in ("force_hosts", "force_nodes", "requested_destination"):
            properties.pop(of_build, None)
        new_flavor = record.new_spec["flavor"] != record.old_spec["flavor"]
        stays = new_flavor and self.same_host
        left_out = [*([] if stays else [record.source_compute]), *moves.vacated(connection, row.uuid)]
        # The hosts that the guest or its disks can reach, or that have the disks already.
        if record.migration_type == move_states.LIVE_MIGRATION:
            way = ways.Ways(connection)
            left_out += way.others(row)
            properties.update(way.cpu_properties(row))
        else:
            apart = ways.Ways(connection).apart(row, record.migration_type)
            if apart is None:
                properties["requested_destination"] = {"host": record.source_compute}
            left_out += [*(apart or ()), *reach.lacking(connection, row.uuid)]
        if left_out:
            properties["ignore_hosts"] = list(dict.fromkeys([*properties.get("ignore_hosts", ()), *left_out]))
        if record.migration_type == move_states.EVACUATION:
            # It restores what a promise to survive the loss is about, so it may use the room that was kept.
            properties["restores"] = True
        only = record.plan.get("destination")
        if not record.plan.get("tried"):
            only = only or record.plan.get("preferred")
        if only:
            properties["requested_destination"] = {"host": only}
        if record.plan.get("promised"):
            properties["promised"] = True
        properties["retry"] = {"num_attempts": record.attempt, "hosts": record.plan.get("tried", [])}
        group = groups.of_row(connection, row.group_uuid) if row.group_uuid else None
        if group is not None:
            ctx = self.step_context()
            members = group_evacuation.binding_members(connection, record, group, ctx)
            request_spec.setup_instance_group(properties, group, members, [row.uuid])
        return spec, properties

    def _explain(self, batch: Batch[Move], refusal: errors.NoValidHost) -> errors.NoValidHost:
        plan = batch.rows[0].record.plan
        if plan.get("destination") is not None and plan.get("tried"):
            # The scheduler may choose no other host, so the failure on this one is the reason.
            reason = f"{plan['destination']} was tried: {plan.get('why') or refusal.reason}"
            return errors.NoValidHost(reason=reason, details=dict(refusal.details))
        lacking = self._database.read(reach.lacking, batch.rows[0].instance.uuid)
        return reach.beside(refusal, lacking) if lacking else refusal

    def _send(
        self, context: RequestContext, batch: Batch[Move], selections: Sequence[Selection], properties: JSONObject
    ) -> None:
        (row,), (selection,) = batch.rows, selections
        place = Place(selection.host, selection.nodename, selection.limits)
        ctx = self.step_context(context)
        routed = self._database.write(claims.route, row.uuid, batch.attempt, place, selection.alternates, ctx)
        if routed is not None:
            self.notify(context, routed)

    def _ask_again_at(self, batch: Batch[Move], refusal: Exception) -> datetime.datetime | None:
        move = batch.rows[0]
        if not knows_no_host(refusal):
            return None
        return self.step_context().due(self._limits.retry_interval_s, move.deadline)

    def _give_up(self, context: RequestContext, batch: Batch[Move], refusal: Exception) -> None:
        ctx = self.step_context(context)
        for move in self._database.write(self._machine.refuse, batch.uuids, batch.attempt, refusal, ctx):
            message = move.record.failure and move.record.failure["message"]
            LOG.warning("The %s is given up, the instance stays as it is: %s", move.record.migration_type, message)
