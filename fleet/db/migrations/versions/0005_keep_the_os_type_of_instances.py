# SPDX-License-Identifier: Apache-2.0
"""Keep the operating system that an instance's image names, for the statistics of its host.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("instances", schema=None) as batch_op:
        batch_op.add_column(sa.Column("os_type", sa.String(length=255), nullable=True))
