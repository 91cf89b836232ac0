# SPDX-License-Identifier: Apache-2.0
"""One snapshot of the database, read with plain SQL: none of the product's own queries is trusted here."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

Row = Mapping[str, Any]

#: resource: (total, used, reserved, ratio) of a node's row, and what an instance's row claims of it. MB, GB, CPUs.
RESOURCES = {
    "memory_mb": ("memory_mb", "memory_mb_used", "reserved_memory_mb", "ram_allocation_ratio", "claimed_memory_mb"),
    "disk_gb": ("local_gb", "local_gb_used", "reserved_disk_gb", "disk_allocation_ratio", "claimed_disk_gb"),
    "vcpus": ("vcpus", "vcpus_used", "reserved_vcpus", "cpu_allocation_ratio", "claimed_vcpus"),
}


#: What was deleted longer ago was judged often enough.
REMEMBERED_S = 300
_RECENT = "SELECT uuid FROM instances WHERE NOT deleted OR deleted_at > :since"


@dataclasses.dataclass(frozen=True)
class Ledger:
    """``instances`` include lately deleted ones; ``events`` and ``faults`` are by instance, ``members`` by group."""

    read_at: datetime.datetime
    nodes: Sequence[Row]
    instances: Sequence[Row]
    requests: Mapping[str, Row]
    events: Mapping[str, Sequence[Row]]
    faults: Mapping[str, Sequence[Row]]
    groups: Mapping[str, Row]
    members: Mapping[str, Sequence[str]]
    migrations: Sequence[Row] = ()
    pools: Sequence[Row] = ()
    volumes: Sequence[Row] = ()
    #: With ``is_alive``: whether the instance is not deleted, and its ``vm_state``.
    attachments: Sequence[Row] = ()
    networks: Sequence[Row] = ()
    addresses: Sequence[Row] = ()
    #: Pools that are known to have become smaller than what they had promised.
    shrunk: frozenset[str] = frozenset()

    @classmethod
    def read(cls, engine: sa.Engine) -> Ledger:
        """Everything as of one moment. :raises sqlalchemy.exc.SQLAlchemyError: the database is away"""
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        since = {"since": now - datetime.timedelta(seconds=REMEMBERED_S)}
        with engine.connect() as connection:

            def rows(query: str, **values: object) -> list[Row]:
                return [dict(row) for row in connection.execute(sa.text(query), values).mappings()]

            instances = rows(
                f"SELECT * FROM instances WHERE uuid IN ({_RECENT}) ORDER BY created_at, launch_index", **since
            )
            used = "SELECT reservation_id FROM instances WHERE NOT deleted OR deleted_at > :since"
            requests = rows(f"SELECT * FROM build_requests WHERE reservation_id IN ({used})", **since)
            of_recent = f"WHERE instance_uuid IN ({_RECENT})"
            members = rows(f"SELECT * FROM instance_group_members {of_recent}", **since)
            return cls(
                read_at=now,
                nodes=rows("SELECT * FROM compute_nodes WHERE NOT deleted ORDER BY host"),
                instances=instances,
                requests={row["reservation_id"]: row for row in requests},
                events=_by("instance_uuid", rows(f"SELECT * FROM instance_events {of_recent} ORDER BY id", **since)),
                faults=_by("instance_uuid", rows(f"SELECT * FROM instance_faults {of_recent} ORDER BY id", **since)),
                migrations=rows(f"SELECT * FROM migrations {of_recent} ORDER BY created_at", **since),
                pools=rows("SELECT * FROM storage_pools WHERE NOT deleted ORDER BY host, pool"),
                volumes=rows("SELECT * FROM volumes WHERE NOT deleted OR deleted_at > :since", **since),
                attachments=rows(
                    "SELECT a.*, NOT i.deleted AS is_alive, i.vm_state FROM volume_attachments a"
                    " JOIN instances i ON i.uuid = a.instance_uuid ORDER BY a.created_at"
                ),
                networks=rows("SELECT * FROM networks ORDER BY name"),
                addresses=rows("SELECT * FROM addresses ORDER BY network_uuid, number"),
                groups={row["uuid"]: row for row in rows("SELECT * FROM instance_groups")},
                members={
                    group: [row["instance_uuid"] for row in of_group]
                    for group, of_group in _by("group_uuid", members).items()
                },
            )

    @property
    def live(self) -> list[Row]:
        return [row for row in self.instances if not row["deleted"]]

    @property
    def unsettled(self) -> list[Row]:
        """On their way: to an end of their build, or out."""
        return [row for row in self.live if row["vm_state"] == "building" or row["task_state"] is not None]

    def on(self, node: Row) -> list[Row]:
        where = (node["host"], node["hypervisor_hostname"])
        return [row for row in self.instances if (row["host"], row["node"]) == where]

    def held_on(self, node: Row) -> list[Row]:
        """What moves hold there, beside the instances."""
        where = (node["host"], node["hypervisor_hostname"])
        return [row for row in self.migrations if (row["held_host"], row["held_node"]) == where]

    def interfaces(self, instance: Row) -> list[dict[str, Any]]:
        """What its guest is plugged into."""
        return _decoded(instance.get("interfaces")) or []

    def host_of_left_guest(self, instance: Row) -> str | None:
        """The host that may still have a guest of an instance whose build or move was given up."""
        notes = _decoded(instance.get("shelved")) or _decoded(instance.get("details")) or {}
        return notes.get("guest_on")

    def capabilities(self, pool: Row) -> dict[str, Any]:
        """What the backend has reported."""
        return _decoded(pool["capabilities"])

    def spec(self, instance: Row) -> dict[str, Any]:
        """What the client asked for."""
        return _decoded(self.requests[instance["reservation_id"]]["spec"])


def _decoded(value: Any) -> Any:
    """Not every driver decodes JSON."""
    return json.loads(value) if isinstance(value, str) else value


def open_engine(url: str) -> sa.Engine:
    """A connection for each look: a server that was restarted meanwhile must not matter."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    return engine if engine.dialect.name == "sqlite" else engine.execution_options(isolation_level="REPEATABLE READ")


def _by(column: str, rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
    return found
