# SPDX-License-Identifier: Apache-2.0
"""The change feed: everything a scheduler knows, as differences (see ``engine`` for why none is ever missed)."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from fleet.clock import Clock, seconds, utcnow
from fleet.db import aggregates, models, services
from fleet.db.engine import Database

GENERATIONS = models.generations
NODES = models.compute_nodes
SERVICES = models.services
INSTANCES = models.instances
AGGREGATES = models.aggregates

#: Heartbeats are read this often at most; they change liveness, which is counted in tens of seconds. Of a large fleet
#: more are read at a time, and it is done a second later for each so many of them: else it would do little besides.
HEARTBEAT_PERIOD = seconds(1)
HEARTBEATS_A_SECOND = 10_000
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
#: The same, and which tables have something newer: most changes are to one or two, and a look at each index is quick.
_NEWEST = _GENERATION.add_columns(
    *(
        sa.select(sa.func.max(table.c.generation)).scalar_subquery().label(table.name)
        for table in (NODES, SERVICES, AGGREGATES, INSTANCES)
    )
)

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
        self._peek, self._snapshot = database.reader(in_snapshot=False), database.reader(in_snapshot=True)
        self._attempt = database.retried(_at_once) if retry else _at_once
        self._instance_columns = _WITH_IMAGES if with_images else _INSTANCE_COLUMNS
        self._instances = _INSTANCES_WITH_IMAGES if with_images else _INSTANCES
        self._clock = clock
        self._heartbeats_read: datetime.datetime | None = None
        self._heartbeat_period = HEARTBEAT_PERIOD
        self._newest_heartbeat: datetime.datetime | None = None

    def read(self, since: int) -> Changes:
        """Everything after generation ``since``, in one snapshot; 0 (or a generation from before a restore) is all."""
        return self._attempt(self._read_if_newer, since)

    def read_host(self, host: str) -> Changes:
        """All that is known of one host, in one snapshot: what is not in it is not there. Heartbeats are left out."""
        return self._attempt(self._snapshot.read, self._read_host, host)

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

    def _read_if_newer(self, since: int) -> Changes:
        if since and not self._heartbeats_due() and self._peek.read(generation) == since:
            return Changes(since)
        return self._snapshot.read(self._read, since)

    def _read(self, connection: sa.Connection, since: int) -> Changes:
        newest = connection.execute(_NEWEST).one()
        heartbeats = self._read_heartbeats(connection)
        if newest.value == since:
            return Changes(newest.value, heartbeats=heartbeats)
        full = since == 0 or since > newest.value
        newer = 0 if full else since

        def changed(queries: _Queries, table: sa.Table) -> Sequence[sa.Row]:
            return _changed(connection, queries, newer, full) if _has(newest, table, newer) else []

        return Changes(
            generation=newest.value,
            full=full,
            nodes=changed(_NODES, NODES),
            services=changed(_SERVICES, SERVICES),
            aggregates=_changed_aggregates(connection, newer, full) if _has(newest, AGGREGATES, newer) else [],
            instances=changed(self._instances, INSTANCES),
            heartbeats=heartbeats,
        )

    def _heartbeats_due(self) -> bool:
        return self._heartbeats_read is None or self._clock() - self._heartbeats_read >= self._heartbeat_period

    def _read_heartbeats(self, connection: sa.Connection) -> list[tuple[str, datetime.datetime]]:
        if not self._heartbeats_due():
            return []
        now = self._clock()
        if self._newest_heartbeat is not None:
            found = connection.execute(_NEW_HEARTBEATS, {"after": self._newest_heartbeat - HEARTBEAT_OVERLAP})
        else:
            found = connection.execute(_ALL_HEARTBEATS)
        heartbeats = [(row.host, row.last_seen_up) for row in found]
        if heartbeats:
            self._newest_heartbeat = max(seen for _host, seen in heartbeats)
        self._heartbeats_read = now
        self._heartbeat_period = HEARTBEAT_PERIOD + seconds(len(heartbeats) / HEARTBEATS_A_SECOND)
        return heartbeats


def _at_once(read: Callable[..., Changes], *args: Any) -> Changes:
    return read(*args)


def generation(connection: sa.Connection) -> int:
    """What the newest committed change has."""
    return connection.execute(_GENERATION).scalar_one()


def _has(newest: sa.Row, table: sa.Table, newer: int) -> bool:
    """Whether ``table`` has a change after ``newer``."""
    return (getattr(newest, table.name) or 0) > newer


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
