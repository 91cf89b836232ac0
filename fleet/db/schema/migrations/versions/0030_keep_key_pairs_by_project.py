# SPDX-License-Identifier: Apache-2.0
"""Keep key pairs by project and user.

A pair of a user is copied to each project in which the user has built something, and to those without a project, which only
the administrator sees. Conductors of earlier releases go on with the table ``key_pairs``.

Revision ID: 0030
Revises: 0029
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_COPY = """
INSERT INTO project_key_pairs (project_id, user_id, name, public_key, created_at)
SELECT members.project_id, key_pairs.user_id, key_pairs.name, key_pairs.public_key, key_pairs.created_at
FROM key_pairs JOIN (
    SELECT project_id, user_id FROM instances WHERE project_id <> ''
    UNION SELECT project_id, user_id FROM volumes WHERE project_id <> ''
) AS members ON members.user_id = key_pairs.user_id
"""
_COPY_TO_NO_PROJECT = """
INSERT INTO project_key_pairs (project_id, user_id, name, public_key, created_at)
SELECT '', user_id, name, public_key, created_at FROM key_pairs
"""


def upgrade() -> None:
    op.create_table(
        "project_key_pairs",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "user_id", "name", name=op.f("pk_project_key_pairs")),
    )
    op.execute(_COPY)
    op.execute(_COPY_TO_NO_PROJECT)


def downgrade() -> None:
    op.drop_table("project_key_pairs")
