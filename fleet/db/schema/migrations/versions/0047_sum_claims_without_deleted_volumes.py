# SPDX-License-Identifier: Apache-2.0
"""Sum what volumes claim of a pool by an index that leaves out deleted ones, whose rows keep their last pool.

Revision ID: 0047
Revises: 0046
"""

from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("volumes") as batch_op:
        batch_op.create_index("ix_volumes_host_pool_deleted", ["host", "pool", "deleted"])
        batch_op.drop_index("ix_volumes_host_pool")
