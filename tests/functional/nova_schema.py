# SPDX-License-Identifier: Apache-2.0
"""The tables of nova 34 that the feed reads, with the columns that it reads, as ``nova-manage db sync`` creates them.

``tests/nova`` compares them with the real ones.
"""

from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa

from tests.factories import uuid

API, CELL = sa.MetaData(), sa.MetaData()


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

CELL_UUID = "f8464d1d-76ba-4d71-b8b1-338b6e4feb55"
CELL0 = "00000000-0000-0000-0000-000000000000"


class Databases:
    """An API database and a cell, which are one database here: their tables have different names."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = sa.create_engine(url, poolclass=sa.NullPool)

    def create(self) -> None:
        for metadata in (API, CELL):
            metadata.drop_all(self._engine)
            metadata.create_all(self._engine)
        self.insert(CELLS, id=1, uuid=CELL0, name="cell0", database_connection="nonsense", disabled=False)
        self.insert(CELLS, id=2, uuid=CELL_UUID, name="cell1", database_connection=self.url, disabled=False)

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
