# SPDX-License-Identifier: Apache-2.0
"""Keep which volumes guests have.

Revision ID: 0027
Revises: 0026
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "volume_attachments",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("volume_uuid", sa.String(length=36), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("device", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("connection", sa.JSON(), nullable=False),
        sa.Column("deadline", Timestamp, nullable=True),
        sa.Column("step_deadline", Timestamp, nullable=True),
        sa.Column("request_id", sa.String(length=255), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(["volume_uuid"], ["volumes.uuid"], name=op.f("fk_volume_attachments_volume_uuid")),
        sa.ForeignKeyConstraint(
            ["instance_uuid"], ["instances.uuid"], name=op.f("fk_volume_attachments_instance_uuid")
        ),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_volume_attachments")),
        sa.UniqueConstraint("volume_uuid", name=op.f("uq_volume_attachments_volume_uuid")),
        sa.UniqueConstraint("instance_uuid", "device", name=op.f("uq_volume_attachments_instance_uuid_device")),
    )
    op.create_index(op.f("ix_volume_attachments_step_deadline"), "volume_attachments", ["step_deadline"])


def downgrade() -> None:
    op.drop_table("volume_attachments")
