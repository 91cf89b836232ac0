# SPDX-License-Identifier: Apache-2.0
"""The steps of a move that goes well, each one transaction: taken, routed, claimed, done by its host."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from conductor_stub.moves import group_evacuation
from conductor_stub.moves.group_evacuation import Liveness
from conductor_stub.steps.limits import Limits, step_deadline
from fleet import failpoints, move_states, states
from fleet.db import groups, history, hosts, instances, moves, services
from fleet.db.engine import Transaction
from fleet.objects import Claimed, HostLimits, Place

INSTANCES = instances.INSTANCES

#: The instance's task while a record has this status, once a destination has claimed.
_TASKS: Mapping[tuple[str, str], str] = {
    (move_states.RESIZE, move_states.PRE_MIGRATING): states.RESIZE_MIGRATING,
    (move_states.RESIZE, move_states.POST_MIGRATING): states.RESIZE_FINISH,
    (move_states.RESIZE, move_states.CONFIRMING): states.RESIZE_CONFIRMING,
    (move_states.RESIZE, move_states.REVERTING): states.RESIZE_REVERTING,
    (move_states.RESIZE, move_states.RESUMING): states.RESIZE_REVERTING,
    (move_states.EVACUATION, move_states.PRE_MIGRATING): states.REBUILD_SPAWNING,
}


@dataclasses.dataclass(frozen=True)
class Move:
    """A record with its instance's row, as a transaction has left them."""

    instance: Any
    record: Any


def read(tx: Transaction, uuid: str) -> Move:
    """:raises errors.NotFound:"""
    return Move(*moves.lock(tx, uuid))


def set_status(tx: Transaction, move: Move, status: str, limits: Limits, now: datetime.datetime, **values: Any) -> Move:
    """Move on; the instance's task follows, and both hosts' records show it."""
    record, row = move.record, move.instance
    task = _TASKS.get((record.migration_type, status))
    due = step_deadline(now, limits.placing_timeout_s) if status in move_states.UNDER_WAY else None
    moves.update(tx, record.uuid, now, status=status, step_deadline=due, **values)
    set_instance(tx, row, now, task_state=task)
    refresh(tx, move, now)
    return read(tx, record.uuid)


def set_instance(tx: Transaction, row: Any, now: datetime.datetime, **values: Any) -> None:
    tx.update(INSTANCES, row.uuid, {"updated_at": now, **values})
    tx.touch(INSTANCES, row.uuid)


def refresh(tx: Transaction, move: Move, now: datetime.datetime) -> None:
    """The usage of every node that the move has to do with."""
    record, row = move.record, move.instance
    places = [(record.source_compute, record.source_node), (record.dest_compute, record.dest_node)]
    hosts.refresh_usages(tx, [*places, (row.host, row.node)], now)


@failpoints.commits("conductor.move_take")
def take(tx: Transaction, uuid: str, attempt: int, limits: Limits, now: datetime.datetime) -> Move | None:
    """``accepted → preparing``: whether this caller has taken it, and now must place it."""
    move = read(tx, uuid)
    if (move.record.status, move.record.attempt) != (move_states.ACCEPTED, attempt) or not is_moving(move):
        return None
    due = step_deadline(now, limits.placing_timeout_s, move.record.deadline)
    moves.update(tx, uuid, now, status=move_states.PREPARING, dest_compute=None, dest_node=None, step_deadline=due)
    return read(tx, uuid)


def put_back(tx: Transaction, uuid: str, attempt: int, retry_at: datetime.datetime, now: datetime.datetime) -> bool:
    """``preparing → accepted``, to be handed out at ``retry_at``; whether nobody else has moved it on."""
    record = read(tx, uuid).record
    if record.status not in move_states.UNCLAIMED or record.attempt != attempt:
        return False
    moves.update(tx, uuid, now, status=move_states.ACCEPTED, step_deadline=retry_at)
    return True


