# SPDX-License-Identifier: Apache-2.0
"""Keep snapshots among the volumes.

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("volumes", schema=None) as batch_op:
        batch_op.add_column(sa.Column("snapshot_of", sa.String(length=36), nullable=True))
        batch_op.create_index("ix_volumes_snapshot_of", ["snapshot_of"])


def downgrade() -> None:
    with op.batch_alter_table("volumes", schema=None) as batch_op:
        batch_op.drop_index("ix_volumes_snapshot_of")
        batch_op.drop_column("snapshot_of")
