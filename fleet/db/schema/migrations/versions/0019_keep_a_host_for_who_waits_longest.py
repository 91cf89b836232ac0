# SPDX-License-Identifier: Apache-2.0
"""Keep one host for the build that has waited longest.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("queued_builds", schema=None) as batch_op:
        batch_op.add_column(sa.Column("nearest", sa.String(255), nullable=True))
    with op.batch_alter_table("room_queue", schema=None) as batch_op:
        batch_op.add_column(sa.Column("kept_host", sa.String(255), nullable=True))
        batch_op.add_column(sa.Column("kept_for", sa.String(36), nullable=True))
