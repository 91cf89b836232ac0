# SPDX-License-Identifier: Apache-2.0
"""Keep how often the fleet is asked for each size of instance.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "flavor_mix",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("mix", sa.JSON(), nullable=False),
        sa.Column("faded_until", Timestamp, nullable=False),
        sa.Column("counted_until", Timestamp, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("former_generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flavor_mix")),
    )
