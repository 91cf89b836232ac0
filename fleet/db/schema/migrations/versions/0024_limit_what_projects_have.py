# SPDX-License-Identifier: Apache-2.0
"""Limit what projects have.

Revision ID: 0024
Revises: 0023
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "quotas",
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("instances", sa.Integer(), nullable=True),
        sa.Column("cores", sa.Integer(), nullable=True),
        sa.Column("ram", sa.Integer(), nullable=True),
        sa.Column("server_groups", sa.Integer(), nullable=True),
        sa.Column("volumes", sa.Integer(), nullable=True),
        sa.Column("gigabytes", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_quotas")),
    )
    for table in ("instances", "volumes"):
        op.create_index(op.f(f"ix_{table}_project_id_deleted"), table, ["project_id", "deleted"])


def downgrade() -> None:
    for table in ("volumes", "instances"):
        op.drop_index(op.f(f"ix_{table}_project_id_deleted"), table)
    op.drop_table("quotas")
