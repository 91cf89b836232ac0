# SPDX-License-Identifier: Apache-2.0
"""Keep maintenances of hosts in waves, with where the plan sends their guests.

Revision ID: 0042
Revises: 0041
"""

import sqlalchemy as sa
from alembic import op

from fleet.db.tables.base import BigId, Timestamp

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "maintenances",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("open_name", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("hook", sa.String(length=255), nullable=True),
        sa.Column("wanted_release", sa.String(length=255), nullable=True),
        sa.Column("cold", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("moves_at_a_time", sa.Integer(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_maintenances")),
        sa.UniqueConstraint("open_name", name=op.f("uq_maintenances_open_name")),
    )
    op.create_index(op.f("ix_maintenances_status"), "maintenances", ["status"])
    op.create_table(
        "maintenance_hosts",
        sa.Column("id", BigId, nullable=False),
        sa.Column("maintenance_uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("open_host", sa.String(length=255), nullable=True),
        sa.Column("wave", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("incarnation", sa.String(length=64), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("lease", sa.String(length=36), nullable=True),
        sa.Column("lease_until", Timestamp, nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("began_at", Timestamp, nullable=True),
        sa.Column("emptied_at", Timestamp, nullable=True),
        sa.Column("worked_at", Timestamp, nullable=True),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["maintenance_uuid"], ["maintenances.uuid"], name=op.f("fk_maintenance_hosts_maintenance_uuid")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_maintenance_hosts")),
        sa.UniqueConstraint("open_host", name=op.f("uq_maintenance_hosts_open_host")),
        sa.UniqueConstraint("maintenance_uuid", "host", name=op.f("uq_maintenance_hosts_maintenance_uuid_host")),
    )
    op.create_table(
        "maintenance_guests",
        sa.Column("id", BigId, nullable=False),
        sa.Column("maintenance_uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("destination", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["maintenance_uuid"], ["maintenances.uuid"], name=op.f("fk_maintenance_guests_maintenance_uuid")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_maintenance_guests")),
        sa.UniqueConstraint(
            "maintenance_uuid",
            "host",
            "instance_uuid",
            name=op.f("uq_maintenance_guests_maintenance_uuid_host_instance_uuid"),
        ),
    )
