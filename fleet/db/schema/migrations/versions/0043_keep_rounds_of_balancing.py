# SPDX-License-Identifier: Apache-2.0
"""Keep what conductors have seen and done to balance aggregates.

Revision ID: 0043
Revises: 0042
"""

import sqlalchemy as sa
from alembic import op

from fleet.db.tables.base import BigId, Timestamp

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "balances",
        sa.Column("aggregate", sa.String(length=255), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("looked_at", Timestamp, nullable=True),
        sa.Column("hot_since", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("aggregate", name=op.f("pk_balances")),
    )
    op.create_table(
        "balance_rounds",
        sa.Column("id", BigId, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("aggregate", sa.String(length=255), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("seen", sa.JSON(), nullable=False),
        sa.Column("moves", sa.JSON(), nullable=False),
        sa.Column("not_done", sa.JSON(), nullable=False),
        sa.Column("after", sa.Float(), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("seen_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_balance_rounds")),
        sa.UniqueConstraint("uuid", name=op.f("uq_balance_rounds_uuid")),
    )
    op.create_index(op.f("ix_balance_rounds_aggregate"), "balance_rounds", ["aggregate"])
    op.create_index(op.f("ix_balance_rounds_ended_at"), "balance_rounds", ["ended_at"])
