# SPDX-License-Identifier: Apache-2.0
"""Let each project name its server groups as it likes.

Revision ID: 0028
Revises: 0027
"""

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("instance_groups") as batch_op:
        batch_op.drop_constraint("uq_instance_groups_name", type_="unique")
        batch_op.create_unique_constraint("uq_instance_groups_project_id_name", ["project_id", "name"])


def downgrade() -> None:
    """Fails if two projects have groups of the same name."""
    with op.batch_alter_table("instance_groups") as batch_op:
        batch_op.drop_constraint("uq_instance_groups_project_id_name", type_="unique")
        batch_op.create_unique_constraint("uq_instance_groups_name", ["name"])
