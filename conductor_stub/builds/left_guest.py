# SPDX-License-Identifier: Apache-2.0
"""A guest that a host may still have after its build was given up. It may write to its disk and its volumes,
and answer at its addresses.

No other guest gets them before the host has removed it, or is off for certain. The row keeps the name of the host, and
its step deadline says when the host is ordered again to remove the guest. Called by the modules beside it, and by
:mod:`conductor_stub.agents.api` and :mod:`conductor_stub.attachments.intake`.

An instance whose column ``host`` is empty is certainly on no host only if :func:`require_none` raises nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection

from conductor_stub.steps.limits import StepContext
from fleet import errors, failpoints, states
from fleet.db.engine.database import Connection, Transaction
from fleet.db.hosts import services
from fleet.db.instances import addresses, builds, instances
from fleet.db.operations import recoveries
from fleet.db.tables.instances import RequestedInstance
from fleet.db.volumes import attachments
from fleet.json_codec import JSONObject


def may_write(tx: Transaction | Connection, row: RequestedInstance, host: str | None) -> bool:
    """Return True if ``host`` may run a guest of a locked build with data or addresses that no second guest may have."""
    if host is None or row.task_state != states.SPAWNING:
        return False
    has_any = row.shelved or row.interfaces or attachments.of_instances(tx, [row.uuid])
    return bool(has_any) and not _is_gone(tx, host)


def awaited(connection: Connection, row: RequestedInstance, now: datetime.datetime, down_time_s: float) -> str | None:
    """Return what a build waits for before it goes on elsewhere; None if it waits for no host."""
    host = row.host
    if (
        host is None
        or not may_write(connection, row, host)
        or not services.silent(connection, [host], now, down_time_s)
    ):
        return None
    return (
        f"host {host}, which is silent and may run it: until {host} is fenced, back, or off for certain "
        f"('fleet recovery start {host}' fences it; 'fleet service force-down {host}' says that you have switched it off)"
    )


def noted(row: RequestedInstance, host: str, ctx: StepContext) -> JSONObject:
    """Columns of a row that ends while ``host`` may have its guest."""
    name = "shelved" if row.shelved else "details"
    return {name: {**(getattr(row, name) or {}), builds.GUEST_ON: host}, "step_deadline": ctx.now}


def on_host(connection: Connection, host: str, uuids: Collection[str]) -> list[RequestedInstance]:
    """Instances whose guest ``host`` is to remove, as instances of it that are being deleted. :param uuids: only these"""
    rows = [
        row
        for row in instances.of_uuids(connection, uuids)
        if row.host is None and builds.host_of_left_guest(row) == host
    ]
    ended = [row for row in rows if row.task_state in (None, states.DELETING)]
    return [instances.moved(row, {"host": host, "task_state": states.DELETING}) for row in ended]


def removed(tx: Transaction, row: RequestedInstance, host: str, ctx: StepContext) -> None:
    """``host`` has no guest of a locked row. If it was the one that might, other guests may have the data and
    the addresses again.
    """
    if builds.host_of_left_guest(row) != host:
        return
    name = "shelved" if row.shelved else "details"
    left = {key: value for key, value in getattr(row, name).items() if key != builds.GUEST_ON}
    values: JSONObject = {name: left or None}
    if row.task_state is None:
        values["step_deadline"] = None
    if not row.shelved:
        values["interfaces"] = None
        attachments.release(tx, row.uuid, ctx.now)
        if row.interfaces:
            addresses.release(tx, row.uuid)
    tx.update(instances.INSTANCES, row.uuid, values)


@failpoints.commits("conductor.left_guest")
def overdue(tx: Transaction, seen: RequestedInstance, ctx: StepContext) -> str | None:
    """Return the host that is to remove the guest; None if it is off for certain, or the row has changed."""
    row = instances.lock(tx, seen.uuid)
    host = builds.host_of_left_guest(row)
    if host is None or row.task_state is not None or row.step_deadline != seen.step_deadline:
        return None
    if _is_gone(tx, host):
        removed(tx, row, host, ctx)
        return None
    due = {"step_deadline": ctx.due(ctx.limits.placing_timeout_s)}
    tx.update(instances.INSTANCES, row.uuid, due)
    return host


def require_none(tx: Transaction, row: RequestedInstance) -> None:
    """Require that no host has a guest of a locked row whose ``host`` is empty.

    :raises errors.Conflict: a guest of an earlier unshelve may still run
    """
    host = builds.host_of_left_guest(row)
    if host is not None and not _is_gone(tx, host):
        reason = (
            f"may still have a guest on host {host}, which could not remove it: restart the agent there, or, if the host "
            f"is certainly off, run 'fleet service force-down {host}'"
        )
        found = errors.Conflict(kind="Instance", name=row.name, reason=reason)
        raise found.hiding(reason="may still have a guest on the host where it was: an administrator can end that")


def _is_gone(tx: Transaction | Connection, host: str) -> bool:
    service = services.get(tx, host, services.COMPUTE)
    return service is None or service.deleted or recoveries.is_off(tx, host)
