# SPDX-License-Identifier: Apache-2.0
"""The steps of a move that succeeds, each one transaction: a host is chosen, it claims, the hosts do their parts.

Called by the modules beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from conductor_stub.moves import group_evacuation, live, machine, slots, swap, views
from conductor_stub.moves.machine import Move
from conductor_stub.steps.attempt import Attempt
from conductor_stub.steps.limits import StepContext
from fleet import errors, failpoints, move_states, states
from fleet.db.catalog import group_check
from fleet.db.catalog.group_check import Arrival
from fleet.db.engine import claimed
from fleet.db.engine.database import Transaction
from fleet.db.hosts import hosts, services
from fleet.db.instances import history, instances, moves
from fleet.db.tables.moves import MigrationRow
from fleet.db.volumes import attachments
from fleet.json_codec import JSONObject
from fleet.objects import Claimed, HostLimits, Place
from fleet.objects.plans import MovePlan, StoredPlace


@failpoints.commits("conductor.move_route")
def route(
    tx: Transaction, uuid: str, attempt: int, place: Place, alternates: Sequence[Place], ctx: StepContext
) -> Move | None:
    """Store the scheduler's choice: from now on that host may claim. None if the move has gone on without us, or waits.

    An evacuated group member waits again if other members were sent elsewhere meanwhile, so that it follows them.
    """
    move = machine.read(tx, uuid)
    record, group_uuid = move.record, move.instance.group_uuid
    if (record.status, record.attempt) != (move_states.PREPARING, attempt):
        return None
    follows = record.plan.get("follows")
    if group_uuid and not follows and not group_evacuation.may_go(tx, record, group_uuid, place.host, ctx):
        due = ctx.due(ctx.limits.placing_timeout_s, record.deadline)
        # Only once: a scheduler without the group's filter would choose the same host again. The claim then decides.
        moves.change_plan(tx, record, ctx.now, {"follows": True}, status=move_states.ACCEPTED, step_deadline=due)
        return machine.read(tx, uuid)
    if why := machine.why_it_stays(tx, record, ctx):
        refusal = errors.Conflict(kind="Instance", name=move.instance.name, reason=f"stays: {why}")
        return machine.MoveMachine().refused(tx, move, refusal, ctx)
    if why := slots.taken(tx, record, place.host, ctx):
        machine.wait(tx, move, why, ctx)
        return None
    choose(tx, record, place, alternates, ctx)
    return machine.read(tx, uuid)


def choose(tx: Transaction, record: MigrationRow, place: Place, alternates: Sequence[Place], ctx: StepContext) -> None:
    """Store ``place`` as the destination of a locked record, and the scheduler's other choices."""
    choice: MovePlan = {"limits": place.limits, "alternates": [_stored(each) for each in alternates]}
    moves.change_plan(tx, record, ctx.now, choice, dest_compute=place.host, dest_node=place.nodename)


def _stored(place: Place) -> StoredPlace:
    return {"host": place.host, "nodename": place.nodename, "limits": place.limits}


@failpoints.commits("conductor.move_claim")
def claim(tx: Transaction, attempt: Attempt, holds: Claimed, ctx: StepContext) -> Move:
    """``preparing → pre-migrating``: the record holds what the destination has claimed.

    :raises errors.StaleBuild: errors.StaleIncarnation: errors.GroupAffinityViolation: errors.NotFound:
    :raises errors.ComputeResourcesUnavailable: the ledger counts more on the host than the host does
    """
    move = machine.read(tx, attempt.uuid)
    record, row, host, node = move.record, move.instance, attempt.host, attempt.node
    assert node is not None, "a claim names its node"
    assert attempt.incarnation is not None, "a claim names the life of its agent"
    mine = record.attempt == attempt.number and record.dest_compute == host and move.under_way
    if mine and record.status == move_states.PRE_MIGRATING and record.held_node == node:
        return move
    machine.require_part(move, host)
    if not mine or record.status != move_states.PREPARING:
        raise instances.stale(row, attempt.number, host)
    serving = services.serving(tx, host)
    services.check_incarnation(tx, host, serving.incarnation, attempt.incarnation)
    services.require_no_work(host, serving)
    if why := machine.why_it_stays(tx, record, ctx):
        raise errors.InvalidInput(field="migration_type", reason=f"is {record.migration_type}, and {why}")
    if row.group_uuid:
        dead = group_evacuation.dead_hosts(tx, record, row.group_uuid, ctx)
        group_check.check(tx, row.group_uuid, {row.uuid: Arrival(host, record.plan.get("limits") or {})}, dead)
    machine.add_event(tx, move, history.CLAIM, ctx, host, node)
    moves.update(tx, move.uuid, ctx.now, dest_node=node, held_host=host, held_node=node, **claimed.columns(holds))
    hosts.refresh_usage(tx, host, node, ctx.now, limits=HostLimits.from_wire(record.plan.get("limits")))
    return machine.set_status(tx, machine.read(tx, move.uuid), move_states.PRE_MIGRATING, ctx)


