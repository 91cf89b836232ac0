# SPDX-License-Identifier: Apache-2.0
"""Keep the operating system that an instance's image names, for the statistics of its host.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("instances", schema=None) as batch_op:
        batch_op.add_column(sa.Column("os_type", sa.String(length=255), nullable=True))
