# SPDX-License-Identifier: Apache-2.0
"""The steps of a host in a maintenance after it is empty: the hook runs, the agent comes back, the host takes builds again.

Called by :mod:`conductor_stub.maintenance.keeper` and :mod:`conductor_stub.maintenance.manager`. A hook is run by the
conductor that holds its lease, which ends later than the hook may run. A conductor that dies in between leaves it,
and another one runs the hook again. An outcome that comes after the lease has ended counts for nothing.
"""

from __future__ import annotations

import datetime
import socket
from collections.abc import Mapping
from typing import NamedTuple

from conductor_stub.maintenance import draining
from conductor_stub.steps import hook
from conductor_stub.steps.hook import Ended
from conductor_stub.steps.limits import StepContext
from conductor_stub.steps.maintenance_settings import MaintenanceSettings
from fleet import errors, failpoints, maintenance_states
from fleet.clock import Clock, seconds
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.operations import maintenances
from fleet.db.tables.operations.maintenance import MaintenanceHostRow, MaintenanceRow
from fleet.objects import host_report

#: Beginning of the problem of a host whose hook the conductors that have looked do not have.
_NO_HOOK = "no conductor has begun its hook: "


class Order(NamedTuple):
    """A hook that this conductor must run now.

    :ivar begin_by: from then on it must not begin: its lease could end before it
    """

    command: tuple[str, ...]
    host: str
    maintenance: str
    attempt: int
    begin_by: datetime.datetime

    def environment(self) -> dict[str, str]:
        return {
            "FLEET_HOST": self.host,
            "FLEET_MAINTENANCE": self.maintenance,
            "FLEET_HOOK_ATTEMPT": str(self.attempt),
        }


@failpoints.commits("conductor.maintenance_take")
def take(
    tx: Transaction, uuid: str, key: int, lease: str, settings: MaintenanceSettings, ctx: StepContext
) -> Order | str | None:
    """Take the lease of a hook. Return why it cannot run, or None if there is none to run now.

    Without a hook the agent's restart is waited for.

    A host on which a guest has arrived meanwhile, or that is recovered, is drained again.
    """
    plan = maintenances.lock(tx, uuid)
    row = maintenances.lock_host(tx, key)
    now = ctx.now
    if row.status != maintenance_states.WORKING or plan.paused:
        return None
    if row.lease == lease and row.lease_until is not None:
        # A commit whose outcome was unknown.
        return _order(plan, row, row.attempt, row.lease_until, settings)
    # Also between two runs of a hook: the next one may reboot the host, and a guest at rest may have been started.
    is_leased = row.lease_until is not None and row.lease_until > now
    if not is_leased and draining.skip_if_gone(tx, row, ctx):
        return None
    if not is_leased and draining.is_needed(tx, row.host):
        again = {"status": maintenance_states.DRAINING, "problem": None, "lease_until": None}
        maintenances.update_host(tx, key, now, **again)
        return None
    draining.keep_disabled(tx, plan, row.host, ctx)
    if plan.hook is None:
        _await_restart(tx, row, now)
        return None
    if is_leased:
        return None
    if plan.hook not in settings.hooks:
        here = socket.gethostname()
        return _await_hook(tx, row, f"[maintenance] hooks of the conductor on {here} has no {plan.hook}", settings, now)
    if row.host.startswith("-"):
        return draining.fail(tx, row, "its name begins with '-': the hook would take it for an option", now)
    attempt = row.attempt + 1
    until = now + seconds(settings.hook_timeout_s + hook.GRACE_S)
    maintenances.update_host(tx, key, now, attempt=attempt, lease=lease, lease_until=until, problem=None)
    return _order(plan, row, attempt, until, settings)


def _await_hook(
    tx: Transaction, row: MaintenanceHostRow, why: str, settings: MaintenanceSettings, now: datetime.datetime
) -> str | None:
    """Leave a hook to the conductors that have it, as while their configurations change one after the other. Return why the
    host has failed if none of them has begun it for the time of a hook.
    """
    if row.problem is None or not row.problem.startswith(_NO_HOOK):
        maintenances.update_host(tx, row.id, now, problem=f"{_NO_HOOK}{why}", lease_until=None)
        return None
    if now - (row.updated_at or now) < seconds(settings.hook_timeout_s):
        return None
    return draining.fail(tx, row, row.problem, now)


