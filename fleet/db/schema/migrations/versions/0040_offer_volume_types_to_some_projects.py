# SPDX-License-Identifier: Apache-2.0
"""Offer volume types to some projects only. All that are there already stay public.

Revision ID: 0040
Revises: 0039
"""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("volume_types") as batch_op:
        batch_op.add_column(sa.Column("is_public", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.create_table(
        "volume_type_projects",
        sa.Column("type_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["type_id"], ["volume_types.id"], name=op.f("fk_volume_type_projects_type_id")),
        sa.PrimaryKeyConstraint("type_id", "project_id", name=op.f("pk_volume_type_projects")),
    )
