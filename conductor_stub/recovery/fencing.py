# SPDX-License-Identifier: Apache-2.0
"""The steps of a recovery until its host is fenced. A fence is run by the conductor that holds its lease.

Called by :mod:`conductor_stub.recovery.keeper` and :mod:`conductor_stub.recovery.evacuation`. The lease ends later
than the command may run. A conductor that dies in between leaves it, and another one runs the fence again. An outcome
that comes after the lease has ended, or when another conductor has it, counts for nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from conductor_stub.recovery import returning
from conductor_stub.steps import hook, recovery_settings
from conductor_stub.steps.fence import Order, Outcome
from conductor_stub.steps.limits import StepContext, StepLimits
from conductor_stub.steps.recovery_settings import RecoverySettings
from conductor_stub.upkeep_conf import FENCE_COMMAND, FENCE_NONE, FENCE_STORAGE
from fleet import failpoints, recovery_states
from fleet.clock import Clock, seconds
from fleet.db.engine.database import Transaction
from fleet.db.hosts import aggregates, services
from fleet.db.operations import recoveries, silence
from fleet.db.tables.operations.recovery import RecoveryRow

#: Key of an aggregate's metadata: the fence of its hosts.
METADATA = "recovery_fence"
#: Seconds between two tries, times the number of the last one.
_AGAIN_AFTER_S = 20


@failpoints.commits("conductor.recovery_fence")
def take(
    tx: Transaction, uuid: str, lease: str, settings: RecoverySettings, limits: StepLimits, clock: Clock
) -> Order | None:
    """Take the lease. Return the fence that this conductor must run; None if there is none to run.

    :param clock: read when the rows are locked. The host may have reported again while this transaction waited or was
        repeated
    """
    fleet = silence.lock_fleet(tx, clock())
    row = recoveries.lock(tx, uuid)
    now = clock()
    fence, command, problem = _chosen(tx, row.host, settings)
    if row.status == recovery_states.FENCING and row.lease == lease and row.lease_until is not None:
        # A commit whose outcome was unknown. Its aggregates may have chosen another fence meanwhile: the lease then ends.
        return _order(command, row, row.attempt, row.lease_until, settings) if command else None
    is_leased = row.lease_until is not None and row.lease_until > now
    may = row.status == recovery_states.FENCING and recoveries.may_go_on(fleet, row)
    if not may or is_leased or row.due_at > now:
        return None
    service = services.get(tx, row.host, services.COMPUTE)
    if service is not None and services.is_up(service, now, limits.service_down_time_s):
        returning.start(tx, row, recoveries.guests(tx, uuid), StepContext(limits, now))
        end(tx, row, recovery_states.RETURNED, "the host reports again", now)
        return None
    if service is not None and service.last_seen_up is None and not service.forced_down and not row.asked:
        end(tx, row, recovery_states.RETURNED, "its agent has reported again, and was stopped: its guests run on", now)
        return None
    if fence != FENCE_COMMAND:
        # Commands that have failed before do not make the host one that is off for certain (recoveries.is_off).
        recoveries.update(tx, uuid, now, attempt=0)
        _fenced(tx, row, recovery_settings.RISKS[fence], now)
        return None
    if row.host.startswith("-"):
        hold(tx, row, "its name begins with '-': the fence would take it for an option", now)
        return None
    if problem:
        hold(tx, row, problem, now)
        return None
    if row.attempt >= settings.fence_attempts:
        hold(tx, row, _failed(row.attempt, row.problem), now)
        return None
    attempt = row.attempt + 1
    until = now + seconds(settings.fence_timeout_s + hook.GRACE_S)
    recoveries.update(tx, uuid, now, attempt=attempt, lease=lease, lease_until=until, due_at=until)
    recoveries.add_step(tx, uuid, "fencing", f"try {attempt} of {settings.fence_attempts}", now)
    return _order(command, row, attempt, until, settings)


def _order(
    command: Sequence[str], row: RecoveryRow, attempt: int, until: datetime.datetime, settings: RecoverySettings
) -> Order:
    timeout_s = settings.fence_timeout_s
    return Order(command, row.host, row.uuid, attempt, timeout_s, hook.begin_by(until, timeout_s))


def _chosen(tx: Transaction, host: str, settings: RecoverySettings) -> tuple[str, Sequence[str], str]:
    """Return the kind of the host's fence, its command, and why there is none.

    Its aggregates choose. Without their word it is that of the configuration.
    """
    wishes = {each.metadata[METADATA] for each in aggregates.having(tx, METADATA) if host in each.hosts}
    if not wishes:
        lacking = "" if settings.fence_command else "[recovery] fence_command is not set"
        return settings.fence, settings.fence_command, lacking
    name = min(wishes)
    if len(wishes) > 1:
        return FENCE_COMMAND, (), f"its aggregates name several fences: {', '.join(sorted(wishes))}"
    if name in (FENCE_STORAGE, FENCE_NONE):
        return name, (), ""
    command = settings.fence_commands.get(name, ())
    lacking = "" if command else f"[recovery] fence_commands has no {name}, which its aggregate names"
    return FENCE_COMMAND, command, lacking


@failpoints.commits("conductor.recovery_fenced")
def finish(tx: Transaction, order: Order, lease: str, outcome: Outcome, attempts: int, clock: Clock) -> bool:
    """Write the outcome of a fence. Return False if it counts for nothing. :param attempts: the most there are"""
    row = recoveries.lock(tx, order.recovery)
    now = clock()
    if row.status != recovery_states.FENCING or row.lease != lease or row.lease_until is None or row.lease_until <= now:
        return False
    if outcome.is_off:
        _fenced(tx, row, outcome.message, now)
        return True
    again = now + seconds(_AGAIN_AFTER_S * row.attempt)
    recoveries.update(tx, row.uuid, now, lease=None, lease_until=None, due_at=again, problem=outcome.message)
    recoveries.add_step(tx, row.uuid, "not fenced", outcome.message, now)
    if row.attempt >= attempts:
        hold(tx, row, _failed(row.attempt, outcome.message), now)
    return True


def _failed(attempts: int, problem: str | None) -> str:
    return f"the fence has failed {attempts} times; the last time: {problem or 'its conductor has died'}"


def _fenced(tx: Transaction, row: RecoveryRow, message: str, now: datetime.datetime) -> None:
    moving = {"status": recovery_states.MOVING, "fenced_at": now, "due_at": now, "problem": None}
    recoveries.update(tx, row.uuid, now, lease=None, lease_until=None, **moving)
    recoveries.add_step(tx, row.uuid, "fenced", message, now)


#: Why a recovery is held whose host has reported after its fence.
LIED = "its agent reports again, and was not started anew: check the host and its fence, then resume"


def hold(tx: Transaction, row: RecoveryRow, problem: str, now: datetime.datetime) -> None:
    """Let an operator decide."""
    values = {"status": recovery_states.HELD, "lease": None, "lease_until": None, "problem": problem}
    recoveries.update(tx, row.uuid, now, **values)
    recoveries.add_step(tx, row.uuid, "held", problem, now)


def reopen(tx: Transaction, row: RecoveryRow, problem: str, now: datetime.datetime) -> None:
    """Let an operator decide about a recovery that has ended."""
    recoveries.update(tx, row.uuid, now, open_host=row.host, ended_at=None)
    hold(tx, row, problem, now)


def end(tx: Transaction, row: RecoveryRow, status: str, message: str, now: datetime.datetime) -> None:
    recoveries.close_guests(tx, row.uuid, now)
    recoveries.update(tx, row.uuid, now, status=status, open_host=None, ended_at=now, problem=None)
    recoveries.add_step(tx, row.uuid, status, message, now)
