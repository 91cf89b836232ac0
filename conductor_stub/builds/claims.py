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
from fleet.objects import Claimed, HostLimits, fields


@failpoints.commits("conductor.claim")
@dataclasses.dataclass(frozen=True)
class Claim:
    """``placing → spawning``: host, node and usage at once.

    :param limits: up to where the host may be used with it
    """

    instance_uuid: fields.Uuid
    attempt: fields.Natural
    host: fields.Name
    node: fields.Name
    incarnation: fields.Token
    claim: Claimed
    limits: HostLimits | None = None

    @classmethod
    def from_wire(cls, data: Mapping[str, Any], field: str) -> Claim:
        """:raises errors.InvalidInput: naming the field"""
        claim = Claimed.from_wire(data.get("claim"), f"{field}.claim")
        limits = HostLimits.from_wire(data.get("limits"), f"{field}.limits")
        return fields.parse(cls, {**data, "claim": claim, "limits": limits}, field)

    def was_done(self, row: sa.Row) -> bool:
        step = row.vm_state, row.task_state, row.attempt, row.host, row.node
        return step == (states.BUILDING, states.SPAWNING, self.attempt, self.host, self.node)

    def move(self, tx: Transaction, row: sa.Row, spawn_timeout_s: float, now: datetime.datetime) -> Any:
        values = {
            "task_state": states.SPAWNING,
            "host": self.host,
            "node": self.node,
            "launched_on": self.host,
            "step_deadline": step_deadline(now, spawn_timeout_s, row.deadline),
            **{f"claimed_{name}": amount for name, amount in vars(self.claim).items()},
        }
        if not instances.move(tx, row.uuid, attempt=self.attempt, steps=(states.PLACING,), values=values, now=now):
            raise instances.stale(row, self.attempt)
        return instances.moved(row, values)

    def event(self, row: Any, now: datetime.datetime) -> tuple[str, float | None]:
        return history.CLAIM, None


@failpoints.commits("conductor.finish")
@dataclasses.dataclass(frozen=True)
class Finish:
    """``spawning → active``.

    :param incarnation: a later life of the agent has given the build up, or will; None: an older agent did not say
    """

    instance_uuid: fields.Uuid
    attempt: fields.Natural
    host: fields.Name
    power_state: fields.Natural
    incarnation: fields.Token | None = None

    @classmethod
    def from_wire(cls, data: Mapping[str, Any], field: str) -> Finish:
        """:raises errors.InvalidInput: naming the field"""
        return fields.parse(cls, data, field)

    def was_done(self, row: sa.Row) -> bool:
        done = (row.vm_state, row.attempt, row.host) == (states.ACTIVE, self.attempt, self.host)
        # A move may have begun before the answer was heard; the guest that this build made is the one that it needs.
        return done and row.task_state != states.DELETING

    def move(self, tx: Transaction, row: sa.Row, spawn_timeout_s: float, now: datetime.datetime) -> Any:
        values = {
            "vm_state": states.ACTIVE,
            "task_state": None,
            "power_state": self.power_state,
            "launched_at": now,
            "step_deadline": None,
        }
        expected = {"attempt": self.attempt, "steps": (states.SPAWNING,), "host": self.host}
        if row.host != self.host or not instances.move(tx, row.uuid, **expected, values=values, now=now):
            raise instances.stale(row, self.attempt)
        return instances.moved(row, values)

    def event(self, row: Any, now: datetime.datetime) -> tuple[str, float | None]:
        return history.ATTEMPT, (now - row.created_at).total_seconds()


Step = Claim | Finish
_KINDS: Mapping[str, type[Step]] = {"claim_instance": Claim, "finish_build": Finish}


def from_wire(data: Mapping[str, Any], field: str) -> Step:
    """One of several steps: the arguments of ``method``. :raises errors.InvalidInput: naming the field"""
    kind = _KINDS.get(str(data.get("method")))
    if kind is None:
        raise errors.InvalidInput(field=f"{field}.method", reason=f"must be one of {', '.join(_KINDS)}")
    return kind.from_wire(data, field)


@dataclasses.dataclass(frozen=True)
class Asked:
    """A step and the request that it belongs to, by its id, for the history."""

    step: Step
    request_id: str | None


def in_one(
    asked: Sequence[Asked], spawn_timeout_s: float, now: datetime.datetime
) -> Callable[[Transaction], list[Any]]:
    """The work of one transaction, for steps of as many instances; it returns their rows.

    :raises errors.StaleBuild: errors.StaleIncarnation: errors.GroupAffinityViolation: errors.NotFound: (the work does)
    :raises errors.ComputeResourcesUnavailable: the ledger counts more on a host than the host does
    """

    @failpoints.commits_all([each.step for each in asked])
    def steps(tx: Transaction) -> list[Any]:
        return _record(tx, asked, spawn_timeout_s, now)

    return steps


def _record(tx: Transaction, asked: Sequence[Asked], spawn_timeout_s: float, now: datetime.datetime) -> list[Any]:
    rows, serving = _locked(tx, [each.step for each in asked])
    begun = []
    for number, (each, row) in enumerate(zip(asked, rows, strict=True)):
        step = each.step
        if not step.was_done(row):
            if step.incarnation is not None:
                services.check_incarnation(tx, step.host, serving.get(step.host), step.incarnation)
            rows[number] = step.move(tx, row, spawn_timeout_s, now)
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
        event, duration_s = each.step.event(row, now)
        history.add_event(
            tx,
            row.uuid,
            event,
            now=now,
            attempt=each.step.attempt,
            host=row.host,
            node=row.node,
            request_id=each.request_id,
            duration_s=duration_s,
        )
    return rows


def _locked(tx: Transaction, steps: Sequence[Step]) -> tuple[list[Any], Mapping[str, str | None]]:
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
    by_place: dict[tuple[str, str], list[Step]] = {}
    for each, row in begun:
        by_place.setdefault((row.host, row.node), []).append(each.step)
    return {place: _news_of(of_place) for place, of_place in by_place.items()}


def _news_of(steps: Sequence[Step]) -> hosts.News:
    limits = [step.limits for step in steps if isinstance(step, Claim) and step.limits is not None]
    return hosts.News(True if any(isinstance(step, Finish) for step in steps) else None, limits)
