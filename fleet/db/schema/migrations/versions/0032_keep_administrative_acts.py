# SPDX-License-Identifier: Apache-2.0
"""Keep administrative acts.

Revision ID: 0032
Revises: 0031
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "administrative_acts",
        sa.Column("id", BigId, nullable=False),
        sa.Column("act_key", sa.String(36), nullable=False),
        sa.Column("act", sa.String(64), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("changes", sa.JSON(), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=True),
        sa.Column("project_id", sa.String(255), nullable=True),
        sa.Column("request_id", sa.String(255), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_administrative_acts")),
        sa.UniqueConstraint("act_key", name=op.f("uq_administrative_acts_act_key")),
    )
    op.create_index(op.f("ix_administrative_acts_created_at"), "administrative_acts", ["created_at"])


def downgrade() -> None:
    op.drop_table("administrative_acts")
