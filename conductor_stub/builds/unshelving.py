# SPDX-License-Identifier: Apache-2.0
"""An instance without a host, because it was shelved, is built again: the builds' machine finds it a place.

Its attempts go on from those that it has had. It ends ACTIVE, or is shelved as before, with a fault. Called by
:mod:`conductor_stub.operators.unshelving` and :mod:`conductor_stub.operators.wiring`.
"""

from __future__ import annotations

from conductor_stub.builds import left_guest, machine
from conductor_stub.builds.placement import BuildPlacement
from conductor_stub.steps.limits import StepContext
from fleet import errors, failpoints, states
from fleet.clock import seconds
from fleet.context import RequestContext
from fleet.db.engine.database import Database, Transaction
from fleet.db.hosts import services, zones
from fleet.db.instances import history, instance_values, instances
from fleet.db.tables.instances import RequestedInstance
from fleet.objects import Zone


class Unshelving:
    """:param default_zone: zone of the hosts that are in no aggregate with a zone"""

    def __init__(self, database: Database, placement: BuildPlacement, default_zone: str) -> None:
        self._database = database
        self._placement = placement
        self._default_zone = default_zone

    def begin(self, context: RequestContext, uuid: str, zone: str | None, host: str | None) -> RequestedInstance:
        """:param zone: to choose a host from; None: that of the request
        :param host: the only one to consider; it must pass the filters
        :raises errors.NotFound: errors.Conflict: it is not SHELVED_OFFLOADED; errors.InvalidInput: there is no such zone;
            errors.VersionPinned:
        """
        self._placement.require_unshelving()
        if zone:
            self._database.read(zones.require_known, Zone(zone), self._default_zone)
        row = self._database.write(accept, uuid, zone, host, self._placement.step_context(context))
        self._placement.hand_out(context.about(instance_uuid=uuid, attempt=row.attempt), [uuid], row.attempt)
        return row


@failpoints.commits("conductor.unshelve")
def accept(tx: Transaction, uuid: str, zone: str | None, host: str | None, ctx: StepContext) -> RequestedInstance:
    """``shelved_offloaded → building``: from now on it ends within ``instance_build_timeout``. A repeated request changes
    nothing.

    :raises errors.NotFound: errors.Conflict:
    """
    row = instances.lock(tx, uuid)
    if row.deleted:
        raise errors.NotFound(kind="Instance", name=row.name)
    if row.shelved and row.vm_state == states.BUILDING:
        return row
    if (row.vm_state, row.task_state) != (states.SHELVED_OFFLOADED, None):
        raise errors.Conflict(
            kind="Instance", name=row.name, reason=f"is {row.vm_state.upper()}, not SHELVED_OFFLOADED"
        )
    instance_values.require_readable(row)
    left_guest.require_none(tx, row)
    if host is not None and services.get(tx, host, services.COMPUTE) is None:
        raise errors.NotFound(kind="Host", name=host)
    wanted = zone if zone is not None else Zone.parse(instance_values.spec_of(row).get("availability_zone") or "").zone
    details = {"availability_zone": wanted, "requested_host": host, "requested_node": None, "wait_for_capacity_s": 0}
    deadline = ctx.now + seconds(ctx.limits.build_timeout_s)
    values = {
        "vm_state": states.BUILDING,
        "task_state": states.SCHEDULING,
        "attempt": row.attempt + 1,
        "earlier_attempts": row.attempt,
        "deadline": deadline,
        "step_deadline": ctx.due(ctx.limits.placing_timeout_s, deadline),
        "chosen": None,
        "availability_zone": wanted or None,
        "shelved": {
            **(row.shelved or {}),
            machine.BEFORE: {"availability_zone": row.availability_zone, "details": row.details},
        },
        "details": {**(row.details or {}), **details},
        "request_id": ctx.request_id,
        "updated_at": ctx.now,
    }
    tx.update(instances.INSTANCES, uuid, values)
    tx.touch(instances.INSTANCES, uuid)
    where = {"attempt": row.attempt + 1, "request_id": ctx.request_id}
    history.add_event(tx, uuid, "unshelve", now=ctx.now, **where)
    return instances.moved(row, values)
