# SPDX-License-Identifier: Apache-2.0
"""Keep the client tokens of requests for volumes.

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "volume_requests",
        sa.Column("volume_uuid", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(255), server_default="", nullable=False),
        sa.Column("client_token", sa.String(64), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(["volume_uuid"], ["volumes.uuid"], name=op.f("fk_volume_requests_volume_uuid")),
        sa.PrimaryKeyConstraint("volume_uuid", name=op.f("pk_volume_requests")),
    )
    columns = ["project_id", "client_token", "number"]
    op.create_index(op.f("ix_volume_requests_project_id_client_token_number"), "volume_requests", columns, unique=True)