def _order(
    plan: MaintenanceRow,
    row: MaintenanceHostRow,
    attempt: int,
    until: datetime.datetime,
    settings: MaintenanceSettings,
) -> Order:
    command = (*settings.hooks[str(plan.hook)], row.host)
    return Order(command, row.host, plan.name, attempt, hook.begin_by(until, settings.hook_timeout_s))


def wait(tx: Transaction, key: int, why: str, now: datetime.datetime) -> None:
    """Write why no conductor has begun the hook of a host. The conductor that takes it removes the reason."""
    row = maintenances.lock_host(tx, key)
    is_leased = row.lease_until is not None and row.lease_until > now
    if row.status == maintenance_states.WORKING and not is_leased and row.problem != why:
        maintenances.update_host(tx, key, now, problem=why)


@failpoints.commits("conductor.maintenance_worked")
def finish(tx: Transaction, key: int, lease: str, ended: Ended, clock: Clock) -> bool:
    """Write the outcome of a hook. Return False if it counts for nothing."""
    row = maintenances.lock_host(tx, key)
    now = clock()
    if row.lease == lease and row.status in (maintenance_states.RETURNING, maintenance_states.FAILED):
        return True
    is_leased = row.lease == lease and row.lease_until is not None and row.lease_until > now
    if row.status != maintenance_states.WORKING or not is_leased:
        return False
    if ended.succeeded:
        _worked(tx, row, now)
    else:
        draining.fail(tx, row, ended.message, now)
    return True


@failpoints.commits("conductor.maintenance_return")
def come_back(tx: Transaction, uuid: str, key: int, settings: MaintenanceSettings, ctx: StepContext) -> str | None:
    """``returning → done`` when the agent is up, of the wanted release, and without an alarm.

    Return "" then, why it has failed if it is too late for that, and None while the host returns.

    An alarm is not stored while the maintenance disables the host. So the agent is asked for its inventory last of all:
    the report of one that is well enables the host.
    """
    plan = maintenances.lock(tx, uuid)
    row = maintenances.lock_host(tx, key)
    if row.status != maintenance_states.RETURNING or plan.paused or draining.skip_if_gone(tx, row, ctx):
        return None
    problem = _why_not_back(tx, row, plan.wanted_release, ctx) or _alarm(tx, row, plan.name, ctx)
    if problem and row.worked_at is not None and ctx.now - row.worked_at >= seconds(settings.return_timeout_s):
        draining.keep_disabled(tx, plan, row.host, ctx)
        late = f"it has not returned within {settings.return_timeout_s:.0f} s: {problem}"
        return draining.fail(tx, row, late, ctx.now)
    if problem:
        service = services.get(tx, row.host, services.COMPUTE)
        if service is not None and not service.disabled:
            draining.keep_disabled(tx, plan, row.host, ctx)
        if problem != row.problem:
            maintenances.update_host(tx, key, ctx.now, problem=problem)
        return None
    end(tx, row, plan.name, maintenance_states.DONE, ctx.now)
    return ""


def resume(tx: Transaction, row: MaintenanceHostRow, now: datetime.datetime) -> None:
    """Go on with a host where it has failed: it returns, its hook runs again, or its guests leave. Its time counts anew."""
    anew: Mapping[str, object] = {}
    if row.status in (maintenance_states.WAITING, maintenance_states.WORKING) and row.problem is not None:
        anew = {"problem": None}
    elif row.worked_at is not None and row.status in (maintenance_states.RETURNING, maintenance_states.FAILED):
        anew = {"status": maintenance_states.RETURNING, "problem": None, "worked_at": now}
    elif row.status == maintenance_states.FAILED:
        anew = {"status": maintenance_states.WORKING, "problem": None, "lease": None, "lease_until": None}
        if row.emptied_at is None:
            anew = {"status": maintenance_states.DRAINING, "problem": None, "began_at": now}
    if anew:
        maintenances.update_host(tx, row.id, now, **anew)


