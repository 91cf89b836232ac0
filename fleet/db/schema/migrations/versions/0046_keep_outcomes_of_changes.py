# SPDX-License-Identifier: Apache-2.0
"""Keep the outcomes of changes for some minutes, so that a further copy of a message gets the first answer.

Revision ID: 0046
Revises: 0045
"""

import sqlalchemy as sa
from alembic import op

from fleet.db.tables.base import Timestamp

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "message_outcomes",
        sa.Column("message", sa.String(length=64), nullable=False),
        sa.Column("holder", sa.String(length=36), nullable=False),
        sa.Column("outcome", sa.Text()),
        sa.Column("good_until", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("message", name=op.f("pk_message_outcomes")),
    )
    op.create_index(op.f("ix_message_outcomes_good_until"), "message_outcomes", ["good_until"])
