# SPDX-License-Identifier: Apache-2.0
"""The state machine of power tasks: instance rows with one of ``states.POWER_TASKS``.

See ``steps.machine``. Called by the modules beside it and those of :mod:`conductor_stub.agents`.

The host is known, so the row never waits for one: it is claimed from its acceptance on.
"""

from __future__ import annotations

import dataclasses
import datetime
import types
from collections.abc import Collection, Mapping, Sequence

from conductor_stub.power import offload
from conductor_stub.steps import faults
from conductor_stub.steps.limits import StepContext, StepLimits, not_after
from conductor_stub.steps.machine import TimedRow
from fleet import errors, failpoints, states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.hosts import hosts, services
from fleet.db.instances import history, instance_values, instances
from fleet.db.operations import recoveries
from fleet.db.tables.instances import RequestedInstance
from fleet.json_codec import JSONObject
from fleet.objects import fields, host_report

#: State of an instance after each task.
_THEN: Mapping[str, str] = types.MappingProxyType(
    {
        **dict.fromkeys(states.POWER_TASKS, states.ACTIVE),
        states.POWERING_OFF: states.STOPPED,
        states.SUSPENDING: states.VM_SUSPENDED,
        states.SHELVING: states.SHELVED,
    }
)


class RebuildFailed(errors.FleetError):
    """The host could not make the guest anew. Its former disk may be gone: rebuild it again, or delete it."""

    template = "The rebuild on host {host} failed: {reason}"
    host: str
    reason: str


class PowerTimeout(errors.FleetError):
    """The host did not switch the guest in time. Nothing is known to be wrong with the guest: the next audit shows it."""

    code = 504
    template = "Host {host} did not end {task} within {timeout_s} s."


class PowerLost(PowerTimeout):
    """The host is off for certain, so it will not end the task. The guest may be evacuated."""

    template = "Host {host} is off for certain: it has not ended {task}."


@dataclasses.dataclass(frozen=True)
class PowerReport:
    """The report of a host about a power task.

    ``failure`` is "" if it is done; ``power_state`` is the guest's, afterwards. ``attempt`` and ``deadline`` are the row's,
    as the host has read it; None from an older agent.
    """

    instance_uuid: fields.Uuid
    host: fields.Name
    task_state: fields.Name
    power_state: int
    failure: fields.LongText = ""
    attempt: fields.Natural | None = None
    deadline: fields.Text | None = None


@failpoints.commits_inherited(time_out="conductor.power_overdue")
class PowerMachine(TimedRow[RequestedInstance, PowerTimeout]):
    def lock(self, tx: Transaction, uuids: Collection[str]) -> list[RequestedInstance]:
        return list(instances.lock_all(tx, uuids).values())

    def status(self, row: RequestedInstance) -> str | None:
        return row.task_state if not row.deleted and row.task_state in states.POWER_TASKS else None

    def enter(
        self, tx: Transaction, rows: Sequence[RequestedInstance], status: str, due: datetime.datetime, ctx: StepContext
    ) -> list[RequestedInstance]:
        return [_set(tx, row, ctx, step_deadline=not_after(due, row.deadline)) for row in rows]

    def is_over(self, tx: Transaction, row: RequestedInstance, ctx: StepContext) -> bool:
        """Return True if the deadline of the task has passed, or its host is off for certain and does not end it."""
        return super().is_over(tx, row, ctx) or recoveries.is_off(tx, instances.place_of(row)[0])

    def timed_out(self, tx: Transaction, row: RequestedInstance, ctx: StepContext) -> PowerTimeout | None:
        is_off = recoveries.is_off(tx, instances.place_of(row)[0])
        if row.task_state == states.SHELVING_OFFLOADING and not is_off:
            # The guest may be destroyed already: an offload that has begun is repeated until the host reports its end. One
            # that is off for certain never does: the instance stays on it, and may be evacuated.
            begin(tx, row, row.task_state, ctx)
            return None
        timeout_s = f"{allowed_s(row.task_state, ctx.limits):.0f}"
        kind = PowerLost if is_off else PowerTimeout
        late = kind(host=row.host, task=row.task_state, timeout_s=timeout_s)
        _end(tx, row, ctx, _failed(tx, row, late, ctx), type(late).__name__, late.message)
        return late


@failpoints.commits("conductor.power_accept")
def accept(tx: Transaction, uuid: str, task: str, ctx: StepContext) -> RequestedInstance:
    """Write the task. From now on it ends within ``power_timeout``. A repeated request changes nothing.

    :raises errors.Conflict: errors.NotFound:
    """
    row = instances.lock(tx, uuid)
    if row.deleted:
        raise errors.NotFound(kind="Instance", name=row.name)
    if row.task_state == task:
        return row
    _require(tx, row, task, ctx)
    if task == states.SHELVING_OFFLOADING:
        offload.require(tx, row)
    return begin(tx, row, task, ctx)


