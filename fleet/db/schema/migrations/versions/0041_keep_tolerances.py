# SPDX-License-Identifier: Apache-2.0
"""Keep what the fleet, a zone or an aggregate promises to survive.

Revision ID: 0041
Revises: 0040
"""

import sqlalchemy as sa
from alembic import op

from fleet.db.tables.base import BigId, Timestamp

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tolerances",
        sa.Column("id", BigId, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("label", sa.String(length=63), nullable=True),
        sa.Column("policy", sa.String(length=8), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tolerances")),
        sa.UniqueConstraint("kind", "name", name=op.f("uq_tolerances_kind_name")),
    )
