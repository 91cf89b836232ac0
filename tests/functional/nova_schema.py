# SPDX-License-Identifier: Apache-2.0
"""The tables of nova 34 that the feed reads, with the columns that it reads, as ``nova-manage db sync`` creates them.

``tests/nova`` compares them with the real ones.
"""

from __future__ import annotations

import datetime
import functools
from typing import Any

import sqlalchemy as sa

from tests.factories import uuid

API, CELL, PLACEMENT = sa.MetaData(), sa.MetaData(), sa.MetaData()


def _stamps() -> list[sa.Column]:
    return [sa.Column("created_at", sa.DateTime), sa.Column("updated_at", sa.DateTime)]


CELLS = sa.Table(
    "cell_mappings",
    API,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False),
    sa.Column("name", sa.String(255)),
    sa.Column("transport_url", sa.Text),
    sa.Column("database_connection", sa.Text),
    sa.Column("disabled", sa.Boolean),
)
HOST_MAPPINGS = sa.Table(
    "host_mappings",
    API,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("cell_id", sa.Integer, nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
)
AGGREGATES = sa.Table(
    "aggregates",
    API,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36)),
    sa.Column("name", sa.String(255)),
)
AGGREGATE_HOSTS = sa.Table(
    "aggregate_hosts",
    API,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("host", sa.String(255)),
    sa.Column("aggregate_id", sa.Integer, nullable=False),
)
AGGREGATE_METADATA = sa.Table(
    "aggregate_metadata",
    API,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("key", sa.String(255), nullable=False),
    sa.Column("value", sa.String(255), nullable=False),
    sa.Column("aggregate_id", sa.Integer, nullable=False),
)
FLAVORS = sa.Table(
    "flavors",
    API,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("root_gb", sa.Integer),
    sa.Column("ephemeral_gb", sa.Integer),
    sa.Column("flavorid", sa.String(255), nullable=False),
    sa.Column("swap", sa.Integer, nullable=False),
)
FLAVOR_SPECS = sa.Table(
    "flavor_extra_specs",
    API,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("key", sa.String(255), nullable=False),
    sa.Column("value", sa.String(255)),
    sa.Column("flavor_id", sa.Integer, nullable=False),
)
REQUEST_SPECS = sa.Table(
    "request_specs",
    API,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("instance_uuid", sa.String(36), nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
)
GROUPS = sa.Table(
    "instance_groups",
    API,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False),
    sa.Column("name", sa.String(255)),
)
GROUP_POLICIES = sa.Table(
    "instance_group_policy",
    API,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("group_id", sa.Integer, nullable=False),
    sa.Column("policy", sa.String(255)),
    sa.Column("rules", sa.Text),
)
GROUP_MEMBERS = sa.Table(
    "instance_group_member",
    API,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("instance_uuid", sa.String(255)),
    sa.Column("group_id", sa.Integer, nullable=False),
)
SERVICES = sa.Table(
    "services",
    CELL,
    *_stamps(),
    sa.Column("deleted", sa.Integer, default=0),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("host", sa.String(255)),
    sa.Column("binary", sa.String(255)),
    sa.Column("disabled", sa.Boolean),
    sa.Column("disabled_reason", sa.String(255)),
    sa.Column("forced_down", sa.Boolean),
    sa.Column("last_seen_up", sa.DateTime),
    sa.Column("topic", sa.String(255)),
    sa.Column("report_count", sa.Integer),
    sa.Column("version", sa.Integer),
    sa.Column("uuid", sa.String(36)),
)
NODES = sa.Table(
    "compute_nodes",
    CELL,
    *_stamps(),
    sa.Column("deleted", sa.Integer, default=0),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36)),
    sa.Column("host", sa.String(255)),
    sa.Column("hypervisor_hostname", sa.String(255)),
    *(
        sa.Column(name, sa.Integer, nullable=False)
        for name in ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used")
    ),
    sa.Column("running_vms", sa.Integer),
    sa.Column("hypervisor_type", sa.Text, nullable=False),
    sa.Column("hypervisor_version", sa.Integer, nullable=False),
    sa.Column("host_ip", sa.String(39)),
    *(
        sa.Column(name, sa.Text)
        for name in ("cpu_info", "supported_instances", "stats", "metrics", "numa_topology", "pci_stats")
    ),
    *(sa.Column(f"{name}_allocation_ratio", sa.Float) for name in ("cpu", "ram", "disk")),
)
INSTANCES = sa.Table(
    "instances",
    CELL,
    *_stamps(),
    sa.Column("deleted", sa.Integer, default=0),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False),
    sa.Column("host", sa.String(255)),
    sa.Column("node", sa.String(255)),
    sa.Column("vm_state", sa.String(255)),
    sa.Column("task_state", sa.String(255)),
    sa.Column("instance_type_id", sa.Integer),
    sa.Column("project_id", sa.String(255)),
    sa.Index("instances_updated_at_project_id_idx", "updated_at", "project_id"),
    sa.Index("instances_deleted_created_at_idx", "deleted", "created_at"),
)


