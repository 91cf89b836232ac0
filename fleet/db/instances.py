# SPDX-License-Identifier: Apache-2.0
"""Instance rows: the ledger of builds. Every move is a compare-and-set on state and attempt (see ``fleet.states``)."""

from __future__ import annotations

import datetime
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from fleet import errors, failpoints, states
from fleet.db import hosts, models
from fleet.db.engine import Transaction
from fleet.objects import Flavor, Image, Instance

INSTANCES = models.instances
MIGRATIONS = models.migrations
REQUESTS = models.build_requests

_JOINED = sa.select(INSTANCES, REQUESTS.c.spec, REQUESTS.c.group_uuid).join_from(INSTANCES, REQUESTS)
_FOUND = _JOINED.where(INSTANCES.c.uuid == sa.bindparam("wanted"))
_LIVE = sa.not_(INSTANCES.c.deleted)
_NOTHING_CLAIMED = {
    "host": None,
    "node": None,
    "claimed_memory_mb": 0,
    "claimed_disk_gb": 0,
    "claimed_vcpus": 0,
    "claimed_numa_topology": None,
    "claimed_pci_devices": None,
}

#: What a row has that was just accepted, besides what its request says.
NOT_PLACED: Mapping[str, Any] = {
    **_NOTHING_CLAIMED,
    "power_state": 0,
    "launched_at": None,
    "resized_spec": None,
}


