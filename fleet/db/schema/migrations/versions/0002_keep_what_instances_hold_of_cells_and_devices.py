# SPDX-License-Identifier: Apache-2.0
"""Keep what instances hold of NUMA cells and PCI devices, and the pools that a node has in all.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("compute_nodes", schema=None) as batch_op:
        batch_op.add_column(sa.Column("pci_device_pools", sa.JSON(none_as_null=True), nullable=True))
    with op.batch_alter_table("instances", schema=None) as batch_op:
        batch_op.add_column(sa.Column("claimed_numa_topology", sa.JSON(none_as_null=True), nullable=True))
        batch_op.add_column(sa.Column("claimed_pci_devices", sa.JSON(none_as_null=True), nullable=True))
