# SPDX-License-Identifier: Apache-2.0
"""Keep networks, and the addresses that instances have claimed.

Instances of earlier releases have no interfaces.

Revision ID: 0033
Revises: 0032
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "networks",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("bridge", sa.String(length=15), nullable=False),
        sa.Column("subnet", sa.String(length=18), nullable=False),
        sa.Column("first_number", sa.BigInteger(), nullable=False),
        sa.Column("last_number", sa.BigInteger(), nullable=False),
        sa.Column("next_number", sa.BigInteger(), nullable=False),
        sa.Column("gateway", sa.String(length=15), nullable=True),
        sa.Column("dns", sa.JSON(), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_networks")),
        sa.UniqueConstraint("name", name=op.f("uq_networks_name")),
    )
    op.create_table(
        "network_projects",
        sa.Column("network_uuid", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["network_uuid"], ["networks.uuid"], name=op.f("fk_network_projects_network_uuid")),
        sa.PrimaryKeyConstraint("network_uuid", "project_id", name=op.f("pk_network_projects")),
    )
    op.create_table(
        "addresses",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("network_uuid", sa.String(length=36), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("mac", sa.String(length=17), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(["network_uuid"], ["networks.uuid"], name=op.f("fk_addresses_network_uuid")),
        sa.ForeignKeyConstraint(["instance_uuid"], ["instances.uuid"], name=op.f("fk_addresses_instance_uuid")),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_addresses")),
        sa.UniqueConstraint("mac", name=op.f("uq_addresses_mac")),
        sa.UniqueConstraint("network_uuid", "number", name=op.f("uq_addresses_network_uuid_number")),
    )
    op.create_index(op.f("ix_addresses_instance_uuid"), "addresses", ["instance_uuid"])
    with op.batch_alter_table("instances") as batch_op:
        batch_op.add_column(sa.Column("interfaces", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("instances") as batch_op:
        batch_op.drop_column("interfaces")
    op.drop_table("addresses")
    op.drop_table("network_projects")
    op.drop_table("networks")
