# SPDX-License-Identifier: Apache-2.0
"""Keep whose a request is, and the token under which its client may repeat it.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("build_requests", schema=None) as batch_op:
        batch_op.add_column(sa.Column("project_id", sa.String(length=255), server_default="", nullable=False))
        batch_op.add_column(sa.Column("client_token", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("fingerprint", sa.String(length=64), nullable=True))
        batch_op.create_index(
            batch_op.f("ix_build_requests_project_id_client_token"), ["project_id", "client_token"], unique=True
        )
