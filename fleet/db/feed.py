# SPDX-License-Identifier: Apache-2.0
"""The change feed: everything a scheduler knows, as differences (see ``engine`` for why none is ever missed)."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from fleet.clock import Clock, seconds, utcnow
from fleet.db import aggregates, models, services
from fleet.db.engine import Database

GENERATIONS = models.generations
NODES = models.compute_nodes
SERVICES = models.services
INSTANCES = models.instances

#: Heartbeats are read this often at most; they change liveness, which is counted in tens of seconds.
HEARTBEAT_PERIOD = seconds(1)
#: Two daemons' clocks and a transaction's length may put a heartbeat behind one already read.
HEARTBEAT_OVERLAP = seconds(5)

#: As text: most are like one that the scheduler has parsed before.
_TEXT_COLUMNS = ["numa_topology", "pci_stats", "pci_device_pools"]
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
        "supported_instances",
        "metrics",
        "stats",
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
_Queries = tuple[sa.Select, sa.Select]


def _queries(columns: list[Any], table: sa.Table, *where: Any) -> _Queries:
    """Rows stamped after ``newer``; and all there is, without the deleted. Instances never placed carry no stamp."""
    changed = sa.select(*columns).where(table.c.generation > sa.bindparam("newer"), *where)
    return changed, changed.where(sa.not_(table.c.deleted))


_NODES = _queries(_NODE_COLUMNS, NODES)
_SERVICES = _queries(_SERVICE_COLUMNS, SERVICES, SERVICES.c.binary == services.COMPUTE)
_HEARTBEATS = sa.select(SERVICES.c.host, SERVICES.c.last_seen_up).where(SERVICES.c.binary == services.COMPUTE)
_ALL_HEARTBEATS = _HEARTBEATS.where(SERVICES.c.last_seen_up.is_not(None))
_NEW_HEARTBEATS = _HEARTBEATS.where(SERVICES.c.last_seen_up > sa.bindparam("after"))
_GENERATION = sa.select(GENERATIONS.c.value).where(GENERATIONS.c.id == 1)

_IMAGE_PROPERTIES = (
    sa.select(models.build_requests.c.spec["image"]["properties"])
    .where(models.build_requests.c.reservation_id == INSTANCES.c.reservation_id)
    .scalar_subquery()
    .label("image_properties")
)
_WITH_IMAGES = [*_INSTANCE_COLUMNS, _IMAGE_PROPERTIES]
_INSTANCES = _queries(_INSTANCE_COLUMNS, INSTANCES)
_INSTANCES_WITH_IMAGES = _queries(_WITH_IMAGES, INSTANCES)


@dataclasses.dataclass(frozen=True)
class ChangedAggregate:
    """An aggregate as it is now; only ``id`` matters of a deleted one."""

    id: int
    name: str
    hosts: Sequence[str]
    metadata: dict[str, str]
    deleted: bool = False


@dataclasses.dataclass(frozen=True)
class Changes:
    """What changed since a generation. ``full``: the complete state instead, and what is not in it is gone.

    Rows carry the columns named above; ``heartbeats`` are ``(host, last_seen_up)`` pairs, not counted by generations.
    """

    generation: int
    full: bool = False
    nodes: Sequence[Any] = ()
    services: Sequence[Any] = ()
    aggregates: Sequence[ChangedAggregate] = ()
    instances: Sequence[Any] = ()
    heartbeats: Sequence[tuple[str, datetime.datetime]] = ()


class ChangeFeed:
    """Reads changes for one cache. Not for use by several threads at once.

    :param retry: False for a reader that has something better to do than to wait for a database that is away
    :param with_images: also the properties of the images that instances were made from, as ``image_properties``
    """

    def __init__(
        self, database: Database, clock: Clock = utcnow, with_images: bool = False, retry: bool = True
    ) -> None:
        self._read_database = database.read if retry else database.read_once
        self._instance_columns = _WITH_IMAGES if with_images else _INSTANCE_COLUMNS
        self._instances = _INSTANCES_WITH_IMAGES if with_images else _INSTANCES
        self._clock = clock
        self._heartbeats_read: datetime.datetime | None = None
        self._newest_heartbeat: datetime.datetime | None = None

    def read(self, since: int) -> Changes:
        """Everything after generation ``since``, in one snapshot; 0 (or a generation from before a restore) is all."""
        return self._read_database(self._read, since)

    def read_host(self, host: str) -> Changes:
        """All that is known of one host, in one snapshot: what is not in it is not there. Heartbeats are left out."""
        return self._read_database(self._read_host, host)

    def _read_host(self, connection: sa.Connection, host: str) -> Changes:
        def there(columns: list[sa.Column], table: sa.Table, *where: Any) -> Sequence[sa.Row]:
            return connection.execute(
                sa.select(*columns).where(table.c.host == host, sa.not_(table.c.deleted), *where)
            ).all()

        return Changes(
            generation=generation(connection),
            nodes=there(_NODE_COLUMNS, NODES),
            services=there(_SERVICE_COLUMNS, SERVICES, SERVICES.c.binary == services.COMPUTE),
            instances=there(self._instance_columns, INSTANCES),
        )

    def _read(self, connection: sa.Connection, since: int) -> Changes:
        newest = generation(connection)
        heartbeats = self._read_heartbeats(connection)
        if newest == since:
            return Changes(newest, heartbeats=heartbeats)
        full = since == 0 or since > newest
        newer = 0 if full else since
        return Changes(
            generation=newest,
            full=full,
            nodes=_changed(connection, _NODES, newer, full),
            services=_changed(connection, _SERVICES, newer, full),
            aggregates=_changed_aggregates(connection, newer, full),
            instances=_changed(connection, self._instances, newer, full),
            heartbeats=heartbeats,
        )

    def _read_heartbeats(self, connection: sa.Connection) -> list[tuple[str, datetime.datetime]]:
        now = self._clock()
        if self._heartbeats_read is not None and now - self._heartbeats_read < HEARTBEAT_PERIOD:
            return []
        if self._newest_heartbeat is not None:
            found = connection.execute(_NEW_HEARTBEATS, {"after": self._newest_heartbeat - HEARTBEAT_OVERLAP})
        else:
            found = connection.execute(_ALL_HEARTBEATS)
        heartbeats = [(row.host, row.last_seen_up) for row in found]
        if heartbeats:
            self._newest_heartbeat = max(seen for _host, seen in heartbeats)
        self._heartbeats_read = now
        return heartbeats


def generation(connection: sa.Connection) -> int:
    """What the newest committed change has."""
    return connection.execute(_GENERATION).scalar_one()


def _changed(connection: sa.Connection, queries: _Queries, newer: int, full: bool) -> Sequence[sa.Row]:
    return connection.execute(queries[full], {"newer": newer}).all()


def _changed_aggregates(connection: sa.Connection, newer: int, full: bool) -> list[ChangedAggregate]:
    live = aggregates.list_all(connection, newer_than=newer)
    changed = [ChangedAggregate(each.id, each.name, each.hosts, each.metadata) for each in live]
    if not full:
        changed += [
            ChangedAggregate(key, "", (), {}, deleted=True) for key in aggregates.deleted_since(connection, newer)
        ]
    return changed
