# SPDX-License-Identifier: Apache-2.0
"""Deletes instances, at any step of their builds and moves.

Users' requests, the sweeper and agents that report a gone guest call it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from oslo_log import log as logging

from conductor_stub.builds import left_guest
from conductor_stub.steps import casting
from conductor_stub.steps.acts import Acts
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import failpoints, states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.hosts import hosts, services
from fleet.db.instances import addresses, builds, history, instances, moves
from fleet.db.instances.waiting import queued_builds
from fleet.db.tables.instances import RequestedInstance
from fleet.db.volumes import attachments
from fleet.json_codec import JSONObject
from fleet.rpc.clients import ComputeAPI

LOG = logging.getLogger(__name__)


class Termination:
    """An instance that no host holds is deleted at once. Otherwise its host destroys the guest and reports it.

    An instance that is being moved is destroyed on both of its hosts, and deleted when both have reported it. If a host is
    down, the ledger forgets its guest at once: when the agent comes back, it finds a guest that it should not have, and
    destroys it.
    """

    def __init__(self, database: Database, compute: ComputeAPI, limits: StepLimits, clock: Clock = utcnow) -> None:
        self._database = database
        self._compute = compute
        self._limits = limits
        self._clock = clock
        self._acts = Acts(database, clock)

    def terminate(self, context: RequestContext, uuids: Sequence[str]) -> None:
        """Idempotent. :raises errors.NotFound: one of them never existed; then none is touched"""
        names = {uuid: self._database.read(instances.get, uuid).name for uuid in uuids}
        for uuid in uuids:
            about = context.about(instance_uuid=uuid)
            subject, shown = f"{names[uuid]} ({uuid})", functools.partial(_state, uuid=uuid)
            self._acts.write(about, "server.delete", subject, shown, _begin, uuid, self._step_context(about))
            self.send(about, uuid)

    def _step_context(self, context: RequestContext) -> StepContext:
        return StepContext(self._limits, self._clock(), context.request_id)

    def send(self, context: RequestContext, uuid: str) -> None:
        """Order every host that holds something for a deleted instance to destroy its guest."""
        for host in self._database.read(_holders, uuid):
            self._send(context.about(instance_uuid=uuid, host=host), uuid, host)

    def remove_guest(self, context: RequestContext, uuid: str, host: str) -> None:
        """Order a host to destroy what it may have left of a build that has ended. The sweeper repeats it."""
        if not casting.reaches(host, lambda: self._compute.terminate_instance(context, host, uuid)):
            LOG.warning("Host %s may have a guest of a build that was given up, and does not answer", host)

    def _send(self, context: RequestContext, uuid: str, host: str) -> None:
        if casting.reaches(host, lambda: self._compute.terminate_instance(context, host, uuid)):
            return
        if self._database.read(services.silent, [host], self._clock(), self._limits.service_down_time_s):
            LOG.warning("Host %s is down: deleting the instance from the ledger only", host)
            self._database.write(destroyed, uuid, host, self._step_context(context))


def _state(tx: Transaction, uuid: str) -> JSONObject:
    row = instances.get(tx, uuid)
    return {name: getattr(row, name) for name in ("vm_state", "task_state", "host")}


@failpoints.commits("conductor.terminate")
def _begin(tx: Transaction, uuid: str, ctx: StepContext) -> None:
    """Mark the instance as being deleted, or delete it at once."""
    row = instances.lock(tx, uuid)
    if row.deleted:
        return
    held_host = moves.abandon(tx, uuid, ctx.now)
    if row.host is None and held_host is None and builds.host_of_left_guest(row) is None:
        _delete(tx, row, ctx)
        return
    if row.task_state != states.DELETING:
        _add_event(tx, row, "terminate", ctx, attempt=row.attempt)
    due = ctx.due(ctx.limits.retry_interval_s)
    tx.update(instances.INSTANCES, uuid, {"task_state": states.DELETING, "step_deadline": due, "updated_at": ctx.now})


def _holders(connection: Connection, uuid: str) -> list[str]:
    """The hosts that must destroy a guest: the instance's own, and the other one of a move."""
    row = instances.get(connection, uuid)
    if row.deleted or row.task_state != states.DELETING:
        return []
    record = moves.of_instance(connection, uuid)
    places = (row.host, None if record is None else record.held_host, builds.host_of_left_guest(row))
    return sorted({host for host in places if host is not None})


@failpoints.commits("conductor.destroyed")
def destroyed(tx: Transaction, uuid: str, host: str, ctx: StepContext) -> bool:
    """The guest on ``host`` is gone. Delete the row if it was to be deleted and no other host holds anything.

    Return whether the row is deleted now.
    """
    row = instances.lock(tx, uuid)
    if row.deleted or row.task_state != states.DELETING:
        moves.complete_evacuations(tx, uuid, host, ctx.now)
        left_guest.removed(tx, row, host, ctx)
        return False
    record = moves.of_instance(tx, uuid)
    if record is not None and record.held_host == host:
        moves.update(tx, record.uuid, ctx.now, **moves.NOTHING_HELD)
        hosts.refresh_usages(tx, [(host, record.held_node)], ctx.now)
        record = None
    if row.host not in (None, host) or builds.host_of_left_guest(row) not in (None, host):
        return False
    if record is not None:
        instances.leave_host(tx, row, {}, ctx.now)
        return False
    _delete(tx, row, ctx)
    return True


def _delete(tx: Transaction, row: RequestedInstance, ctx: StepContext) -> None:
    values = {
        "vm_state": states.DELETED,
        "task_state": None,
        "step_deadline": None,
        "deleted": True,
        "deleted_at": ctx.now,
        "terminated_at": ctx.now,
        "power_state": states.NOSTATE,
        "interfaces": None,
    }
    if row.interfaces:
        addresses.release(tx, row.uuid)
    attachments.release(tx, row.uuid, ctx.now)
    instances.leave_host(tx, row, values, ctx.now)
    if row.task_state == states.QUEUED:
        queued_builds.leave(tx, [row.uuid])
    _add_event(tx, row, "delete", ctx)


def _add_event(tx: Transaction, row: RequestedInstance, event: str, ctx: StepContext, attempt: int = 0) -> None:
    where = {"host": row.host, "node": row.node, "request_id": ctx.request_id}
    history.add_event(tx, row.uuid, event, now=ctx.now, attempt=attempt, **where)
