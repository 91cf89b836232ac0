# SPDX-License-Identifier: Apache-2.0
"""The steps of a build that its agent asks for: claim and finish, any number of them in one transaction.

Each row is moved by compare-and-set on its attempt, and each step may be repeated without harm. What is locked comes in
one order for all transactions: instances, services, groups, nodes (each sorted), and last the change counter. (MariaDB locks
in the order in which it finds them, and may have to try again.)
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from conductor_stub.steps.limits import step_deadline
from fleet import errors, failpoints, states
from fleet.db import groups, history, hosts, instances, services
from fleet.db.engine import Transaction
from fleet.objects import BuildStep, Claim, Finish


@failpoints.commits("conductor.claim")
def _claim(
    tx: Transaction, claim: Claim, row: sa.Row, spawn_timeout_s: float, now: datetime.datetime
) -> dict[str, Any]:
    """``placing → spawning``: host, node and usage at once."""
    values = {
        "task_state": states.SPAWNING,
        "host": claim.host,
        "node": claim.node,
        "launched_on": claim.host,
        "step_deadline": step_deadline(now, spawn_timeout_s, row.deadline),
        **{f"claimed_{name}": amount for name, amount in vars(claim.claim).items()},
    }
    if not instances.move(tx, row.uuid, attempt=claim.attempt, steps=(states.PLACING,), values=values, now=now):
        raise instances.stale(row, claim.attempt)
    return values


@failpoints.commits("conductor.finish")
def _finish(tx: Transaction, finish: Finish, row: sa.Row, _timeout_s: float, now: datetime.datetime) -> dict[str, Any]:
    """``spawning → active``."""
    values = {
        "vm_state": states.ACTIVE,
        "task_state": None,
        "power_state": finish.power_state,
        "launched_at": now,
        "step_deadline": None,
    }
    moved = row.host == finish.host and instances.move(
        tx, row.uuid, attempt=finish.attempt, steps=(states.SPAWNING,), host=finish.host, values=values, now=now
    )
    if not moved:
        raise instances.stale(row, finish.attempt)
    return values


_WORK: Mapping[type[BuildStep], Callable[..., dict[str, Any]]] = {Claim: _claim, Finish: _finish}


def _is_done(step: BuildStep, row: sa.Row) -> bool:
    """Whether an earlier message has taken the step already."""
    if isinstance(step, Claim):
        place = row.vm_state, row.task_state, row.attempt, row.host, row.node
        return place == (states.BUILDING, states.SPAWNING, step.attempt, step.host, step.node)
    # A move may have begun before the agent received the answer: it needs the guest that this build made.
    active = (row.vm_state, row.attempt, row.host) == (states.ACTIVE, step.attempt, step.host)
    return active and row.task_state != states.DELETING


@dataclasses.dataclass(frozen=True)
class Asked:
    """A step and the request that it belongs to, by its id, for the history."""

    step: BuildStep
    request_id: str | None


def in_one(
    asked: Sequence[Asked], spawn_timeout_s: float, now: datetime.datetime
) -> Callable[[Transaction], list[Any]]:
    """The work of one transaction, for steps of as many instances; it returns their rows.

    :raises errors.StaleBuild: errors.StaleIncarnation: errors.GroupAffinityViolation: errors.NotFound: (the work does)
    :raises errors.ComputeResourcesUnavailable: the ledger counts more on a host than the host does
    """

    @failpoints.commits_all([_WORK[type(each.step)] for each in asked])
    def steps(tx: Transaction) -> list[Any]:
        return _record(tx, asked, spawn_timeout_s, now)

    return steps


def _record(tx: Transaction, asked: Sequence[Asked], spawn_timeout_s: float, now: datetime.datetime) -> list[Any]:
    rows, serving = _locked(tx, [each.step for each in asked])
    begun = []
    for number, (each, row) in enumerate(zip(asked, rows, strict=True)):
        step = each.step
        if not _is_done(step, row):
            if step.incarnation is not None:
                services.check_incarnation(tx, step.host, serving.get(step.host), step.incarnation)
            rows[number] = instances.moved(row, _WORK[type(step)](tx, step, row, spawn_timeout_s, now))
            begun.append((each, rows[number]))
    if not begun:
        return rows
    arrivals: dict[str, dict[str, str]] = {}
    for each, row in begun:
        if isinstance(each.step, Claim) and row.group_uuid:
            arrivals.setdefault(row.group_uuid, {})[row.uuid] = row.host
    for group_uuid in sorted(arrivals):  # in an order that no two can contradict
        groups.check_policy(tx, group_uuid, arrivals[group_uuid])
    tx.touch(instances.INSTANCES, *(row.uuid for _each, row in begun))
    hosts.refresh_all(tx, _news(begun), now)
    for each, row in begun:
        finished = isinstance(each.step, Finish)
        history.add_event(
            tx,
            row.uuid,
            history.ATTEMPT if finished else history.CLAIM,
            now=now,
            attempt=each.step.attempt,
            host=row.host,
            node=row.node,
            request_id=each.request_id,
            duration_s=(now - row.created_at).total_seconds() if finished else None,
        )
    return rows


def _locked(tx: Transaction, steps: Sequence[BuildStep]) -> tuple[list[Any], Mapping[str, str | None]]:
    """Their rows, and by host which life of an agent serves it, where they say for which they speak.

    Of a claim that is later than the next life's first look, the comparison finds out. A finish would say that there is a
    guest, so nobody may begin to serve its host before it is written.
    """
    speaking = {step.host for step in steps if step.incarnation is not None}
    finishing = any(isinstance(step, Finish) for step in steps)
    if len(steps) == 1:
        (step,) = steps
        row = instances.lock(tx, step.instance_uuid, for_host=None if finishing else step.host)
        return [row], services.incarnations_of(tx, speaking, held=True) if finishing else {step.host: row.incarnation}
    found = instances.lock_all(tx, [step.instance_uuid for step in steps])
    for step in steps:
        if step.instance_uuid not in found:
            raise errors.NotFound(kind="Instance", name=step.instance_uuid)
    rows = [found[step.instance_uuid] for step in steps]
    return rows, services.incarnations_of(tx, speaking, held=finishing)


def _news(begun: Iterable[tuple[Asked, Any]]) -> dict[tuple[str, str], hosts.News]:
    """By host and node."""
    by_place: dict[tuple[str, str], list[BuildStep]] = {}
    for each, row in begun:
        by_place.setdefault((row.host, row.node), []).append(each.step)
    return {place: _news_of(of_place) for place, of_place in by_place.items()}


def _news_of(steps: Sequence[BuildStep]) -> hosts.News:
    limits = [step.limits for step in steps if isinstance(step, Claim) and step.limits is not None]
    return hosts.News(True if any(isinstance(step, Finish) for step in steps) else None, limits)
