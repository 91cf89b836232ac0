# SPDX-License-Identifier: Apache-2.0
"""Keep records of images.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "images",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("checksum", sa.String(length=255), nullable=False),
        sa.Column("disk_format", sa.String(length=32), nullable=False),
        sa.Column("min_ram", sa.Integer(), nullable=False),
        sa.Column("min_disk", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("properties", sa.JSON(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_images")),
        sa.UniqueConstraint("name", name=op.f("uq_images_name")),
    )


def downgrade() -> None:
    op.drop_table("images")
