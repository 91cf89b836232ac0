# SPDX-License-Identifier: Apache-2.0
"""Keep key pairs of users, and what instances find at their first boot.

Revision ID: 0025
Revises: 0024
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "key_pairs",
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "name", name=op.f("pk_key_pairs")),
    )
    op.create_table(
        "boot_data",
        sa.Column("reservation_id", sa.String(length=36), nullable=False),
        sa.Column("key_name", sa.String(length=255), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=True),
        sa.Column("user_data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["reservation_id"], ["build_requests.reservation_id"], name=op.f("fk_boot_data_reservation_id")
        ),
        sa.PrimaryKeyConstraint("reservation_id", name=op.f("pk_boot_data")),
    )


def downgrade() -> None:
    op.drop_table("boot_data")
    op.drop_table("key_pairs")
