# SPDX-License-Identifier: Apache-2.0
"""The steps of a host in a maintenance until no guest runs there: it takes no builds, and its guests move away.

Called by :mod:`conductor_stub.maintenance.keeper` and :mod:`conductor_stub.maintenance.working`.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from conductor_stub.moves import acceptance, ways
from conductor_stub.moves.machine import Move
from conductor_stub.steps.limits import StepContext
from conductor_stub.steps.maintenance_settings import MaintenanceSettings
from fleet import errors, failpoints, maintenance_states, move_states, states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.instances import instances, moves
from fleet.db.operations import maintenances, recoveries
from fleet.db.tables.instances import RequestedInstance
from fleet.db.tables.moves import MigrationRow
from fleet.db.tables.operations.maintenance import MaintenanceHostRow, MaintenanceRow
from fleet.objects import host_report

#: Seconds until a guest whose move has failed is tried again, doubled with each failure.
_AGAIN_AFTER_S, _AT_MOST_S = 30, 600
#: Guests that a problem names.
_NAMED = 3
_DOWN = "its agent is down"
#: A move that left a guest where it was.
_FAILED = (move_states.ERROR, move_states.CANCELLED, move_states.REVERTED)


@dataclasses.dataclass(frozen=True)
class Guest:
    """A guest that may move now. :param kind: of its move"""

    uuid: str
    kind: str
    destination: str | None


@dataclasses.dataclass(frozen=True)
class State:
    """The work that is left on a host.

    :param guests: may move now; ``room`` of them at most
    :param problems: what holds the host up
    :param confirmed: cold moves whose confirmation must be sent on
    """

    status: str
    guests: Sequence[Guest] = ()
    room: int = 0
    problems: Sequence[str] = ()
    confirmed: Sequence[Move] = ()


def reason_of(name: str) -> str:
    """Return why a host of this maintenance takes no builds."""
    return f"{maintenance_states.REASON}{name}"[: services.REASON_LENGTH]


def reason_of_return(name: str) -> str:
    """Return why a host of this maintenance takes no builds when its work is done.

    An agent ends such a disabling by its next report, or replaces it by its alarm.
    """
    return f"{host_report.AUTO}{reason_of(name)} waits for a report of its agent"[: services.REASON_LENGTH]


@failpoints.commits("conductor.maintenance_begin")
def begin(tx: Transaction, uuid: str, key: int, settings: MaintenanceSettings, ctx: StepContext) -> str:
    """``waiting → draining``: the host takes no more builds. Return its status then.

    A host that is down is skipped when it is off for certain, or does not come back in time.
    """
    plan = maintenances.lock(tx, uuid)
    row = maintenances.lock_host(tx, key)
    if row.status != maintenance_states.WAITING or plan.paused:
        return row.status
    if skip_if_gone(tx, row, ctx):
        return maintenance_states.SKIPPED
    if services.silent(tx, [row.host], ctx.now, ctx.limits.service_down_time_s):
        return _await_turn(tx, row, settings, ctx)
    taken = {"status": maintenance_states.DRAINING, "began_at": ctx.now}
    maintenances.update_host(tx, key, ctx.now, problem=None, **taken)
    keep_disabled(tx, plan, row.host, ctx)
    return maintenance_states.DRAINING


def skip_if_gone(tx: Transaction, row: MaintenanceHostRow, ctx: StepContext) -> bool:
    """End the turn of a host that was removed; return True then. No hook runs for it, and no agent of it comes back."""
    service = services.get(tx, row.host, services.COMPUTE, lock=True)
    if service is not None and not service.deleted:
        return False
    _leave_out(tx, row, "the host is gone", ctx)
    return True


def _leave_out(tx: Transaction, row: MaintenanceHostRow, why: str, ctx: StepContext) -> None:
    skipped = {"status": maintenance_states.SKIPPED, "open_host": None, "problem": why}
    maintenances.update_host(tx, row.id, ctx.now, ended_at=ctx.now, **skipped)


def _await_turn(tx: Transaction, row: MaintenanceHostRow, settings: MaintenanceSettings, ctx: StepContext) -> str:
    """Let a host that is down come back. The time counts from its turn: all agents are silent while the broker is away."""
    since = (row.updated_at or ctx.now) if row.problem is not None else ctx.now
    if ctx.now - since >= seconds(settings.return_timeout_s) or recoveries.is_off(tx, row.host):
        _leave_out(tx, row, f"{_DOWN}: it was not drained", ctx)
        return maintenance_states.SKIPPED
    if row.problem is None:
        maintenances.update_host(tx, row.id, ctx.now, problem=_DOWN)
    return row.status


def fail(tx: Transaction, row: MaintenanceHostRow, problem: str, now: datetime.datetime, **more: object) -> str:
    """Let an operator decide. Return the problem. :param more: values of the row"""
    failed = {"status": maintenance_states.FAILED, "lease_until": None, "problem": problem, **more}
    maintenances.update_host(tx, row.id, now, **failed)
    return problem


def keep_disabled(tx: Transaction, plan: MaintenanceRow, host: str, ctx: StepContext) -> None:
    """Disable the host unless an operator has disabled it for a reason of his own."""
    service = services.get(tx, host, services.COMPUTE, lock=True)
    if service is None or service.deleted:
        return
    if not service.disabled or (service.disabled_reason or "").startswith(host_report.AUTO):
        services.set_disabled(tx, host, services.COMPUTE, True, reason_of(plan.name), ctx.now)


@failpoints.commits("conductor.maintenance_settle")
def settle(
    tx: Transaction,
    uuid: str,
    key: int,
    settings: MaintenanceSettings,
    ctx: StepContext,
    tried_since: datetime.datetime | None = None,
) -> State:
    """Confirm cold moves that have finished, and return the guests that may move now. With none left: ``→ working``.

    A host that has died meanwhile fails: no hook runs for it.

    :param tried_since: guests that found no host before need not wait any longer
    """
    plan = maintenances.lock(tx, uuid)
    row = maintenances.lock_host(tx, key)
    if row.status != maintenance_states.DRAINING or plan.paused or row.began_at is None:
        return State(row.status)
    if skip_if_gone(tx, row, ctx):
        return State(maintenance_states.SKIPPED)
    keep_disabled(tx, plan, row.host, ctx)
    busy = maintenances.busy(tx, row.host)
    cold = [each for each in busy if each.source_compute == row.host and each.status == move_states.FINISHED]
    confirmed, unconfirmed = _confirm(tx, [each for each in cold if each.new_spec == each.old_spec], ctx)
    running = guests_on(tx, row.host)
    coming = ctx.now < row.began_at + seconds(ctx.limits.placing_timeout_s)
    is_recovered = recoveries.is_open(tx, row.host)
    is_empty = not (running or busy or is_recovered)
    if not is_recovered and _is_lost(tx, row, is_empty, settings, ctx):
        lost = fail(tx, row, f"{_DOWN}: it was lost while it was drained", ctx.now, emptied_at=None)
        return State(maintenance_states.FAILED, problems=[lost], confirmed=confirmed)
    if is_empty and not (coming and maintenances.is_placing(tx, row.began_at)):
        if plan.hook is None or not services.silent(tx, [row.host], ctx.now, ctx.limits.service_down_time_s):
            return _emptied(tx, row, confirmed, ctx)
        return State(row.status, problems=[_DOWN], confirmed=confirmed)
    guests, problems = _choose(tx, plan, row, running, maintenances.away(tx, row.host, row.began_at), ctx, tried_since)
    problems += unconfirmed
    resized = {each.instance_uuid for each in cold if each.new_spec != each.old_spec}
    problems += [
        f"{each.name} waits for its resize to be confirmed or reverted" for each in instances.of_uuids(tx, resized)
    ]
    if is_recovered:
        problems.append(f"its recovery has not ended: see 'fleet recovery show {row.host}'")
    room = _room(tx, plan, ctx)
    return State(row.status, guests, room, problems, confirmed)


def _is_lost(
    tx: Transaction, row: MaintenanceHostRow, is_empty: bool, settings: MaintenanceSettings, ctx: StepContext
) -> bool:
    """Return True if the host is down and does not come back: it was recovered, or has been silent for too long."""
    service = services.get(tx, row.host, services.COMPUTE)
    if service is None or services.is_up(service, ctx.now, ctx.limits.service_down_time_s):
        return False
    if is_empty and recoveries.is_off(tx, row.host):
        return True
    # An agent that was stopped is expected back.
    since = max(filter(None, (service.last_seen_up, row.began_at))) if service.last_seen_up is not None else None
    return since is not None and ctx.now - since >= seconds(settings.return_timeout_s)


def _confirm(tx: Transaction, cold: Sequence[MigrationRow], ctx: StepContext) -> tuple[list[Move], list[str]]:
    """Confirm cold moves. Return those, and why others are not confirmed now."""
    confirmed, problems = [], []
    for each in cold:
        try:
            confirmed.append(acceptance.confirm(tx, each.instance_uuid, ctx))
        except errors.Conflict as refused:
            problems.append(refused.message)
    return confirmed, problems


def is_needed(tx: Transaction, host: str) -> bool:
    """Return True if a hook would disturb a host: guests run there, come or leave, or its recovery may switch it off."""
    return bool(guests_on(tx, host) or maintenances.busy(tx, host)) or recoveries.is_open(tx, host)


def guests_on(tx: Transaction, host: str) -> Sequence[RequestedInstance]:
    """Guests that run on a host, or are about to. Those at rest, without a task, may stay, unless they run all the same."""
    return tx.execute(instances.live(instances.INSTANCES.c.host == host, maintenances.RUNS)).all()


@failpoints.commits("conductor.maintenance_move")
def begin_move(
    tx: Transaction, uuid: str, key: int, guest: Guest, migration: str, ctx: StepContext
) -> Move | str | None:
    """Accept the move of a guest; return why that is refused, or None if it may not begin now.

    :param migration: uuid of its record, so that a repeated transaction finds it
    """
    plan = maintenances.lock(tx, uuid)
    row = maintenances.lock_host(tx, key)
    if moves.find(tx, migration) is not None:
        return Move(*moves.lock(tx, migration))
    if row.status != maintenance_states.DRAINING or plan.paused:
        return None
    if not _room(tx, plan, ctx):
        return None
    there = instances.lock(tx, guest.uuid)
    if there.host != row.host or there.task_state is not None:
        # It has left since the host was read, or another conductor moves it.
        return None
    try:
        # A maintenance that is paused or has ended does not confirm it.
        confirms = guest.kind == move_states.RESIZE
        return acceptance.accept(
            tx, migration, guest.uuid, guest.kind, None, ctx, confirms=confirms, preferred=guest.destination
        )
    except errors.DatabaseError:
        raise
    except errors.FleetError as refused:
        return refused.message


def _room(tx: Transaction, plan: MaintenanceRow, ctx: StepContext) -> int:
    """Return how many more moves the maintenance may begin."""
    under_way = maintenances.under_way(tx, plan.uuid, ctx.now, ctx.limits.service_down_time_s)
    return max(0, plan.moves_at_a_time - under_way)


def tell(tx: Transaction, key: int, problems: Sequence[str], now: datetime.datetime) -> None:
    """Record why a host that is drained is not empty yet."""
    row = maintenances.lock_host(tx, key)
    problem = _told(problems) or None
    if row.status == maintenance_states.DRAINING and problem != row.problem:
        maintenances.update_host(tx, key, now, problem=problem)


def _emptied(tx: Transaction, row: MaintenanceHostRow, confirmed: Sequence[Move], ctx: StepContext) -> State:
    service = services.get(tx, row.host, services.COMPUTE)
    life = service.incarnation if service is not None else None
    empty = {"status": maintenance_states.WORKING, "emptied_at": ctx.now, "incarnation": life, "problem": None}
    maintenances.update_host(tx, row.id, ctx.now, **empty)
    return State(maintenance_states.WORKING, confirmed=confirmed)


def _choose(
    tx: Transaction,
    plan: MaintenanceRow,
    row: MaintenanceHostRow,
    running: Sequence[RequestedInstance],
    records: Sequence[MigrationRow],
    ctx: StepContext,
    tried_since: datetime.datetime | None,
) -> tuple[list[Guest], list[str]]:
    """Return the guests that may move now, and why others stay. Those of a host that is down are left to its recovery."""
    destinations = maintenances.destinations(tx, plan.uuid, row.host)
    able = [each for each in running if each.vm_state == states.ACTIVE and each.task_state is None]
    obstacles = ways.obstacles(tx, [each.uuid for each in able])
    problems = [
        f"{each.name} is {each.vm_state.upper()}"
        + (f", and its guest runs: stop it on {row.host}" if each.vm_state in maintenances.RESTING else "")
        for each in running
        if each.vm_state not in (states.ACTIVE, states.BUILDING) and each.task_state is None
    ]
    if services.silent(tx, [row.host], ctx.now, ctx.limits.service_down_time_s):
        return [], [*problems, _DOWN]
    guests = []
    for each in able:
        failure, again_at, tries = _last_failure(records, each.uuid, tried_since)
        if failure:
            problems.append(f"{each.name} stays: {failure}")
        obstacle = obstacles.get(each.uuid, "")
        if obstacle and not plan.cold:
            problems.append(f"{each.name} {obstacle}")
        elif again_at is None or again_at <= ctx.now:
            kind = move_states.RESIZE if obstacle else move_states.LIVE_MIGRATION
            # The plan of the beginning may not hold any more: then the scheduler chooses among all hosts.
            guests.append(Guest(each.uuid, kind, None if tries else destinations.get(each.uuid)))
    return guests, problems


def _last_failure(
    records: Sequence[MigrationRow], uuid: str, tried_since: datetime.datetime | None = None
) -> tuple[str, datetime.datetime | None, int]:
    """Return why the guest's newest move failed, when it is tried again, and how many moves have failed."""
    failed = [
        each
        for each in records
        if each.instance_uuid == uuid
        and each.status in _FAILED
        # What its recovery has tried while the host was down says nothing of a drain.
        and each.migration_type != move_states.EVACUATION
    ]
    if not failed:
        return "", None, 0
    last = failed[-1]
    failure: Mapping[str, object] = last.failure or {}
    found_no_host = failure.get("error") == errors.NoValidHost.__name__
    if len(failed) == 1 and "preferred" in last.plan and found_no_host:
        # Perhaps only the host of the plan was asked for.
        return "", None, 1
    ended_at = last.updated_at or last.created_at
    wait_s = min(_AGAIN_AFTER_S * 2 ** min(len(failed) - 1, 10), _AT_MOST_S)
    if found_no_host and tried_since is not None and ended_at < tried_since:
        wait_s = 0
    return str(failure.get("message") or f"its move is {last.status}"), ended_at + seconds(wait_s), len(failed)


def _told(problems: Sequence[str]) -> str:
    more = len(problems) - _NAMED
    return "; ".join([*problems[:_NAMED], *([f"and {more} more"] if more > 0 else [])])
