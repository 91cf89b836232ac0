# SPDX-License-Identifier: Apache-2.0
"""Keep recoveries of hosts that are down, with their guests and steps, and how many hosts of a domain are silent.

Revision ID: 0039
Revises: 0038
"""

import sqlalchemy as sa
from alembic import op

from fleet.db.tables.base import BigId, Timestamp

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "recoveries",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("open_host", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("asked", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("attempt", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("lease", sa.String(length=36), nullable=True),
        sa.Column("lease_until", Timestamp, nullable=True),
        sa.Column("due_at", Timestamp, nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("silent_since", Timestamp, nullable=True),
        sa.Column("fenced_at", Timestamp, nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_recoveries")),
        sa.UniqueConstraint("open_host", name=op.f("uq_recoveries_open_host")),
    )
    op.create_index(op.f("ix_recoveries_host"), "recoveries", ["host"])
    op.create_index(op.f("ix_recoveries_status"), "recoveries", ["status"])
    op.create_table(
        "recovery_guests",
        sa.Column("id", BigId, nullable=False),
        sa.Column("recovery_uuid", sa.String(length=36), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("destination", sa.String(length=255), nullable=True),
        sa.Column("migration_uuid", sa.String(length=36), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("due_at", Timestamp, nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(["recovery_uuid"], ["recoveries.uuid"], name=op.f("fk_recovery_guests_recovery_uuid")),
        sa.ForeignKeyConstraint(["instance_uuid"], ["instances.uuid"], name=op.f("fk_recovery_guests_instance_uuid")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recovery_guests")),
        sa.UniqueConstraint(
            "recovery_uuid", "instance_uuid", name=op.f("uq_recovery_guests_recovery_uuid_instance_uuid")
        ),
    )
    op.create_index(op.f("ix_recovery_guests_instance_uuid"), "recovery_guests", ["instance_uuid"])
    op.create_table(
        "recovery_steps",
        sa.Column("id", BigId, nullable=False),
        sa.Column("recovery_uuid", sa.String(length=36), nullable=False),
        sa.Column("step", sa.String(length=32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(["recovery_uuid"], ["recoveries.uuid"], name=op.f("fk_recovery_steps_recovery_uuid")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recovery_steps")),
    )
    op.create_index(op.f("ix_recovery_steps_recovery_uuid"), "recovery_steps", ["recovery_uuid"])
    op.create_table(
        "recovery_domains",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("hosts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("silent", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("stopped", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("looked_at", Timestamp, nullable=False),
        sa.Column("calm_since", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_recovery_domains")),
    )
