# SPDX-License-Identifier: Apache-2.0
"""Rooms of hosts that have changed since a generation, for the builds that wait for room.

:mod:`conductor_stub.builds.room_queue` reads them to choose what it wakes.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Sequence
from typing import Protocol, cast

import sqlalchemy as sa

from fleet import capacity
from fleet.db.engine.database import Transaction
from fleet.db.hosts import aggregates, services
from fleet.db.tables import models
from fleet.db.tables.hosts import NodeRow
from fleet.objects.room import Amount, Room

NODES = models.compute_nodes
SERVICES = models.services
AGGREGATES = models.aggregates
MEMBERS = models.aggregate_hosts

_SINCE: sa.BindParameter[int] = sa.bindparam("since", type_=sa.BigInteger)
_CHANGED_NODES = sa.select(NODES.c.host).where(NODES.c.generation > _SINCE, sa.not_(NODES.c.deleted))
_CHANGED_SERVICES = sa.select(SERVICES.c.host, SERVICES.c.generation).where(
    SERVICES.c.generation > _SINCE, SERVICES.c.binary == services.COMPUTE, sa.not_(SERVICES.c.deleted)
)
_CHANGED_AGGREGATES = (
    sa.select(MEMBERS.c.host, AGGREGATES.c.generation)
    .join(AGGREGATES, AGGREGATES.c.id == MEMBERS.c.aggregate_id)
    .where(AGGREGATES.c.generation > _SINCE)
)
_THESE = sa.select(NODES.c.host).where(NODES.c.id.in_(sa.bindparam("these", expanding=True)))
_ROOMS = (
    sa.select(NODES, SERVICES.c.last_seen_up, SERVICES.c.forced_down)
    .join(SERVICES, sa.and_(SERVICES.c.host == NODES.c.host, SERVICES.c.binary == services.COMPUTE))
    .where(
        NODES.c.host.in_(sa.bindparam("hosts", expanding=True)),
        sa.not_(NODES.c.deleted),
        sa.not_(SERVICES.c.deleted),
        sa.not_(SERVICES.c.disabled),
    )
    .order_by(NODES.c.id)
)


class _Node(NodeRow, Protocol):
    """A node with the liveness of its agent."""

    last_seen_up: datetime.datetime | None
    forced_down: bool


def rooms(
    tx: Transaction,
    since: int,
    nodes: Collection[int],
    looked_at: datetime.datetime,
    now: datetime.datetime,
    down_time_s: float,
) -> list[Room]:
    """Rooms of the hosts that have changed after generation ``since``, and of ``nodes``; of hosts that are up and enabled.

    :param looked_at: a node that was created later is new
    """
    anew: dict[str, int] = {}
    for query in (_CHANGED_SERVICES, _CHANGED_AGGREGATES):
        for host, generation in tx.execute(query, {"since": since}):
            anew[host] = max(generation, anew.get(host, 0))
    hosts = {*anew, *tx.execute(_CHANGED_NODES, {"since": since}).scalars()}
    if nodes:
        hosts.update(tx.execute(_THESE, {"these": sorted(nodes)}).scalars())
    if not hosts:
        return []
    zones = aggregates.zones(tx, hosts)
    found = cast("Sequence[_Node]", tx.execute(_ROOMS, {"hosts": sorted(hosts)}).all())
    up = [row for row in found if services.is_up(row, now, down_time_s)]
    return [
        _room(row, anew.get(row.host, 0), row.created_at >= looked_at, zones.get(row.host, frozenset())) for row in up
    ]


def _room(row: _Node, anew: int, new: bool, zones: frozenset[str]) -> Room:
    free = Amount(
        _usable(row.vcpus, row.reserved_vcpus, row.cpu_allocation_ratio, row.vcpus_used) if row.vcpus else math.inf,
        _usable(row.memory_mb, row.reserved_memory_mb, row.ram_allocation_ratio, row.memory_mb_used),
        _usable(row.local_gb, row.reserved_disk_gb, row.disk_allocation_ratio, row.local_gb_used),
    )
    changed = max(row.generation, anew)
    return Room(row.id, row.host, zones, free, changed, changed if new else anew)


def _usable(total: int, reserved: int, ratio: float, used: int) -> float:
    """Return the capacity that the scheduler offers to builds. A ratio of 0 is the scheduler's own option."""
    return capacity.usable(capacity.limit(float(total), float(reserved), ratio), used) if ratio else math.inf