# Placement 16, as its migrations create them.
RESOURCE_CLASSES = sa.Table(
    "resource_classes", PLACEMENT, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(255))
)
PROVIDERS = sa.Table(
    "resource_providers",
    PLACEMENT,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False),
    sa.Column("generation", sa.Integer),
    sa.Column("root_provider_id", sa.Integer),
    sa.Column("parent_provider_id", sa.Integer),
)
INVENTORIES = sa.Table(
    "inventories",
    PLACEMENT,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("resource_provider_id", sa.Integer, nullable=False),
    sa.Column("resource_class_id", sa.Integer, nullable=False),
    *(
        sa.Column(name, sa.Integer, nullable=False)
        for name in ("total", "reserved", "min_unit", "max_unit", "step_size")
    ),
    sa.Column("allocation_ratio", sa.Float, nullable=False),
    sa.UniqueConstraint(
        "resource_provider_id", "resource_class_id", name="uniq_inventories0resource_provider_resource_class"
    ),
)
ALLOCATIONS = sa.Table(
    "allocations",
    PLACEMENT,
    sa.Column("created_at", sa.DateTime),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("resource_provider_id", sa.Integer, nullable=False),
    sa.Column("consumer_id", sa.String(36), nullable=False),
    sa.Column("resource_class_id", sa.Integer, nullable=False),
    sa.Column("used", sa.Integer, nullable=False),
    sa.Index("allocations_resource_provider_class_used_idx", "resource_provider_id", "resource_class_id", "used"),
)
TRAITS = sa.Table("traits", PLACEMENT, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(255)))
PROVIDER_TRAITS = sa.Table(
    "resource_provider_traits",
    PLACEMENT,
    sa.Column("resource_provider_id", sa.Integer, primary_key=True),
    sa.Column("trait_id", sa.Integer, primary_key=True),
)
PLACEMENT_AGGREGATES = sa.Table(
    "placement_aggregates", PLACEMENT, sa.Column("id", sa.Integer, primary_key=True), sa.Column("uuid", sa.String(36))
)
PROVIDER_AGGREGATES = sa.Table(
    "resource_provider_aggregates",
    PLACEMENT,
    sa.Column("resource_provider_id", sa.Integer, primary_key=True),
    sa.Column("aggregate_id", sa.Integer, primary_key=True),
)
#: Ids of the resource classes and traits of the tests.
CLASSES = {"VCPU": 1, "MEMORY_MB": 2, "DISK_GB": 3}
TRAIT_IDS = {"COMPUTE_STATUS_DISABLED": 1, "MISC_SHARES_VIA_AGGREGATE": 2, "CUSTOM_FAST": 3}

CELL_UUID = "f8464d1d-76ba-4d71-b8b1-338b6e4feb55"
CELL0 = "00000000-0000-0000-0000-000000000000"


@functools.cache
def engine(url: str) -> sa.Engine:
    """One connection for many tests: the set-up of each would open thirty. Dispose of the engine after them."""
    return sa.create_engine(url, pool_size=1)


