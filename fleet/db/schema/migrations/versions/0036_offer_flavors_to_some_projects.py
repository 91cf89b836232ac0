# SPDX-License-Identifier: Apache-2.0
"""Offer flavors to some projects only, describe them, and let groups of a project share a name.

All that are there already stay public. Groups keep no user of earlier releases.

Revision ID: 0036
Revises: 0035
"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("flavors") as batch_op:
        batch_op.add_column(sa.Column("is_public", sa.Boolean(), nullable=False, server_default=sa.true()))
        batch_op.add_column(sa.Column("description", sa.Text(), nullable=True))
    op.create_table(
        "flavor_projects",
        sa.Column("flavor_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["flavor_id"], ["flavors.id"], name=op.f("fk_flavor_projects_flavor_id")),
        sa.PrimaryKeyConstraint("flavor_id", "project_id", name=op.f("pk_flavor_projects")),
    )
    with op.batch_alter_table("instance_groups") as batch_op:
        batch_op.add_column(sa.Column("user_id", sa.String(length=255), nullable=True))
        batch_op.drop_constraint("uq_instance_groups_project_id_name", type_="unique")
        batch_op.create_index("ix_instance_groups_project_id_name", ["project_id", "name"])
