# SPDX-License-Identifier: Apache-2.0
"""Keep what is known of a shelved instance that has given its host back.

Revision ID: 0038
Revises: 0037
"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("instances") as batch_op:
        batch_op.add_column(sa.Column("shelved", sa.JSON(none_as_null=True), nullable=True))
        batch_op.add_column(sa.Column("earlier_attempts", sa.Integer(), nullable=False, server_default="0"))
