# SPDX-License-Identifier: Apache-2.0
"""Instance rows: finds, compares and locks them. Conductors call it; ``builds`` and ``moves`` have the steps."""

from __future__ import annotations

import datetime
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, cast

import sqlalchemy as sa

from fleet import errors, states
from fleet.db.engine import claimed
from fleet.db.engine.database import Transaction
from fleet.db.hosts import hosts, lookup, services
from fleet.db.tables import models
from fleet.db.tables.base import Row
from fleet.db.tables.instances import InstanceRow, RequestedInstance
from fleet.db.tables.sql_types import Select

INSTANCES = models.instances
MIGRATIONS = models.migrations
REQUESTS = models.build_requests

#: Instances with the spec of their request.
JOINED = sa.select(INSTANCES, REQUESTS.c.spec, REQUESTS.c.group_uuid).join_from(INSTANCES, REQUESTS)
_ONE = INSTANCES.c.uuid == sa.bindparam("wanted")
_THESE = INSTANCES.c.uuid.in_(sa.bindparam("wanted", expanding=True))
_FOUND = JOINED.where(_ONE)
_LOCKED = _FOUND.with_for_update(of=INSTANCES)
_LOCKED_IN_ORDER = JOINED.where(_THESE).order_by(INSTANCES.c.uuid).with_for_update(of=INSTANCES)
_LOCKED_FOR_HOST = _FOUND.add_columns(services.INCARNATION, services.IS_WORKED_ON).with_for_update(of=INSTANCES)
LIVE = sa.not_(INSTANCES.c.deleted)
_HOSTS: sa.BindParameter[str] = sa.bindparam("hosts", expanding=True)
_PLACED = sa.select(
    INSTANCES.c.host, INSTANCES.c.uuid, INSTANCES.c.vm_state, INSTANCES.c.task_state, INSTANCES.c.power_state
).where(INSTANCES.c.host.in_(_HOSTS), LIVE)
_MOVING = sa.select(MIGRATIONS.c.held_host, MIGRATIONS.c.instance_uuid).where(MIGRATIONS.c.held_host.in_(_HOSTS))
_SWITCHING = (
    JOINED.where(
        INSTANCES.c.vm_state.in_((states.ACTIVE, *states.AT_REST, states.ERROR)),
        INSTANCES.c.task_state.in_(states.POWER_TASKS),
        INSTANCES.c.step_deadline <= sa.bindparam("now", type_=models.Timestamp),
        LIVE,
    )
    .order_by(INSTANCES.c.step_deadline, INSTANCES.c.uuid)
    .limit(sa.bindparam("at_most"))
)
_SHELVED = (
    JOINED.where(
        INSTANCES.c.vm_state == states.SHELVED,
        INSTANCES.c.task_state.is_(None),
        INSTANCES.c.step_deadline <= sa.bindparam("now", type_=models.Timestamp),
        LIVE,
    )
    .order_by(INSTANCES.c.step_deadline, INSTANCES.c.uuid)
    .limit(sa.bindparam("at_most"))
)
#: Columns of an instance that no host holds.
NOTHING_CLAIMED = {"host": None, "node": None, **claimed.NOTHING}


class ServedInstance(RequestedInstance, Protocol):
    """An instance with the state of a host that claims depend on: see :class:`fleet.db.hosts.services.Serving`."""

    incarnation: str | None
    worked_on: bool


def get(connection: Transaction | sa.Connection, uuid: str) -> RequestedInstance:
    """The row, also of a deleted instance. :raises errors.NotFound:"""
    row = cast("RequestedInstance | None", connection.execute(_FOUND, {"wanted": uuid}).one_or_none())
    if row is None:
        raise errors.NotFound(kind="Instance", name=uuid)
    return row


