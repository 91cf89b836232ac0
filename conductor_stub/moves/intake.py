# SPDX-License-Identifier: Apache-2.0
"""What operators ask for, each one transaction: a move is accepted, confirmed or reverted, or a clear no."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from conductor_stub.moves import claims, failures
from conductor_stub.moves.claims import Move
from conductor_stub.steps.limits import Limits, step_deadline
from fleet import errors, failpoints, move_states, states
from fleet.clock import seconds
from fleet.db import instances, moves, services
from fleet.db.engine import Transaction

FIRST_ATTEMPT = 1
_WHAT_TO_DO = {
    states.RESIZED: "confirm or revert its resize first",
    states.ERROR: "it is nowhere; delete it, and boot another",
}


@failpoints.commits("conductor.move_accept")
def accept(
    tx: Transaction,
    uuid: str,
    instance_uuid: str,
    kind: str,
    new_spec: Mapping[str, Any] | None,
    limits: Limits,
    request_id: str | None,
    now: datetime.datetime,
) -> Move:
    """Record the move, and mark the instance: from now on it ends within ``limits.move_timeout_s``.

    :param new_spec: what a resize changes: ``flavor``, ``numa_topology``, ``pci_requests``
    :raises errors.Conflict: errors.InvalidInput: errors.NotFound:
    """
    row = instances.lock(tx, instance_uuid)
    if moves.find(tx, uuid) is not None:
        return claims.read(tx, uuid)
    _require_settled(row)
    spec = instances.spec_of(row)
    old_spec = {key: spec.get(key) for key in ("flavor", "numa_topology", "pci_requests")}
    if kind == move_states.EVACUATION:
        _require_down(tx, row, limits, now)
    elif new_spec is not None and new_spec["flavor"] == old_spec["flavor"]:
        raise errors.InvalidInput(field="flavor", reason=f"is what {row.name} has already")
    deadline = now + seconds(limits.move_timeout_s)
    values = {
        "uuid": uuid,
        "instance_uuid": row.uuid,
        "migration_type": kind,
        "status": move_states.ACCEPTED,
        "attempt": FIRST_ATTEMPT,
        "source_compute": row.host,
        "source_node": row.node,
        "old_spec": old_spec,
        "new_spec": dict(new_spec or old_spec),
        "plan": {},
        "deadline": deadline,
        # The cast that follows may be lost: the sweeper hands it out again.
        "step_deadline": step_deadline(now, limits.placing_timeout_s, deadline),
        "request_id": request_id,
        "created_at": now,
    }
    tx.insert(moves.MIGRATIONS, values)
    move = claims.read(tx, uuid)
    claims.set_instance(tx, row, now, task_state=failures.waiting_task(move.record))
    claims.refresh(tx, move, now)
    return claims.read(tx, uuid)


@failpoints.commits("conductor.move_confirm")
def confirm(
    tx: Transaction, instance_uuid: str, limits: Limits, request_id: str | None, now: datetime.datetime
) -> Move:
    """``finished → confirming``: the source is to let go. :raises errors.Conflict: errors.NotFound:"""
    move = _resized(tx, instance_uuid, move_states.CONFIRMING)
    if move.record.status == move_states.CONFIRMING:
        return move
    return claims.set_status(tx, move, move_states.CONFIRMING, limits, now)


@failpoints.commits("conductor.move_revert")
def revert(tx: Transaction, instance_uuid: str, limits: Limits, request_id: str | None, now: datetime.datetime) -> Move:
    """``finished → reverting``: the instance is the source's again, which has kept all that it needs.

    :raises errors.Conflict: errors.NotFound:
    """
    move = _resized(tx, instance_uuid, move_states.REVERTING)
    if move.record.status == move_states.REVERTING:
        return move
    claims.swap(tx, move, move.record.old_spec, now, launched_on=move.record.source_compute)
    deadline = now + seconds(limits.move_timeout_s)
    swapped = claims.read(tx, move.record.uuid)
    return claims.set_status(tx, swapped, move_states.REVERTING, limits, now, deadline=deadline)


def _resized(tx: Transaction, instance_uuid: str, wanted: str) -> Move:
    """The resize that waits for its confirmation, or is at ``wanted`` already."""
    row = instances.lock(tx, instance_uuid)
    record = moves.of_instance(tx, instance_uuid)
    waits = record is not None and record.status in (move_states.FINISHED, wanted)
    if not waits or record is None or row.deleted or row.task_state == states.DELETING:
        raise errors.Conflict(kind="Instance", name=row.name, reason=f"is {_state(row)}, and no resize of it waits")
    return claims.read(tx, record.uuid)


def _require_settled(row: Any) -> None:
    if row.deleted:
        raise errors.NotFound(kind="Instance", name=row.name)
    if (row.vm_state, row.task_state) != (states.ACTIVE, None):
        advice = "wait for what is under way" if row.task_state else _WHAT_TO_DO.get(row.vm_state, "it must be ACTIVE")
        raise errors.Conflict(kind="Instance", name=row.name, reason=f"is {_state(row)}, not ACTIVE: {advice}")


def _state(row: Any) -> str:
    return f"{row.vm_state.upper()} ({row.task_state})" if row.task_state else row.vm_state.upper()


def _require_down(tx: Transaction, row: Any, limits: Limits, now: datetime.datetime) -> None:
    """What runs twice may ruin its data: nothing is rebuilt elsewhere while its host may be alive."""
    service = services.get(tx, row.host, services.COMPUTE)
    if service is not None and services.is_up(service, now, limits.service_down_time_s):
        reason = f"is on host {row.host}, whose {services.COMPUTE} is up: an evacuation is for hosts that are down"
        raise errors.Conflict(kind="Instance", name=row.name, reason=reason)
