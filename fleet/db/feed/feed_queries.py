# SPDX-License-Identifier: Apache-2.0
"""Queries of the change feed, built once: rows newer than a generation, and the newest generation.

Called by :mod:`fleet.db.feed.feed`, :mod:`fleet_cli.planning.planning` and :mod:`scheduler.volumes.service`.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Protocol

import sqlalchemy as sa

from fleet.db.engine import now as clock
from fleet.db.engine.prepared_query import PreparedQuery
from fleet.db.hosts import services
from fleet.db.tables import models
from fleet.db.tables.sql_types import Element, Select

GENERATIONS = models.generations
NODES = models.compute_nodes
POOLS = models.storage_pools
VOLUMES = models.volumes
SERVICES = models.services
INSTANCES = models.instances
AGGREGATES = models.aggregates

#: Read as text: most are empty, or equal to a text that the scheduler has parsed already.
_TEXT_COLUMNS = ("numa_topology", "pci_stats", "pci_device_pools", "supported_instances", "metrics", "stats", "labels")
_NODE_COLUMNS = """
    id uuid host hypervisor_hostname vcpus vcpus_used memory_mb memory_mb_used free_ram_mb local_gb local_gb_used
    free_disk_gb disk_available_least reserved_vcpus reserved_memory_mb reserved_disk_gb cpu_allocation_ratio
    ram_allocation_ratio disk_allocation_ratio running_vms io_workload failed_builds hypervisor_type hypervisor_version
    host_ip cpu_info updated_at deleted
"""
_SERVICE_COLUMNS = "id host binary disabled disabled_reason forced_down last_seen_up deleted"
_POOL_COLUMNS = """
    id host availability_zone total_capacity_gb free_capacity_gb allocated_capacity_gb provisioned_capacity_gb
    reserved_percentage max_over_subscription_ratio thin_provisioning_support total_volumes updated_at deleted
