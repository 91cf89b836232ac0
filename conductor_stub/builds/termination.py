# SPDX-License-Identifier: Apache-2.0
"""Ends instances, at whatever step they are."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import oslo_messaging
import sqlalchemy as sa
from oslo_log import log as logging

from conductor_stub.moves import failures
from conductor_stub.steps.limits import Limits, step_deadline
from fleet import failpoints, states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db import history, hosts, instances, moves, services
from fleet.db.engine import Database, Transaction
from fleet.rpc.clients import ComputeAPI

LOG = logging.getLogger(__name__)


class Termination:
    """An instance that no host holds is deleted here and now; otherwise its host destroys the guest and says so.

    One that is being moved is destroyed on both of its hosts; it is gone when both have said so.
    An instance whose host is down is deleted from the ledger at once: when the agent comes back it finds a guest that
    was its own and is no more, and destroys it.
    """

    def __init__(self, database: Database, compute: ComputeAPI, limits: Limits, clock: Clock = utcnow) -> None:
        self._database = database
        self._compute = compute
        self._limits = limits
        self._clock = clock

    def terminate(self, context: RequestContext, uuids: Sequence[str]) -> None:
        """Idempotent. :raises errors.NotFound: one of them was never there; none is touched then"""
        for uuid in uuids:
            self._database.read(instances.get, uuid)
        for uuid in uuids:
            self._terminate_one(context.about(instance_uuid=uuid), uuid)

    def _terminate_one(self, context: RequestContext, uuid: str) -> None:
        now = self._clock()
        retry_at = step_deadline(now, self._limits.retry_interval_s)
        self._database.write(_begin, uuid, retry_at, context.request_id, now)
        self.send(context, uuid)

    def send(self, context: RequestContext, uuid: str) -> None:
        """Ask every host that holds something for an instance that is to go."""
        for host in self._database.read(_holders, uuid):
            self._send(context, uuid, host)

    def _send(self, context: RequestContext, uuid: str, host: str) -> None:
        """Ask the host to destroy the guest; when it is down, the ledger forgets the guest instead."""
        try:
            self._compute.terminate_instance(context.about(instance_uuid=uuid, host=host), host, uuid)
        except oslo_messaging.MessageUndeliverable:
            if self._database.read(_is_down, host, self._clock(), self._limits.service_down_time_s):
                LOG.warning("Host %s is down: deleting the instance from the ledger only", host)
                self._database.write(destroyed, uuid, host, context.request_id, self._clock())
        except oslo_messaging.MessagingException as lost:
            LOG.warning("Could not cast to host %s (%s); the sweeper will try again", host, lost)


@failpoints.commits("conductor.terminate")
def _begin(
    tx: Transaction, uuid: str, retry_at: datetime.datetime, request_id: str | None, now: datetime.datetime
) -> None:
    """Mark the instance as going, or delete it at once."""
    row = instances.lock(tx, uuid)
    if row.deleted:
        return
    held_host = failures.abandon(tx, uuid, now)
    if row.host is None and held_host is None:
        _delete(tx, row, request_id, now)
        return
    if row.task_state != states.DELETING:
        history.add_event(
            tx, uuid, "terminate", now=now, attempt=row.attempt, host=row.host, node=row.node, request_id=request_id
        )
    values = {"task_state": states.DELETING, "step_deadline": retry_at, "updated_at": now}
    tx.update(instances.INSTANCES, uuid, values)


def _holders(connection: sa.Connection, uuid: str) -> list[str]:
    """The hosts that are to destroy what they have of an instance: its own, and the other one of a move."""
    row = instances.get(connection, uuid)
    if row.deleted or row.task_state != states.DELETING:
        return []
    record = moves.of_instance(connection, uuid)
    return sorted({row.host, record and record.held_host} - {None})


@failpoints.commits("conductor.destroyed")
def destroyed(tx: Transaction, uuid: str, host: str, request_id: str | None, now: datetime.datetime) -> bool:
    """The guest on ``host`` is gone: delete the row if it was to go and nobody else holds anything; whether it was."""
    row = instances.lock(tx, uuid)
    if row.deleted or row.task_state != states.DELETING:
        moves.complete_evacuations(tx, uuid, host, now)
        return False
    record = moves.of_instance(tx, uuid)
    if record is not None and record.held_host == host:
        moves.update(tx, record.uuid, now, **moves.NOTHING_HELD)
        hosts.refresh_usage(tx, host, record.held_node, now)
        record = None
    if row.host not in (None, host):
        return False
    if record is not None:
        instances.leave_host(tx, row, {}, now)
        return False
    _delete(tx, row, request_id, now)
    return True


def _delete(tx: Transaction, row: sa.Row, request_id: str | None, now: datetime.datetime) -> None:
    values = {
        "vm_state": states.DELETED,
        "task_state": None,
        "step_deadline": None,
        "deleted": True,
        "deleted_at": now,
        "terminated_at": now,
        "power_state": states.NOSTATE,
    }
    instances.leave_host(tx, row, values, now)
    history.add_event(tx, row.uuid, "delete", now=now, host=row.host, node=row.node, request_id=request_id)


def _is_down(connection: sa.Connection, host: str, now: datetime.datetime, down_time_s: float) -> bool:
    service = services.get(connection, host, services.COMPUTE)
    return service is None or not services.is_up(service, now, down_time_s)
