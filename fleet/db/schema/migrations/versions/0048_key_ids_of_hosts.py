# SPDX-License-Identifier: Apache-2.0
"""Keep a random key for the ids of hosts, so that nobody can guess a host's name and confirm it by its id.

Revision ID: 0048
Revises: 0047
"""

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("generations") as batch_op:
        batch_op.add_column(sa.Column("host_key", sa.String(64), nullable=True))
