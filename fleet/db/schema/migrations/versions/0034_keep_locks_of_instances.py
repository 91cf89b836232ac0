# SPDX-License-Identifier: Apache-2.0
"""Keep locks of instances: who has locked one, and why.

Revision ID: 0034
Revises: 0033
"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("instances") as batch_op:
        batch_op.add_column(sa.Column("locked_by", sa.String(8), nullable=True))
        batch_op.add_column(sa.Column("locked_reason", sa.String(255), nullable=True))
