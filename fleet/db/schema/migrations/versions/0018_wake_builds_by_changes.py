# SPDX-License-Identifier: Apache-2.0
"""Keep what could help each queued build, and how far changes have been looked at.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_NUMBERS = ("need_vcpus", "need_memory_mb", "need_disk_gb", "misses", "depth")


def upgrade() -> None:
    with op.batch_alter_table("queued_builds", schema=None) as batch_op:
        batch_op.add_column(sa.Column("lacks", sa.Text(), nullable=True))
        batch_op.add_column(sa.Column("refused_generation", sa.BigInteger(), server_default="0", nullable=False))
        batch_op.add_column(sa.Column("fresh", sa.Boolean(), server_default=sa.true(), nullable=False))
        batch_op.add_column(sa.Column("by_room", sa.Boolean(), server_default=sa.true(), nullable=False))
        for name in _NUMBERS:
            batch_op.add_column(sa.Column(name, sa.Integer(), server_default="0", nullable=False))
        batch_op.add_column(sa.Column("shape", sa.String(64), server_default="", nullable=False))
        batch_op.add_column(sa.Column("together", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.add_column(sa.Column("not_before", Timestamp, nullable=True))
        batch_op.add_column(sa.Column("woken_for", sa.BigInteger(), nullable=True))
        batch_op.create_index(op.f("ix_queued_builds_fresh"), ["fresh"])
        batch_op.create_index(op.f("ix_queued_builds_shape"), ["shape"])
    op.create_table(
        "room_queue",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("looked_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_room_queue")),
    )
    op.create_table(
        "queue_turns",
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("served_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_queue_turns")),
    )