def find(connection: sa.Connection, name: str, project: str | None = None) -> RequestedInstance:
    """Find an instance by uuid, by the name of a live one, or by the beginning of a uuid.

    :param project: look only at its instances; None: at all
    :raises errors.NotFound: errors.Conflict: several match; the message lists them
    """
    among = lookup.of_project(INSTANCES, project)
    row = get(connection, lookup.find(connection, "Instance", INSTANCES, name, LIVE, among=among))
    lookup.require_visible(row, "Instance", name, project)
    return row


ORDER = INSTANCES.c.created_at, INSTANCES.c.launch_index, INSTANCES.c.uuid


def live(*conditions: Any) -> Select:
    """Query for live instances, oldest first."""
    return JOINED.where(LIVE, *conditions).order_by(*ORDER)


_ON_HOST = live(INSTANCES.c.host == sa.bindparam("on_host"))
_THESE_ON_HOST = _ON_HOST.where(_THESE)
_LIVE_OF_THESE = live(_THESE)
_ON_HOSTS = live(INSTANCES.c.host.in_(_HOSTS))


def of_project(connection: sa.Connection, uuids: Collection[str], project_id: str) -> set[str]:
    """Return the uuids of instances, also of deleted ones, that belong to the project."""
    query = sa.select(INSTANCES.c.uuid).where(INSTANCES.c.uuid.in_(uuids), INSTANCES.c.project_id == project_id)
    return set(connection.execute(query.order_by(INSTANCES.c.uuid)).scalars())


def on_host(connection: sa.Connection, host: str, uuids: Sequence[str] | None = None) -> Sequence[RequestedInstance]:
    """Live instances on ``host``, oldest first. :param uuids: only these of them"""
    if uuids is None:
        return cast("Sequence[RequestedInstance]", connection.execute(_ON_HOST, {"on_host": host}).all())
    return cast(
        "Sequence[RequestedInstance]",
        connection.execute(_THESE_ON_HOST, {"on_host": host, "wanted": list(uuids)}).all(),
    )


def on_hosts(connection: Transaction | sa.Connection, hosts: Collection[str]) -> dict[str, list[RequestedInstance]]:
    """Live instances on each of these hosts, oldest first."""
    found: dict[str, list[RequestedInstance]] = {host: [] for host in hosts}
    for row in connection.execute(_ON_HOSTS, {"hosts": sorted(found)}) if found else ():
        found[row.host].append(cast("RequestedInstance", row))
    return found


def of_uuids(connection: Transaction | sa.Connection, uuids: Collection[str]) -> Sequence[RequestedInstance]:
    """Live instances among these, oldest first."""
    return cast(
        "Sequence[RequestedInstance]",
        connection.execute(_LIVE_OF_THESE, {"wanted": list(uuids)}).all() if uuids else [],
    )


def switching(connection: sa.Connection, now: datetime.datetime, limit: int) -> Sequence[RequestedInstance]:
    """Instances with a power task whose step is overdue, the most urgent first."""
    return cast("Sequence[RequestedInstance]", connection.execute(_SWITCHING, {"now": now, "at_most": limit}).all())


def shelved_until(connection: sa.Connection, now: datetime.datetime, limit: int) -> Sequence[RequestedInstance]:
    """Shelved instances that are to give their hosts back by now, the most urgent first."""
    return cast("Sequence[RequestedInstance]", connection.execute(_SHELVED, {"now": now, "at_most": limit}).all())


