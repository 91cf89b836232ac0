# SPDX-License-Identifier: Apache-2.0
"""Keep the password of a guest, and what an instance finds at the first boot after a rebuild.

Revision ID: 0035
Revises: 0034
"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("boot_data") as batch_op:
        batch_op.add_column(sa.Column("admin_password", sa.String(255), nullable=True))
    op.create_table(
        "rebuilt_boot_data",
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("key_name", sa.String(length=255), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=True),
        sa.Column("user_data", sa.Text(), nullable=False),
        sa.Column("admin_password", sa.String(255), nullable=True),
        sa.ForeignKeyConstraint(["instance_uuid"], ["instances.uuid"], name=op.f("fk_rebuilt_boot_data_instance_uuid")),
        sa.PrimaryKeyConstraint("instance_uuid", name=op.f("pk_rebuilt_boot_data")),
    )