class Databases:
    """An API database and a cell, which are one database here: their tables have different names."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = engine(url)

    def create(self) -> None:
        """Make the tables, or empty them if they are there, which is faster."""
        with self._engine.begin() as connection:
            there = set(sa.inspect(connection).get_table_names())
            for metadata in (API, CELL, PLACEMENT):
                if not metadata.tables.keys() <= there:
                    metadata.create_all(connection)
                for table in metadata.sorted_tables:
                    connection.execute(table.delete())
            cell0 = dict(id=1, uuid=CELL0, name="cell0", database_connection="nonsense", disabled=False)
            cell1 = dict(id=2, uuid=CELL_UUID, name="cell1", database_connection=self.url, disabled=False)
            connection.execute(CELLS.insert(), [cell0, cell1])
            for table, ids in ((RESOURCE_CLASSES, CLASSES), (TRAITS, TRAIT_IDS)):
                connection.execute(table.insert(), [{"id": number, "name": name} for name, number in ids.items()])

    def insert(self, table: sa.Table, **values: Any) -> None:
        with self._engine.begin() as connection:
            connection.execute(table.insert(), values)

    def update(self, table: sa.Table, number: int, **values: Any) -> None:
        with self._engine.begin() as connection:
            connection.execute(table.update().where(table.c.id == number).values(**values))

    def delete(self, table: sa.Table, number: int) -> None:
        with self._engine.begin() as connection:
            connection.execute(table.delete().where(table.c.id == number))

    def add_host(self, number: int, now: datetime.datetime, **node: Any) -> None:
        """A host with its mapping, its service and its node of 8 vcpus, 8 GB and 1 TB."""
        host = f"cmp{number}"
        self.insert(HOST_MAPPINGS, id=number, cell_id=2, host=host)
        self.insert(
            SERVICES,
            id=number,
            host=host,
            binary="nova-compute",
            disabled=False,
            forced_down=False,
            last_seen_up=now,
            created_at=now,
            updated_at=now,
        )
        values = dict(
            id=number,
            uuid=uuid(100 + number),
            host=host,
            hypervisor_hostname=host,
            vcpus=8,
            memory_mb=8192,
            local_gb=1024,
            vcpus_used=0,
            memory_mb_used=512,
            local_gb_used=0,
            hypervisor_type="fake",
            hypervisor_version=1000,
            cpu_info="{}",
            stats="{}",
            created_at=now,
            updated_at=now,
        )
        self.insert(NODES, **{**values, **node})

    def add_instance(self, number: int, host: str | None, now: datetime.datetime, **values: Any) -> None:
        known = dict(id=number, uuid=uuid(number), host=host, node=host, vm_state="active", project_id="p1")
        self.insert(INSTANCES, **{**known, "created_at": now, **values})

    def add_provider(self, number: int, **inventories: dict[str, Any]) -> None:
        """The provider of host ``number``, with 8 VCPU at ratio 4, 8 GB less 512 MB, and 1 TB, unless told otherwise."""
        self.insert(PROVIDERS, id=number, uuid=uuid(100 + number), generation=1, root_provider_id=number)
        totals = {"VCPU": dict(total=8, allocation_ratio=4.0), "MEMORY_MB": dict(total=8192, reserved=512)}
        wanted = inventories or {**totals, "DISK_GB": dict(total=1024)}
        for name, values in wanted.items():
            self.add_inventory(number, name, **values)

    def delete_provider(self, number: int) -> None:
        with self._engine.begin() as connection:
            for table in (INVENTORIES, ALLOCATIONS, PROVIDER_TRAITS):
                connection.execute(table.delete().where(table.c.resource_provider_id == number))
            connection.execute(PROVIDERS.delete().where(PROVIDERS.c.id == number))

    def add_inventory(self, number: int, name: str, **values: Any) -> None:
        known = dict(reserved=0, min_unit=1, max_unit=values["total"], step_size=1, allocation_ratio=1.0)
        ids = dict(resource_provider_id=number, resource_class_id=CLASSES[name])
        self.insert(INVENTORIES, **ids, **{**known, **values})

    def set_inventory(self, number: int, name: str, **values: Any) -> None:
        """Change an inventory as ``openstack resource provider inventory set`` does: the generation grows."""
        of = INVENTORIES.c
        with self._engine.begin() as connection:
            where = (of.resource_provider_id == number) & (of.resource_class_id == CLASSES[name])
            connection.execute(INVENTORIES.update().where(where).values(**values))
            self._count(connection, number)

    def allocate(self, consumer: str, number: int, now: datetime.datetime, **amounts: int) -> None:
        """An allocation, as a claim writes it."""
        with self._engine.begin() as connection:
            for name, amount in amounts.items():
                values = dict(resource_provider_id=number, resource_class_id=CLASSES[name], consumer_id=consumer)
                connection.execute(ALLOCATIONS.insert(), {**values, "used": amount, "created_at": now})
            self._count(connection, number)

    def give_back(self, consumer: str) -> None:
        """Delete the allocations of a consumer, as placement does: no generation changes."""
        with self._engine.begin() as connection:
            connection.execute(ALLOCATIONS.delete().where(ALLOCATIONS.c.consumer_id == consumer))

    def give_trait(self, number: int, name: str) -> None:
        with self._engine.begin() as connection:
            values = {"resource_provider_id": number, "trait_id": TRAIT_IDS[name]}
            connection.execute(PROVIDER_TRAITS.insert(), values)
            self._count(connection, number)

    def _count(self, connection: sa.Connection, number: int) -> None:
        more = PROVIDERS.update().where(PROVIDERS.c.id == number)
        connection.execute(more.values(generation=PROVIDERS.c.generation + 1))
