# SPDX-License-Identifier: Apache-2.0
"""Keep storage pools, volumes and volume types, and the newest generation that changed a volume.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def _tracked() -> list[sa.Column[object]]:
    return [
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.Column("deleted_at", Timestamp, nullable=True),
        sa.Column("deleted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
    ]


def upgrade() -> None:
    with op.batch_alter_table("generations", schema=None) as batch_op:
        batch_op.add_column(sa.Column("volumes", sa.BigInteger(), server_default="0", nullable=False))
    op.create_table(
        "storage_pools",
        sa.Column("id", BigId, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pool", sa.String(length=255), nullable=False),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("volume_backend_name", sa.String(length=255), nullable=True),
        sa.Column("total_capacity_gb", sa.Double(), nullable=True),
        sa.Column("free_capacity_gb", sa.Double(), nullable=True),
        sa.Column("allocated_capacity_gb", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("provisioned_capacity_gb", sa.Double(), server_default="0", nullable=False),
        sa.Column("reserved_percentage", sa.Integer(), server_default="0", nullable=False),
        sa.Column("max_over_subscription_ratio", sa.String(length=32), nullable=True),
        sa.Column("thin_provisioning_support", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("thick_provisioning_support", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("total_volumes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("capabilities", sa.JSON(), nullable=False),
        *_tracked(),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_storage_pools")),
        sa.UniqueConstraint("host", "pool", name=op.f("uq_storage_pools_host_pool")),
    )
    op.create_table(
        "volumes",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=True),
        sa.Column("user_id", sa.String(length=255), nullable=True),
        sa.Column("size_gb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("step", sa.String(length=32), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("pool", sa.String(length=255), nullable=True),
        sa.Column("claimed_gb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("volume_type", sa.String(length=255), nullable=True),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("failure", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("deadline", Timestamp, nullable=True),
        sa.Column("step_deadline", Timestamp, nullable=True),
        sa.Column("request_id", sa.String(length=255), nullable=True),
        *_tracked(),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_volumes")),
    )
    op.create_table(
        "volume_types",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("extra_specs", sa.JSON(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_types")),
        sa.UniqueConstraint("name", name=op.f("uq_volume_types_name")),
    )
    op.create_index("ix_storage_pools_generation", "storage_pools", ["generation"])
    op.create_index("ix_volumes_generation", "volumes", ["generation"])
    op.create_index("ix_volumes_name", "volumes", ["name"])
    op.create_index("ix_volumes_step_deadline", "volumes", ["step_deadline"])
    op.create_index("ix_volumes_host_pool", "volumes", ["host", "pool"])
