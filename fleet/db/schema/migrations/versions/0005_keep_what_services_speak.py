# SPDX-License-Identifier: Apache-2.0
"""Keep which version of its API a service speaks, and of which release it is.

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
    with op.batch_alter_table("services", schema=None) as batch_op:
        batch_op.add_column(sa.Column("rpc_version", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("release", sa.String(length=64), nullable=True))
