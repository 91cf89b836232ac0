# SPDX-License-Identifier: Apache-2.0
"""Sums the resources that instances and moves hold of a node, and statistics of its instances.

:mod:`fleet.db.hosts.hosts` writes the sums with each claim and release.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa

from fleet import states
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.instances import InstanceRow
from fleet.db.tables.sql_types import Columns, Values

INSTANCES = models.instances
MIGRATIONS = models.migrations

#: Tasks, besides a build, that use the disks of a host a lot.
_IO_TASKS = frozenset(
    {
        "resize_migrating",
        "rebuilding",
        states.REBUILD_DISK,
        "resize_prep",
        "image_snapshot",
        "image_backup",
        "rescuing",
        "unshelving",
    }
)


_COUNTED = ("num_instances", "num_vm_", "num_task_", "num_os_type_", "num_proj_", "io_workload", "workload")


_SORT = (INSTANCES.c.vm_state, INSTANCES.c.task_state, INSTANCES.c.os_type, INSTANCES.c.project_id)
_HOST: sa.BindParameter[str] = sa.bindparam("on_host")
_NODE: sa.BindParameter[str] = sa.bindparam("on_node")


def _sums(table: sa.Table) -> list[sa.Label[Any]]:
    return [sa.func.sum(table.c[f"claimed_{name}"]).label(name) for name in ("vcpus", "memory_mb", "disk_gb")]


#: One row for each sort of instances, and one without instances for what moves hold.
_BY_SORT = (
    sa.select(*_SORT, *_sums(INSTANCES), sa.func.count().label("number"))
    .where(INSTANCES.c.host == _HOST, INSTANCES.c.node == _NODE, sa.not_(INSTANCES.c.deleted))
    .group_by(*_SORT)
    .union_all(
        sa.select(
            *(sa.literal_column("''").label(column.name) for column in _SORT),
            *_sums(MIGRATIONS),
            sa.literal_column("0").label("number"),
        )
        .where(MIGRATIONS.c.held_host == _HOST, MIGRATIONS.c.held_node == _NODE)
        .having(sa.func.count() > 0)
    )
)


_HOSTS: sa.BindParameter[str] = sa.bindparam("hosts", expanding=True)
_NODES: sa.BindParameter[str] = sa.bindparam("nodes", expanding=True)
#: The same for several nodes. It also returns rows of pairs of host and node that were not asked for.
_BY_PLACE_AND_SORT = (
    sa.select(INSTANCES.c.host, INSTANCES.c.node, *_SORT, *_sums(INSTANCES), sa.func.count().label("number"))
    .where(INSTANCES.c.host.in_(_HOSTS), INSTANCES.c.node.in_(_NODES), sa.not_(INSTANCES.c.deleted))
    .group_by(INSTANCES.c.host, INSTANCES.c.node, *_SORT)
    .union_all(
        sa.select(
            MIGRATIONS.c.held_host,
            MIGRATIONS.c.held_node,
            *(sa.literal_column("''").label(column.name) for column in _SORT),
            *_sums(MIGRATIONS),
            sa.literal_column("0").label("number"),
        )
        .where(MIGRATIONS.c.held_host.in_(_HOSTS), MIGRATIONS.c.held_node.in_(_NODES))
        .group_by(MIGRATIONS.c.held_host, MIGRATIONS.c.held_node)
    )
)


@dataclasses.dataclass(frozen=True)
class _Sort:
    """Instances of one sort on a node, and what they claim; in place of a row of the queries above."""

    vm_state: str
    task_state: str | None
    os_type: str | None
    project_id: str | None
    vcpus: int
    memory_mb: int
    disk_gb: int
    number: int


@dataclasses.dataclass(frozen=True)
class Usage:
    """``stats`` has nova's keys: ``num_instances``, ``num_vm_<vm_state>``, ``num_task_<task_state>``,
    ``num_os_type_<os_type>`` (from the property of the image), ``num_proj_<project>``, ``io_workload``, ``workload``.
    """

    vcpus: int
    memory_mb: int
    disk_gb: int
    stats: dict[str, int]

    @property
    def instances(self) -> int:
        return self.stats["num_instances"]

    @property
    def io_workload(self) -> int:
        return self.stats["io_workload"]

    @property
    def workload(self) -> int:
        return self.stats["workload"]


@dataclasses.dataclass(frozen=True)
class Pending:
    """The locked row of an instance, and the values that its transaction will write to it."""

    row: InstanceRow
    values: Values

    def place(self) -> tuple[str, str]:
        """Host and node after the write."""
        return self.values.get("host", self.row.host), self.values.get("node", self.row.node)

    def sorts(self, place: tuple[str, str]) -> list[_Sort]:
        """Return the change of the number of instances of each sort on a node."""
        added = [self._sort(self.values, 1)] if self.place() == place else []
        return added + ([self._sort({}, -1)] if (self.row.host, self.row.node) == place else [])

    def _sort(self, values: Mapping[str, object], number: int) -> _Sort:
        def value(name: str) -> Any:
            return values.get(name, getattr(self.row, name))

        sums = {name: number * value(f"claimed_{name}") for name in ("vcpus", "memory_mb", "disk_gb")}
        return _Sort(**{column.name: value(column.name) for column in _SORT}, **sums, number=number)


def of_node(tx: Transaction | sa.Connection, host: str, node: str, pending: Sequence[Pending] = ()) -> Usage:
    """:param pending: writes of this transaction that are counted as if they were done"""
    found = cast("Sequence[_Sort]", tx.execute(_BY_SORT, {"on_host": host, "on_node": node}).all())
    return _usage([*found, *(sort for each in pending for sort in each.sorts((host, node)))])


def of_nodes(
    tx: Transaction, places: Collection[tuple[str, str]], pending: Sequence[Pending] = ()
) -> dict[tuple[str, str], Usage]:
    """:func:`of_node` of each (host, node), with one statement."""
    sorts: dict[tuple[str, str], list[_Sort]] = {place: [] for place in places}
    hosts, nodes = ({place[which] for place in places} for which in (0, 1))
    for row in tx.execute(_BY_PLACE_AND_SORT, {"hosts": sorted(hosts), "nodes": sorted(nodes)}):
        if (row.host, row.node) in sorts:
            sorts[row.host, row.node].append(cast("_Sort", row))
    for each in pending:
        sorts[each.place()] += each.sorts(each.place())
    return {place: _usage(found) for place, found in sorts.items()}


def _usage(sorts: Sequence[_Sort]) -> Usage:
    return Usage(
        vcpus=int(sum(sort.vcpus for sort in sorts)),
        memory_mb=int(sum(sort.memory_mb for sort in sorts)),
        disk_gb=int(sum(sort.disk_gb for sort in sorts)),
        stats=_stats([sort for sort in sorts if sort.number]),
    )


def _stats(sorts: Sequence[_Sort]) -> dict[str, int]:
    stats: collections.Counter[str] = collections.Counter(num_instances=0, io_workload=0, workload=0)
    always = set(stats)
    for sort in sorts:
        stats["num_instances"] += sort.number
        stats[f"num_vm_{sort.vm_state}"] += sort.number
        stats[f"num_task_{sort.task_state}"] += sort.number
        stats[f"num_os_type_{sort.os_type}"] += sort.number
        stats[f"num_proj_{sort.project_id}"] += sort.number
        stats["io_workload"] += sort.number * ((sort.vm_state == states.BUILDING) + (sort.task_state in _IO_TASKS))
        stats["workload"] += sort.number * (sort.task_state is not None)
    return {name: number for name, number in sorted(stats.items()) if number or name in always}


def uncounted(stats: Mapping[str, object]) -> Columns:
    """The entries of a node's ``stats`` that its driver reported and this module does not count."""
    return {key: value for key, value in stats.items() if not key.startswith(_COUNTED)}
