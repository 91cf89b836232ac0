# SPDX-License-Identifier: Apache-2.0
"""List instances in the order of an index.

Revision ID: 0026
Revises: 0025
"""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("instances") as batch_op:
        batch_op.create_index("ix_instances_created_at_launch_index_uuid", ["created_at", "launch_index", "uuid"])
