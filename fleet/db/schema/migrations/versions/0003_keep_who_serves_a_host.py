# SPDX-License-Identifier: Apache-2.0
"""Keep the identity of the agent that serves a host, and the step in which an attempt failed.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("services", schema=None) as batch_op:
        batch_op.add_column(sa.Column("identity", sa.String(length=36), nullable=True))
    with op.batch_alter_table("instance_events", schema=None) as batch_op:
        batch_op.add_column(sa.Column("step", sa.String(length=32), nullable=True))
