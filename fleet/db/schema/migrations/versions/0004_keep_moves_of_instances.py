# SPDX-License-Identifier: Apache-2.0
"""Keep the migration records of resizes and evacuations, and what a resize has changed of an instance's request.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("instances", schema=None) as batch_op:
        batch_op.add_column(sa.Column("resized_spec", sa.JSON(none_as_null=True), nullable=True))
    op.create_table(
        "migrations",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("migration_type", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("source_compute", sa.String(length=255), nullable=False),
        sa.Column("source_node", sa.String(length=255), nullable=False),
        sa.Column("dest_compute", sa.String(length=255), nullable=True),
        sa.Column("dest_node", sa.String(length=255), nullable=True),
        sa.Column("old_spec", sa.JSON(), nullable=False),
        sa.Column("new_spec", sa.JSON(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("held_host", sa.String(length=255), nullable=True),
        sa.Column("held_node", sa.String(length=255), nullable=True),
        sa.Column("claimed_vcpus", sa.Integer(), server_default="0", nullable=False),
        sa.Column("claimed_memory_mb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("claimed_disk_gb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("claimed_numa_topology", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("claimed_pci_devices", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("failure", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("deadline", Timestamp, nullable=True),
        sa.Column("step_deadline", Timestamp, nullable=True),
        sa.Column("request_id", sa.String(length=255), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(["instance_uuid"], ["instances.uuid"], name=op.f("fk_migrations_instance_uuid")),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_migrations")),
    )
    with op.batch_alter_table("migrations", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_migrations_instance_uuid"), ["instance_uuid"], unique=False)
        batch_op.create_index(batch_op.f("ix_migrations_status"), ["status"], unique=False)
        batch_op.create_index(batch_op.f("ix_migrations_held_host_held_node"), ["held_host", "held_node"], unique=False)
