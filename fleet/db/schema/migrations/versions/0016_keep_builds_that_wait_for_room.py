# SPDX-License-Identifier: Apache-2.0
"""Keep what builds wait for that no host has room for.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "queued_builds",
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("queued_at", Timestamp, nullable=False),
        sa.Column("wait_until", Timestamp, nullable=False),
        sa.Column("due_at", Timestamp, nullable=True),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["instance_uuid"], ["instances.uuid"], name=op.f("fk_queued_builds_instance_uuid")),
        sa.PrimaryKeyConstraint("instance_uuid", name=op.f("pk_queued_builds")),
    )
    op.create_index(op.f("ix_queued_builds_due_at"), "queued_builds", ["due_at"])
