# SPDX-License-Identifier: Apache-2.0
"""Claims and finishes of builds, as hosts report them: any number of them in one transaction.

Each row is locked, compared with the step and the attempt that the host reports, and written only if both match; so
each step may be repeated without harm. All transactions lock in one order: instances, services, attachments with their
volumes, groups, nodes (each sorted), and last the change counter. (MariaDB locks in the order in which it finds the
rows; it may have to run the transaction again.) Called by :mod:`conductor_stub.agents.api`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from conductor_stub.builds import choice
from conductor_stub.steps.limits import StepContext
from fleet import errors, failpoints, states
from fleet.db.catalog import group_check
from fleet.db.catalog.group_check import Arrival
from fleet.db.engine import claimed
from fleet.db.engine.database import Transaction
from fleet.db.hosts import hosts, services, usage
from fleet.db.hosts.services import Serving
from fleet.db.instances import history, instances
from fleet.db.tables.instances import RequestedInstance
from fleet.db.volumes import attachments
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import BuildStep, Claim, Finish


@dataclasses.dataclass(frozen=True)
class StepReport:
    """A step that a host reports, and the id of the request that it belongs to, for the history."""

    step: BuildStep
    request_id: str | None


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The row after the step. ``now``: this transaction has moved it; otherwise an earlier message had."""

    row: RequestedInstance
    now: bool


@failpoints.commits("conductor.claim")
def _claim(claim: Claim, row: RequestedInstance, ctx: StepContext) -> JSONObject:
    """``placing → spawning``: host, node and usage at once."""
    choice.require(row, claim.attempt, claim.host)
    if _step(row) != (states.BUILDING, states.PLACING, claim.attempt):
        raise instances.stale(row, claim.attempt, claim.host)
    return {
        "task_state": states.SPAWNING,
        "host": claim.host,
        "node": claim.node,
        "launched_on": claim.host,
        "step_deadline": ctx.due(ctx.limits.spawn_timeout_s, row.deadline),
        **claimed.columns(claim.claim),
    }


@failpoints.commits("conductor.finish")
def _finish(finish: Finish, row: RequestedInstance, ctx: StepContext) -> JSONObject:
    """``spawning → active``."""
    if (*_step(row), row.host) != (states.BUILDING, states.SPAWNING, finish.attempt, finish.host):
        raise instances.stale(row, finish.attempt, finish.host)
    return {
        "vm_state": states.ACTIVE,
        "task_state": None,
        "power_state": finish.power_state,
        "launched_at": ctx.now,
        "step_deadline": None,
        "chosen": None,
        "shelved": None,
    }


_WORK: Mapping[type[BuildStep], Callable[..., JSONObject]] = {Claim: _claim, Finish: _finish}


def _step(row: RequestedInstance) -> tuple[str, str | None, int]:
    return row.vm_state, row.task_state, row.attempt


def _is_done(step: BuildStep, row: RequestedInstance) -> bool:
    """Return True if an earlier message has taken the step already."""
    if isinstance(step, Claim):
        return (*_step(row), row.host, row.node) == (
            *(states.BUILDING, states.SPAWNING, step.attempt),
            *(step.host, step.node),
        )
    # A move may have begun before the agent received the answer: it needs the guest that this build made.
    active = (row.vm_state, row.attempt, row.host) == (states.ACTIVE, step.attempt, step.host)
    return active and row.task_state != states.DELETING


def transaction(
    reports: Sequence[StepReport], ctx: StepContext
) -> Callable[[Transaction], list[Recorded | errors.FleetError]]:
    """The work of one transaction for steps of as many instances.

    It returns what became of each, or why it was refused (StaleBuild, StaleIncarnation, NotFound): nothing is written for
    that one then. A refusal that is known only after all steps are counted is raised, and nothing is written at all.

    :raises errors.GroupAffinityViolation: (the work does)
    :raises errors.ComputeResourcesUnavailable: the ledger counts more on a host than the host does
    """

    @failpoints.commits_all([_WORK[type(each.step)] for each in reports])
    def record_steps(tx: Transaction) -> list[Recorded | errors.FleetError]:
        return _record(tx, reports, ctx)

    return record_steps