@failpoints.commits("conductor.move_advance")
def advance(tx: Transaction, attempt: Attempt, done: str, ctx: StepContext) -> Move:
    """The host has done its part of status ``done``: enter the next one. A late or repeated report changes nothing."""
    move = machine.read(tx, attempt.uuid)
    if live.is_found(move, attempt, done):
        return live.complete_step(tx, move, ctx, arrived=True)
    expected = (done, attempt.number, attempt.host)
    if (move.record.status, move.attempt, move.actor) != expected or not move.under_way:
        return move
    return complete_step(tx, move, ctx)


def complete_step(tx: Transaction, move: Move, ctx: StepContext) -> Move:
    """The present step of a locked move is done, or no host is left that could do it."""
    kind, status = move.record.migration_type, move.record.status
    if kind == move_states.EVACUATION:
        return _evacuated(tx, move, ctx)
    if kind == move_states.LIVE_MIGRATION:
        return live.complete_step(tx, move, ctx)
    if status == move_states.PRE_MIGRATING:
        return machine.set_status(tx, move, move_states.POST_MIGRATING, ctx)
    if status == move_states.POST_MIGRATING:
        return _resized(tx, move, ctx)
    if status == move_states.REVERTING:
        return machine.set_status(tx, move, move_states.RESUMING, ctx, **moves.NOTHING_HELD)
    return _ended(tx, move, ctx)


def copied(tx: Transaction, attempt: Attempt, percent: int, ctx: StepContext) -> None:
    """Keep how much of the guest the host has copied. :raises errors.NotFound:"""
    move = machine.read(tx, attempt.uuid)
    record = move.record
    copies = (record.migration_type, record.status) in views.COPIES
    if copies and (record.attempt, move.actor) == (attempt.number, attempt.host):
        moves.change_plan(tx, record, ctx.now, {"copied": percent})


def _resized(tx: Transaction, move: Move, ctx: StepContext) -> Move:
    """The guest runs on the destination. The record now holds what the instance had on the source, for a revert."""
    record = move.record
    # The destination has started it, also if it did not run on its source.
    now = {"vm_state": states.RESIZED, "power_state": states.RUNNING}
    swap.swap(tx, move, record.new_spec, ctx, launched_on=record.dest_compute, **now)
    machine.add_event(tx, move, move_states.RESIZE, ctx, record.dest_compute, record.dest_node)
    finished = machine.set_status(tx, move, move_states.FINISHED, ctx, deadline=None)
    if not record.plan.get("confirms"):
        return finished
    return machine.set_status(tx, finished, move_states.CONFIRMING, ctx)


def _evacuated(tx: Transaction, move: Move, ctx: StepContext) -> Move:
    """The guest runs on the destination. If it was made anew from its image, and its host is up again with the guest's data,
    the evacuation ends, and the destination destroys what it has made: otherwise the former host would destroy the data.
    """
    record = move.record
    returned = machine.why_it_stays(tx, record, ctx)
    if returned and not machine.shares_disks(tx, record):
        message = f"The instance stays, with its data: {returned}"
        details = {"host": record.source_compute, "step": record.status}
        machine.add_event(tx, move, move_states.EVACUATION, ctx, record.source_compute, record.source_node,
                          result="Conflict", message=message, step=record.status)  # fmt: skip
        return machine.end_unmoved(tx, move, {"error": "Conflict", "message": message, "details": details}, ctx)
    now: JSONObject = {"power_state": states.RUNNING}
    if move.instance.vm_state in states.AT_REST:
        # The memory of a suspended guest was on the dead host.
        shelved = move.instance.vm_state == states.SHELVED
        now = {"vm_state": states.SHELVED if shelved else states.STOPPED, "power_state": states.SHUTDOWN}
    if move.instance.vm_state == states.ERROR:
        now["vm_state"] = states.ACTIVE
    _leave_unsettled(tx, record, ctx)
    swap.swap(tx, move, record.new_spec, ctx, launched_on=record.dest_compute, **now)
    machine.add_event(tx, move, move_states.EVACUATION, ctx, record.dest_compute, record.dest_node)
    return machine.set_status(tx, move, move_states.DONE, ctx, **moves.NOTHING_HELD)


def _leave_unsettled(tx: Transaction, record: MigrationRow, ctx: StepContext) -> None:
    """Remove attachments that the former host was to attach or detach: the new guest does not have these volumes."""
    message = f"Host {record.source_compute} is off, and its guest was evacuated: the volume is not attached"
    failure = {"error": "failed", "message": message, "details": {}}
    attachments.abandon(tx, record.instance_uuid, failure, ctx.now)


def _ended(tx: Transaction, move: Move, ctx: StepContext) -> Move:
    """A resize is confirmed, reverted, or undone after a failure. The event of a failure was written when it happened."""
    record = move.record
    if record.status == move_states.CONFIRMING:
        end, event = move_states.CONFIRMED, "confirm"
    elif record.failure is None:
        end, event = move_states.REVERTED, "revert"
    else:
        end, event = move_states.ERROR, ""
    if event:
        machine.add_event(tx, move, event, ctx, move.instance.host, move.instance.node)
    machine.set_instance(tx, move.instance, ctx, vm_state=states.ACTIVE)
    return machine.set_status(tx, move, end, ctx, **moves.NOTHING_HELD)