def create(tx: Transaction, request: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Insert a build request and its instances; False when they are there already (a repeated commit)."""
    key = request["reservation_id"]
    if tx.execute(sa.select(REQUESTS.c.reservation_id).where(REQUESTS.c.reservation_id == key)).first():
        return False
    tx.execute(REQUESTS.insert(), dict(request))
    tx.execute(INSTANCES.insert(), [dict(row) for row in rows])
    return True


def get(connection: Transaction | sa.Connection, uuid: str) -> sa.Row:
    """The row, deleted or not. :raises errors.NotFound:"""
    row = connection.execute(_FOUND, {"wanted": uuid}).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Instance", name=uuid)
    return row


def find(connection: sa.Connection, name: str) -> sa.Row:
    """By uuid, or by name while only one live instance has it. :raises errors.NotFound: errors.Conflict:"""
    rows = connection.execute(_JOINED.where(sa.or_(INSTANCES.c.uuid == name, sa.and_(INSTANCES.c.name == name, _LIVE))))
    found = rows.all()
    if not found:
        raise errors.NotFound(kind="Instance", name=name)
    if len(found) > 1:
        raise errors.Conflict(kind="Instance", name=name, reason=f"{len(found)} instances have this name; use a uuid")
    return found[0]


def live(*conditions: Any) -> sa.Select[Any]:
    """The query for live instances, oldest first."""
    return _JOINED.where(_LIVE, *conditions).order_by(INSTANCES.c.created_at, INSTANCES.c.launch_index)


def list_where(connection: sa.Connection, *conditions: Any, limit: int | None = None) -> Sequence[sa.Row]:
    """Live instances, oldest first."""
    return connection.execute(live(*conditions).limit(limit)).all()


def on_host(connection: sa.Connection, host: str) -> Sequence[sa.Row]:
    return list_where(connection, INSTANCES.c.host == host)


def compare(connection: sa.Connection, held: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """By host, the instances about which an agent may be mistaken: those that only one of the two, the ledger or the
    agent (``held``), has there, be it for a move; and those that are being spawned, of which only the agent knows
    whether it is at them."""
    columns = (INSTANCES.c.host, INSTANCES.c.uuid, INSTANCES.c.task_state)
    found: dict[str, dict[str, str | None]] = {host: {} for host in held}
    for row in connection.execute(sa.select(*columns).where(INSTANCES.c.host.in_(list(held)), _LIVE)):
        found[row.host][row.uuid] = row.task_state
    moving = sa.select(MIGRATIONS.c.held_host, MIGRATIONS.c.instance_uuid)
    for host, uuid in connection.execute(moving.where(MIGRATIONS.c.held_host.in_(list(held)))):
        found[host].setdefault(uuid, None)
    doubtful = {
        host: set(uuids) ^ found[host].keys() | {uuid for uuid, task in found[host].items() if task == states.SPAWNING}
        for host, uuids in held.items()
    }
    return {host: sorted(uuids) for host, uuids in doubtful.items() if uuids}


@failpoints.commits("conductor.take")
def take(
    tx: Transaction, uuids: Sequence[str], attempt: int, step_deadline: datetime.datetime, now: datetime.datetime
) -> Sequence[sa.Row]:
    """``scheduling → placing``: returns the rows this caller has taken, and now must place."""
    waiting = sa.select(INSTANCES.c.uuid).where(
        INSTANCES.c.uuid.in_(uuids),
        INSTANCES.c.vm_state == states.BUILDING,
        INSTANCES.c.task_state == states.SCHEDULING,
        INSTANCES.c.attempt == attempt,
    )
    mine = tx.execute(waiting.with_for_update()).scalars().all()
    if not mine:
        return []
    tx.execute(
        INSTANCES.update()
        .where(INSTANCES.c.uuid.in_(mine))
        .values(task_state=states.PLACING, step_deadline=step_deadline, updated_at=now)
    )
    return tx.execute(_JOINED.where(INSTANCES.c.uuid.in_(mine)).order_by(INSTANCES.c.launch_index)).all()


def move(
    tx: Transaction,
    uuid: str,
    *,
    attempt: int,
    steps: Sequence[str],
    values: Mapping[str, Any],
    host: str | None = None,
    now: datetime.datetime,
) -> bool:
    """The compare-and-set: whether the build was in one of ``steps`` of ``attempt`` (on ``host``) and now has ``values``."""
    expected = [
        INSTANCES.c.uuid == uuid,
        INSTANCES.c.vm_state == states.BUILDING,
        INSTANCES.c.task_state.in_(steps),
        INSTANCES.c.attempt == attempt,
    ]
    if host is not None:
        expected.append(sa.or_(INSTANCES.c.host.is_(None), INSTANCES.c.host == host))
    moved = tx.execute(INSTANCES.update().where(*expected).values(updated_at=now, **values))
    return moved.rowcount == 1


def lock(tx: Transaction, uuid: str, *besides: Any) -> sa.Row:
    """The row, locked until the transaction ends. :param besides: columns more. :raises errors.NotFound:"""
    query = _JOINED.add_columns(*besides).where(INSTANCES.c.uuid == uuid)
    row = tx.execute(query.with_for_update(of=INSTANCES)).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Instance", name=uuid)
    return row


def moved(row: sa.Row, values: Mapping[str, Any]) -> Any:
    """The locked ``row`` as it is after ``values`` were set, without another look."""
    return types.SimpleNamespace(**{**row._mapping, **values})


def leave_host(
    tx: Transaction, row: sa.Row, values: Mapping[str, Any], now: datetime.datetime, failed: bool = False
) -> None:
    """Set ``values`` on a locked row and give back what its host held for it, in one step.

    :param failed: whether the host has failed to build it
    """
    tx.execute(
        INSTANCES.update().where(INSTANCES.c.uuid == row.uuid).values(updated_at=now, **_NOTHING_CLAIMED, **values)
    )
    tx.touch(INSTANCES, row.uuid)
    if row.host is not None:
        hosts.refresh_usage(tx, row.host, row.node, now, built=False if failed else None)


def stale(row: sa.Row, attempt: int) -> errors.StaleBuild:
    """Why a message about ``attempt`` comes too late."""
    state = f"it is {row.vm_state}/{row.task_state or '-'} at attempt {row.attempt} on {row.host or 'no host'}"
    return errors.StaleBuild(instance_uuid=row.uuid, attempt=attempt, reason=state)


def spec_of(row: Any) -> dict[str, Any]:
    """What was asked for, as a resize has changed it since."""
    return {**row.spec, **(row.resized_spec or {})}


def to_instance(row: Any) -> Instance:
    """The value that travels. ``row`` is of this module's queries, or :func:`moved` from one."""
    spec = spec_of(row)
    return Instance(
        uuid=row.uuid,
        flavor=Flavor(**spec["flavor"]),
        name=row.name,
        project_id=row.project_id,
        user_id=row.user_id,
        reservation_id=row.reservation_id,
        image=Image(**spec["image"]),
        vm_state=row.vm_state,
        task_state=row.task_state,
        power_state=row.power_state,
        attempt=row.attempt,
        host=row.host,
        node=row.node,
        availability_zone=row.availability_zone,
        # Requests that were stored by an earlier release have neither.
        numa_topology=spec.get("numa_topology"),
        pci_requests=spec.get("pci_requests"),
        metadata=spec["metadata"],
        created_at=_plain(row.created_at),
        launched_at=_plain(row.launched_at),
        claimed_memory_mb=row.claimed_memory_mb,
        claimed_disk_gb=row.claimed_disk_gb,
        claimed_vcpus=row.claimed_vcpus,
        claimed_numa_topology=row.claimed_numa_topology,
        claimed_pci_devices=row.claimed_pci_devices,
    )


def _plain(moment: datetime.datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds") + "Z"
