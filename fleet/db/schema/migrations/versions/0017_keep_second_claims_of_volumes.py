# SPDX-License-Identifier: Apache-2.0
"""Keep the claim that a volume has on a second pool while it migrates.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("volumes", schema=None) as batch_op:
        batch_op.add_column(sa.Column("held_host", sa.String(length=255), nullable=True))
        batch_op.add_column(sa.Column("held_pool", sa.String(length=255), nullable=True))
        batch_op.add_column(sa.Column("held_gb", sa.Integer(), server_default="0", nullable=False))
        batch_op.create_index("ix_volumes_held_host_held_pool", ["held_host", "held_pool"])


def downgrade() -> None:
    with op.batch_alter_table("volumes", schema=None) as batch_op:
        batch_op.drop_index("ix_volumes_held_host_held_pool")
        batch_op.drop_column("held_gb")
        batch_op.drop_column("held_pool")
        batch_op.drop_column("held_host")