@failpoints.commits("conductor.move_route")
def route(
    tx: Transaction,
    uuid: str,
    attempt: int,
    place: Place,
    alternates: Sequence[Place],
    limits: Limits,
    now: datetime.datetime,
) -> Move | None:
    """Note the scheduler's choice: from now on that host may claim. None when the move has gone on without us.

    An evacuated member of a group whose others were routed elsewhere meanwhile is ``accepted`` again, to follow them.
    """
    move = read(tx, uuid)
    if (move.record.status, move.record.attempt) != (move_states.PREPARING, attempt):
        return None
    if move.instance.group_uuid and not move.record.plan.get("follows"):
        liveness = Liveness(now, limits.service_down_time_s)
        if not group_evacuation.may_go(tx, move.record, move.instance.group_uuid, place.host, liveness):
            due = step_deadline(now, limits.placing_timeout_s, move.record.deadline)
            # Once: a scheduler without the group's filter would choose the same host again, and the claim decides.
            plan = {**move.record.plan, "follows": True}
            moves.update(tx, uuid, now, status=move_states.ACCEPTED, plan=plan, step_deadline=due)
            return read(tx, uuid)
    plan = {**move.record.plan, **routed(place, alternates)}
    moves.update(tx, uuid, now, dest_compute=place.host, dest_node=place.nodename, plan=plan)
    return read(tx, uuid)


def routed(place: Place, alternates: Sequence[Place]) -> dict[str, Any]:
    """The scheduler's answer, as a record keeps it."""
    return {"limits": place.limits, "alternates": [each.to_wire() for each in alternates]}


@failpoints.commits("conductor.move_claim")
def claim(
    tx: Transaction,
    uuid: str,
    attempt: int,
    host: str,
    node: str,
    incarnation: str,
    claimed: Claimed,
    limits: Limits,
    request_id: str | None,
    now: datetime.datetime,
) -> Move:
    """``preparing → pre-migrating``: the record holds what the destination has claimed.

    :raises errors.StaleBuild: errors.StaleIncarnation: errors.GroupAffinityViolation: errors.NotFound:
    :raises errors.ComputeResourcesUnavailable: the ledger counts more on the host than the host does
    """
    move = read(tx, uuid)
    record, row = move.record, move.instance
    mine = record.attempt == attempt and record.dest_compute == host and is_moving(move)
    if mine and record.status == move_states.PRE_MIGRATING and record.held_node == node:
        return move
    if not mine or record.status != move_states.PREPARING:
        raise instances.stale(row, attempt)
    found = services.incarnation_of(tx, host)
    services.check_incarnation(tx, host, found, incarnation)
    if row.group_uuid:
        dead = group_evacuation.dead_hosts(tx, record, row.group_uuid, Liveness(now, limits.service_down_time_s))
        groups.check_policy(tx, row.group_uuid, {row.uuid: host}, dead)
    event(tx, move, history.CLAIM, now, request_id, host=host, node=node)
    holding = moves.held(claimed, host, node)
    moves.update(tx, uuid, now, dest_node=node, **holding)
    hosts.refresh_usage(tx, host, node, now, limits=HostLimits.from_wire(record.plan.get("limits")))
    return set_status(tx, read(tx, uuid), move_states.PRE_MIGRATING, limits, now)


@failpoints.commits("conductor.move_advance")
def advance(
    tx: Transaction,
    uuid: str,
    attempt: int,
    host: str,
    done: str,
    limits: Limits,
    request_id: str | None,
    now: datetime.datetime,
) -> Move:
    """``host`` has done its part of status ``done``: what follows. A late or repeated word changes nothing."""
    move = read(tx, uuid)
    record = move.record
    expected = move_states.actor(record.migration_type, record.status, record.source_compute, record.dest_compute)
    if (record.status, record.attempt) != (done, attempt) or expected != host or not is_moving(move):
        return move
    return step_done(tx, move, limits, request_id, now)


