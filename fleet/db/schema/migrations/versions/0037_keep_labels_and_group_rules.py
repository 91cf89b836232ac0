# SPDX-License-Identifier: Apache-2.0
"""Keep labels of hosts, and rules of server groups over them.

Hosts and groups of earlier releases have none.

Revision ID: 0037
Revises: 0036
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("compute_nodes") as batch_op:
        batch_op.add_column(sa.Column("labels", sa.JSON(none_as_null=True), nullable=True))
    with op.batch_alter_table("instance_groups") as batch_op:
        batch_op.add_column(sa.Column("rules", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("instance_groups") as batch_op:
        batch_op.drop_column("rules")
    with op.batch_alter_table("compute_nodes") as batch_op:
        batch_op.drop_column("labels")