def put_off(tx: Transaction, uuid: str, ctx: StepContext) -> None:
    """Let a shelved instance keep its host for now; for ever, if the host has no place for its disk."""
    row = instances.lock(tx, uuid)
    if (row.vm_state, row.task_state) == (states.SHELVED, None):
        due = ctx.due(ctx.limits.build_timeout_s) if offload.shelf_of(tx, row) else None
        tx.update(instances.INSTANCES, uuid, {"step_deadline": due})


def begin(tx: Transaction, row: RequestedInstance, task: str, ctx: StepContext, **values: object) -> RequestedInstance:
    """Write the task of a locked row, which may have it, and ``values``."""
    deadline = ctx.now + seconds(allowed_s(task, ctx.limits))
    # The cast that follows may be lost: the sweeper then repeats it.
    due = ctx.due(ctx.limits.placing_timeout_s, deadline)
    entered = _set(tx, row, ctx, task_state=task, deadline=deadline, step_deadline=due, **values)
    hosts.refresh_usage(tx, *instances.place_of(row), ctx.now)
    return entered


def begin_unasked(tx: Transaction, row: RequestedInstance, task: str, ctx: StepContext) -> None:
    """Write a task that no user has asked for into a locked row. The next sweep notifies its host."""
    begin(tx, row, task, ctx)
    tx.update(instances.INSTANCES, row.uuid, {"step_deadline": ctx.now})


def allowed_s(task: str | None, limits: StepLimits) -> float:
    """Return the seconds that a task may take. Tasks that copy a disk have the time of a build."""
    return limits.build_timeout_s if task in states.DISK_TASKS else limits.power_timeout_s


@failpoints.commits("conductor.power_done")
def done(tx: Transaction, report: PowerReport, ctx: StepContext) -> bool:
    """The host has carried the task out, or cannot. Return False if the row has moved on: nothing is written then."""
    row = instances.lock(tx, report.instance_uuid)
    if row.deleted or (row.task_state, row.host) != (report.task_state, report.host):
        return False
    if report.attempt not in (None, row.attempt) or not _is_of_this_task(row, report):
        return False
    found: dict[str, object] = {"power_state": report.power_state}
    if report.failure and (row.task_state, report.power_state) == (states.SHELVING_OFFLOADING, states.NOSTATE):
        # The driver has removed the guest, and not all of its files: no task may start it before the host ends the offload.
        _set(tx, row, ctx, **found, step_deadline=ctx.due(ctx.limits.placing_timeout_s))
        _add_event(tx, row, ctx, "failed", report.failure)
    elif report.failure:
        found |= _failed(tx, row, RebuildFailed(host=row.host, reason=report.failure), ctx)
        _end(tx, row, ctx, found, "failed", report.failure)
    else:
        _succeed(tx, row, found, ctx)
    return True


def _is_of_this_task(row: RequestedInstance, report: PowerReport) -> bool:
    """Return False if the report is that of an earlier task of the same kind.

    An offload is not begun twice in one attempt, but its deadline is put off until it succeeds.
    """
    is_offload = row.task_state == states.SHELVING_OFFLOADING
    return is_offload or report.deadline in (None, instance_values.task_deadline(row.task_state, row.deadline))


def _succeed(tx: Transaction, row: RequestedInstance, found: JSONObject, ctx: StepContext) -> None:
    if row.task_state == states.SHELVING_OFFLOADING:
        offload.leave(tx, row, ctx)
        _add_event(tx, row, ctx)
        return
    _end(tx, row, ctx, {**found, "vm_state": _then(row)})
    after_s = ctx.limits.shelved_offload_time_s
    if row.task_state == states.SHELVING and after_s >= 0 and offload.shelf_of(tx, row):
        # The host reads the row again after its report.
        shelved = instances.lock(tx, row.uuid)
        if after_s == 0:
            begin(tx, shelved, states.SHELVING_OFFLOADING, ctx)
        else:
            _set(tx, shelved, ctx, step_deadline=ctx.now + seconds(after_s))


def _then(row: RequestedInstance) -> str:
    """Return the state after the task. An instance that was stopped is stopped after a rebuild, too."""
    if (row.task_state, row.vm_state) == (states.REBUILD_DISK, states.STOPPED):
        return states.STOPPED
    return _THEN[str(row.task_state)]


