# SPDX-License-Identifier: Apache-2.0
"""Keep what happened to volumes.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "volume_events",
        sa.Column("id", BigId, nullable=False),
        sa.Column("volume_uuid", sa.String(36), nullable=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("host", sa.String(255), nullable=True),
        sa.Column("pool", sa.String(255), nullable=True),
        sa.Column("step", sa.String(32), nullable=True),
        sa.Column("result", sa.String(64), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("duration_s", sa.Float(), nullable=True),
        sa.Column("request_id", sa.String(255), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(["volume_uuid"], ["volumes.uuid"], name=op.f("fk_volume_events_volume_uuid")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_events")),
    )
    op.create_index(op.f("ix_volume_events_volume_uuid"), "volume_events", ["volume_uuid"])
    op.create_index(op.f("ix_volume_events_request_id"), "volume_events", ["request_id"])
