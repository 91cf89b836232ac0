# SPDX-License-Identifier: Apache-2.0
"""Numbers of hosts and sums of their resources, for metrics: one statement, however many hosts there are.

Called by :mod:`conductor_stub.agents.gauges`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import NamedTuple

import sqlalchemy as sa

from fleet.db.hosts import services
from fleet.db.tables import models
from fleet.db.tables.sql_types import AnyRow

_NODES, _SERVICES = models.compute_nodes, models.services
#: Resource → columns: total, used, reserved, ratio. Memory in MB, disk in GB.
RESOURCES = {
    "vcpus": ("vcpus", "vcpus_used", "reserved_vcpus", "cpu_allocation_ratio"),
    "memory_mb": ("memory_mb", "memory_mb_used", "reserved_memory_mb", "ram_allocation_ratio"),
    "disk_gb": ("local_gb", "local_gb_used", "reserved_disk_gb", "disk_allocation_ratio"),
}


class Totals(NamedTuple):
    """The sums over all nodes in one state.

    :param used: by resource, what instances have
    :param limit: by resource, what instances may have: ``(total - reserved) × ratio``
    """

    hosts: int
    used: Mapping[str, float]
    limit: Mapping[str, float]


def read(connection: sa.Connection, now: datetime.datetime, down_time_s: float) -> dict[tuple[bool, bool], Totals]:
    """Return the totals by (up, enabled), the state of the agent. A state without hosts is left out."""
    is_up, enabled = services.states(now, down_time_s)
    sums = [sum_.label(f"{kind}_{name}") for name in RESOURCES for kind, sum_ in _sums(name).items()]
    state = [is_up.label("up"), enabled.label("enabled")]
    query = (
        sa.select(*state, sa.func.count(sa.distinct(_NODES.c.host)).label("hosts"), *sums)
        .join_from(
            _NODES, _SERVICES, sa.and_(_SERVICES.c.host == _NODES.c.host, _SERVICES.c.binary == services.COMPUTE)
        )
        .where(sa.not_(_NODES.c.deleted), sa.not_(_SERVICES.c.deleted))
        .group_by(sa.literal_column("up"), sa.literal_column("enabled"))
        .order_by(sa.literal_column("up"), sa.literal_column("enabled"))
    )
    return {(bool(row.up), bool(row.enabled)): _totals(row) for row in connection.execute(query)}


def _sums(name: str) -> dict[str, sa.ColumnElement[float]]:
    total, used, reserved, ratio = (_NODES.c[column] for column in RESOURCES[name])
    limit = sa.cast(total - reserved, sa.Float) * ratio
    return {"used": sa.func.sum(sa.cast(used - reserved, sa.Float)), "limit": sa.func.sum(limit)}


def _totals(row: AnyRow) -> Totals:
    sums = row._mapping
    used, limit = ({name: float(sums[f"{kind}_{name}"]) for name in RESOURCES} for kind in ("used", "limit"))
    return Totals(int(sums["hosts"]), used, limit)