def step_done(tx: Transaction, move: Move, limits: Limits, request_id: str | None, now: datetime.datetime) -> Move:
    """The present step of a locked record is over: done, or nobody is left who could do it."""
    kind, status = move.record.migration_type, move.record.status
    if kind == move_states.EVACUATION:
        return _evacuated(tx, move, limits, request_id, now)
    if status == move_states.PRE_MIGRATING:
        return set_status(tx, move, move_states.POST_MIGRATING, limits, now)
    if status == move_states.POST_MIGRATING:
        return _finished(tx, move, limits, request_id, now)
    if status == move_states.REVERTING:
        return set_status(tx, move, move_states.RESUMING, limits, now, **moves.NOTHING_HELD)
    return _ended(tx, move, limits, request_id, now)


def _finished(tx: Transaction, move: Move, limits: Limits, request_id: str | None, now: datetime.datetime) -> Move:
    """The guest runs on the destination: the instance is there, and the record holds what it had on the source."""
    swap(tx, move, move.record.new_spec, now, vm_state=states.RESIZED, launched_on=move.record.dest_compute)
    event(tx, move, move_states.RESIZE, now, request_id, host=move.record.dest_compute, node=move.record.dest_node)
    return set_status(tx, move, move_states.FINISHED, limits, now, deadline=None)


def _evacuated(tx: Transaction, move: Move, limits: Limits, request_id: str | None, now: datetime.datetime) -> Move:
    swap(tx, move, move.record.new_spec, now, launched_on=move.record.dest_compute, power_state=states.RUNNING)
    event(tx, move, move_states.EVACUATION, now, request_id, host=move.record.dest_compute, node=move.record.dest_node)
    return set_status(tx, move, move_states.DONE, limits, now, **moves.NOTHING_HELD)


def _ended(tx: Transaction, move: Move, limits: Limits, request_id: str | None, now: datetime.datetime) -> Move:
    """A resize is confirmed, reverted, or undone after a failure."""
    record = move.record
    if record.status == move_states.CONFIRMING:
        end, what = move_states.CONFIRMED, "confirm"
    elif record.failure is None:
        end, what = move_states.REVERTED, "revert"
    else:
        # Its failure was noted when it was met.
        end, what = move_states.ERROR, ""
    if what:
        event(tx, move, what, now, request_id, host=move.instance.host, node=move.instance.node)
    set_instance(tx, move.instance, now, vm_state=states.ACTIVE)
    return set_status(tx, move, end, limits, now, **moves.NOTHING_HELD)


def swap(tx: Transaction, move: Move, spec: Mapping[str, Any], now: datetime.datetime, **values: Any) -> None:
    """The instance goes where the record holds, with ``spec``; the record then holds what the instance had."""
    record, row = move.record, move.instance
    here = {"host": record.held_host, "node": record.held_node, **moves.claimed_by(record)}
    set_instance(tx, row, now, **here, **sizes(row, spec), **values)
    moves.update(tx, record.uuid, now, held_host=row.host, held_node=row.node, **moves.claimed_by(row))


def sizes(row: Any, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of an instance of this flavor."""
    flavor = spec["flavor"]
    original = all(row.spec.get(key) == value for key, value in spec.items())
    return {
        "resized_spec": None if original else dict(spec),
        "instance_type_id": flavor.get("id"),
        "flavor_name": flavor.get("name"),
        **{name: flavor[name] for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")},
    }


def is_moving(move: Move) -> bool:
    """Whether the instance is still the record's: it may be deleted at any moment."""
    return not move.instance.deleted and move.instance.task_state != states.DELETING


def event(
    tx: Transaction,
    move: Move,
    what: str,
    now: datetime.datetime,
    request_id: str | None,
    host: str | None,
    node: str | None,
    **said: Any,
) -> None:
    history.add_event(
        tx,
        move.instance.uuid,
        what,
        now=now,
        attempt=move.record.attempt,
        host=host,
        node=node,
        request_id=request_id,
        **said,
    )