def hold(tx: Transaction, uuid: str, key: int, ctx: StepContext) -> None:
    """Disable a host that has failed again, if it was enabled meanwhile. One that was removed has had its turn."""
    plan = maintenances.lock(tx, uuid)
    row = maintenances.lock_host(tx, key)
    if row.status == maintenance_states.FAILED and not plan.paused and not draining.skip_if_gone(tx, row, ctx):
        draining.keep_disabled(tx, plan, row.host, ctx)


def end(
    tx: Transaction, row: MaintenanceHostRow, name: str, status: str, now: datetime.datetime, why: str | None = None
) -> None:
    """The host is the fleet's again: it takes builds, unless an operator had disabled it before or meanwhile.

    :param name: of the maintenance
    :param why: it is skipped
    :raises errors.Conflict: its hook runs
    """
    if row.status == maintenance_states.WORKING and row.lease_until is not None and row.lease_until > now:
        until = f"{row.lease_until:%H:%M:%S} UTC"
        reason = f"has its hook running, until {until} at the latest: pause the maintenance until then"
        raise errors.Conflict(kind="Host", name=row.host, reason=reason)
    was_taken = row.status in maintenance_states.TAKEN
    service = services.get(tx, row.host, services.COMPUTE, lock=True) if was_taken else None
    ours = (draining.reason_of(name), draining.reason_of_return(name))
    if service is not None and not service.deleted and service.disabled_reason in ours:
        services.set_disabled(tx, row.host, services.COMPUTE, False, None, now)
    left = {"lease_until": None, "open_host": None, "ended_at": now}
    if why and row.status == maintenance_states.FAILED:
        why = f"{why}: {row.problem}"
    maintenances.update_host(tx, row.id, now, status=status, problem=why, **left)


def _why_not_back(tx: Transaction, row: MaintenanceHostRow, release: str | None, ctx: StepContext) -> str:
    service = services.get(tx, row.host, services.COMPUTE)
    assert service is not None, "a host that is gone is skipped"
    seen = service.last_seen_up
    if not services.is_up(service, ctx.now, ctx.limits.service_down_time_s) or seen is None:
        return "its agent is down"
    if row.worked_at is not None and seen <= row.worked_at:
        return "its agent has not reported since the work was done"
    if release is not None and service.release != release:
        return f"its agent is of release {service.release or 'unknown'}, and {release} is wanted"
    return ""


def _alarm(tx: Transaction, row: MaintenanceHostRow, name: str, ctx: StepContext) -> str:
    """Return why the agent takes no builds, or that it must say so first; "" if it takes them.

    A host that an operator has disabled stays so, whatever its agent says.
    """
    service = services.get(tx, row.host, services.COMPUTE, lock=True)
    reason = (service.disabled_reason if service is not None else None) or ""
    asked = draining.reason_of_return(name)
    if reason == draining.reason_of(name):
        services.set_disabled(tx, row.host, services.COMPUTE, True, asked, ctx.now)
        reason = asked
    if reason == asked:
        return "its agent has not reported its inventory since the work was done"
    if reason.startswith(host_report.AUTO):
        return f"its agent takes no builds: {reason.removeprefix(host_report.AUTO)}"
    return ""


def _await_restart(tx: Transaction, row: MaintenanceHostRow, now: datetime.datetime) -> None:
    service = services.get(tx, row.host, services.COMPUTE)
    if service is not None and service.incarnation != row.incarnation:
        _worked(tx, row, now)
    elif row.problem is None:
        waits = "it is empty: do the work, and start its agent anew"
        maintenances.update_host(tx, row.id, now, problem=waits)


def _worked(tx: Transaction, row: MaintenanceHostRow, now: datetime.datetime) -> None:
    back = {"status": maintenance_states.RETURNING, "worked_at": now, "lease_until": None}
    maintenances.update_host(tx, row.id, now, problem=None, **back)
