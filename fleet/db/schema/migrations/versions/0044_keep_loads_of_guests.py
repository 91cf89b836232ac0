# SPDX-License-Identifier: Apache-2.0
"""Keep the measured loads of guests, which balancing reads.

Revision ID: 0044
Revises: 0043
"""

import sqlalchemy as sa
from alembic import op

from fleet.db.tables.base import BigId, Timestamp

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "guest_loads",
        sa.Column("id", BigId, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("loads", sa.JSON(), nullable=False),
        sa.Column("measured_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_guest_loads")),
        sa.UniqueConstraint("host", "node", name=op.f("uq_guest_loads_host_node")),
    )
    op.create_index(op.f("ix_guest_loads_measured_at"), "guest_loads", ["measured_at"])