"""
_VOLUME_COLUMNS = "uuid host pool status step deleted project_id"
_INSTANCE_COLUMNS = "uuid host node vm_state task_state deleted instance_type_id project_id"


def _columns(table: sa.Table, names: str) -> list[Any]:
    return [table.c[name] for name in names.split()]


class Generation(Protocol):
    """The generation of the newest commit."""

    value: int


class Dated(Generation, Protocol):
    """A row with the newest generation. That of a place has the generations of other tables, under their names."""

    row_key: object
    noted: int | None


class Newest(Generation, Protocol):
    """The newest generation of the ledger, and of each table, under the names of the tables."""

    ledger: str | None
    now: datetime.datetime
    mix: int | None


GENERATION = sa.select(GENERATIONS.c.value).where(GENERATIONS.c.id == 1)
#: The same, with the id of the row as its parameter.
NEWEST_OF = PreparedQuery[Generation](
    "generation", lambda row: sa.select(GENERATIONS.c.value).where(GENERATIONS.c.id == row)
)
#: More generations than there will ever be. With an upper bound the planner expects few rows, whatever the lower bound.
_ALL_THERE_ARE = 10**15


@dataclasses.dataclass(frozen=True)
class TableQueries:
    """Queries of one table for rows that were stamped after generation ``newer``. An instance has no stamp before it is
    placed.

    :param changed: these rows, also deleted ones
    :param live: the same without deleted rows; all live rows if ``newer`` is 0
    :param with_generation: as ``changed``, each row with the newest generation as ``value``. If there are no rows, one row
        with ``value`` alone, whose ``row_key`` is None
    :param of_host: live rows of one ``host``
    """

    table: sa.Table
    changed: Select
    live: Select
    with_generation: PreparedQuery[Dated]
    of_host: Select


def _queries(name: str, table: sa.Table, columns: list[Any], *where: Any, more: tuple[Any, ...] = ()) -> TableQueries:
    """:param more: further columns of ``with_generation``"""
    stamp, live = table.c.generation, sa.not_(table.c.deleted)
    key = table.primary_key.columns[0].label("row_key")
    changed = sa.select(*columns).where(stamp > sa.bindparam("newer"), *where)

    def with_generation(newer: Element) -> Select:
        later = sa.and_(stamp > newer, stamp <= newer + _ALL_THERE_ARE, *where)
        return GENERATION.select_from(GENERATIONS.outerjoin(table, later)).add_columns(key, *columns, *more)

    return TableQueries(
        table,
        changed,
        changed.where(live),
        PreparedQuery(name, with_generation),
        sa.select(*columns).where(table.c.host == sa.bindparam("of_host"), live, *where),
    )


def _newest_of(table: sa.Table) -> sa.Label[Any]:
    return sa.select(sa.func.max(table.c.generation)).scalar_subquery().label(table.name)


@dataclasses.dataclass(frozen=True)
class FeedQueries:
    """Queries of one feed: of the places, of the services that run them, and of what is placed.

    :param nodes: runs first: its result also has the newest generation of each other table
    :param newest: the generation, and the newest one of each table. Most changes concern one or two tables
    """

    nodes: TableQueries
    services: TableQueries
    instances: TableQueries
    newest: Select
    all_heartbeats: Select
    new_heartbeats: Select


def _feed(binary: str, name: str, nodes: tuple[sa.Table, list[Any]], instances: TableQueries) -> FeedQueries:
    """:param binary: of the services that serve the places; ``name`` makes the name of their query unique among the feeds"""
    places, columns = nodes
    others = (SERVICES, AGGREGATES, instances.table)
    of_services = SERVICES.c.binary == binary
    mix = sa.select(models.flavor_mix.c.version).scalar_subquery() if instances.table is INSTANCES else sa.null()
    heartbeats = sa.select(SERVICES.c.host, SERVICES.c.last_seen_up).where(of_services)
    more = (GENERATIONS.c.noted, *(GENERATIONS.c[table.name] for table in others))
    return FeedQueries(
        _queries(places.name, places, columns, more=more),
        _queries(name, SERVICES, _columns(SERVICES, _SERVICE_COLUMNS), of_services),
        instances,
        GENERATION.add_columns(GENERATIONS.c.ledger, clock.NOW, mix.label("mix"), *map(_newest_of, (places, *others))),
        heartbeats.where(SERVICES.c.last_seen_up.is_not(None)),
        heartbeats.where(SERVICES.c.last_seen_up > sa.bindparam("after")),
    )


_REQUESTED_IMAGE, _REBUILT_IMAGE = models.build_requests.c.spec["image"], INSTANCES.c.details["image"]
_IMAGE_PROPERTIES = (
    sa.select(
        # The image of a rebuild; its record has a uuid.
        sa.case(
            (_REBUILT_IMAGE["id"].as_string().is_not(None), _REBUILT_IMAGE["properties"]),
            else_=_REQUESTED_IMAGE["properties"],
        )
    )
    .where(models.build_requests.c.reservation_id == INSTANCES.c.reservation_id)
    .scalar_subquery()
    .label("image_properties")
)
_NODES = (
    NODES,
    [*_columns(NODES, _NODE_COLUMNS), *(sa.cast(NODES.c[name], sa.Text).label(name) for name in _TEXT_COLUMNS)],
)
_INSTANCES = _columns(INSTANCES, _INSTANCE_COLUMNS)
MACHINES = _feed(services.COMPUTE, "services", _NODES, _queries("instances", INSTANCES, _INSTANCES))
#: The same, with the properties of the images of the instances.
MACHINES_WITH_IMAGES = dataclasses.replace(
    MACHINES, instances=_queries("instances_with_images", INSTANCES, [*_INSTANCES, _IMAGE_PROPERTIES])
)
#: A pool is the node of its backend.
_POOLS = (
    POOLS,
    [
        *_columns(POOLS, _POOL_COLUMNS),
        POOLS.c.pool.label("hypervisor_hostname"),
        sa.cast(POOLS.c.capabilities, sa.Text).label("capabilities"),
    ],
)
#: Not snapshots: they are made where their volume is, and the claims of a pool count them.
_VOLUMES = _queries("volumes", VOLUMES, _columns(VOLUMES, _VOLUME_COLUMNS), VOLUMES.c.snapshot_of.is_(None))
STORAGE = _feed(services.VOLUME, "volume_services", _POOLS, _VOLUMES)