def _failed(tx: Transaction, row: RequestedInstance, error: Exception, ctx: StepContext) -> JSONObject:
    """The columns of a row whose task has failed. A rebuild leaves a disk that may be half written."""
    if row.task_state == states.SHELVING_OFFLOADING:
        return {"step_deadline": ctx.due(ctx.limits.build_timeout_s)}
    after_s = ctx.limits.shelved_offload_time_s
    if row.task_state == states.UNSHELVING and after_s >= 0 and offload.shelf_of(tx, row):
        return {"step_deadline": ctx.now + seconds(after_s)}
    if row.task_state != states.REBUILD_DISK:
        return {}
    if isinstance(error, PowerLost) and not hosts.stat_of(tx, *instances.place_of(row), host_report.SHARED):
        # Its disk is lost with the host: an evacuation makes it anew from the new image.
        return {}
    faults.write(tx, row.uuid, error, row.host, ctx)
    return {"vm_state": states.ERROR}


def _end(
    tx: Transaction,
    row: RequestedInstance,
    ctx: StepContext,
    values: Mapping[str, object],
    result: str = history.SUCCESS,
    message: str = "",
) -> None:
    _set(tx, row, ctx, **{"task_state": None, "step_deadline": None, **values})
    hosts.refresh_usage(tx, *instances.place_of(row), ctx.now)
    _add_event(tx, row, ctx, result, message)


def _add_event(
    tx: Transaction, row: RequestedInstance, ctx: StepContext, result: str = history.SUCCESS, message: str = ""
) -> None:
    event, where = states.POWER_TASKS[str(row.task_state)], {"host": row.host, "node": row.node, "attempt": row.attempt}
    history.add_outcome(
        tx, row.uuid, event, now=ctx.now, result=result, message=message, request_id=ctx.request_id, **where
    )


def _set(tx: Transaction, row: RequestedInstance, ctx: StepContext, **values: object) -> RequestedInstance:
    values["updated_at"] = ctx.now
    tx.update(instances.INSTANCES, row.uuid, values)
    tx.touch(instances.INSTANCES, row.uuid)
    return instances.moved(row, values)


def _require(tx: Transaction, row: RequestedInstance, task: str, ctx: StepContext) -> None:
    """:raises errors.Conflict:"""
    reason = _why_not(row, task)
    if reason:
        raise errors.Conflict(kind="Instance", name=row.name, reason=reason)
    require_host_up(tx, row, ctx)


def require_host_up(tx: Transaction, row: RequestedInstance, ctx: StepContext) -> None:
    """:raises errors.Conflict: nothing can be done with the guest: the agent of its host is down"""
    service = services.get(tx, row.host, services.COMPUTE)
    if service is None or not services.is_up(service, ctx.now, ctx.limits.service_down_time_s):
        reason = f"is on a host whose {services.COMPUTE} is down: nothing there can be switched"
        raise errors.Conflict(kind="Instance", name=row.name, reason=reason)


def _why_not(row: RequestedInstance, task: str) -> str:
    if row.task_state is not None:
        return f"is {row.vm_state.upper()} ({row.task_state}): wait until its task has ended"
    if row.host is None:
        unshelve = ": unshelve it first" if row.vm_state == states.SHELVED_OFFLOADED else ""
        return f"is {row.vm_state.upper()} and on no host{unshelve}"
    if row.vm_state == states.SHELVED and task not in (states.UNSHELVING, states.SHELVING_OFFLOADING):
        return "is SHELVED: unshelve it first"
    off = row.power_state in states.DOWN
    if task == states.POWERING_OFF:
        allowed, must = row.vm_state == states.ACTIVE or (row.vm_state == states.STOPPED and not off), "run"
    elif task == states.POWERING_ON:
        allowed, must = row.vm_state == states.STOPPED or (row.vm_state == states.ACTIVE and off), "be off"
    elif task == states.REBOOTING:
        allowed, must = row.vm_state == states.ACTIVE, "be ACTIVE"
    elif task == states.SUSPENDING:
        runs_on = row.vm_state == states.VM_SUSPENDED and row.power_state == states.RUNNING
        allowed, must = runs_on or (row.vm_state == states.ACTIVE and not off), "run"
    elif task == states.SHELVING:
        allowed, must = row.vm_state in (states.ACTIVE, states.STOPPED), "be ACTIVE or STOPPED"
    elif task in (states.UNSHELVING, states.SHELVING_OFFLOADING):
        allowed, must = row.vm_state == states.SHELVED, "be SHELVED"
    elif task == states.RESUMING:
        allowed, must = row.vm_state == states.VM_SUSPENDED, "be SUSPENDED"
    else:
        allowed, must = row.vm_state in (states.ACTIVE, *states.AT_REST), "be ACTIVE, STOPPED or SUSPENDED"
    power = states.POWER_NAMES.get(row.power_state, "in an unknown power state")
    return "" if allowed else f"is {row.vm_state.upper()} and its guest is {power}: it must {must}"
