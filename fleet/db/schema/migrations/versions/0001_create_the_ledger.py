# SPDX-License-Identifier: Apache-2.0
"""Create the ledger. Run by alembic, first of all."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "aggregates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.Column("deleted_at", Timestamp, nullable=True),
        sa.Column("deleted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregates")),
        sa.UniqueConstraint("name", name=op.f("uq_aggregates_name")),
    )
    with op.batch_alter_table("aggregates", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_aggregates_generation"), ["generation"], unique=False)

    op.create_table(
        "build_requests",
        sa.Column("reservation_id", sa.String(length=36), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("group_uuid", sa.String(length=36), nullable=True),
        sa.Column("request_id", sa.String(length=255), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("reservation_id", name=op.f("pk_build_requests")),
    )
    op.create_table(
        "compute_nodes",
        sa.Column("id", BigId, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("hypervisor_hostname", sa.String(length=255), nullable=False),
        sa.Column("vcpus", sa.Integer(), server_default="0", nullable=False),
        sa.Column("vcpus_used", sa.Integer(), server_default="0", nullable=False),
        sa.Column("memory_mb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("memory_mb_used", sa.Integer(), server_default="0", nullable=False),
        sa.Column("free_ram_mb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("local_gb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("local_gb_used", sa.Integer(), server_default="0", nullable=False),
        sa.Column("free_disk_gb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("disk_available_least", sa.Integer(), nullable=True),
        sa.Column("reserved_vcpus", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reserved_memory_mb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reserved_disk_gb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("orphaned_memory_mb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cpu_allocation_ratio", sa.Float(), nullable=False),
        sa.Column("ram_allocation_ratio", sa.Float(), nullable=False),
        sa.Column("disk_allocation_ratio", sa.Float(), nullable=False),
        sa.Column("running_vms", sa.Integer(), server_default="0", nullable=False),
        sa.Column("current_workload", sa.Integer(), server_default="0", nullable=False),
        sa.Column("io_workload", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failed_builds", sa.Integer(), server_default="0", nullable=False),
        sa.Column("hypervisor_type", sa.String(length=255), nullable=True),
        sa.Column("hypervisor_version", sa.Integer(), server_default="0", nullable=False),
        sa.Column("host_ip", sa.String(length=64), nullable=True),
        sa.Column("cpu_info", sa.Text(), nullable=True),
        sa.Column("supported_instances", sa.JSON(), nullable=True),
        sa.Column("numa_topology", sa.JSON(), nullable=True),
        sa.Column("pci_stats", sa.JSON(), nullable=True),
        sa.Column("metrics", sa.JSON(), nullable=True),
        sa.Column("stats", sa.JSON(), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.Column("deleted_at", Timestamp, nullable=True),
        sa.Column("deleted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_compute_nodes")),
        sa.UniqueConstraint("host", "hypervisor_hostname", name=op.f("uq_compute_nodes_host_hypervisor_hostname")),
    )
    with op.batch_alter_table("compute_nodes", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_compute_nodes_generation"), ["generation"], unique=False)

    op.create_table(
        "flavors",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("flavorid", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("vcpus", sa.Integer(), server_default="0", nullable=False),
        sa.Column("memory_mb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("root_gb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("ephemeral_gb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("swap", sa.Integer(), server_default="0", nullable=False),
        sa.Column("extra_specs", sa.JSON(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flavors")),
        sa.UniqueConstraint("flavorid", name=op.f("uq_flavors_flavorid")),
        sa.UniqueConstraint("name", name=op.f("uq_flavors_name")),
    )
    op.create_table(
        "generations",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_generations")),
    )
    op.create_table(
        "instance_groups",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("policy", sa.String(length=32), nullable=False),
        sa.Column("max_server_per_host", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_instance_groups")),
        sa.UniqueConstraint("name", name=op.f("uq_instance_groups_name")),
    )
    op.create_table(
        "services",
        sa.Column("id", BigId, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("binary", sa.String(length=255), nullable=False),
        sa.Column("topic", sa.String(length=255), nullable=False),
        sa.Column("report_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("disabled", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("disabled_reason", sa.String(length=255), nullable=True),
        sa.Column("forced_down", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("last_seen_up", Timestamp, nullable=True),
        sa.Column("incarnation", sa.String(length=64), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("hostname", sa.String(length=255), nullable=True),
        sa.Column("started_at", Timestamp, nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.Column("deleted_at", Timestamp, nullable=True),
        sa.Column("deleted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
        sa.UniqueConstraint("host", "binary", name=op.f("uq_services_host_binary")),
    )
    with op.batch_alter_table("services", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_services_generation"), ["generation"], unique=False)
        batch_op.create_index(batch_op.f("ix_services_last_seen_up"), ["last_seen_up"], unique=False)

    op.create_table(
        "aggregate_hosts",
        sa.Column("aggregate_id", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["aggregate_id"], ["aggregates.id"], name=op.f("fk_aggregate_hosts_aggregate_id")),
        sa.PrimaryKeyConstraint("aggregate_id", "host", name=op.f("pk_aggregate_hosts")),
    )
    op.create_table(
        "aggregate_metadata",
        sa.Column("aggregate_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("value", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["aggregate_id"], ["aggregates.id"], name=op.f("fk_aggregate_metadata_aggregate_id")),
        sa.PrimaryKeyConstraint("aggregate_id", "key", name=op.f("pk_aggregate_metadata")),
    )
    op.create_table(
        "instances",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("reservation_id", sa.String(length=36), nullable=False),
        sa.Column("launch_index", sa.Integer(), server_default="0", nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=True),
        sa.Column("user_id", sa.String(length=255), nullable=True),
        sa.Column("vm_state", sa.String(length=32), nullable=False),
        sa.Column("task_state", sa.String(length=32), nullable=True),
        sa.Column("power_state", sa.Integer(), server_default="0", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("deadline", Timestamp, nullable=True),
        sa.Column("step_deadline", Timestamp, nullable=True),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.Column("launched_on", sa.String(length=255), nullable=True),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("instance_type_id", sa.Integer(), nullable=True),
        sa.Column("flavor_name", sa.String(length=255), nullable=True),
        sa.Column("vcpus", sa.Integer(), server_default="0", nullable=False),
        sa.Column("memory_mb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("root_gb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("ephemeral_gb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("claimed_vcpus", sa.Integer(), server_default="0", nullable=False),
        sa.Column("claimed_memory_mb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("claimed_disk_gb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("request_id", sa.String(length=255), nullable=True),
        sa.Column("launched_at", Timestamp, nullable=True),
        sa.Column("terminated_at", Timestamp, nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.Column("deleted_at", Timestamp, nullable=True),
        sa.Column("deleted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["reservation_id"], ["build_requests.reservation_id"], name=op.f("fk_instances_reservation_id")
        ),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_instances")),
    )
    with op.batch_alter_table("instances", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_instances_generation"), ["generation"], unique=False)
        batch_op.create_index(batch_op.f("ix_instances_host_node"), ["host", "node"], unique=False)
        batch_op.create_index(batch_op.f("ix_instances_name"), ["name"], unique=False)
        batch_op.create_index(batch_op.f("ix_instances_reservation_id"), ["reservation_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_instances_vm_state_task_state"), ["vm_state", "task_state"], unique=False)

    op.create_table(
        "instance_events",
        sa.Column("id", BigId, nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("event", sa.String(length=32), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.Column("result", sa.String(length=64), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("duration_s", sa.Float(), nullable=True),
        sa.Column("request_id", sa.String(length=255), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(["instance_uuid"], ["instances.uuid"], name=op.f("fk_instance_events_instance_uuid")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance_events")),
    )
    with op.batch_alter_table("instance_events", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_instance_events_instance_uuid"), ["instance_uuid"], unique=False)

    op.create_table(
        "instance_faults",
        sa.Column("id", BigId, nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("code", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(length=64), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=True),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("request_id", sa.String(length=255), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(["instance_uuid"], ["instances.uuid"], name=op.f("fk_instance_faults_instance_uuid")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance_faults")),
    )
    with op.batch_alter_table("instance_faults", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_instance_faults_instance_uuid"), ["instance_uuid"], unique=False)

    op.create_table(
        "instance_group_members",
        sa.Column("group_uuid", sa.String(length=36), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_uuid"], ["instance_groups.uuid"], name=op.f("fk_instance_group_members_group_uuid")
        ),
        sa.ForeignKeyConstraint(
            ["instance_uuid"], ["instances.uuid"], name=op.f("fk_instance_group_members_instance_uuid")
        ),
        sa.PrimaryKeyConstraint("group_uuid", "instance_uuid", name=op.f("pk_instance_group_members")),
    )
    # Generation 0 means "nothing read yet", so the first real one is 1.
    op.execute("INSERT INTO generations (id, value) VALUES (1, 1)")
