# SPDX-License-Identifier: Apache-2.0
"""Limit the local disk of projects.

A row of an instance gets the swap of its flavor. Conductors of earlier releases write 0: the swap of what they accept does
not count.

Revision ID: 0031
Revises: 0030
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

_INSTANCES = sa.table(
    "instances",
    sa.column("reservation_id", sa.String),
    sa.column("deleted", sa.Boolean),
    sa.column("resized_spec", sa.JSON(none_as_null=True)),
    sa.column("swap_mb", sa.Integer),
)
_REQUESTS = sa.table("build_requests", sa.column("reservation_id", sa.String), sa.column("spec", sa.JSON))
_SWAP = ("flavor", "swap")
_ASKED = (
    sa.select(_REQUESTS.c.spec[_SWAP].as_integer())
    .where(_REQUESTS.c.reservation_id == _INSTANCES.c.reservation_id)
    .scalar_subquery()
)
_FILL = (
    _INSTANCES.update()
    .where(sa.not_(_INSTANCES.c.deleted))
    .values(swap_mb=sa.func.coalesce(_INSTANCES.c.resized_spec[_SWAP].as_integer(), _ASKED, 0))
)


def upgrade() -> None:
    with op.batch_alter_table("quotas") as batch_op:
        batch_op.add_column(sa.Column("local_gb", sa.Integer(), nullable=True))
    with op.batch_alter_table("instances") as batch_op:
        batch_op.add_column(sa.Column("swap_mb", sa.Integer(), server_default="0", nullable=False))
    op.execute(_FILL)


def downgrade() -> None:
    with op.batch_alter_table("instances") as batch_op:
        batch_op.drop_column("swap_mb")
    with op.batch_alter_table("quotas") as batch_op:
        batch_op.drop_column("local_gb")