def compare(
    connection: sa.Connection,
    held: Mapping[str, Collection[str]],
    power: Mapping[str, Mapping[str, int]] = types.MappingProxyType({}),
) -> dict[str, list[str]]:
    """Return, by host, the instances that its agent must read again.

    They are: instances (also of moves) that only the ledger, or only the agent, has on the host; instances that are being
    spawned, since only the agent knows whether it still works on them; and settled instances whose guest has another power
    state than the row.

    :param held: by host, the instances that its agent has
    :param power: by host and uuid, the power state that the driver reports
    """
    found: dict[str, dict[str, str | None]] = {host: {} for host in held}
    other_power: dict[str, set[str]] = {host: set() for host in held}
    for row in connection.execute(_PLACED, {"hosts": list(held)}):
        found[row.host][row.uuid] = row.task_state
        observed = power.get(row.host, {}).get(row.uuid, row.power_state)
        if observed != row.power_state and row.task_state is None and row.vm_state in states.WATCHED:
            other_power[row.host].add(row.uuid)
    for host, uuid in connection.execute(_MOVING, {"hosts": list(held)}):
        found[host].setdefault(uuid, None)
    doubtful = {
        host: (set(uuids) ^ found[host].keys())
        | {uuid for uuid, task in found[host].items() if task == states.SPAWNING}
        | other_power[host]
        for host, uuids in held.items()
    }
    return {host: sorted(uuids) for host, uuids in doubtful.items() if uuids}


def lock(tx: Transaction, uuid: str, for_host: str | None = None) -> ServedInstance:
    """The row, locked until the transaction ends.

    :param for_host: add ``incarnation`` and ``worked_on`` of this host (see :class:`services.Serving`), without a lock
    :raises errors.NotFound:
    """
    if for_host is None:
        row = cast("ServedInstance | None", tx.execute(_LOCKED, {"wanted": uuid}).one_or_none())
    else:
        row = cast(
            "ServedInstance | None",
            tx.execute(_LOCKED_FOR_HOST, {"wanted": uuid, "served_host": for_host}).one_or_none(),
        )
    if row is None:
        raise errors.NotFound(kind="Instance", name=uuid)
    return row


def lock_all(tx: Transaction, uuids: Collection[str]) -> dict[str, RequestedInstance]:
    """The rows that exist, by uuid, locked in one order for all transactions until this one ends."""
    return cast(
        "dict[str, RequestedInstance]",
        {row.uuid: row for row in tx.execute(_LOCKED_IN_ORDER, {"wanted": sorted(uuids)})},
    )


def place_of(row: InstanceRow) -> tuple[str, str]:
    """Host and node of an instance that a host has claimed."""
    assert row.host is not None, "a host has claimed the instance"
    assert row.node is not None, "a claim names its node"
    return row.host, row.node


def moved(row: RequestedInstance, values: Mapping[str, object]) -> RequestedInstance:
    """Return the locked ``row`` after ``values`` were written to it, without another query."""
    return cast("RequestedInstance", types.SimpleNamespace(**{**cast("Row", row)._mapping, **values}))


def leave_host(
    tx: Transaction, row: RequestedInstance, values: Mapping[str, object], now: datetime.datetime, failed: bool = False
) -> None:
    """Set ``values`` on a locked row, and release what its host holds for it.

    :param failed: whether the host has failed to build it
    """
    tx.update(INSTANCES, row.uuid, {"updated_at": now, **NOTHING_CLAIMED, **values})
    tx.touch(INSTANCES, row.uuid)
    if row.host is not None and row.node is not None:
        hosts.refresh_usage(tx, row.host, row.node, now, built=False if failed else None)


def stale(row: InstanceRow, attempt: int, host: str) -> errors.StaleBuild:
    """The error for a late message of ``host`` about ``attempt``. It names no other host."""
    where = "no host" if row.host is None else "this host" if row.host == host else "another host"
    state = f"it is {row.vm_state}/{row.task_state or '-'} at attempt {row.attempt} on {where}"
    return errors.StaleBuild(instance_uuid=row.uuid, attempt=attempt, reason=state)


def require_unlocked(row: InstanceRow) -> None:
    """:raises errors.Conflict: the instance is locked, and its caller is no administrator"""
    if row.locked_by is not None:
        why = f" ({row.locked_reason})" if row.locked_reason else ""
        reason = f"is locked by its {row.locked_by}{why}: unlock it first"
        if row.locked_by != "owner":
            reason = f"is locked by an administrator{why}: only an administrator changes it or unlocks it"
        raise errors.Conflict(kind="Instance", name=row.name, reason=reason)
