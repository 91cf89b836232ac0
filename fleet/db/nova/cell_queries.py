# SPDX-License-Identifier: Apache-2.0
"""Queries of one cell: services, compute nodes and instances, all of them or what has changed.

Called by :mod:`scheduler.nova.cell_feed`. Rows have no generation. ``updated_at`` is written by the clock of the
service that changed the row, and on MariaDB it has whole seconds. A new row has only ``created_at``.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Hashable, Sequence
from typing import cast

import sqlalchemy as sa

from fleet.db.nova import in_parts
from fleet.db.nova.cell_rows import CellInstance, CellNode, CellService
from fleet.db.nova.tables import INSTANCES, NODES, SERVICES

COMPUTE = "nova-compute"
#: Columns of a node that change with its instances. The texts beside them are large, and are read when these have changed.
_LIGHT = ("id", "vcpus_used", "memory_mb_used", "local_gb_used", "running_vms", "updated_at", "deleted")
#: These columns of a node, the id first.
LightNode = tuple[int, *tuple[Hashable, ...]]

_COMPUTE_SERVICES = sa.select(SERVICES).where(SERVICES.c.binary == COMPUTE, SERVICES.c.deleted == 0)
_LIVE_NODES = sa.select(NODES).where(NODES.c.deleted == 0)
_SINCE = sa.bindparam("since", type_=sa.DateTime)
#: By nova's index instances_updated_at_project_id_idx, and by instances_deleted_created_at_idx.
_UPDATED = sa.select(INSTANCES).where(INSTANCES.c.updated_at >= _SINCE)
_CREATED = sa.select(INSTANCES).where(INSTANCES.c.deleted == 0, INSTANCES.c.created_at >= _SINCE)
_PLACED = sa.select(INSTANCES).where(INSTANCES.c.deleted == 0, INSTANCES.c.host.is_not(None))


def services(connection: sa.Connection, since: datetime.datetime | None = None) -> Sequence[CellService]:
    """All compute services; with ``since`` only those that are new, disabled or forced down."""
    if since is None:
        return cast("Sequence[CellService]", connection.execute(_COMPUTE_SERVICES).all())
    flagged = sa.or_(SERVICES.c.disabled, SERVICES.c.forced_down, SERVICES.c.created_at >= since)
    return cast("Sequence[CellService]", connection.execute(_COMPUTE_SERVICES.where(flagged)).all())


def service_rows(connection: sa.Connection, hosts: Collection[str]) -> Sequence[CellService]:
    """The compute services of these hosts."""
    return cast("list[CellService]", in_parts.rows(connection, _COMPUTE_SERVICES, SERVICES.c.host, hosts))


def heartbeats(connection: sa.Connection) -> list[tuple[str, datetime.datetime]]:
    """(host, time of the newest heartbeat) of every compute service that has sent one."""
    query = sa.select(SERVICES.c.host, SERVICES.c.last_seen_up)
    live = query.where(SERVICES.c.binary == COMPUTE, SERVICES.c.deleted == 0, SERVICES.c.last_seen_up.is_not(None))
    return [(host, seen) for host, seen in connection.execute(live)]


def nodes(connection: sa.Connection) -> Sequence[CellNode]:
    return cast("Sequence[CellNode]", connection.execute(_LIVE_NODES).all())


def changed_nodes(connection: sa.Connection, since: datetime.datetime) -> list[LightNode]:
    """The light columns of nodes that have changed, deleted ones too."""
    query = sa.select(*(NODES.c[name] for name in _LIGHT))
    found = connection.execute(query.where(_changed(NODES, since)))
    return cast("list[LightNode]", [tuple(row) for row in found])


def node_rows(connection: sa.Connection, ids: Collection[int]) -> Sequence[CellNode]:
    """Whole rows, deleted ones too."""
    return cast("list[CellNode]", in_parts.rows(connection, sa.select(NODES), NODES.c.id, ids))


def nodes_by_uuid(connection: sa.Connection, uuids: Collection[str]) -> Sequence[CellNode]:
    return cast("list[CellNode]", in_parts.rows(connection, _LIVE_NODES, NODES.c.uuid, uuids))


def instances(connection: sa.Connection) -> Sequence[CellInstance]:
    """The instances on hosts."""
    return cast("Sequence[CellInstance]", connection.execute(_PLACED).all())


def changed_instances(connection: sa.Connection, since: datetime.datetime) -> Sequence[CellInstance]:
    """Instances that have changed, also those that are deleted or on no host.

    A deletion does not set ``updated_at``, but the states before it do. One statement for both times would read the whole
    table on MariaDB: nova has an index that begins with each, and deleted rows stay in the table.
    """
    changed, created = (
        cast("Sequence[CellInstance]", connection.execute(query, {"since": since}).all())
        for query in (_UPDATED, _CREATED)
    )
    known = {row.uuid for row in changed}
    return [*changed, *(row for row in created if row.uuid not in known)]


def of_host(
    connection: sa.Connection, host: str
) -> tuple[Sequence[CellNode], Sequence[CellService], Sequence[CellInstance]]:
    """The nodes, services and instances of one host."""
    return (
        cast("Sequence[CellNode]", connection.execute(_LIVE_NODES.where(NODES.c.host == host)).all()),
        cast("Sequence[CellService]", connection.execute(_COMPUTE_SERVICES.where(SERVICES.c.host == host)).all()),
        cast("Sequence[CellInstance]", connection.execute(_PLACED.where(INSTANCES.c.host == host)).all()),
    )


def _changed(table: sa.TableClause, since: datetime.datetime) -> sa.ColumnElement[bool]:
    return sa.or_(table.c.updated_at >= since, table.c.created_at >= since)
