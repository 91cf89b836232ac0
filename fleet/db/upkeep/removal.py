# SPDX-License-Identifier: Apache-2.0
"""Removes what is no longer used: flavors, aggregates, groups, services and hosts.

Flavors and groups are removed also while they are in use. The removal of another row is refused, with the reason, while
something uses it. The row is locked first: a transaction that starts to use it waits, and then does not find it. A repeated
removal finds nothing left to do.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from fleet import errors, move_states, volume_states
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.tables import models
from fleet.db.tables.hosts import ServiceRow
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import pools, volumes

INSTANCES = models.instances
MIGRATIONS = models.migrations
REQUESTS = models.build_requests
NODES = models.compute_nodes
SERVICES = models.services
AGGREGATES = models.aggregates
FLAVORS = models.flavors
#: Names that a refusal lists.
_NAMED = 3


def flavor(tx: Transaction, key: int) -> None:
    """Remove a flavor, also one in use: rows of instances and of moves have a copy of it."""
    tx.execute(models.flavor_projects.delete().where(models.flavor_projects.c.flavor_id == key))
    tx.execute(FLAVORS.delete().where(FLAVORS.c.id == key))


def aggregate(tx: Transaction, key: int, now: datetime.datetime) -> None:
    """Mark the row as deleted, which the change feed reads. :raises errors.Conflict: it has hosts"""
    live = sa.and_(AGGREGATES.c.id == key, sa.not_(AGGREGATES.c.deleted))
    row = tx.execute(sa.select(AGGREGATES).where(live).with_for_update()).one_or_none()
    if row is None:
        return
    there = models.aggregate_hosts.c.aggregate_id == key
    hosts = tx.execute(sa.select(models.aggregate_hosts.c.host).where(there).order_by("host")).scalars().all()
    if hosts:
        raise errors.Conflict(kind="Aggregate", name=row.name, reason=f"has {few(hosts, 'host')}; remove them first")
    tx.execute(models.aggregate_metadata.delete().where(models.aggregate_metadata.c.aggregate_id == key))
    # Another aggregate may have its name.
    tx.update(AGGREGATES, key, {"deleted": True, "deleted_at": now, "name": row.uuid})
    tx.touch(AGGREGATES, key)


def group(tx: Transaction, uuid: str) -> None:
    """Remove a group. Its members stay where they are, and belong to no group."""
    row = tx.execute(sa.select(models.instance_groups).where(models.instance_groups.c.uuid == uuid).with_for_update())
    if row.one_or_none() is None:
        return
    members = models.instance_group_members
    # By the members: no index has the groups of requests, and the requests of a fleet are many.
    of_members = sa.select(INSTANCES.c.reservation_id).join(members, members.c.instance_uuid == INSTANCES.c.uuid)
    query = of_members.where(members.c.group_uuid == uuid).distinct().order_by(INSTANCES.c.reservation_id)
    requests = tx.execute(query).scalars().all()
    if requests:
        named = REQUESTS.c.reservation_id.in_(requests), REQUESTS.c.group_uuid == uuid
        tx.execute(REQUESTS.update().where(*named).values(group_uuid=None))
    tx.execute(members.delete().where(members.c.group_uuid == uuid))
    tx.execute(models.instance_groups.delete().where(models.instance_groups.c.uuid == uuid))


def service(tx: Transaction, host: str, binary: str, now: datetime.datetime, down_time_s: float) -> None:
    """Remove the record of a daemon that is gone; of an agent with its host, or with the pools of its storage backend.

    :raises errors.Conflict: the daemon is up; of an agent: something is on its host or backend
    """
    if binary == services.COMPUTE:
        host_of_agent(tx, host, now, down_time_s)
        return
    row = services.get(tx, host, binary, lock=True)
    if row is not None and not row.deleted:
        _require_down(row, now, down_time_s)
        if binary == services.VOLUME:
            _leave_backend(tx, host, now)
            pools.remove_except(tx, host, [], now)
        _mark_deleted(tx, SERVICES, [row.id], now, incarnation=None, last_seen_up=None)


def _leave_backend(tx: Transaction, host: str, now: datetime.datetime) -> None:
    """Release the claims on the backend of volumes that have migrated away.

    :raises errors.Conflict: a volume is there, or on its way
    """
    rows = volumes.lock_all(tx, [row.uuid for row in volumes.on_host(tx, host)])
    there = [row.name for row in rows if not _has_left(row, host)]
    if there:
        raise errors.Conflict(kind="Storage backend", name=host, reason=f"has {few(there, 'volume')}")
    for row in rows:
        goes_on: dict[str, object] = {"step": None, "step_deadline": None}
        if row.status == volume_states.DELETING:
            # Its own backend is next. A late report is not about that step.
            goes_on = {"step": volume_states.WORKING, "step_deadline": now, "attempt": row.attempt + 1}
        left = volumes.leaves(row, row.held_host, row.held_pool)
        volumes.write(tx, row, now, **volumes.placed(volumes.HELD, None, None, 0), **left, **goes_on)


def _has_left(row: VolumeRow, host: str) -> bool:
    """Return True if at most the removal of its data waits for the backend."""
    return row.host != host and row.step in (volume_states.REMOVING, None)


def host_of_agent(tx: Transaction, host: str, now: datetime.datetime, down_time_s: float) -> None:
    """Remove the record of the agent, the nodes of the host, and the host from its aggregates.

    :raises errors.Conflict: its agent is up, or an instance or a move is on the host
    """
    row = services.get(tx, host, services.COMPUTE, lock=True)
    if row is not None and not row.deleted:
        _require_down(row, now, down_time_s)
    nodes = tx.execute(sa.select(NODES.c.id).where(NODES.c.host == host).order_by(NODES.c.id).with_for_update())
    keys = nodes.scalars().all()
    _require_empty(tx, host)
    memberships = models.aggregate_hosts
    number = memberships.c.aggregate_id
    joined = tx.execute(sa.select(number).where(memberships.c.host == host).order_by(number)).scalars().all()
    tx.execute(memberships.delete().where(memberships.c.host == host))
    tx.touch(AGGREGATES, *joined)
    _mark_deleted(tx, NODES, keys, now)
    if row is not None:
        # If the agent comes back, its heartbeat shows it that the host is not registered any more.
        _mark_deleted(tx, SERVICES, [row.id], now, incarnation=None, last_seen_up=None, forced_down=False)


_IN_PROGRESS = MIGRATIONS.c.status.in_(move_states.IN_PROGRESS)


def _require_down(row: ServiceRow, now: datetime.datetime, down_time_s: float) -> None:
    if services.is_up(row, now, down_time_s):
        raise errors.Conflict(
            kind="Service", name=f"{row.binary} on {row.host}", reason="is up; stop the daemon before you delete it"
        )


def _require_empty(tx: Transaction, host: str) -> None:
    there = _names(tx, INSTANCES.c.host == host)
    if there:
        fix = "delete or move them first"
        raise errors.Conflict(kind="Host", name=host, reason=f"has {few(there, 'instance')}; {fix}")
    at_host = sa.or_(MIGRATIONS.c.source_compute == host, MIGRATIONS.c.dest_compute == host)
    moving = sa.or_(MIGRATIONS.c.held_host == host, sa.and_(_IN_PROGRESS, at_host))
    moves = tx.execute(sa.select(MIGRATIONS.c.uuid).where(moving).order_by(MIGRATIONS.c.uuid)).scalars().all()
    if moves:
        fix = f"confirm or revert resizes, and wait for other moves: 'fleet migration list --host {host}'"
        raise errors.Conflict(kind="Host", name=host, reason=f"takes part in {few(moves, 'migration')}; {fix}")


def _mark_deleted(
    tx: Transaction, table: sa.Table, keys: Sequence[int], now: datetime.datetime, **values: object
) -> None:
    for key in keys:
        tx.update(table, key, {"deleted": True, "deleted_at": now, "updated_at": now, **values})
    if keys:
        tx.touch(table, *keys)


def _names(tx: Transaction, condition: Any) -> Sequence[str]:
    query = sa.select(INSTANCES.c.name).where(condition, sa.not_(INSTANCES.c.deleted)).order_by(INSTANCES.c.name)
    return tx.execute(query).scalars().all()


def few(names: Sequence[str], noun: str) -> str:
    """The number of ``names``, and the first of them, for a refusal."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} {noun}{'s' * (len(names) != 1)}: {', '.join(names[:_NAMED])}{more}"
