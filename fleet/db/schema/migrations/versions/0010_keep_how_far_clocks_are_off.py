# SPDX-License-Identifier: Apache-2.0
"""Keep how far the clock of each service's machine is off the database's, for those who look for the wrong one.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("services", schema=None) as batch_op:
        batch_op.add_column(sa.Column("clock_skew_s", sa.Float(), server_default="0", nullable=False))
