# SPDX-License-Identifier: Apache-2.0
"""Keep the signatures of messages that were taken, so that a repeated message is refused by every conductor.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "taken_signatures",
        sa.Column("signature", sa.String(64), nullable=False),
        sa.Column("good_until", sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb"), nullable=False),
        sa.PrimaryKeyConstraint("signature"),
    )
    op.create_index("ix_taken_signatures_good_until", "taken_signatures", ["good_until"])
