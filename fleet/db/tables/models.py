# SPDX-License-Identifier: Apache-2.0
"""The tables. Names and units are nova's where nova has them: memory in MB, disk in GB, times in naive UTC.

A *tracked* table has a ``generation`` column: the engine stamps a changed row with the generation of its transaction,
and the schedulers read what is newer than theirs. A tracked row is marked ``deleted`` and not removed, so that schedulers
can read its removal as well.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

METADATA = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: Microseconds on every database: MariaDB drops them by default.
Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
#: SQLite generates keys only for plain INTEGER columns.
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
#: None is stored as NULL: most rows hold nothing, and queries skip them.
HeldJSON = sa.JSON(none_as_null=True)
UUID = sa.String(36)
NAME = sa.String(255)


def _tracked() -> list[sa.Column]:
    return [
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp),
        sa.Column("deleted_at", Timestamp),
        sa.Column("deleted", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
        sa.Column("generation", sa.BigInteger, nullable=False, default=0, server_default="0", index=True),
    ]


def _number(name: str) -> sa.Column:
    return sa.Column(name, sa.Integer, nullable=False, default=0, server_default="0")


def _generation(name: str) -> sa.Column:
    return sa.Column(name, sa.BigInteger, nullable=False, default=0, server_default="0")


#: One row: the generation of the newest commit. Its row lock makes commit order equal generation order. The columns with
#: names of tables hold the newest generation that changed each. They are valid if ``noted`` equals ``value``: a program
#: older than these columns advances only ``value``. ``ledger`` is the identity of the database (``fleet.ledger_identity``).
generations = sa.Table(
    "generations",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("value", sa.BigInteger, nullable=False),
    _generation("services"),
    _generation("aggregates"),
    _generation("instances"),
    _generation("volumes"),
    _generation("noted"),
    sa.Column("ledger", UUID),
)

services = sa.Table(
    "services",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("host", NAME, nullable=False),
    sa.Column("binary", NAME, nullable=False),
    sa.Column("topic", NAME, nullable=False),
    _number("report_count"),
    sa.Column("disabled", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("disabled_reason", NAME),
    sa.Column("forced_down", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("clock_skew_s", sa.Float, nullable=False, default=0.0, server_default="0"),
    sa.Column("last_seen_up", Timestamp, index=True),
    sa.Column("incarnation", sa.String(64)),
    #: Of the state directory: processes with the same identity replace each other, others must not share a host.
    sa.Column("identity", UUID),
    #: Counts the processes that have held the identity; NULL if the process does not count them.
    sa.Column("life", sa.Integer),
    sa.Column("pid", sa.Integer),
    sa.Column("hostname", NAME),
    sa.Column("started_at", Timestamp),
    #: API version and release of the process; NULL if it did not send them.
    sa.Column("rpc_version", sa.String(64)),
    sa.Column("release", sa.String(64)),
    *_tracked(),
    sa.UniqueConstraint("host", "binary"),
)

compute_nodes = sa.Table(
    "compute_nodes",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("uuid", UUID, nullable=False),
    sa.Column("host", NAME, nullable=False),
    sa.Column("hypervisor_hostname", NAME, nullable=False),
    _number("vcpus"),
    _number("vcpus_used"),
    _number("memory_mb"),
    _number("memory_mb_used"),
    _number("free_ram_mb"),
    _number("local_gb"),
    _number("local_gb_used"),
    _number("free_disk_gb"),
    sa.Column("disk_available_least", sa.Integer),
    _number("reserved_vcpus"),
    _number("reserved_memory_mb"),
    _number("reserved_disk_gb"),
    _number("orphaned_memory_mb"),
    sa.Column("cpu_allocation_ratio", sa.Float, nullable=False),
    sa.Column("ram_allocation_ratio", sa.Float, nullable=False),
    sa.Column("disk_allocation_ratio", sa.Float, nullable=False),
    _number("running_vms"),
    _number("current_workload"),
    _number("io_workload"),
    _number("failed_builds"),
    sa.Column("hypervisor_type", NAME),
    _number("hypervisor_version"),
    sa.Column("host_ip", sa.String(64)),
    sa.Column("cpu_info", sa.Text),
    sa.Column("supported_instances", sa.JSON),
    sa.Column("numa_topology", sa.JSON),
    #: All device pools of the node, and (pci_stats) the free devices; numa_topology includes its usage.
    sa.Column("pci_device_pools", HeldJSON),
    sa.Column("pci_stats", sa.JSON),
    sa.Column("metrics", sa.JSON),
    sa.Column("stats", sa.JSON),
    *_tracked(),
    sa.UniqueConstraint("host", "hypervisor_hostname"),
)

#: One row for each request of a client; its instances refer to it. ``spec`` is a BuildRequest with the flavor inline.
build_requests = sa.Table(
    "build_requests",
    METADATA,
    sa.Column("reservation_id", sa.String(36), primary_key=True),
    sa.Column("spec", sa.JSON, nullable=False),
    sa.Column("group_uuid", UUID),
    sa.Column("request_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
    #: The client's token for the request; ``fingerprint`` is a hash of the request, to recognise a different one.
    sa.Column("project_id", NAME, nullable=False, server_default=""),
    sa.Column("client_token", sa.String(64)),
    sa.Column("fingerprint", sa.String(64)),
    sa.Index(None, "project_id", "client_token", unique=True),
)

instances = sa.Table(
    "instances",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, index=True),
    sa.Column("reservation_id", sa.ForeignKey("build_requests.reservation_id"), nullable=False, index=True),
    _number("launch_index"),
    sa.Column("project_id", NAME),
    sa.Column("user_id", NAME),
    sa.Column("vm_state", sa.String(32), nullable=False),
    sa.Column("task_state", sa.String(32)),
    _number("power_state"),
    _number("attempt"),
    sa.Column("deadline", Timestamp),
    sa.Column("step_deadline", Timestamp),
    sa.Column("host", NAME),
    sa.Column("node", NAME),
    #: Of a build: the host that may claim it, then the alternates (``Place``); empty before a host is chosen. NULL for a
    #: row that is not placed, or that a conductor without this column has placed.
    sa.Column("chosen", HeldJSON),
    sa.Column("launched_on", NAME),
    sa.Column("availability_zone", NAME),
    sa.Column("instance_type_id", sa.Integer),
    sa.Column("flavor_name", NAME),
    sa.Column("os_type", NAME),
    _number("vcpus"),
    _number("memory_mb"),
    _number("root_gb"),
    _number("ephemeral_gb"),
    _number("swap_mb"),
    _number("claimed_vcpus"),
    _number("claimed_memory_mb"),
    _number("claimed_disk_gb"),
    sa.Column("claimed_numa_topology", HeldJSON),
    sa.Column("claimed_pci_devices", HeldJSON),
    #: Changes of a resize to the spec of the request: flavor, numa_topology, pci_requests.
    sa.Column("resized_spec", HeldJSON),
    #: Changes of a user to the spec of the request: description, metadata, tags.
    sa.Column("details", HeldJSON),
    sa.Column("request_id", NAME),
    sa.Column("launched_at", Timestamp),
    sa.Column("terminated_at", Timestamp),
    *_tracked(),
    sa.Index(None, "host", "node"),
    sa.Index(None, "vm_state", "task_state"),
    sa.Index(None, "project_id", "deleted"),
    #: The order of lists.
    sa.Index(None, "created_at", "launch_index", "uuid"),
)

#: What queued builds (``fleet.states``) wait for, from when such a build is first queued until a later one cleans up.
queued_builds = sa.Table(
    "queued_builds",
    METADATA,
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), primary_key=True),
    sa.Column("queued_at", Timestamp, nullable=False),
    sa.Column("wait_until", Timestamp, nullable=False),
    #: When a conductor next acts on it; NULL while it is not queued.
    sa.Column("due_at", Timestamp, index=True),
    #: Of the newest refusal: its code, its sentence, what the nearest host lacks, and the generation that it knew.
    sa.Column("reason", sa.String(32), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("lacks", sa.Text),
    #: The host that lacks the least, if it could take the build when it is emptier.
    sa.Column("nearest", NAME),
    _generation("refused_generation"),
    #: Whether no pass of the room queue has seen it since.
    sa.Column("fresh", sa.Boolean, nullable=False, default=True, server_default=sa.true(), index=True),
    #: Whether freed room could help, or only another host or aggregate; and the room that filters have tested.
    sa.Column("by_room", sa.Boolean, nullable=False, default=True, server_default=sa.true()),
    _number("need_vcpus"),
    _number("need_memory_mb"),
    _number("need_disk_gb"),
    #: Hash of what decides about hosts. The scheduler answers alike for builds of one shape.
    sa.Column("shape", sa.String(64), nullable=False, default="", server_default="", index=True),
    #: Whether all builds of the request that are queued must be placed together.
    sa.Column("together", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    #: How often in a row builds of the shape were woken in vain, and until when none is.
    _number("misses"),
    sa.Column("not_before", Timestamp),
    #: The node whose room has woken it, and after how many others in vain.
    sa.Column("woken_for", sa.BigInteger),
    _number("depth"),
)

#: One row: the generation up to which changes have woken queued builds. Its lock lets one conductor wake at a time.
#: ``kept_host`` takes no builds of other requests than ``kept_for``.
room_queue = sa.Table(
    "room_queue",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    _generation("generation"),
    sa.Column("looked_at", Timestamp, nullable=False),
    sa.Column("kept_host", NAME),
    sa.Column("kept_for", UUID),
)

#: When a build of each project was last woken, so that projects take turns.
queue_turns = sa.Table(
    "queue_turns",
    METADATA,
    sa.Column("project_id", NAME, primary_key=True),
    sa.Column("served_at", Timestamp, nullable=False),
)

#: Moves of instances (``fleet.move_states``). A record may hold a claim on ``held_host``, besides that of its instance.
migrations = sa.Table(
    "migrations",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), nullable=False, index=True),
    sa.Column("migration_type", sa.String(32), nullable=False),
    sa.Column("status", sa.String(32), nullable=False, index=True),
    _number("attempt"),
    sa.Column("source_compute", NAME, nullable=False),
    sa.Column("source_node", NAME, nullable=False),
    sa.Column("dest_compute", NAME),
    sa.Column("dest_node", NAME),
    #: Spec of the flavor before and after: flavor, numa_topology, pci_requests.
    sa.Column("old_spec", sa.JSON, nullable=False),
    sa.Column("new_spec", sa.JSON, nullable=False),
    #: The scheduler's answer: limits of the destination, and alternates; and (tried) hosts and nodes that failed.
    sa.Column("plan", sa.JSON, nullable=False),
    sa.Column("held_host", NAME),
    sa.Column("held_node", NAME),
    _number("claimed_vcpus"),
    _number("claimed_memory_mb"),
    _number("claimed_disk_gb"),
    sa.Column("claimed_numa_topology", HeldJSON),
    sa.Column("claimed_pci_devices", HeldJSON),
    #: Why the move failed or is being undone: error, message, details.
    sa.Column("failure", HeldJSON),
    sa.Column("deadline", Timestamp),
    sa.Column("step_deadline", Timestamp),
    sa.Column("request_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.Column("updated_at", Timestamp),
    sa.Index(None, "held_host", "held_node"),
)

instance_faults = sa.Table(
    "instance_faults",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), nullable=False, index=True),
    sa.Column("code", sa.Integer, nullable=False),
    sa.Column("error", sa.String(64), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("details", sa.JSON),
    sa.Column("host", NAME),
    sa.Column("request_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
)

instance_events = sa.Table(
    "instance_events",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), nullable=False, index=True),
    sa.Column("event", sa.String(32), nullable=False),
    _number("attempt"),
    sa.Column("host", NAME),
    sa.Column("node", NAME),
    #: Step in which an attempt failed.
    sa.Column("step", sa.String(32)),
    sa.Column("result", sa.String(64), nullable=False),
    sa.Column("message", sa.Text),
    sa.Column("duration_s", sa.Float),
    sa.Column("request_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
)

flavors = sa.Table(
    "flavors",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("flavorid", NAME, nullable=False, unique=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    _number("vcpus"),
    _number("memory_mb"),
    _number("root_gb"),
    _number("ephemeral_gb"),
    _number("swap"),
    sa.Column("extra_specs", sa.JSON, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
)

#: One row: the sizes that the fleet is asked for (``fleet.objects.flavor_mix``), faded until ``faded_until``. Instances are
#: counted until ``counted_until``; the generations are those of the last two counts.
flavor_mix = sa.Table(
    "flavor_mix",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("mix", sa.JSON, nullable=False),
    sa.Column("faded_until", Timestamp, nullable=False),
    sa.Column("counted_until", Timestamp, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("former_generation", sa.BigInteger, nullable=False),
)

aggregates = sa.Table(
    "aggregates",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", UUID, nullable=False),
    sa.Column("name", NAME, nullable=False, unique=True),
    *_tracked(),
)

aggregate_hosts = sa.Table(
    "aggregate_hosts",
    METADATA,
    sa.Column("aggregate_id", sa.ForeignKey("aggregates.id"), primary_key=True),
    sa.Column("host", NAME, primary_key=True),
)

aggregate_metadata = sa.Table(
    "aggregate_metadata",
    METADATA,
    sa.Column("aggregate_id", sa.ForeignKey("aggregates.id"), primary_key=True),
    sa.Column("key", NAME, primary_key=True),
    sa.Column("value", NAME, nullable=False),
)

instance_groups = sa.Table(
    "instance_groups",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False),
    sa.Column("policy", sa.String(32), nullable=False),
    sa.Column("max_server_per_host", sa.Integer, nullable=False, default=1),
    sa.Column("project_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.UniqueConstraint("project_id", "name"),
)

instance_group_members = sa.Table(
    "instance_group_members",
    METADATA,
    sa.Column("group_uuid", sa.ForeignKey("instance_groups.uuid"), primary_key=True),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), primary_key=True),
)

#: Pools of storage backends; ``host`` is the backend's name, ``machine@backend``. Capacities are in GiB, and NULL if the
#: backend reports "infinite" or "unknown". ``capabilities`` is the report as it was received.
storage_pools = sa.Table(
    "storage_pools",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("uuid", UUID, nullable=False),
    sa.Column("host", NAME, nullable=False),
    sa.Column("pool", NAME, nullable=False),
    sa.Column("availability_zone", NAME),
    sa.Column("volume_backend_name", NAME),
    sa.Column("total_capacity_gb", sa.Double),
    #: As reported, less what was claimed since.
    sa.Column("free_capacity_gb", sa.Double),
    #: Sum of what volumes claim.
    sa.Column("allocated_capacity_gb", sa.BigInteger, nullable=False, default=0, server_default="0"),
    #: The same, and what the storage holds for others.
    sa.Column("provisioned_capacity_gb", sa.Double, nullable=False, default=0.0, server_default="0"),
    _number("reserved_percentage"),
    #: "auto", a number, or NULL if the backend reports none.
    sa.Column("max_over_subscription_ratio", sa.String(32)),
    sa.Column("thin_provisioning_support", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("thick_provisioning_support", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    _number("total_volumes"),
    sa.Column("capabilities", sa.JSON, nullable=False),
    *_tracked(),
    sa.UniqueConstraint("host", "pool"),
)

#: Volumes and snapshots (``fleet.volume_states``). Each claims ``claimed_gb`` of the pool that ``host`` and ``pool`` name,
#: and ``held_gb`` of that of ``held_host`` and ``held_pool``.
volumes = sa.Table(
    "volumes",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, index=True),
    sa.Column("project_id", NAME),
    sa.Column("user_id", NAME),
    _number("size_gb"),
    #: Of a snapshot: its volume.
    sa.Column("snapshot_of", UUID, index=True),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("step", sa.String(32)),
    _number("attempt"),
    sa.Column("host", NAME),
    sa.Column("pool", NAME),
    _number("claimed_gb"),
    sa.Column("held_host", NAME),
    sa.Column("held_pool", NAME),
    _number("held_gb"),
    #: The zone that the request names.
    sa.Column("availability_zone", NAME),
    sa.Column("volume_type", NAME),
    #: The request, with the volume type inline.
    sa.Column("spec", sa.JSON, nullable=False),
    #: Alternates of the scheduler's answer, and (tried) pools that failed. Of a migration: the backend or pool that was
    #: named (to), and where the source's data are (copy_from).
    sa.Column("plan", sa.JSON, nullable=False),
    #: Why the volume is in error: error, message, details.
    sa.Column("failure", HeldJSON),
    sa.Column("deadline", Timestamp),
    sa.Column("step_deadline", Timestamp, index=True),
    sa.Column("request_id", NAME),
    *_tracked(),
    sa.Index(None, "host", "pool"),
    sa.Index(None, "held_host", "held_pool"),
    sa.Index(None, "project_id", "deleted"),
)

#: Volumes that guests have, or are to get or lose: a row is removed when its volume is available again. ``connection`` says
#: where the data of the volume are. A volume has at most one row, and a guest one disk of a name.
volume_attachments = sa.Table(
    "volume_attachments",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("volume_uuid", sa.ForeignKey("volumes.uuid"), nullable=False, unique=True),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), nullable=False),
    sa.Column("device", sa.String(32), nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    _number("attempt"),
    sa.Column("connection", sa.JSON, nullable=False),
    #: NULL while a volume that could not be attached is detached again: that goes on until the host has done it.
    sa.Column("deadline", Timestamp),
    sa.Column("step_deadline", Timestamp, index=True),
    sa.Column("request_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.UniqueConstraint("instance_uuid", "device"),
)

#: What happened to volumes and snapshots (``fleet.db.volumes.volume_history``).
volume_events = sa.Table(
    "volume_events",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("volume_uuid", sa.ForeignKey("volumes.uuid"), nullable=False, index=True),
    sa.Column("event", sa.String(32), nullable=False),
    _number("attempt"),
    sa.Column("host", NAME),
    sa.Column("pool", NAME),
    #: Step that ended.
    sa.Column("step", sa.String(32)),
    sa.Column("result", sa.String(64), nullable=False),
    sa.Column("message", sa.Text),
    sa.Column("duration_s", sa.Float),
    sa.Column("request_id", NAME, index=True),
    sa.Column("created_at", Timestamp, nullable=False),
)

#: Volumes of requests that have a client token; ``number`` is their order. ``fingerprint``: as of build_requests.
volume_requests = sa.Table(
    "volume_requests",
    METADATA,
    sa.Column("volume_uuid", sa.ForeignKey("volumes.uuid"), primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("project_id", NAME, nullable=False, server_default=""),
    sa.Column("client_token", sa.String(64), nullable=False),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Index(None, "project_id", "client_token", "number", unique=True),
)

volume_types = sa.Table(
    "volume_types",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("description", NAME),
    sa.Column("extra_specs", sa.JSON, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
)

images = sa.Table(
    "images",
    METADATA,
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("location", sa.Text, nullable=False),
    sa.Column("checksum", sa.String(255), nullable=False),
    sa.Column("disk_format", sa.String(32), nullable=False),
    sa.Column("min_ram", sa.Integer, nullable=False),
    sa.Column("min_disk", sa.Integer, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("properties", sa.JSON, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
)

#: Limits that projects have of their own; NULL stands for the default. The lock of a row lets one transaction at a time
#: take what its project may have (``fleet.db.catalog.quotas``).
quotas = sa.Table(
    "quotas",
    METADATA,
    sa.Column("project_id", NAME, primary_key=True),
    *(
        sa.Column(name, sa.Integer)
        for name in ("instances", "cores", "ram", "server_groups", "volumes", "gigabytes", "local_gb")
    ),
)

#: Public keys by project and user; the empty text is one that is not known.
project_key_pairs = sa.Table(
    "project_key_pairs",
    METADATA,
    sa.Column("project_id", NAME, primary_key=True),
    sa.Column("user_id", NAME, primary_key=True),
    sa.Column("name", NAME, primary_key=True),
    sa.Column("public_key", sa.Text, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
)

#: Those of conductors of earlier releases, by user only. This release does not read them.
key_pairs = sa.Table(
    "key_pairs",
    METADATA,
    sa.Column("user_id", NAME, primary_key=True),
    sa.Column("name", NAME, primary_key=True),
    sa.Column("public_key", sa.Text, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
)

#: What the instances of a request find at their first boot, if it named anything. User data may have secrets, so they are
#: not in the request, which schedulers and operators read.
boot_data = sa.Table(
    "boot_data",
    METADATA,
    sa.Column("reservation_id", sa.ForeignKey("build_requests.reservation_id"), primary_key=True),
    sa.Column("key_name", NAME, nullable=False),
    sa.Column("public_key", sa.Text),
    sa.Column("user_data", sa.Text, nullable=False),
)

#: Signatures of messages until they expire (see ``fleet.rpc.trust.replay_protection``).
taken_signatures = sa.Table(
    "taken_signatures",
    METADATA,
    sa.Column("signature", sa.String(64), primary_key=True),
    sa.Column("good_until", Timestamp, nullable=False, index=True),
)
