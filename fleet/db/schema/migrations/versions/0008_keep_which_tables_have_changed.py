# SPDX-License-Identifier: Apache-2.0
"""Keep, beside the newest generation, the newest one that changed each table: readers need not look for it in each.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("generations", schema=None) as batch_op:
        for name in ("services", "aggregates", "instances", "noted"):
            batch_op.add_column(sa.Column(name, sa.BigInteger(), server_default="0", nullable=False))
