# SPDX-License-Identifier: Apache-2.0
"""Give the ledger an identity, so that a process can refuse messages about another database.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op
from oslo_utils import uuidutils

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("generations", schema=None) as batch_op:
        batch_op.add_column(sa.Column("ledger", sa.String(36), nullable=True))
    name = sa.text("UPDATE generations SET ledger = :uuid WHERE id = 1")
    op.execute(name.bindparams(uuid=uuidutils.generate_uuid()))
