# SPDX-License-Identifier: Apache-2.0
"""Claims and finishes of builds, as hosts report them: any number of them in one transaction.

Each row is moved by compare-and-set on step and attempt, and each step may be repeated without harm. All transactions lock
in one order: instances, services, groups, nodes (each sorted), and last the change counter. (MariaDB locks in the order in
which it finds the rows; it may have to run the transaction again.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from conductor_stub.steps.limits import StepContext
from fleet import errors, failpoints, states
from fleet.db import builds, claimed, groups, history, hosts, instances, services
from fleet.db.engine import Row, Transaction
from fleet.objects import BuildStep, Claim, Finish


@failpoints.commits("conductor.claim")
def _claim(tx: Transaction, claim: Claim, row: Row, ctx: StepContext) -> dict[str, Any]:
    """``placing → spawning``: host, node and usage at once."""
    values = {
        "task_state": states.SPAWNING,
        "host": claim.host,
        "node": claim.node,
        "launched_on": claim.host,
        "step_deadline": ctx.due(ctx.limits.spawn_timeout_s, row.deadline),
        **claimed.columns(claim.claim),
    }
    if not builds.move(tx, row.uuid, attempt=claim.attempt, steps=(states.PLACING,), values=values, now=ctx.now):
        raise instances.stale(row, claim.attempt)
    return values


@failpoints.commits("conductor.finish")
def _finish(tx: Transaction, finish: Finish, row: Row, ctx: StepContext) -> dict[str, Any]:
    """``spawning → active``."""
    values = {
        "vm_state": states.ACTIVE,
        "task_state": None,
        "power_state": finish.power_state,
        "launched_at": ctx.now,
        "step_deadline": None,
    }
    moved = row.host == finish.host and builds.move(
        tx, row.uuid, attempt=finish.attempt, steps=(states.SPAWNING,), host=finish.host, values=values, now=ctx.now
    )
    if not moved:
        raise instances.stale(row, finish.attempt)
    return values


_WORK: Mapping[type[BuildStep], Callable[..., dict[str, Any]]] = {Claim: _claim, Finish: _finish}


def _is_done(step: BuildStep, row: Row) -> bool:
    """Whether an earlier message has taken the step already."""
    if isinstance(step, Claim):
        place = row.vm_state, row.task_state, row.attempt, row.host, row.node
        return place == (states.BUILDING, states.SPAWNING, step.attempt, step.host, step.node)
    # A move may have begun before the agent received the answer: it needs the guest that this build made.
    active = (row.vm_state, row.attempt, row.host) == (states.ACTIVE, step.attempt, step.host)
    return active and row.task_state != states.DELETING


@dataclasses.dataclass(frozen=True)
class StepReport:
    """A step that a host reports, and the id of the request that it belongs to, for the history."""

    step: BuildStep
    request_id: str | None


def transaction(reports: Sequence[StepReport], ctx: StepContext) -> Callable[[Transaction], list[Any]]:
    """The work of one transaction for steps of as many instances; it returns their rows.

    :raises errors.StaleBuild: errors.StaleIncarnation: errors.GroupAffinityViolation: errors.NotFound: (the work does)
    :raises errors.ComputeResourcesUnavailable: the ledger counts more on a host than the host does
    """

    @failpoints.commits_all([_WORK[type(each.step)] for each in reports])
    def record_steps(tx: Transaction) -> list[Any]:
        return _record(tx, reports, ctx)

    return record_steps


def _record(tx: Transaction, reports: Sequence[StepReport], ctx: StepContext) -> list[Any]:
    rows, serving = _locked(tx, [each.step for each in reports])
    taken: list[tuple[StepReport, Any]] = []
    for number, (each, row) in enumerate(zip(reports, rows, strict=True)):
        step = each.step
        if _is_done(step, row):
            continue
        if step.incarnation is not None:
            services.check_incarnation(tx, step.host, serving.get(step.host), step.incarnation)
        rows[number] = instances.moved(row, _WORK[type(step)](tx, step, row, ctx))
        taken.append((each, rows[number]))
    if taken:
        _check_groups(tx, taken)
        tx.touch(instances.INSTANCES, *(row.uuid for _each, row in taken))
        hosts.refresh_all(tx, _changes(taken), ctx.now)
        for each, row in taken:
            _add_event(tx, each, row, ctx)
    return rows


def _check_groups(tx: Transaction, taken: Iterable[tuple[StepReport, Any]]) -> None:
    arrivals: dict[str, dict[str, str]] = {}
    for each, row in taken:
        if isinstance(each.step, Claim) and row.group_uuid:
            arrivals.setdefault(row.group_uuid, {})[row.uuid] = row.host
    for group_uuid in sorted(arrivals):  # in an order that no two can contradict
        groups.check_policy(tx, group_uuid, arrivals[group_uuid])


def _add_event(tx: Transaction, report: StepReport, row: Any, ctx: StepContext) -> None:
    finished = isinstance(report.step, Finish)
    what = history.ATTEMPT if finished else history.CLAIM
    duration_s = (ctx.now - row.created_at).total_seconds() if finished else None
    where = {"attempt": report.step.attempt, "host": row.host, "node": row.node, "request_id": report.request_id}
    history.add_event(tx, row.uuid, what, now=ctx.now, duration_s=duration_s, **where)


def _locked(tx: Transaction, steps: Sequence[BuildStep]) -> tuple[list[Any], Mapping[str, str | None]]:
    """The rows of the steps, and by host the incarnation of the agent that serves it.

    A finish says that a guest runs, so no other agent may start to serve the host before it is written. A claim needs no
    such lock: the agent's periodic comparison finds a claim of its former life.
    """
    reporting = {step.host for step in steps if step.incarnation is not None}
    finishing = any(isinstance(step, Finish) for step in steps)
    if len(steps) == 1:
        (step,) = steps
        row = instances.lock(tx, step.instance_uuid, for_host=None if finishing else step.host)
        return [row], services.incarnations_of(tx, reporting, held=True) if finishing else {step.host: row.incarnation}
    found = instances.lock_all(tx, [step.instance_uuid for step in steps])
    for step in steps:
        if step.instance_uuid not in found:
            raise errors.NotFound(kind="Instance", name=step.instance_uuid)
    rows = [found[step.instance_uuid] for step in steps]
    return rows, services.incarnations_of(tx, reporting, held=finishing)


def _changes(taken: Iterable[tuple[StepReport, Any]]) -> dict[tuple[str, str], hosts.UsageChange]:
    """By host and node, what the steps change besides the usage."""
    by_place: dict[tuple[str, str], list[BuildStep]] = {}
    for each, row in taken:
        by_place.setdefault((row.host, row.node), []).append(each.step)
    return {place: _change(steps) for place, steps in by_place.items()}


def _change(steps: Sequence[BuildStep]) -> hosts.UsageChange:
    limits = [step.limits for step in steps if isinstance(step, Claim) and step.limits is not None]
    return hosts.UsageChange(True if any(isinstance(step, Finish) for step in steps) else None, limits)
