# SPDX-License-Identifier: Apache-2.0
"""What the change feed asks, made once: what is newer than a generation, and which generation is the newest."""

from __future__ import annotations

import dataclasses
from typing import Any

import sqlalchemy as sa

from fleet.db import models, services
from fleet.db import now as clock
from fleet.db.prepared import Prepared

GENERATIONS = models.generations
NODES = models.compute_nodes
SERVICES = models.services
INSTANCES = models.instances
AGGREGATES = models.aggregates

#: As text: of most there is nothing in it, or they are like one that the scheduler has parsed before.
_TEXT_COLUMNS = ["numa_topology", "pci_stats", "pci_device_pools", "supported_instances", "metrics", "stats"]
_NODE_COLUMNS = [
    NODES.c[name]
    for name in [
        "id",
        "uuid",
        "host",
        "hypervisor_hostname",
        "vcpus",
        "vcpus_used",
        "memory_mb",
        "memory_mb_used",
        "free_ram_mb",
        "local_gb",
        "local_gb_used",
        "free_disk_gb",
        "disk_available_least",
        "reserved_vcpus",
        "reserved_memory_mb",
        "reserved_disk_gb",
        "cpu_allocation_ratio",
        "ram_allocation_ratio",
        "disk_allocation_ratio",
        "running_vms",
        "io_workload",
        "failed_builds",
        "hypervisor_type",
        "hypervisor_version",
        "host_ip",
        "cpu_info",
        "updated_at",
        "deleted",
    ]
] + [sa.cast(NODES.c[name], sa.Text).label(name) for name in _TEXT_COLUMNS]
_SERVICE_COLUMNS = [
    SERVICES.c[name]
    for name in ["id", "host", "binary", "disabled", "disabled_reason", "forced_down", "last_seen_up", "deleted"]
]
_INSTANCE_COLUMNS = [
    INSTANCES.c[name]
    for name in ["uuid", "host", "node", "vm_state", "task_state", "deleted", "instance_type_id", "project_id"]
]


GENERATION = sa.select(GENERATIONS.c.value).where(GENERATIONS.c.id == 1)
#: The same, of the row with that id.
NEWEST_OF = Prepared("generation", lambda row: sa.select(GENERATIONS.c.value).where(GENERATIONS.c.id == row))
#: More generations than there will ever be. A query that says where its end is looks short also to who does not know where
#: it begins.
_ALL_THERE_ARE = 10**15


@dataclasses.dataclass(frozen=True)
class Queries:
    """Of one table. ``newer`` is the generation after which a row must have been stamped; instances never placed carry no
    stamp.

    :param changed: rows stamped since, also the deleted
    :param there: the same without these: all there is, if ``newer`` is 0
    :param dated: as ``changed``, each row with the generation that the statement has seen, as ``value``. If there are none,
        one row with that alone: its ``row_key`` is none
    :param of_host: what there is of one ``host``
    """

    table: sa.Table
    changed: sa.Select
    there: sa.Select
    dated: Prepared
    of_host: sa.Select


def _queries(name: str, table: sa.Table, columns: list[Any], *where: Any, dated: tuple[Any, ...] = ()) -> Queries:
    """:param dated: what else the dated rows carry"""
    stamp, live = table.c.generation, sa.not_(table.c.deleted)
    key = table.primary_key.columns[0].label("row_key")
    changed = sa.select(*columns).where(stamp > sa.bindparam("newer"), *where)

    def with_date(newer: sa.ColumnElement) -> sa.Select:
        later = sa.and_(stamp > newer, stamp <= newer + _ALL_THERE_ARE, *where)
        return GENERATION.select_from(GENERATIONS.outerjoin(table, later)).add_columns(key, *columns, *dated)

    return Queries(
        table,
        changed,
        changed.where(live),
        Prepared(name, with_date),
        sa.select(*columns).where(table.c.host == sa.bindparam("of_host"), live, *where),
    )


def _newest_of(table: sa.Table) -> sa.Label:
    return sa.select(sa.func.max(table.c.generation)).scalar_subquery().label(table.name)


#: The generation, and which tables have something newer: most changes are to one or two, and a look at each index is quick.
NEWEST = GENERATION.add_columns(
    GENERATIONS.c.ledger, clock.NOW, *map(_newest_of, (NODES, SERVICES, AGGREGATES, INSTANCES))
)

#: Dated, these are asked first: they tell of the other tables, too.
OF_NODES = _queries(
    "nodes",
    NODES,
    _NODE_COLUMNS,
    dated=(GENERATIONS.c.noted, *(GENERATIONS.c[table.name] for table in (SERVICES, AGGREGATES, INSTANCES))),
)
OF_SERVICES = _queries("services", SERVICES, _SERVICE_COLUMNS, SERVICES.c.binary == services.COMPUTE)
OF_INSTANCES = _queries("instances", INSTANCES, _INSTANCE_COLUMNS)

_IMAGE_PROPERTIES = (
    sa.select(models.build_requests.c.spec["image"]["properties"])
    .where(models.build_requests.c.reservation_id == INSTANCES.c.reservation_id)
    .scalar_subquery()
    .label("image_properties")
)
#: The same, with the properties of the images that instances were made from.
OF_PICTURED_INSTANCES = _queries("pictured_instances", INSTANCES, [*_INSTANCE_COLUMNS, _IMAGE_PROPERTIES])

_HEARTBEATS = sa.select(SERVICES.c.host, SERVICES.c.last_seen_up).where(SERVICES.c.binary == services.COMPUTE)
ALL_HEARTBEATS = _HEARTBEATS.where(SERVICES.c.last_seen_up.is_not(None))
NEW_HEARTBEATS = _HEARTBEATS.where(SERVICES.c.last_seen_up > sa.bindparam("after"))
