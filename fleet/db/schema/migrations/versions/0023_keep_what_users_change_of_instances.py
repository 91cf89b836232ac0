# SPDX-License-Identifier: Apache-2.0
"""Keep what users change of instances: description, metadata and tags.

Revision ID: 0023
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("instances") as batch_op:
        batch_op.add_column(sa.Column("details", sa.JSON(none_as_null=True), nullable=True))