def _record(tx: Transaction, reports: Sequence[StepReport], ctx: StepContext) -> list[Recorded | errors.FleetError]:
    steps = [each.step for each in reports]
    rows, serving = _locked(tx, steps)
    answers: list[Recorded | errors.FleetError] = []
    pending: list[usage.Pending] = []
    taken: list[tuple[StepReport, RequestedInstance]] = []
    for each in reports:
        try:
            row = _found(rows, each.step)
            values = _judge(tx, each.step, row, serving, ctx)
        except errors.FleetError as refusal:
            answers.append(refusal)
            continue
        recorded = Recorded(instances.moved(row, values), now=bool(values))
        answers.append(recorded)
        if recorded.now:
            pending.append(usage.Pending(row, values))
            taken.append((each, recorded.row))
    if taken:
        if all(_may_be_lost(each.step, row) for each, row in taken):
            tx.commit_early()
        for each, row in taken:
            if isinstance(each.step, Finish) and _has_volumes(row):
                attachments.settle(tx, row.uuid, ctx.now)
        _check_groups(tx, taken)
        hosts.refresh_all(tx, _changes(taken), ctx.now, pending)
        for each, row in taken:
            _add_event(tx, each, row, ctx)
    return answers


def _may_be_lost(step: BuildStep, row: RequestedInstance) -> bool:
    """Return True if a crash of the database may lose the step: its host removes the guest, and the sweeper places the
    build again.

    The claim of a build with volumes is durable before the guest writes to them: nothing else keeps a second guest away.
    """
    return isinstance(step, Claim) and not _has_volumes(row)


def _has_volumes(row: RequestedInstance) -> bool:
    """Return True if its guest may begin with volumes: one that was shelved has kept those that it had."""
    return bool(row.spec.get("block_device_mapping") or row.earlier_attempts)


def _found(rows: Mapping[str, RequestedInstance], step: BuildStep) -> RequestedInstance:
    row = rows.get(step.instance_uuid)
    if row is None:
        raise errors.NotFound(kind="Instance", name=step.instance_uuid)
    return row


def _judge(
    tx: Transaction, step: BuildStep, row: RequestedInstance, serving: Mapping[str, Serving], ctx: StepContext
) -> JSONObject:
    """Return the values that the step writes to the locked row; none if it is done already."""
    if _is_done(step, row):
        return {}
    if step.incarnation is not None:
        services.check_incarnation(tx, step.host, serving[step.host].incarnation, step.incarnation)
    if isinstance(step, Claim):
        services.require_no_work(step.host, serving[step.host])
    return {"updated_at": ctx.now, **_WORK[type(step)](step, row, ctx)}


def _check_groups(tx: Transaction, taken: Iterable[tuple[StepReport, RequestedInstance]]) -> None:
    arrivals: dict[str, dict[str, Arrival]] = {}
    for each, row in taken:
        if isinstance(each.step, Claim) and row.group_uuid:
            arrival = Arrival(instances.place_of(row)[0], choice.limits_of(row))
            arrivals.setdefault(row.group_uuid, {})[row.uuid] = arrival
    for group_uuid in sorted(arrivals):  # in an order that no two can contradict
        group_check.check(tx, group_uuid, arrivals[group_uuid])


def _add_event(tx: Transaction, report: StepReport, row: RequestedInstance, ctx: StepContext) -> None:
    finished = isinstance(report.step, Finish)
    what = history.ATTEMPT if finished else history.CLAIM
    duration_s = (ctx.now - row.created_at).total_seconds() if finished and not row.earlier_attempts else None
    where = {"attempt": report.step.attempt, "host": row.host, "node": row.node, "request_id": report.request_id}
    history.add_event(tx, row.uuid, what, now=ctx.now, duration_s=duration_s, **where)


def _locked(tx: Transaction, steps: Sequence[BuildStep]) -> tuple[JSONMapping, Mapping[str, Serving]]:
    """The rows that exist by uuid, and by host the state that its claims depend on.

    A finish says that a guest runs, so no other agent may start to serve the host before it is written. A claim needs no
    such lock: the agent's periodic comparison finds a claim of its former life.
    """
    finishing = any(isinstance(step, Finish) for step in steps)
    if len(steps) == 1 and not finishing:
        (step,) = steps
        row = instances.lock(tx, step.instance_uuid, for_host=step.host)
        return {row.uuid: row}, {step.host: Serving(row.incarnation, row.worked_on)}
    found = instances.lock_all(tx, [step.instance_uuid for step in steps])
    return found, services.all_serving(tx, {step.host for step in steps}, held=finishing)


def _changes(taken: Iterable[tuple[StepReport, RequestedInstance]]) -> dict[tuple[str, str], hosts.UsageChange]:
    """Return, by host and node, the columns that the steps change besides the usage."""
    by_place: dict[tuple[str, str], list[BuildStep]] = {}
    for each, row in taken:
        by_place.setdefault(instances.place_of(row), []).append(each.step)
    return {place: _change(steps) for place, steps in by_place.items()}


def _change(steps: Sequence[BuildStep]) -> hosts.UsageChange:
    limits = [step.limits for step in steps if isinstance(step, Claim) and step.limits is not None]
    return hosts.UsageChange(True if any(isinstance(step, Finish) for step in steps) else None, limits)
