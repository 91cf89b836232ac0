# SPDX-License-Identifier: Apache-2.0
"""Asks the scheduler where an instance may go, and tells hosts that there is something for them to do."""

from __future__ import annotations

from typing import Any

import oslo_messaging
import sqlalchemy as sa
from oslo_log import log as logging

from conductor_stub.builds import refusals
from conductor_stub.builds.failures import Failure
from conductor_stub.moves import claims, failures, group_evacuation
from conductor_stub.moves.claims import Move
from conductor_stub.moves.group_evacuation import Liveness
from conductor_stub.steps import request_spec
from conductor_stub.steps.limits import Limits, step_deadline
from fleet import errors, move_states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db import groups, instances, moves, services
from fleet.db.engine import Database
from fleet.objects import Place, Selection
from fleet.rpc.clients import ComputeAPI, MigrationAPI, SchedulerAPI

LOG = logging.getLogger(__name__)


class Placer:
    """Moves records from ``accepted`` to a host's queue. Holds no state: the records do."""

    def __init__(
        self,
        database: Database,
        scheduler: SchedulerAPI,
        compute: ComputeAPI,
        tasks: MigrationAPI,
        limits: Limits,
        same_host: bool = False,
        clock: Clock = utcnow,
    ) -> None:
        """``same_host``: whether a resize may stay where it is (``allow_resize_to_same_host``)."""
        self._database = database
        self._scheduler = scheduler
        self._compute = compute
        self._tasks = tasks
        self._limits = limits
        self._same_host = same_host
        self._clock = clock

    def hand_out(self, context: RequestContext, uuid: str, attempt: int) -> None:
        """Offer a waiting move to any conductor. A message that cannot be sent is left to the sweeper."""
        try:
            self._tasks.place_migration(context, uuid, attempt)
        except oslo_messaging.MessagingException as lost:
            LOG.warning("Could not hand out a move (%s); the sweeper will", lost)

    def place(self, context: RequestContext, uuid: str, attempt: int) -> None:
        """Take the move up, if it still waits at ``attempt``, and find it a host."""
        now = self._clock()
        move = self._database.write(claims.take, uuid, attempt, self._limits, now)
        if move is None:
            LOG.debug("Nothing left to place of move %s at attempt %d", uuid, attempt)
            return
        context = context.about(instance_uuid=move.instance.uuid, attempt=attempt, migration=uuid)
        answer = self._ask(context, move)
        if isinstance(answer, refusals.NOT_NOW) or (isinstance(answer, Exception) and refusals.knows_no_host(answer)):
            LOG.warning("The scheduler cannot answer now (%s); the move is tried again", type(answer).__name__)
            retry_at = step_deadline(now, self._limits.retry_interval_s, move.record.deadline)
            self._database.write(claims.put_back, uuid, attempt, retry_at, now)
        elif isinstance(answer, Exception):
            self._refuse(context, move, answer)
        else:
            self._route(context, move, answer)

    def _ask(self, context: RequestContext, move: Move) -> Selection | Exception:
        """The scheduler's answer. What went wrong is returned: it is dealt with after, not during, its handling."""
        try:
            spec, properties = self._database.read(self._request, move)
            (answer,) = self._scheduler.select_destinations(context, spec, properties)
            return Selection.from_wire(answer)
        except (errors.FleetError, oslo_messaging.MessagingException) as refusal:
            return refusal
        except Exception as bug:
            LOG.exception("Placing a move failed")
            return bug

    def _request(self, connection: sa.Connection, move: Move) -> tuple[dict[str, Any], dict[str, Any]]:
        """As for a build, with the new flavor, and without the source. A host that was forced on the build is not
        forced on its moves (as in nova)."""
        record, row = move.record, move.instance
        asked = moves.to_migration(row, record)
        spec = request_spec.build_request_spec([asked.new.of(asked.instance)])
        properties = request_spec.build_filter_properties({**instances.spec_of(row), **record.new_spec})
        for forced in ("force_hosts", "force_nodes"):
            properties.pop(forced, None)
        is_resize = record.new_spec["flavor"] != record.old_spec["flavor"]
        if not (is_resize and self._same_host):
            properties["ignore_hosts"] = [*properties.get("ignore_hosts", ()), record.source_compute]
        # There it would meet the guest that it has left behind.
        left = moves.not_cleaned(connection, row.uuid)
        if left:
            properties["ignore_hosts"] = [*properties.get("ignore_hosts", ()), *left]
        properties["retry"] = {"num_attempts": record.attempt, "hosts": record.plan.get("tried", [])}
        if row.group_uuid:
            group = groups.find(connection, row.group_uuid)
            liveness = Liveness(self._clock(), self._limits.service_down_time_s)
            members = group_evacuation.binding_members(connection, record, group, liveness)
            request_spec.setup_instance_group(properties, group, members, [row.uuid])
        return spec, properties

    def _refuse(self, context: RequestContext, move: Move, error: Exception) -> None:
        record = move.record
        refused = self._database.write(
            failures.refuse, record.uuid, record.attempt, error, self._limits, context.request_id, self._clock()
        )
        if refused is not None:
            message = refused.record.failure["message"]
            LOG.warning("The %s is given up, the instance stays as it is: %s", record.migration_type, message)

    def _route(self, context: RequestContext, move: Move, selection: Selection) -> None:
        record = move.record
        place = Place(selection.host, selection.nodename, selection.limits)
        routed = self._database.write(
            claims.route, record.uuid, record.attempt, place, selection.alternates, self._limits, self._clock()
        )
        if routed is not None:
            self.tell(context, routed)

    def tell(self, context: RequestContext, move: Move) -> None:
        """Let the one who is to act know: a host, another conductor, or nobody."""
        record = move.record
        if record.status == move_states.ACCEPTED:
            self.hand_out(context, record.uuid, record.attempt)
            return
        host = move_states.actor(record.migration_type, record.status, record.source_compute, record.dest_compute)
        if host is None:
            return
        context = context.about(
            instance_uuid=record.instance_uuid, attempt=record.attempt, host=host, migration=record.uuid
        )
        try:
            self._compute.advance_migration(context, host, record.instance_uuid)
        except oslo_messaging.MessageUndeliverable:
            self._undeliverable(context, move, host)
        except oslo_messaging.MessagingException as lost:
            LOG.warning("Could not cast to host %s (%s); the sweeper will try again", host, lost)

    def _undeliverable(self, context: RequestContext, move: Move, host: str) -> None:
        """A destination that was only chosen is replaced at once; whoever holds something is waited for, or given up by
        the sweeper."""
        if move.record.status == move_states.PREPARING:
            down = errors.ServiceDown(binary=services.COMPUTE, host=host, reason="it has no queue on the broker")
            self.fail(context, move.record, host, Failure("cast", type(down).__name__, down.message))

    def fail(self, context: RequestContext, record: Any, host: str, failure: Failure) -> None:
        """The host cannot do its part of the record's status: give up its claim, and go on."""
        following = self._database.write(
            failures.fail,
            record.uuid,
            record.attempt,
            host,
            record.status,
            failure,
            self._limits,
            context.request_id,
            self._clock(),
        )
        self.follow(context, following, failure)

    def follow(self, context: RequestContext, following: Move | None, failure: Failure) -> None:
        """Say what a failure has led to, and go on with it."""
        if following is None:
            return
        record = following.record
        LOG.info("A %s failed in step %s: %s; it is now %s", record.migration_type, failure.step, failure.message,
                 record.status)  # fmt: skip
        self.tell(context, following)
